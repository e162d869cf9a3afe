package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"orderd/api"
	"orderd/orders"
)

// tail is a source of live events that the test feeds.
type tail struct {
	mu        sync.Mutex // protects listeners
	listeners map[chan orders.Event]struct{}
	heard     chan struct{} // receives at each Listen
}

func newTail() *tail {
	return &tail{listeners: map[chan orders.Event]struct{}{}, heard: make(chan struct{}, 100)}
}

func (t *tail) Listen(orders.EventFilter) (<-chan orders.Event, func()) {
	ch := make(chan orders.Event, 100)
	t.mu.Lock()
	t.listeners[ch] = struct{}{}
	t.mu.Unlock()
	t.heard <- struct{}{}
	return ch, func() {
		t.mu.Lock()
		delete(t.listeners, ch)
		t.mu.Unlock()
	}
}

func (t *tail) send(events ...orders.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ch := range t.listeners {
		for _, e := range events {
			ch <- e
		}
	}
}

// drop does to all listeners what happens to those that are too slow.
func (t *tail) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ch := range t.listeners {
		close(ch)
		delete(t.listeners, ch)
	}
}

// world is a running server over a real store.
type world struct {
	t      testing.TB
	store  *orders.Store
	server *api.Server
	tail   *tail
	log    *logBuffer
	url    string
	stop   context.CancelFunc // tells Run to end
	ended  chan error         // what Run returned
	client *http.Client
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu sync.Mutex // protects b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func openStore(t testing.TB) *orders.Store {
	t.Helper()
	store := openStoreUnclosed(t)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return store
}

// openStoreUnclosed leaves closing to the test.
func openStoreUnclosed(t testing.TB) *orders.Store {
	t.Helper()
	store, err := orders.Open(context.Background(), orders.Options{
		DataDir: t.TempDir(), Lease: 6 * time.Second, Expiration: 5 * time.Minute, MaxAttempts: 5, MaxDeaths: 3,
		IdempotencyTTL: 24 * time.Hour, EventRetention: 720 * time.Hour, BackorderMax: 72 * time.Hour,
		MaxRedrives: 3,
	}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// start serves a new store until the test ends.
func start(t testing.TB, o api.Options, parts func() map[string]string) *world {
	t.Helper()
	w := &world{
		t: t, store: openStore(t), tail: newTail(), log: new(logBuffer),
		ended: make(chan error, 1), client: &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second},
	}
	o.Addr = "127.0.0.1:0"
	var err error
	w.server, err = api.New(o, w.store, w.tail, parts, prometheus.NewRegistry(), zerolog.New(w.log))
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + w.server.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() { w.ended <- w.server.Run(ctx) }()
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		cancel()
		if err := <-w.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		w.ended <- nil
		if err := w.store.Check(context.Background()); err != nil {
			t.Errorf("books: %v", err)
		}
	})
	return w
}

// answer is a response that was read to its end.
type answer struct {
	code   int
	header http.Header
	body   string
}

// problem is what tests look at in a problem+json.
type problem struct {
	Type, Title, Detail, Field, Instance string
	Status                               int
}

func (a answer) problem(t testing.TB) problem {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json; body %s", got, a.body)
	}
	var p problem
	a.into(t, &p)
	if p.Status != a.code || p.Type != "about:blank" || p.Title == "" || p.Instance == "" || p.Instance != a.header.Get("X-Request-Id") {
		t.Errorf("status %d, X-Request-Id %q: problem %+v does not fit", a.code, a.header.Get("X-Request-Id"), p)
	}
	return p
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// order is what tests look at in an order.
type order struct {
	OrderID, Customer, Status, Carrier, TrackingNumber string
	Items                                              int
	Total                                              json.Number
	CreatedAt, UpdatedAt, ExpiresAt                    int64
	CancelRequested                                    bool
	History                                            []struct{ Status, By, Reason string }
	Attempts                                           []struct{ Step, Outcome string }
}

// do sends a request. Headers are name, value, name, value; a body is sent as
// JSON unless they say otherwise.
func (w *world) do(method, path, body string, headers ...string) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatalf("%s %s: read answer: %v", method, path, err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// must is do for requests that have to be answered code.
func (w *world) must(code int, method, path, body string, headers ...string) answer {
	w.t.Helper()
	a := w.do(method, path, body, headers...)
	if a.code != code {
		w.t.Fatalf("%s %s: status %d, want %d; body %s", method, path, a.code, code, a.body)
	}
	return a
}

// place puts an order into the store through the front door.
func (w *world) place(id string) order {
	w.t.Helper()
	var o order
	w.must(202, "POST", "/orders", `{"orderId":"`+id+`","customer":"alice@example.com","items":3,"total":149.97}`).into(w.t, &o)
	return o
}

// claim takes an order as a worker does and returns the token.
func (w *world) claim(id string) int64 {
	w.t.Helper()
	ctx := context.Background()
	o, err := w.store.Get(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	got, err := w.store.Claim(ctx, []orders.Arrival{{Body: o.AppendMessage(nil), Order: o, Origin: "orderd", Round: o.Round}})
	if err != nil {
		w.t.Fatal(err)
	}
	if got[0].Verdict != orders.Claimed {
		w.t.Fatalf("claim %s: verdict %d, %s", id, got[0].Verdict, got[0].Reason)
	}
	return got[0].Token
}

// finish ends the work on an order.
func (w *world) finish(out orders.Outcome) {
	w.t.Helper()
	got, err := w.store.Finish(context.Background(), []orders.Outcome{out})
	if err != nil {
		w.t.Fatal(err)
	}
	if r := got[0].Result; r != orders.ResultApplied && r != orders.ResultCancelled {
		w.t.Fatalf("finish %s: result %d", out.OrderID, r)
	}
}

func (w *world) confirm(id string) {
	w.t.Helper()
	w.finish(ordersConfirm(id, w.claim(id)))
}

func (w *world) kill(id string) {
	w.t.Helper()
	w.finish(orders.Outcome{
		OrderID: id, Token: w.claim(id), Kind: orders.OutcomeFail, Step: orders.StepPayment,
		Class: "payment_refused", Reason: "card refused", Payment: orders.PaymentRefused,
		Runs: []orders.StepRun{{Step: orders.StepPayment, StartedAt: orders.MillisOf(time.Now()), TookMs: 5, Outcome: orders.AttemptReject, ErrorClass: "payment_refused", Error: "card refused"}},
	})
}

// number gives all committed events their numbers and returns those.
func (w *world) number() []orders.Event {
	w.t.Helper()
	ctx := context.Background()
	if held, err := w.store.HoldEvents(ctx); err != nil || !held {
		w.t.Fatalf("hold events: %v, %v", held, err)
	}
	var all []orders.Event
	for {
		events, err := w.store.NumberEvents(ctx, 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

// accepted is how many orders there are.
func (w *world) accepted() int64 {
	w.t.Helper()
	b, err := w.store.Books(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Accepted
}

func ordersConfirm(id string, token int64) orders.Outcome {
	return orders.Outcome{OrderID: id, Token: token, Kind: orders.OutcomeConfirm, Step: orders.StepConfirm, Payment: orders.PaymentAuthorised}
}
