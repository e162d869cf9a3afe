package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seed is the order of the seeds.
const seed = `{"orderId":"ORD-2001","customer":"alice@example.com","items":3,"total":149.97,"createdAt":1700000000000}`

// An empty folder, no settings, and an order goes all the way.
func TestBareStart(t *testing.T) {
	eachDatabase(t, func(t *testing.T, settings ...string) {
		p := startOrderd(t, t.TempDir(), settings...)
		if limit := slow(2 * time.Second); p.ready > limit {
			t.Errorf("ready after %s, want at most %s", p.ready, limit)
		}
		eventually(t, 10*time.Second, func() error {
			if a := p.must(200, "GET", "/readyz", ""); !strings.Contains(string(a.body), `"status":"ready"`) {
				return fmt.Errorf("readiness: %s", a.body)
			}
			return nil
		})
		a := p.must(202, "POST", "/orders", seed)
		if got := a.header.Get("Location"); got != "/orders/ORD-2001" {
			t.Errorf("Location: %q", got)
		}
		var accepted order
		a.decode(t, &accepted)
		if accepted.Status != "created" || accepted.CreatedAt != 1700000000000 || accepted.Total.String() != "149.97" || accepted.ExpiresAt <= accepted.UpdatedAt {
			t.Errorf("accepted: %s", a.body)
		}
		o := p.reach("ORD-2001", "confirmed", slow(time.Second))
		if diff := cmp.Diff([]string{"created", "processing", "confirmed"}, o.statuses()); diff != "" {
			t.Error("history:", diff)
		}
		p.wait("the mail", func(l logLine) bool {
			return strings.HasPrefix(l.Message, "mail") && l.OrderID == "ORD-2001" && l.Status == "confirmed" && l.To == "alice@example.com"
		})
		for _, status := range []string{"created", "processing", "confirmed"} {
			p.wait("the push", func(l logLine) bool {
				return strings.HasPrefix(l.Message, "push") && l.OrderID == "ORD-2001" && l.Status == status
			})
		}
		p.counts("confirmed", 1, "149.97")

		events := p.events(3, "/events?after=0")
		for i, want := range []string{"created", "processing", "confirmed"} {
			e := events[i]
			if e.id != int64(i+1) || e.kind != "order."+want || e.data["orderId"] != "ORD-2001" || e.data["amount"] != 149.97 {
				t.Errorf("event %d: %+v", i, e)
			}
		}
		if got := p.events(1, "/events", "Last-Event-ID", "2"); got[0].id != 3 {
			t.Errorf("resumed with event %d, want 3", got[0].id)
		}

		p.must(409, "POST", "/orders/ORD-2001/deliver", "{}")
		p.must(200, "POST", "/orders/ORD-2001/ship", `{"carrier":"DHL","trackingNumber":"123"}`)
		p.must(200, "POST", "/orders/ORD-2001/deliver", "{}")
		p.must(409, "POST", "/orders/ORD-2001/cancel", "{}")
		p.wait("the second mail", func(l logLine) bool { return strings.HasPrefix(l.Message, "mail") && l.Status == "shipped" })
		if code, _ := p.stop(syscall.SIGINT, 30*time.Second); code != 0 {
			t.Errorf("exit code %d", code)
		}
		p.noErrors()
	})
}

// counts waits until the stats have n orders of a status.
func (p *process) counts(status string, n int, revenue json.Number) {
	p.t.Helper()
	eventually(p.t, 10*time.Second, func() error {
		var s struct {
			Stats []struct {
				Status  string
				Orders  int
				Revenue json.Number
			}
		}
		p.must(200, "GET", "/stats", "").decode(p.t, &s)
		for _, r := range s.Stats {
			if r.Status == status && r.Orders == n && (r.Revenue == revenue || revenue == "") {
				return nil
			}
		}
		return fmt.Errorf("stats: %+v", s)
	})
}

