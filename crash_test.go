package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// charges is how often each key was authorised by a gateway: what a customer
// would be charged.
func (g *gateway) charges() map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[string]bool)
	for key, state := range g.states {
		if state == "authorised" {
			out[key] = true
		}
	}
	return out
}

// audit compares the gateway's books with the orders: one charge for each that
// was confirmed, none for the others but those whose dead letter waits.
func (p *process) audit(g *gateway, ids []string) (confirmed int) {
	p.t.Helper()
	charged := make(map[string]int)
	for key := range g.charges() {
		id, _, _ := strings.Cut(key, "/payment")
		charged[id]++
	}
	for _, id := range ids {
		o, err := p.get(id)
		if err != nil {
			p.t.Errorf("an accepted order is gone: %v", err)
			continue
		}
		n := strings.Count(strings.Join(o.statuses(), " "), "confirmed")
		switch {
		case o.Status == "confirmed" && (n != 1 || charged[id] != 1):
			p.t.Errorf("order %s was confirmed %d times and charged %d times", id, n, charged[id])
		case o.Status == "failed" && n != 0, o.Status == "failed" && charged[id] > 1:
			p.t.Errorf("failed order %s was confirmed %d times and charged %d times", id, n, charged[id])
		case o.Status != "confirmed" && o.Status != "failed":
			p.t.Errorf("order %s is %s", id, o.Status)
		}
		if o.Status == "confirmed" {
			confirmed++
		}
	}
	return confirmed
}

// done waits until nothing is under way.
func (p *process) done(within time.Duration) {
	p.t.Helper()
	eventually(p.t, within, func() error {
		b := p.books()
		if b.UnderWay != 0 || !b.Balanced {
			return fmt.Errorf("books: %+v", b)
		}
		return nil
	})
}

// post posts n orders, each again while it is answered 503, as customers do, and
// returns the ids that were answered 202; the process may die meanwhile.
func (p *process) post(prefix string, n int) []string {
	var mu sync.Mutex
	var ids []string
	var posting sync.WaitGroup
	for w := range 8 {
		posting.Go(func() {
			for i := w; i < n; i += 8 {
				id := fmt.Sprintf("%s-%d", prefix, i)
				body := fmt.Sprintf(`{"orderId":%q,"customer":"c%d@example.com","items":%d,"total":1.25}`, id, w, 1+i%3)
				switch p.postOne(id, body) {
				case http.StatusAccepted:
					mu.Lock()
					ids = append(ids, id)
					mu.Unlock()
				case 0:
					return // the process is gone
				}
			}
		})
	}
	posting.Wait()
	return ids
}

func (p *process) postOne(id, body string) int {
	for range 5 {
		a, err := p.do(http.MethodPost, "/orders", body)
		switch {
		case err != nil:
			return 0
		case a.status != http.StatusServiceUnavailable:
			return a.status
		}
		p.t.Logf("order %s was answered 503", id)
		<-time.After(time.Second) // what Retry-After says
	}
	return http.StatusServiceUnavailable
}

// unreliable answers 500 for a fifth of the requests, hangs for a twentieth,
// and refuses three in a hundred keys for good.
func unreliable(g *gateway) {
	g.decide = func(key string, n int) int {
		switch x := rand.IntN(100); {
		case hash(key)%100 < 3:
			return 402
		case x < 20:
			return 500
		case x < 25:
			return hang
		}
		return 200
	}
}

func hash(s string) (h uint32) {
	for _, c := range []byte(s) {
		h = h*31 + uint32(c)
	}
	return h
}

// Random kills of the one process, with a gateway that works and with one that
// does not: every order once, and charged once.
func TestCharges_kills(t *testing.T) {
	for _, reliable := range []bool{true, false} {
		t.Run(fmt.Sprint("reliable gateway ", reliable), func(t *testing.T) {
			t.Parallel()
			gate := startGateway(t, func(string, int) int { return 200 })
			if !reliable {
				unreliable(gate)
			}
			dir := t.TempDir()
			settings := []string{"PAYMENT_URL=" + gate.url, "LEASE=2s", "WORKERS=8", "MAX_DEATHS=1000", "MAX_ATTEMPTS=1000", "STEP_TIMEOUT=300ms", "RETRY_BASE=10ms", "RETRY_CAP=100ms"}
			p := startOrderd(t, dir, settings...)
			const stock = 1_000_000
			p.must(200, "PUT", "/inventory/default", fmt.Sprintf(`{"onHand":%d}`, stock))
			n, kills := size(120, 300, 2000), size(3, 5, 10)
			var ids []string
			for i := range kills {
				ids = append(ids, p.post(fmt.Sprint("c", i), n/kills)...)
				// The moment of the kill is what varies.
				<-time.After(time.Duration(rand.IntN(150)) * time.Millisecond)
				p.kill()
				p = startOrderd(t, dir, settings...)
			}
			p.done(slow(60 * time.Second))
			confirmed := p.audit(gate, ids)
			p.checkStock(stock)
			if reliable && confirmed != len(ids) {
				t.Errorf("%d of %d orders were confirmed", confirmed, len(ids))
			}
			t.Logf("%d orders, %d confirmed, %d kills", len(ids), confirmed, kills)
		})
	}
}

