package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
	"github.com/kubemq-io/kubemq-go/v2"
	"github.com/rs/zerolog"

	"orderd/orders"
)

var confirmed = orders.Event{Number: 7, OrderID: "ORD-1", Seq: 3, Status: orders.StatusConfirmed, Customer: "alice@example.com",
	Amount: orders.Money{Minor: 14997, Currency: "USD"}, At: 1700000000000, Round: 1}

func TestPublisher_messages(t *testing.T) {
	p := NewPublisher(Options{EventsChannel: "order-notifications"}, nil, nil, zerolog.Nop())
	e := confirmed
	plain, kept := p.plain(&e), p.kept(&e)
	want := map[string]string{"status": "confirmed", "customer": "alice@example.com", "event": "7", "origin": "orderd"}
	const body = `{"orderId":"ORD-1","status":"confirmed","customer":"alice@example.com","amount":149.97,"timestamp":1700000000000}`
	if diff := cmp.Diff(want, plain.Tags); diff != "" || string(plain.Body) != body || plain.Id != "ORD-1:3" || plain.Metadata != "order.confirmed" || plain.Channel != "order-notifications" {
		t.Errorf("event: %v, %s, %s", plain, plain.Body, diff)
	}
	if diff := cmp.Diff(want, kept.Tags); diff != "" || string(kept.Body) != body || kept.Id != "ORD-1:3" {
		t.Errorf("kept event: %v, %s", kept, diff)
	}
	e.Round = 2
	if got := p.plain(&e).Tags["round"]; got != "2" {
		t.Errorf("round of a redriven order: %q", got)
	}
}

func TestForeign(t *testing.T) {
	e, err := foreign(&kubemq.Event{Body: []byte(`{"orderId":"ORD-001","status":"shipped","amount":99.99,"extra":1}`), Tags: map[string]string{"customer": "bob@example.com"}})
	if err != nil || e.OrderID != "ORD-001" || e.Status != "shipped" || e.Customer != "bob@example.com" || e.Amount.Minor != 9999 {
		t.Errorf("got %+v, %v", e, err)
	}
	for _, body := range []string{"", "hello", `{"status":"shipped"}`, `{"orderId":"a/b","status":"shipped"}`, `{"orderId":"a"}`} {
		if _, err := foreign(&kubemq.Event{Body: []byte(body)}); err == nil {
			t.Errorf("%q: no error", body)
		}
	}
}

func TestOptions_Check(t *testing.T) {
	good := Options{EmailFrom: "shop@example.com"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	bad := Options{SMTPURL: "smtp://u:secret@host?tls=maybe", EmailFrom: "nobody", PushURL: "ftp://x", EmailStatuses: []string{"sent"}, PushStatuses: []string{"gone"}}
	err := bad.Check()
	for _, name := range []string{"SMTP_URL", "EMAIL_FROM", "PUSH_URL", "EMAIL_STATUSES", "PUSH_STATUSES"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error lacks %s: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows the password: %v", err)
	}
}

func TestEffects(t *testing.T) {
	o := Options{EmailStatuses: []string{"confirmed"}, PushStatuses: []string{"shipped"}}
	email, push := NewEmail(o, nil, nil, zerolog.Nop()), NewPush(o, nil, nil, zerolog.Nop())
	for _, test := range []struct {
		customer    string
		status      orders.Status
		email, push orders.Effect
	}{
		{"a@example.com", orders.StatusConfirmed, orders.Effect{Deliver: true, To: "a@example.com"}, orders.Effect{To: "a@example.com"}},
		{"a@example.com", orders.StatusShipped, orders.Effect{}, orders.Effect{Deliver: true, To: "a@example.com"}},
		{"Al <a@example.com>", orders.StatusConfirmed, orders.Effect{Deliver: true, To: "Al <a@example.com>", Skip: "the customer is no mail address"}, orders.Effect{To: "Al <a@example.com>"}},
		{"a@example.com, b@example.com", orders.StatusConfirmed, orders.Effect{Deliver: true, To: "a@example.com, b@example.com", Skip: "the customer is no mail address"}, orders.Effect{To: "a@example.com, b@example.com"}},
	} {
		e := orders.Event{Customer: test.customer, Status: test.status}
		if diff := cmp.Diff(test.email, email.effect(&e)); diff != "" {
			t.Errorf("email, %s, %s: %s", test.customer, test.status, diff)
		}
		if diff := cmp.Diff(test.push, push.effect(&e)); diff != "" {
			t.Errorf("push, %s, %s: %s", test.customer, test.status, diff)
		}
	}
}

// server is an SMTP server that answers what the test says.
type server struct {
	mu     sync.Mutex // protects all below
	answer error
	login  string
	mails  []string
}

func startServer(t *testing.T, s *server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := smtp.NewServer(s)
	srv.Domain, srv.AllowInsecureAuth = "localhost", true
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return l.Addr().String()
}

// NewSession is for go-smtp.
func (s *server) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{s}, nil }

type session struct{ s *server }

func (*session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (x *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		x.s.mu.Lock()
		defer x.s.mu.Unlock()
		x.s.login = user + ":" + password
		return nil
	}), nil
}