// Mails, pushes and payments go where the settings say.
func TestOutside(t *testing.T) {
	t.Parallel()
	box, push := startMailbox(t), new(pushes)
	box.busy = 1
	gate := startGateway(t, func(key string, n int) int {
		if key == "a/payment" && n == 1 {
			return 503
		}
		return 200
	})
	p := startOrderd(t, t.TempDir(), "SMTP_URL=smtp://"+box.addr+"?tls=none", "EMAIL_FROM=shop@example.com", "PUSH_URL="+listenHTTP(t, push),
		"PAYMENT_URL="+gate.url, "RETRY_BASE=10ms", "RETRY_CAP=50ms", "PUSH_STATUSES=confirmed,shipped")
	p.must(202, "POST", "/orders", `{"orderId":"a","customer":"alice@example.com","items":1,"total":10.50,"currency":"EUR"}`)
	o := p.reach("a", "confirmed", slow(5*time.Second))
	var outcomes []string
	for _, a := range o.Attempts {
		outcomes = append(outcomes, fmt.Sprint(a.Step, " ", a.Attempt, " ", a.Outcome))
	}
	if diff := cmp.Diff([]string{"payment 1 retry", "payment 2 done", "inventory 2 done"}, outcomes); diff != "" {
		t.Error("attempts:", diff)
	}
	p.must(202, "POST", "/orders", `{"orderId":"b","customer":"no address","items":1,"total":1}`)
	p.reach("b", "confirmed", slow(5*time.Second))
	p.must(200, "POST", "/orders/a/ship", `{"carrier":"DHL","trackingNumber":"JJD 1"}`)

	eventually(t, 20*time.Second, func() error {
		if got := push.of("a"); cmp.Diff([]string{"confirmed", "shipped"}, got) != "" {
			return fmt.Errorf("pushes: %v", got)
		}
		if got := box.to("alice@example.com"); len(got) != 2 {
			return fmt.Errorf("mails: %v", got)
		}
		return nil
	})
	mails := box.to("alice@example.com")
	for i, want := range []string{"confirmed", "on its way"} {
		if m := mails[i]; m.from != "shop@example.com" || !strings.Contains(m.subject, want) || !strings.Contains(m.subject, " a") {
			t.Errorf("mail %d: %+v", i, m)
		}
	}
	if !strings.Contains(mails[0].text, "10.50 EUR") || !strings.Contains(mails[1].text, "JJD 1") {
		t.Errorf("texts: %q", mails)
	}
	asked, _ := gate.snapshot()
	if asked["a/payment"] != 2 || asked["b/payment"] != 1 {
		t.Errorf("the gateway was asked %v", asked)
	}
	if diff := cmp.Diff(map[string]string{"orderId": "a", "customer": "alice@example.com", "amount": "10.50", "currency": "EUR"}, gate.bodies[0]); diff != "" {
		t.Error("payment:", diff)
	}
	eventually(t, 10*time.Second, func() error {
		a := p.must(200, "GET", "/deliveries?subscriber=email&orderId=b", "")
		if !strings.Contains(string(a.body), `"skipped"`) {
			return fmt.Errorf("deliveries: %s", a.body)
		}
		return nil
	})
}

// A refused payment is a dead letter; put back, it is paid under a new key.
func TestDeadLetter(t *testing.T) {
	eachDatabase(t, func(t *testing.T, settings ...string) {
		gate := startGateway(t, func(key string, _ int) int {
			if key == "r/payment" {
				return 402
			}
			return 201
		})
		p := startOrderd(t, t.TempDir(), append(settings, "PAYMENT_URL="+gate.url)...)
		p.must(202, "POST", "/orders", `{"orderId":"r","customer":"alice@example.com","items":1,"total":1}`)
		p.reach("r", "failed", slow(5*time.Second))
		d := p.deadLetter("r")
		if d.Status != "open" || d.ErrorClass != "payment_refused" || d.Step != "payment" || d.Round != 1 || d.Order == nil {
			t.Errorf("dead letter: %+v", d)
		}
		p.must(202, "POST", "/dead-letters/"+d.ID+"/redrive", "{}")
		o := p.reach("r", "confirmed", slow(5*time.Second))
		if diff := cmp.Diff([]string{"created", "processing", "failed", "created", "processing", "confirmed"}, o.statuses()); diff != "" {
			t.Error("history:", diff)
		}
		p.must(409, "POST", "/dead-letters/"+d.ID+"/redrive", "{}")
		asked, _ := gate.snapshot()
		if diff := cmp.Diff(map[string]int{"r/payment": 1, "r/payment/2": 1}, asked); diff != "" {
			t.Error("payments:", diff)
		}
	})
}

