package workers_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orderd/orders"
	"orderd/workers"
)

// request is what the fake gateway was asked.
type request struct {
	Method, Path, Key, Token string
	Body                     map[string]string
}

// gateway is a payment gateway over a socket that answers what it is told to.
type gateway struct {
	url string

	mu      sync.Mutex // protects all below
	asked   []request
	answers []answer
}

type answer struct {
	status int
	header http.Header
	body   string
	hang   bool
}

func startGateway(t *testing.T, answers ...answer) *gateway {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{url: "http://" + l.Addr().String() + "/pay", answers: answers}
	srv := &http.Server{Handler: g}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return g
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	req := request{Method: r.Method, Path: r.URL.EscapedPath(), Key: r.Header.Get("Idempotency-Key"), Token: r.Header.Get("Authorization")}
	_ = json.Unmarshal(b, &req.Body)
	g.mu.Lock()
	g.asked = append(g.asked, req)
	a := answer{status: 404}
	if len(g.answers) > 0 {
		a, g.answers = g.answers[0], g.answers[1:]
	}
	g.mu.Unlock()
	if a.hang {
		<-r.Context().Done()
		return
	}
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func (g *gateway) requests() []request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]request(nil), g.asked...)
}

func mustGateway(t *testing.T, o workers.Options) workers.Gateway {
	t.Helper()
	g, err := workers.NewGateway(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var payment = workers.Payment{Key: "ORD-1/payment/2", OrderID: "ORD-1", Customer: "alice@example.com", Amount: orders.Money{Minor: 14997, Currency: "USD"}}

func TestGateway_Authorise(t *testing.T) {
	for _, test := range []struct {
		name    string
		answer  answer
		refused bool
		fails   bool
		after   time.Duration
		class   string
	}{
		{name: "200", answer: answer{status: 200}},
		{name: "204", answer: answer{status: 204}},
		{name: "402", answer: answer{status: 402, body: "card\x00 declined\n"}, fails: true, refused: true, class: "payment_refused"},
		{name: "400", answer: answer{status: 400}, fails: true, refused: true, class: "payment_refused"},
		{name: "408", answer: answer{status: 408}, fails: true, class: "gateway_408"},
		{name: "429", answer: answer{status: 429, header: http.Header{"Retry-After": {"7"}}}, fails: true, after: 7 * time.Second, class: "gateway_429"},
		{name: "503", answer: answer{status: 503}, fails: true, class: "gateway_503"},
		{name: "302", answer: answer{status: 302, header: http.Header{"Location": {"/elsewhere"}}}, fails: true, class: "gateway_302"},
		{name: "timeout", answer: answer{hang: true}, fails: true, class: "gateway_timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fake := startGateway(t, test.answer)
			g := mustGateway(t, workers.Options{PaymentURL: fake.url, PaymentToken: "tok"})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if test.answer.hang {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, 50*time.Millisecond)
				defer stop()
			}
			err := g.Authorise(ctx, payment)
			if (err != nil) != test.fails {
				t.Fatalf("got %v", err)
			}
			if err != nil && (err.Refused != test.refused || err.After != test.after || err.Class != test.class) {
				t.Errorf("got %+v", err)
			}
			if err != nil && strings.ContainsAny(err.Reason, "\x00\n") {
				t.Errorf("reason is not printable: %q", err.Reason)
			}
			want := []request{{Method: "POST", Path: "/pay", Key: "ORD-1/payment/2", Token: "Bearer tok",
				Body: map[string]string{"orderId": "ORD-1", "customer": "alice@example.com", "amount": "149.97", "currency": "USD"}}}
			if diff := cmp.Diff(want, fake.requests()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGateway_Enquire(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer answer
		want   orders.PaymentState
		fails  bool
	}{
		{"authorised", answer{status: 200, body: `{"status":"authorised"}`}, orders.PaymentAuthorised, false},
		{"refused", answer{status: 200, body: `{"status":"refused","x":1}`}, orders.PaymentRefused, false},
		{"voided", answer{status: 200, body: `{"status":"voided"}`}, orders.PaymentVoided, false},
		{"404", answer{status: 404}, orders.PaymentNone, false},
		{"405", answer{status: 405}, orders.PaymentNone, false},
		{"501", answer{status: 501}, orders.PaymentNone, false},
		{"500", answer{status: 500}, "", true},
		{"nonsense", answer{status: 200, body: "hello"}, "", true},
		{"unknown word", answer{status: 200, body: `{"status":"maybe"}`}, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fake := startGateway(t, test.answer)
			g := mustGateway(t, workers.Options{PaymentURL: fake.url})
			got, err := g.Enquire(t.Context(), payment)
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("got %q, %v", got, err)
			}
			if r := fake.requests()[0]; r.Method != "GET" || r.Path != "/pay/ORD-1%2Fpayment%2F2" {
				t.Errorf("asked %+v", r)
			}
		})
	}
}

func TestGateway_Void(t *testing.T) {
	for _, test := range []struct {
		status int
		fails  bool
	}{{200, false}, {404, false}, {500, true}, {409, true}} {
		fake := startGateway(t, answer{status: test.status})
		g := mustGateway(t, workers.Options{PaymentURL: fake.url})
		if err := g.Void(t.Context(), payment.Key); (err != nil) != test.fails {
			t.Errorf("%d: got %v", test.status, err)
		}
		if r := fake.requests()[0]; r.Method != "POST" || r.Path != "/pay/ORD-1%2Fpayment%2F2/void" {
			t.Errorf("asked %+v", r)
		}
	}
}

func TestSimulator(t *testing.T) {
	g := mustGateway(t, workers.Options{})
	for _, test := range []struct {
		customer string
		attempts int
		fails    bool
		refused  bool
	}{
		{"alice@example.com", 0, false, false},
		{"refuse@x", 0, true, true},
		{"failonce@x", 0, true, false},
		{"failonce@x", 1, false, false},
		{"fail@x", 3, true, false},
		{"refuse", 0, true, true}, // no domain at all
		{"refuser@x", 0, false, false},
	} {
		p := payment
		p.Customer, p.Attempts = test.customer, test.attempts
		err := g.Authorise(t.Context(), p)
		if (err != nil) != test.fails || err != nil && err.Refused != test.refused {
			t.Errorf("%s, attempt %d: got %v", test.customer, test.attempts, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	p := payment
	p.Customer = "hang@x"
	if err := g.Authorise(ctx, p); err == nil || err.Refused || ctx.Err() == nil {
		t.Errorf("hang@: got %v", err)
	}
}