// Two worker processes of which one or the other is killed.
func TestCharges_twoWorkers(t *testing.T) {
	t.Parallel()
	database := "DATABASE_URL=" + newDatabase(t)
	gate := startGateway(t, func(string, int) int { return 200 })
	unreliable(gate)
	shared := []string{database, "PAYMENT_URL=" + gate.url, "LEASE=1s", "WORKERS=4", "MAX_DEATHS=1000", "MAX_ATTEMPTS=1000", "STEP_TIMEOUT=300ms", "RETRY_BASE=10ms", "RETRY_CAP=100ms"}
	front := startOrderd(t, t.TempDir(), append(shared, "WORKERS_ENABLED=false")...)
	front.must(200, "PUT", "/inventory/default", `{"onHand":1000000}`)
	dirs := []string{t.TempDir(), t.TempDir()}
	back := func(i int) *process {
		return startOrderd(t, dirs[i], append(shared, "API_ENABLED=false", "KUBEMQ_ADDRESS="+front.broker)...)
	}
	workers := []*process{back(0), back(1)}
	n, kills := size(120, 300, 2000), size(3, 5, 10)
	var ids []string
	for i := range kills {
		ids = append(ids, front.post(fmt.Sprint("t", i), n/kills)...)
		<-time.After(time.Duration(rand.IntN(150)) * time.Millisecond)
		victim := rand.IntN(2)
		workers[victim].kill()
		workers[victim] = back(victim)
	}
	if len(ids) != n/kills*kills {
		t.Errorf("%d of %d orders were accepted by a process that was never killed", len(ids), n)
	}
	front.done(slow(60 * time.Second))
	confirmed := front.audit(gate, ids)
	front.checkStock(1_000_000)
	t.Logf("%d orders, %d confirmed, %d kills", len(ids), confirmed, kills)
}

// A worker that is frozen beyond its lease: another finishes its order, and
// nothing happens when it wakes up. On PostgreSQL, since a process that is frozen
// in the middle of a transaction keeps SQLite's only lock.
func TestFrozenWorker(t *testing.T) {
	t.Parallel()
	database := "DATABASE_URL=" + newDatabase(t)
	gate := startGateway(t, func(string, int) int { return 200 })
	gate.hold = make(chan struct{})
	shared := []string{database, "PAYMENT_URL=" + gate.url, "LEASE=1s", "LOG_LEVEL=debug"}
	front := startOrderd(t, t.TempDir(), append(shared, "WORKERS_ENABLED=false")...)
	front.must(200, "PUT", "/inventory/default", `{"onHand":10}`)
	worker := append(shared, "API_ENABLED=false", "KUBEMQ_ADDRESS="+front.broker)
	frozen := startOrderd(t, t.TempDir(), worker...)
	front.must(202, "POST", "/orders", seed)
	eventually(t, 10*time.Second, func() error {
		if asked, _ := gate.snapshot(); asked["ORD-2001/payment"] == 0 {
			return fmt.Errorf("the gateway was not asked")
		}
		return nil
	})
	if err := frozen.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	close(gate.hold)
	gate.mu.Lock()
	gate.hold = nil
	gate.mu.Unlock()
	startOrderd(t, t.TempDir(), worker...)
	// The message may be with the frozen worker until the broker takes it for dead.
	o := front.reach("ORD-2001", "confirmed", 60*time.Second)
	if err := frozen.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	frozen.wait("that it lost the order", func(l logLine) bool {
		return l.OrderID == "ORD-2001" && strings.Contains(l.text, `"lost"`)
	})
	again, err := front.get("ORD-2001")
	if err != nil || len(again.History) != len(o.History) {
		t.Errorf("history after the worker woke up: %+v, %v", again.History, err)
	}
	front.audit(gate, []string{"ORD-2001"})
	front.checkStock(10)
}