type deadLetter struct {
	ID, OrderID, Status, Reason, ErrorClass, Step string
	Round, Redrives                               int
	Order                                         *order
	Raw                                           []byte
}

// deadLetter waits for the dead letter of an order.
func (p *process) deadLetter(id string) (found deadLetter) {
	p.t.Helper()
	eventually(p.t, 10*time.Second, func() error {
		var list struct{ DeadLetters []deadLetter }
		p.must(200, "GET", "/dead-letters", "").decode(p.t, &list)
		for _, d := range list.DeadLetters {
			if d.OrderID == id {
				found = d
				return nil
			}
		}
		return fmt.Errorf("no dead letter of %s: %+v", id, list)
	})
	return found
}

func TestSimulator(t *testing.T) {
	t.Parallel()
	p := startOrderd(t, t.TempDir(), "RETRY_BASE=10ms", "RETRY_CAP=50ms", "MAX_ATTEMPTS=2")
	for _, who := range []string{"failonce", "fail", "refuse"} {
		p.must(202, "POST", "/orders", fmt.Sprintf(`{"orderId":%q,"customer":"%s@example.com","items":1,"total":1}`, who, who))
	}
	if o := p.reach("failonce", "confirmed", slow(5*time.Second)); len(o.Attempts) != 3 || o.Attempts[0].Outcome != "retry" {
		t.Errorf("failonce: %+v", o.Attempts)
	}
	if o := p.reach("fail", "failed", slow(5*time.Second)); len(o.Attempts) != 2 || o.Attempts[1].Attempt != 2 {
		t.Errorf("fail: %+v", o.Attempts)
	}
	if o := p.reach("refuse", "failed", slow(5*time.Second)); len(o.Attempts) != 1 || o.Attempts[0].Outcome != "reject" {
		t.Errorf("refuse: %+v", o.Attempts)
	}
	if b := p.books(); b.Failed != 2 || b.Confirmed != 1 || !b.Balanced {
		t.Errorf("books: %+v", b)
	}
}

// load posts orders until stop is closed; the function returns the ids that
// were answered with 202.
func load(p *process, prefix string, stop <-chan struct{}) (accepted func() []string) {
	var mu sync.Mutex
	var ids []string
	var posting sync.WaitGroup
	for w := range 8 {
		posting.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%s-%d-%d", prefix, w, i)
				a, err := p.do(http.MethodPost, "/orders", fmt.Sprintf(`{"orderId":%q,"customer":"c%d@example.com","items":%d,"total":1.25}`, id, w, 1+i%3))
				if err != nil {
					return // the process is gone
				}
				if a.status == http.StatusAccepted {
					mu.Lock()
					ids = append(ids, id)
					mu.Unlock()
				}
			}
		})
	}
	return func() []string { posting.Wait(); return ids }
}

// kill -9 at any time: what was answered with 202 is worked off, once.
func TestKill(t *testing.T) {
	eachDatabase(t, func(t *testing.T, settings ...string) {
		dir := t.TempDir()
		settings = append(settings, "LEASE=2s", "WORKERS=8", "MAX_DEATHS=1000")
		p := startOrderd(t, dir, settings...)
		const stock = 1_000_000
		p.must(200, "PUT", "/inventory/default", fmt.Sprintf(`{"onHand":%d}`, stock))
		var all []string
		rounds := size(4, 15, 100)
		for round := range rounds {
			stop := make(chan struct{})
			accepted := load(p, fmt.Sprint("k", round), stop)
			before := p.books().Accepted
			eventually(t, 20*time.Second, func() error {
				if b := p.books(); b.Accepted < before+5 {
					return fmt.Errorf("books: %+v", b)
				}
				return nil
			})
			// From then on, the moment of the kill is what varies.
			<-time.After(time.Duration(37*round%160) * time.Millisecond)
			p.kill()
			close(stop)
			all = append(all, accepted()...)
			p = startOrderd(t, dir, settings...)
		}
		if len(all) < rounds {
			t.Fatalf("only %d orders were accepted", len(all))
		}
		p.settle(all)
		p.checkStock(stock)
		t.Logf("%d orders over %d kills", len(all), rounds)
	})
}