func (*session) Mail(string, *smtp.MailOptions) error { return nil }
func (*session) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (*session) Reset()                               {}
func (*session) Logout() error                        { return nil }

func (x *session) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if x.s.answer == nil {
		x.s.mails = append(x.s.mails, string(b))
	}
	return x.s.answer
}

func TestMailer_send(t *testing.T) {
	s := new(server)
	o := Options{SMTPURL: "smtp://user:pass@" + startServer(t, s) + "?tls=none", EmailFrom: "Shop <shop@example.com>", SendTimeout: 5 * time.Second}
	d := orders.Delivery{OrderID: "ORD-1", To: "alice@example.com", Event: confirmed,
		Order: orders.Order{Lines: []orders.Line{{SKU: "tea", Quantity: 2}}}}
	email := NewEmail(o, nil, nil, zerolog.Nop())
	if got := email.sender(t.Context(), d); got.status != orders.DeliverySent {
		t.Fatalf("got %+v", got)
	}
	if s.login != "user:pass" {
		t.Errorf("login: %q", s.login)
	}
	for _, want := range []string{"From: \"Shop\" <shop@example.com>", "To: <alice@example.com>", "Subject: Your order is confirmed ORD-1", "Message-ID: <ORD-1:3@orderd>", "149.97 USD", "2 x tea"} {
		if !strings.Contains(s.mails[0], want) {
			t.Errorf("the mail lacks %q:\n%s", want, s.mails[0])
		}
	}
	for _, test := range []struct {
		code int
		want string
	}{{550, orders.DeliveryFailed}, {451, orders.DeliveryPending}} {
		s.mu.Lock()
		s.answer = &smtp.SMTPError{Code: test.code, EnhancedCode: smtp.EnhancedCode{test.code / 100, 0, 0}, Message: "no"}
		s.mu.Unlock()
		if got := email.sender(t.Context(), d); got.status != test.want {
			t.Errorf("after %d: got %+v, want %s", test.code, got, test.want)
		}
	}
	o.SMTPURL = "smtp://127.0.0.1:1?tls=none"
	if got := NewEmail(o, nil, nil, zerolog.Nop()).sender(t.Context(), d); got.status != orders.DeliveryPending {
		t.Errorf("nobody there: got %+v", got)
	}
}

// What a customer or carrier says cannot become a header or another recipient.
func TestMailer_send_injection(t *testing.T) {
	s := new(server)
	o := Options{SMTPURL: "smtp://" + startServer(t, s) + "?tls=none", EmailFrom: "shop@example.com", SendTimeout: 5 * time.Second}
	e := confirmed
	e.OrderID, e.Status = "ORD-1", orders.StatusShipped
	d := orders.Delivery{OrderID: "ORD-1", To: "alice@example.com", Event: e, Order: orders.Order{Carrier: "X\r\nBcc: eve@example.com", TrackingNumber: "1\n.\nMAIL FROM:<eve@example.com>"}}
	if got := NewEmail(o, nil, nil, zerolog.Nop()).sender(t.Context(), d); got.status != orders.DeliverySent {
		t.Fatalf("got %+v", got)
	}
	header, _, _ := strings.Cut(s.mails[0], "\r\n\r\n")
	if strings.Contains(header, "eve@") || len(s.mails) != 1 {
		t.Errorf("injected:\n%s", s.mails[0])
	}
	d.To = "alice@example.com>\r\nBcc: <eve@example.com"
	if got := NewEmail(o, nil, nil, zerolog.Nop()).sender(t.Context(), d); got.status != orders.DeliveryFailed {
		t.Errorf("bad recipient: got %+v", got)
	}
}

func TestPusher_send(t *testing.T) {
	var mu sync.Mutex
	status, header := 200, http.Header{}
	var got []map[string]any
	var keys []string
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var b map[string]any
		_ = json.NewDecoder(r.Body).Decode(&b)
		got, keys = append(got, b), append(keys, r.Header.Get("Idempotency-Key"))
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	push := NewPush(Options{PushURL: "http://" + l.Addr().String() + "/hook"}, nil, nil, zerolog.Nop())
	d := orders.Delivery{OrderID: "ORD-1", To: "alice@example.com", Event: confirmed}
	for _, test := range []struct {
		status int
		header http.Header
		want   answer
	}{
		{200, nil, answer{status: orders.DeliverySent, answer: "answered 200"}},
		{204, nil, answer{status: orders.DeliverySent, answer: "answered 204"}},
		{302, http.Header{"Location": {"/other"}}, answer{status: orders.DeliveryPending, answer: "answered 302"}},
		{400, nil, answer{status: orders.DeliveryFailed, answer: "answered 400"}},
		{410, nil, answer{status: orders.DeliveryFailed, answer: "answered 410"}},
		{429, http.Header{"Retry-After": {"3"}}, answer{status: orders.DeliveryPending, answer: "answered 429", after: 3 * time.Second}},
		{500, nil, answer{status: orders.DeliveryPending, answer: "answered 500"}},
	} {
		mu.Lock()
		status, header = test.status, test.header
		mu.Unlock()
		if a := push.sender(t.Context(), d); a != test.want {
			t.Errorf("%d: got %+v, want %+v", test.status, a, test.want)
		}
	}
	want := map[string]any{"orderId": "ORD-1", "status": "confirmed", "customer": "alice@example.com", "amount": 149.97, "timestamp": 1.7e12}
	if diff := cmp.Diff(want, got[0]); diff != "" || keys[0] != "ORD-1:3" || len(got) != 7 {
		t.Errorf("posted %d times with key %s: %s", len(got), keys[0], diff)
	}
}