// SIGTERM under load, again and again: nothing is spent, nothing is lost.
func TestTerminations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startOrderd(t, dir, "WORKERS=8")
	var ids []string
	for i := range size(3, 5, 10) {
		stop := make(chan struct{})
		accepted := load(p, fmt.Sprint("s", i), stop)
		<-time.After(time.Duration(50+rand.IntN(150)) * time.Millisecond)
		if code, took := p.stop(syscall.SIGTERM, 30*time.Second); code != 0 {
			t.Errorf("exit code %d after %s", code, took)
		}
		close(stop)
		ids = append(ids, accepted()...)
		p.noErrors()
		p = startOrderd(t, dir, "WORKERS=8")
	}
	p.settle(ids)
	for _, id := range ids {
		o, err := p.get(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range o.Attempts {
			if a.Attempt != 1 || a.Outcome != "done" {
				t.Errorf("order %s: %+v", id, a)
			}
		}
	}
	if b := p.books(); b.Failed != 0 {
		t.Errorf("books: %+v", b)
	}
}

// An order that kills whoever works on it is a dead letter after MAX_DEATHS,
// and the others go on.
func TestKillerOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var victim atomic.Pointer[process]
	gate := startGateway(t, func(key string, _ int) int {
		if key == "killer/payment" {
			if p := victim.Swap(nil); p != nil {
				_ = p.cmd.Process.Kill()
			}
			return hang
		}
		return 200
	})
	front := startOrderd(t, dir, "WORKERS_ENABLED=false")
	start := func() *process {
		p := startOrderd(t, dir, "API_ENABLED=false", "KUBEMQ_ADDRESS="+front.broker, "PAYMENT_URL="+gate.url, "STEP_TIMEOUT=20s")
		victim.Store(p)
		return p
	}
	ids := front.post("v", size(20, 60, 200))
	front.must(202, "POST", "/orders", `{"orderId":"killer","customer":"c@example.com","items":1,"total":1}`)
	for range 3 {
		p := start()
		select {
		case <-p.exited:
		case <-time.After(20 * time.Second):
			t.Fatal("the order did not kill its worker")
		}
	}
	victim.Store(nil)
	last := startOrderd(t, dir, "API_ENABLED=false", "KUBEMQ_ADDRESS="+front.broker, "PAYMENT_URL="+gate.url)
	d := front.deadLetter("killer")
	if d.ErrorClass != "worker_died" || d.Step != "payment" || !strings.Contains(d.Reason, "3") {
		t.Errorf("dead letter: %+v", d)
	}
	front.settle(ids)
	last.noErrors()
}

// The broker is away for a while under load: nobody is refused, and everything
// flows when it is back.
func TestBrokerAway(t *testing.T) {
	t.Parallel()
	brokerDir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	off := []string{"API_ENABLED=false", "WORKERS_ENABLED=false", "EMAIL_ENABLED=false", "PUSH_ENABLED=false", "ANALYTICS_ENABLED=false", "DLQ_ENABLED=false", "BROKER_ADDR=" + addr}
	p := startOrderd(t, t.TempDir(), "KUBEMQ_ADDRESS="+addr) // before there is a broker
	ids := p.post("before", 20)
	for i := range size(2, 3, 5) {
		broker := startOrderd(t, brokerDir, off...)
		ids = append(ids, p.post(fmt.Sprint("with", i), 30)...)
		broker.kill()
		ids = append(ids, p.post(fmt.Sprint("without", i), 30)...)
	}
	if want := 20 + size(2, 3, 5)*60; len(ids) != want {
		t.Errorf("%d of %d orders were accepted", len(ids), want)
	}
	startOrderd(t, brokerDir, off...)
	p.settle(ids)
	if a := p.must(200, "GET", "/readyz", ""); !strings.Contains(string(a.body), `"ready"`) {
		t.Errorf("readiness: %s", a.body)
	}
}

// The database is away for a while under load: 503 with Retry-After meanwhile,
// and no restart afterwards.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	if postgresURL == "" || postgresBin == "" {
		newDatabase(t) // says why it is skipped
		t.Skip("PostgreSQL cannot be stopped here: it is not ours")
	}
	server := startOwnPostgres(t)
	p := startOrderd(t, t.TempDir(), "DATABASE_URL="+server.url, "LEASE=2s")
	ids := p.post("before", 50)
	server.stop()
	eventually(t, 20*time.Second, func() error {
		a, err := p.do(http.MethodPost, "/orders", `{"customer":"c","items":1,"total":1}`)
		if err != nil {
			return err
		}
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			return fmt.Errorf("without its database: %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
		}
		return nil
	})
	<-time.After(time.Duration(size(1, 3, 30)) * time.Second) // how long it is away
	server.start()
	eventually(t, slow(30*time.Second), func() error {
		more := p.post("after", 20)
		if len(more) != 20 {
			return fmt.Errorf("%d of 20 orders were accepted", len(more))
		}
		ids = append(ids, more...)
		return nil
	})
	p.settle(ids)
}