// settle waits until nothing is under way, and checks that every order was
// confirmed, and none twice.
func (p *process) settle(ids []string) {
	p.t.Helper()
	eventually(p.t, slow(60*time.Second), func() error {
		if b := p.books(); b.UnderWay != 0 || !b.Balanced {
			return fmt.Errorf("books: %+v", b)
		}
		return nil
	})
	for _, id := range ids {
		o, err := p.get(id)
		if err != nil {
			p.t.Errorf("an accepted order is gone: %v", err)
			continue
		}
		n := 0
		for _, s := range o.statuses() {
			if s == "confirmed" {
				n++
			}
		}
		if o.Status != "confirmed" || n != 1 {
			p.t.Errorf("order %s is %s and was confirmed %d times: %+v", id, o.Status, n, o.History)
		}
	}
}

// checkStock compares what is on hand with what the confirmed orders took.
func (p *process) checkStock(before int) {
	p.t.Helper()
	taken := 0
	for cursor := ""; ; {
		var page struct {
			Orders []order
			Next   string
		}
		p.must(200, "GET", "/orders?status=confirmed&limit=500&cursor="+cursor, "").decode(p.t, &page)
		for _, o := range page.Orders {
			taken += int(o.Items)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	var stock struct{ OnHand int }
	p.must(200, "GET", "/inventory/default", "").decode(p.t, &stock)
	if stock.OnHand != before-taken {
		p.t.Errorf("on hand: %d, want %d: %d less %d", stock.OnHand, before-taken, before, taken)
	}
}

func isMail(l logLine) bool { return strings.HasPrefix(l.Message, "mail") }
func isPush(l logLine) bool { return strings.HasPrefix(l.Message, "push") }

func TestRoleOff(t *testing.T) {
	eachDatabase(t, func(t *testing.T, settings ...string) {
		dir := t.TempDir()
		front := startOrderd(t, dir, append(settings, "WORKERS_ENABLED=false", "EMAIL_ENABLED=false", "PUSH_ENABLED=false", "ANALYTICS_ENABLED=false", "DLQ_ENABLED=false")...)
		front.must(202, "POST", "/orders", seed)
		front.events(1, "/events?after=0")
		if o, err := front.get("ORD-2001"); err != nil || o.Status != "created" {
			t.Fatalf("without workers: %+v, %v", o, err)
		}
		// A second process does the rest, on the first one's broker.
		back := startOrderd(t, dir, append(settings, "API_ENABLED=false", "KUBEMQ_ADDRESS="+front.broker)...)
		front.reach("ORD-2001", "confirmed", slow(10*time.Second))
		back.wait("the mail", isMail)
		back.wait("the push", func(l logLine) bool { return isPush(l) && l.Status == "confirmed" })
		front.counts("confirmed", 1, "149.97")
		if n := front.count(isMail) + front.count(isPush); n != 0 {
			t.Errorf("the first process made %d deliveries although its subscribers are off", n)
		}
		if code, _ := back.stop(syscall.SIGTERM, 30*time.Second); code != 0 {
			t.Errorf("exit code of the second process: %d", code)
		}
		if code, _ := front.stop(syscall.SIGTERM, 30*time.Second); code != 0 {
			t.Errorf("exit code of the first process: %d", code)
		}
		front.noErrors()
		back.noErrors()
	})
}

// A subscriber by itself can be off, and finds what it missed when it is on
// again.
func TestSubscriberOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startOrderd(t, dir, "EMAIL_ENABLED=false")
	p.must(202, "POST", "/orders", seed)
	p.wait("the push", func(l logLine) bool { return isPush(l) && l.Status == "confirmed" })
	if n := p.count(isMail); n != 0 {
		t.Errorf("%d mails although the role is off", n)
	}
	if code, _ := p.stop(syscall.SIGTERM, 30*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p = startOrderd(t, dir, "PUSH_ENABLED=false", "ANALYTICS_ENABLED=false")
	p.wait("the mail", func(l logLine) bool { return isMail(l) && l.Status == "confirmed" })
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	p := startOrderd(t, t.TempDir(), "WORKERS_ENABLED=false")
	const json, good = "application/json", `{"orderId":"taken","customer":"alice@example.com","items":1,"total":1}`
	p.must(202, "POST", "/orders", good)
	for _, test := range []struct {
		name, body, contentType string
		status                  int
		field                   string
	}{
		{"no JSON", `{"customer"`, json, 400, ""},
		{"not even text", "\xff\xfe", json, 400, ""},
		{"more than one", good + good, json, 400, ""},
		{"lone surrogate", `{"customer":"\ud800","items":1,"total":1}`, json, 400, ""},
		{"array", `[1]`, json, 422, ""},
		{"empty", `{}`, json, 422, "customer"},
		{"customer is a number", `{"customer":1,"items":1,"total":1}`, json, 422, "customer"},
		{"no customer", `{"items":1,"total":1}`, json, 422, "customer"},
		{"NUL in customer", `{"customer":"a\u0000","items":1,"total":1}`, json, 422, "customer"},
		{"long customer", `{"customer":"` + strings.Repeat("x", 255) + `","items":1,"total":1}`, json, 422, "customer"},
		{"NUL in id", `{"orderId":"a\u0000","customer":"c","items":1,"total":1}`, json, 422, "orderId"},
		{"slash in id", `{"orderId":"a/b","customer":"c","items":1,"total":1}`, json, 422, "orderId"},
		{"items 0", `{"customer":"c","items":0,"total":1}`, json, 422, "items"},
		{"items negative", `{"customer":"c","items":-1,"total":1}`, json, 422, "items"},
		{"items is a fraction", `{"customer":"c","items":1.5,"total":1}`, json, 422, "items"},
		{"items is text", `{"customer":"c","items":"1","total":1}`, json, 422, "items"},
		{"no items", `{"customer":"c","total":1}`, json, 422, "items"},
		{"no total", `{"customer":"c","items":1}`, json, 422, "total"},
		{"total null", `{"customer":"c","items":1,"total":null}`, json, 422, "total"},
		{"total negative", `{"customer":"c","items":1,"total":-1}`, json, 422, "total"},
		{"total too precise", `{"customer":"c","items":1,"total":1.001}`, json, 422, "total"},
		{"yen with decimals", `{"customer":"c","items":1,"total":1.5,"currency":"JPY"}`, json, 422, "total"},
		{"total is text", `{"customer":"c","items":1,"total":"1"}`, json, 422, "total"},
		{"total too large", `{"customer":"c","items":1,"total":1e30}`, json, 422, "total"},
		{"currency", `{"customer":"c","items":1,"total":1,"currency":"XXX"}`, json, 422, "currency"},
		{"lines disagree", `{"customer":"c","items":2,"total":1,"lines":[{"sku":"a","quantity":1,"price":1}]}`, json, 422, "items"},
		{"unknown field", `{"customer":"c","items":1,"total":1,"admin":true}`, json, 422, "admin"},
		{"member twice", `{"customer":"c","customer":"d","items":1,"total":1}`, json, 422, "customer"},
		{"createdAt is text", `{"customer":"c","items":1,"total":1,"createdAt":"now"}`, json, 422, "createdAt"},
		{"2 MiB", `{"customer":"` + strings.Repeat("x", 2<<20) + `"}`, json, 413, ""},
		{"wrong type", good, "text/plain", 415, "Content-Type"},
		{"id of another order", `{"orderId":"taken","customer":"alice@example.com","items":2,"total":1}`, json, 409, "orderId"},
	} {
		a, err := p.do("POST", "/orders", test.body, "Content-Type", test.contentType)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var problem struct {
			Title, Detail, Field string
			Status               int
		}
		a.decode(t, &problem)
		if a.status != test.status || problem.Status != test.status || problem.Title == "" || problem.Field != test.field ||
			a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: got %d, want %d with field %q: %s", test.name, a.status, test.status, test.field, a.body)
		}
	}
	var list struct{ Orders []order }
	p.must(200, "GET", "/orders", "").decode(t, &list)
	if len(list.Orders) != 1 {
		t.Errorf("%d orders are stored, want 1", len(list.Orders))
	}
	p.must(404, "GET", "/orders/nobody", "")
	p.must(405, "DELETE", "/orders/taken", "")

	// Repeats.
	if a := p.must(202, "POST", "/orders", good); a.header.Get("Idempotency-Replayed") != "true" {
		t.Error("a repeated order is not called replayed")
	}
	keyed := `{"customer":"alice@example.com","items":1,"total":1}`
	first := p.must(202, "POST", "/orders", keyed, "Idempotency-Key", "k")
	second := p.must(202, "POST", "/orders", keyed, "Idempotency-Key", "k")
	if string(first.body) != string(second.body) || second.header.Get("Idempotency-Replayed") != "true" || second.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("replay: %s, want %s", second.body, first.body)
	}
	p.must(422, "POST", "/orders", strings.Replace(keyed, "1}", "2}", 1), "Idempotency-Key", "k")
}

