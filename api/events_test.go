package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"orderd/api"
	"orderd/orders"
)

// waitLimit is how long a test waits for what has to happen.
const waitLimit = 20 * time.Second

// sse is one open event stream.
type sse struct {
	t    testing.TB
	resp *http.Response
	in   *bufio.Reader
	quit context.CancelFunc
}

// listen opens GET /events and waits until the server listens for live events.
func (w *world) listen(query string, headers ...string) *sse {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+"/events"+query, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &sse{w.t, resp, bufio.NewReader(resp.Body), cancel}
	w.t.Cleanup(s.close)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("GET /events%s: %s, %s", query, resp.Status, resp.Header.Get("Content-Type"))
	}
	select {
	case <-w.tail.heard:
	case <-ctx.Done():
		w.t.Fatal("the server does not listen for live events")
	}
	return s
}

func (s *sse) close() {
	s.quit()
	s.resp.Body.Close()
}

// block reads up to the next empty line, as field → value; comments are left out.
func (s *sse) block() (map[string]string, error) {
	b := map[string]string{}
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			if len(b) > 0 {
				return b, nil
			}
			continue
		}
		if name, value, ok := strings.Cut(line, ": "); ok && name != "" {
			b[name] = value
		}
	}
}

// want reads events and compares them with "number status order".
func (s *sse) want(events ...string) {
	s.t.Helper()
	for _, want := range events {
		b, err := s.block()
		if err != nil {
			s.t.Fatalf("waiting for event %s: %v", want, err)
		}
		var data struct {
			OrderID, Status, Customer string
			Amount                    json.Number
			Timestamp                 int64
		}
		if err := json.Unmarshal([]byte(b["data"]), &data); err != nil {
			s.t.Fatalf("data %q: %v", b["data"], err)
		}
		if got := b["id"] + " " + strings.TrimPrefix(b["event"], "order.") + " " + data.OrderID; got != want {
			s.t.Fatalf("event = %s, want %s", got, want)
		}
		if data.Status != strings.TrimPrefix(b["event"], "order.") || data.Customer != "alice@example.com" || data.Amount != "149.97" || data.Timestamp == 0 {
			s.t.Errorf("event %s has data %s", want, b["data"])
		}
	}
}

func TestEvents_Live(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	w.place("old")
	w.number()
	s := w.listen("")
	w.place("a")
	w.confirm("a")
	events := w.number()
	w.tail.send(events...)
	s.want("2 created a", "3 processing a", "4 confirmed a")
	// What comes twice is sent once.
	w.place("b")
	more := w.number()
	w.tail.send(append(events, more...)...)
	s.want("5 created b")
}

func TestEvents_Resume(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	for i := range 3 {
		w.place(fmt.Sprintf("o%d", i))
	}
	logged := w.number()

	w.listen("?after=0").want("1 created o0", "2 created o1", "3 created o2")
	w.listen("?after=1").want("2 created o1", "3 created o2")
	s := w.listen("?after=0", "Last-Event-ID", "2") // the header goes first
	s.want("3 created o2")
	// Live events that the replay had already are dropped, later ones are not.
	w.place("o3")
	w.tail.send(append(logged, w.number()...)...)
	s.want("4 created o3")
}

func TestEvents_MoreThanAPage(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	const n = 501 // one more than is read from the log at once
	for i := range n {
		w.place(fmt.Sprintf("o%03d", i)) // orders of one millisecond are numbered by id
	}
	w.number()
	s := w.listen("?after=0")
	for i := range n {
		s.want(fmt.Sprintf("%d created o%03d", i+1, i))
	}
}

func TestEvents_Filters(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	for _, id := range []string{"a", "b"} {
		w.place(id)
		w.confirm(id)
	}
	w.number() // 1 to 3 are of a, 4 to 6 of b
	w.listen("?after=0&status=created").want("1 created a", "4 created b")
	w.listen("?after=0&status=created,confirmed&orderId=b").want("4 created b", "6 confirmed b")
	w.listen("?after=0&status=processing&status=confirmed&customer=alice@example.com").want("2 processing a", "3 confirmed a", "5 processing b", "6 confirmed b")
}

// TestEvents_SlowReader is dropped by the source of live events, and misses
// nothing by that.
func TestEvents_SlowReader(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	s := w.listen("")
	w.place("a")
	w.number()
	w.tail.drop()
	s.want("1 created a") // from the log
	select {
	case <-w.tail.heard:
	case <-time.After(waitLimit):
		t.Fatal("the server does not listen again")
	}
	w.place("b")
	w.tail.send(w.number()...)
	s.want("2 created b")
}

func TestEvents_Reset(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	w.place("a")
	w.place("b")
	w.number()
	s := w.listen("", "Last-Event-ID", "4711") // of a log that is not this one
	b, err := s.block()
	if err != nil {
		t.Fatal(err)
	}
	if b["event"] != "reset" || b["data"] != `{"first":1,"last":2}` || b["id"] != "" {
		t.Errorf("first block = %v", b)
	}
	s.want("1 created a", "2 created b")
}

func TestEvents_BadInput(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	for query, field := range map[string]string{
		"?after=x": "after", "?after=-1": "after", "?status=done": "status", "?status=created,x": "status",
		"?orderId=a%20b": "orderId", "?customer=a&customer=b": "customer", "?id=4": "id",
	} {
		if p := w.must(422, "GET", "/events"+query, "").problem(t); p.Field != field {
			t.Errorf("%s: field %q, want %q", query, p.Field, field)
		}
	}
	if p := w.must(422, "GET", "/events", "", "Last-Event-ID", "x").problem(t); p.Field != "Last-Event-ID" {
		t.Errorf("field = %q", p.Field)
	}
	w.must(200, "HEAD", "/events", "") // ends at once
}

func TestEvents_EndWhenStopping(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	s := w.listen("")
	w.stop()
	if _, err := s.block(); err != io.EOF {
		t.Errorf("the stream ended with %v, want a clean end", err)
	}
}

// stoppedTail is a source that has stopped.
type stoppedTail struct{ calls atomic.Int32 }

func (d *stoppedTail) Listen(orders.EventFilter) (<-chan orders.Event, func()) {
	d.calls.Add(1)
	ch := make(chan orders.Event)
	close(ch)
	return ch, func() {}
}

// TestEvents_SourceStopped must end in waiting, not in a busy loop, and the
// stream must end with the server all the same.
func TestEvents_SourceStopped(t *testing.T) {
	t.Parallel()
	source := new(stoppedTail)
	server, err := api.New(api.Options{Addr: "127.0.0.1:0"}, openStore(t), source, nil, prometheus.NewRegistry(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	resp, err := http.Get("http://" + server.Addr() + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	waitFor(t, "the server to listen twice", func() bool { return source.calls.Load() >= 2 })
	cancel()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if n := source.calls.Load(); n > 5 { // in about a second
		t.Errorf("listened %d times", n)
	}
}