// A due retry does not wait behind a backlog.
func TestRetry_beforeBacklog(t *testing.T) {
	t.Parallel()
	gate := startGateway(t, func(key string, n int) int {
		if key == "retried/payment" && n == 1 {
			return 503
		}
		<-time.After(5 * time.Millisecond) // a gateway takes its time
		return 200
	})
	p := startOrderd(t, t.TempDir(), "PAYMENT_URL="+gate.url, "WORKERS=1", "RETRY_BASE=1ms", "RETRY_CAP=1ms")
	p.must(202, "POST", "/orders", `{"orderId":"retried","customer":"c","items":1,"total":1}`)
	p.post("backlog", size(600, 2000, 10_000))
	o := p.reach("retried", "confirmed", slow(2*time.Second))
	if len(o.Attempts) != 3 {
		t.Errorf("attempts: %+v", o.Attempts)
	}
	if b := p.books(); b.UnderWay < 100 {
		t.Errorf("there was no backlog: %+v", b)
	}
}

// ownPostgres is a server that a test may stop and start.
type ownPostgres struct {
	t    *testing.T
	dir  string
	url  string
	port int
	halt func()
}

func startOwnPostgres(t *testing.T) *ownPostgres {
	t.Helper()
	s := &ownPostgres{t: t, dir: filepath.Join(t.TempDir(), "server")}
	url, halt, err := runPostgres(postgresBin, s.dir, 0)
	if err != nil {
		halt()
		t.Fatal(err)
	}
	s.url, s.halt = url, halt
	if _, err := fmt.Sscanf(url[strings.LastIndex(url, ":")+1:], "%d", &s.port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.halt() })
	return s
}

func (s *ownPostgres) stop() {
	s.halt()
	s.halt = func() {}
}

func (s *ownPostgres) start() {
	s.t.Helper()
	_, halt, err := runPostgres(postgresBin, s.dir, s.port)
	s.halt = halt
	if err != nil {
		s.t.Fatal(err)
	}
}

// The gateway has authorised, but its answer never came: it is asked what
// became of the key, and not asked to pay again.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	gate := startGateway(t, nil)
	gate.decide = func(key string, _ int) int {
		gate.states[key] = "authorised" // the gateway's lock is held here
		return hang
	}
	p := startOrderd(t, t.TempDir(), "PAYMENT_URL="+gate.url, "STEP_TIMEOUT=200ms", "RETRY_BASE=10ms", "RETRY_CAP=50ms")
	p.must(202, "POST", "/orders", seed)
	o := p.reach("ORD-2001", "confirmed", slow(10*time.Second))
	if asked, _ := gate.snapshot(); len(asked) != 1 || asked["ORD-2001/payment"] != 1 {
		t.Errorf("the gateway was asked to pay %v", asked)
	}
	if len(o.Attempts) < 2 || o.Attempts[0].ErrorClass != "gateway_timeout" {
		t.Errorf("attempts: %+v", o.Attempts)
	}
}

// An order that nobody works on in time expires, and can be put back.
func TestExpiry(t *testing.T) {
	eachDatabase(t, func(t *testing.T, settings ...string) {
		dir := t.TempDir()
		p := startOrderd(t, dir, append(settings, "ORDER_EXPIRATION=1s", "WORKERS_ENABLED=false")...)
		p.must(202, "POST", "/orders", seed)
		<-time.After(1100 * time.Millisecond) // its time is over
		if code, _ := p.stop(syscall.SIGTERM, 30*time.Second); code != 0 {
			t.Errorf("exit code %d", code)
		}
		p = startOrderd(t, dir, settings...)
		o := p.reach("ORD-2001", "expired", slow(10*time.Second))
		if len(o.Attempts) != 0 {
			t.Errorf("an overdue order was worked on: %+v", o.Attempts)
		}
		p.must(202, "POST", "/orders/ORD-2001/redrive", "{}")
		p.reach("ORD-2001", "confirmed", slow(10*time.Second))
		if b := p.books(); b.Expired != 0 || b.Confirmed != 1 || !b.Balanced {
			t.Errorf("books: %+v", b)
		}
	})
}