func TestSettings(t *testing.T) {
	t.Parallel()
	_, stderr, code := runProgram(t, []string{"WORKERS=abc", "MAX_ATTEMPTS=0", "HTTP_ADDR=nonsense"})
	for _, name := range []string{"WORKERS", "MAX_ATTEMPTS", "HTTP_ADDR", `"abc"`, `"0"`, `"nonsense"`} {
		if !strings.Contains(stderr, name) {
			t.Errorf("the message lacks %s: %s", name, stderr)
		}
	}
	if code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	stdout, _, code := runProgram(t, nil, "-h")
	docs, err := os.ReadFile("docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(docs)) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`"); ok && strings.HasPrefix(line, "| `") {
			n++
			if !strings.Contains(stdout, "  "+name) {
				t.Errorf("-h lacks %s", name)
			}
		}
	}
	if code != 0 || n < 40 {
		t.Errorf("-h: exit code %d, %d settings in the docs", code, n)
	}
	if stdout, _, code = runProgram(t, nil, "-version"); code != 0 || !strings.HasPrefix(stdout, "orderd ") {
		t.Errorf("-version: %d, %s", code, stdout)
	}
	if _, stderr, code = runProgram(t, nil, "start"); code != 2 || !strings.Contains(stderr, `"start"`) {
		t.Errorf("with an argument: %d, %s", code, stderr)
	}
}