func mustStore(t *testing.T) *orders.Store {
	t.Helper()
	s, err := orders.Open(t.Context(), orders.Options{DataDir: t.TempDir(), Lease: time.Minute, Expiration: time.Minute, MaxAttempts: 3, MaxDeaths: 3,
		IdempotencyTTL: time.Hour, EventRetention: time.Hour, BackorderMax: time.Hour}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Check(context.Background()), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// mustAccept stores orders and numbers their events.
func mustAccept(t *testing.T, s *orders.Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		o, err := orders.Decode([]byte(`{"orderId":"`+id+`","customer":"c","items":1,"total":1}`), true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Accept(t.Context(), o, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.HoldEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.NumberEvents(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
}

func TestHub(t *testing.T) {
	s := mustStore(t)
	mustAccept(t, s, "before")
	h := NewHub(s, zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	all, stop := h.Listen(orders.EventFilter{})
	one, stopOne := h.Listen(orders.EventFilter{OrderID: "b"})
	defer stopOne()
	// Until the hub tails, nothing is live.
	for got := ""; got != "a"; {
		mustAccept(t, s, "a")
		select {
		case e := <-all:
			got = e.OrderID
		case <-time.After(10 * time.Second):
			t.Fatal("no event came")
		}
	}
	mustAccept(t, s, "b", "c")
	for i, want := range []string{"b", "c"} {
		if e := <-all; e.OrderID != want || e.Number != int64(3+i) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if e := <-one; e.OrderID != "b" {
		t.Errorf("filtered: %+v", e)
	}
	stop()
	if _, open := <-all; open {
		t.Error("a listener that ended goes on")
	}
	stop() // again

	// A listener that does not read is dropped, and nobody waits for it.
	slow, _ := h.Listen(orders.EventFilter{})
	for i := range listenerBuffer + 1 {
		h.hand(&orders.Event{Number: int64(100 + i), OrderID: "x"})
	}
	n := 0
	for range slow {
		n++
	}
	if n != listenerBuffer {
		t.Errorf("a slow listener got %d events, want %d", n, listenerBuffer)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if late, _ := h.Listen(orders.EventFilter{}); late != nil {
		if _, open := <-late; open {
			t.Error("a stopped hub has events")
		}
	}
}

func TestSubscriber_handleSince(t *testing.T) {
	s := mustStore(t)
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = strings.Repeat("x", i+1)
	}
	mustAccept(t, s, ids...)
	push := NewPush(Options{SendTimeout: time.Second, SendAttempts: 2, RetryBase: time.Millisecond, RetryCap: time.Millisecond}, s, nil, zerolog.Nop())
	if n, err := push.handleSince(t.Context(), 0); err != nil || n != len(ids) {
		t.Errorf("handled %d, %v, want %d", n, err, len(ids))
	}
	if n, err := push.handleSince(t.Context(), 0); err != nil || n != 0 {
		t.Errorf("handled again: %d, %v", n, err)
	}
	// Deliveries that fail are tried again, and given up after SendAttempts.
	tries := make(map[string]int)
	var mu sync.Mutex
	push.sender = func(_ context.Context, d orders.Delivery) answer {
		mu.Lock()
		defer mu.Unlock()
		tries[d.OrderID]++
		return answer{status: orders.DeliveryPending, answer: "not now"}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); push.deliver(ctx) }()
	deadline := time.After(20 * time.Second)
	for {
		list, _, err := s.ListDeliveries(t.Context(), orders.DeliveryFilter{Status: orders.DeliveryFailed, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == len(ids) {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%d deliveries have failed, want %d", len(list), len(ids))
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	<-done
	for _, id := range ids {
		if tries[id] != 2 {
			t.Errorf("%s was tried %d times, want 2", id, tries[id])
		}
	}
}

// A stream that ends while answers are due is an error, in whichever order its
// channels close: neither a panic nor events that count as published.
func TestResults_streamEnds(t *testing.T) {
	for _, name := range []string{"results", "errors", "done"} {
		answers, errs, done := make(chan *kubemq.EventStreamResult), make(chan error), make(chan struct{})
		s := &streams{plain: &kubemq.EventStreamHandle{Errors: errs}, kept: &kubemq.EventStoreStreamHandle{Results: answers, Done: done}}
		switch name {
		case "results":
			close(answers)
		case "errors":
			close(errs)
		case "done":
			close(done)
		}
		if err := results(s, map[string]bool{"ORD-1:1": true}, nil); err == nil {
			t.Errorf("%s closed first: an event without answer counts as published", name)
		}
	}
}