// A second process on one folder needs to be told where the broker is.
func TestSecondBroker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startOrderd(t, dir)
	second := launch(t, dir)
	if code := second.exit(20 * time.Second); code != 2 || !strings.Contains(second.text(), "KUBEMQ_ADDRESS") {
		t.Errorf("exit code %d: %s", code, second.text())
	}
	p.must(202, "POST", "/orders", seed) // the first one is not hurt
	p.reach("ORD-2001", "confirmed", slow(5*time.Second))

	taken := launch(t, t.TempDir(), "HTTP_ADDR="+strings.TrimPrefix(p.url, "http://"))
	if code := taken.exit(20 * time.Second); code != 2 || !strings.Contains(taken.text(), "HTTP_ADDR") {
		t.Errorf("address in use: exit code %d: %s", code, taken.text())
	}
}

// Ctrl-C in the middle of load.
func TestInterrupt(t *testing.T) {
	eachDatabase(t, func(t *testing.T, settings ...string) {
		dir := t.TempDir()
		settings = append(settings, "SHUTDOWN_TIMEOUT=20s", "WORKERS=8")
		p := startOrderd(t, dir, settings...)
		stop := make(chan struct{})
		accepted := load(p, "i", stop)
		eventually(t, 20*time.Second, func() error {
			if b := p.books(); b.Confirmed < 20 {
				return fmt.Errorf("books: %+v", b)
			}
			return nil
		})
		code, took := p.stop(syscall.SIGINT, 25*time.Second)
		close(stop)
		ids := accepted()
		if code != 0 || took > 20*time.Second {
			t.Errorf("exit code %d after %s", code, took)
		}
		p.noErrors()
		p = startOrderd(t, dir, settings...)
		p.settle(ids)
		for _, id := range ids {
			o, err := p.get(id)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range o.Attempts {
				if a.Attempt != 1 || a.Outcome != "done" {
					t.Errorf("order %s: an attempt was counted: %+v", id, a)
				}
			}
		}
		t.Logf("stopped %s after the signal with %d orders accepted", took, len(ids))
	})
}

// A step that hangs is cut off by the stop, and its order returned.
func TestInterrupt_hangingPayment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gate := startGateway(t, func(string, int) int { return 200 })
	gate.hold = make(chan struct{})
	settings := []string{"SHUTDOWN_TIMEOUT=6s", "PAYMENT_URL=" + gate.url}
	p := startOrderd(t, dir, settings...)
	p.must(202, "POST", "/orders", seed)
	eventually(t, 10*time.Second, func() error {
		if asked, _ := gate.snapshot(); asked["ORD-2001/payment"] == 0 {
			return fmt.Errorf("the gateway was not asked")
		}
		return nil
	})
	code, took := p.stop(syscall.SIGTERM, 10*time.Second)
	if code != 0 || took > 6*time.Second {
		t.Errorf("exit code %d after %s", code, took)
	}
	p.noErrors()
	gate.mu.Lock()
	gate.hold = nil
	gate.mu.Unlock()
	p = startOrderd(t, dir, settings...)
	o := p.reach("ORD-2001", "confirmed", slow(10*time.Second))
	for _, a := range o.Attempts {
		if a.Attempt != 1 || a.Outcome != "done" {
			t.Errorf("an attempt was counted: %+v", a)
		}
	}
	if asked, _ := gate.snapshot(); len(asked) != 1 {
		t.Errorf("more than one key was used: %v", asked)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	gate := startGateway(t, func(string, int) int { return 200 })
	gate.hold = make(chan struct{})
	p := startOrderd(t, t.TempDir(), "PAYMENT_URL="+gate.url)
	p.must(200, "PUT", "/inventory/default", `{"onHand":10}`)
	p.must(202, "POST", "/orders", seed)
	p.reach("ORD-2001", "processing", slow(5*time.Second))
	var o order
	p.must(202, "POST", "/orders/ORD-2001/cancel", `{"reason":"changed my mind"}`).decode(t, &o)
	if !o.CancelRequested {
		t.Errorf("cancel of a claimed order: %+v", o)
	}
	close(gate.hold)
	o = p.reach("ORD-2001", "cancelled", slow(5*time.Second))
	if slices.Contains(o.statuses(), "confirmed") || o.History[len(o.History)-1].Reason != "changed my mind" {
		t.Errorf("history: %+v", o.History)
	}
	eventually(t, 10*time.Second, func() error {
		if _, voided := gate.snapshot(); cmp.Diff([]string{"ORD-2001/payment"}, voided) != "" {
			return fmt.Errorf("voided: %v", voided)
		}
		return nil
	})
	p.checkStock(10)
}

// A live listener that reads nothing does not hold up anybody.
func TestSlowListener(t *testing.T) {
	t.Parallel()
	p := startOrderd(t, t.TempDir())
	resp, err := http.Get(p.url + "/events?after=0")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range size(50, 200, 2000) {
		p.must(202, "POST", "/orders", fmt.Sprintf(`{"orderId":"s%d","customer":"c","items":1,"total":1}`, i))
	}
	p.settle([]string{"s0", "s49"})
	if code, took := p.stop(syscall.SIGINT, 30*time.Second); code != 0 || took > 15*time.Second {
		t.Errorf("exit code %d after %s", code, took)
	}
}

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	p := startOrderd(t, t.TempDir(), "API_KEYS=one,two")
	p.must(401, "GET", "/orders", "")
	p.must(401, "GET", "/orders", "", "Authorization", "Bearer three")
	p.must(200, "GET", "/orders", "", "Authorization", "Bearer two")
	p.must(200, "GET", "/readyz", "")
}

// An order that is out of stock waits for it without spending attempts.
func TestBackorder(t *testing.T) {
	t.Parallel()
	p := startOrderd(t, t.TempDir(), "BACKORDER=true", "BACKORDER_RETRY=50ms", "MAX_ATTEMPTS=2")
	p.must(200, "PUT", "/inventory/default", `{"onHand":1}`)
	p.must(202, "POST", "/orders", seed)
	eventually(t, 20*time.Second, func() error {
		o, err := p.get("ORD-2001")
		if err == nil && (len(o.Attempts) < 6 || o.Status != "processing") {
			err = fmt.Errorf("order is %s after %d attempts", o.Status, len(o.Attempts))
		}
		return err
	})
	p.must(200, "PUT", "/inventory/default", `{"onHand":3}`)
	o := p.reach("ORD-2001", "confirmed", slow(10*time.Second))
	for _, a := range o.Attempts {
		if a.Attempt != 1 || a.Outcome == "retry" {
			t.Errorf("waiting spent an attempt: %+v", a)
		}
	}
	p.checkStock(3)
}
