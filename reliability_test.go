package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// shop is an orderd of one or more processes as its customers see it: at an
// address that changes when the process behind it is killed.
type shop struct {
	t     *testing.T
	front atomic.Pointer[process]
	crash func() // kill -9 of a process that works, and a new one in its place
}

// oneProcess is a shop where everything dies together.
func oneProcess(t *testing.T, settings ...string) *shop {
	t.Helper()
	s, dir := &shop{t: t}, t.TempDir()
	s.front.Store(startOrderd(t, dir, settings...))
	s.crash = func() {
		s.front.Load().kill()
		s.front.Store(startOrderd(t, dir, settings...))
	}
	return s
}

// twoWorkers is a shop whose two workers die one at a time. It needs PostgreSQL.
func twoWorkers(t *testing.T, settings ...string) *shop {
	t.Helper()
	settings = append(settings, "DATABASE_URL="+newDatabase(t))
	s := &shop{t: t}
	front := startOrderd(t, t.TempDir(), append(settings, "WORKERS_ENABLED=false")...)
	s.front.Store(front)
	var dirs [2]string
	var workers [2]*process
	start := func(i int) {
		workers[i] = startOrderd(t, dirs[i], append(settings, "API_ENABLED=false", "KUBEMQ_ADDRESS="+front.broker)...)
	}
	for i := range workers {
		dirs[i] = t.TempDir()
		start(i)
	}
	s.crash = func() {
		i := rand.IntN(len(workers))
		workers[i].kill()
		start(i)
	}
	return s
}

// order is a customer who repeats an order until it is accepted. What he is
// told meanwhile has to be that nobody is there, or to come back later.
func (s *shop) order(id string, items int, headers ...string) {
	body := fmt.Sprintf(`{"orderId":%q,"customer":"alice@example.com","items":%d,"total":1.25}`, id, items)
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for end := time.Now().Add(slow(60 * time.Second)); time.Now().Before(end); <-pause.C {
		a, err := s.front.Load().do(http.MethodPost, "/orders", body, headers...)
		switch {
		case err != nil: // killed meanwhile
		case a.status == http.StatusAccepted:
			return
		case a.status != http.StatusServiceUnavailable, a.header.Get("Retry-After") == "":
			s.t.Errorf("order %s: %d, Retry-After %q: %s", id, a.status, a.header.Get("Retry-After"), a.body)
			return
		}
	}
	s.t.Errorf("order %s was never accepted", id)
}

// customers place n orders, every other one with a key; wait returns the ids
// when all are accepted.
func (s *shop) customers(prefix string, n int) (wait func() []string) {
	ids := make([]string, n)
	var ordering sync.WaitGroup
	for c := range 8 {
		ordering.Go(func() {
			for i := c; i < n; i += 8 {
				ids[i] = fmt.Sprintf("%s-%d", prefix, i)
				var headers []string
				if i%2 == 0 {
					headers = []string{"Idempotency-Key", "key of " + ids[i]}
				}
				s.order(ids[i], 1+i%3, headers...)
			}
		})
	}
	return func() []string { ordering.Wait(); return ids }
}

// Customers who order again until they are answered, and processes that are
// killed while they do: as many orders as customers meant, each charged once if
// it was confirmed and not at all if its payment was refused, whatever else the
// gateway did.
func TestReliability_kills(t *testing.T) {
	for _, test := range []struct {
		name  string
		start func(*testing.T, ...string) *shop
	}{
		{"one process, SQLite", oneProcess},
		{"one process, PostgreSQL", func(t *testing.T, settings ...string) *shop {
			return oneProcess(t, append(settings, "DATABASE_URL="+newDatabase(t))...)
		}},
		{"two workers", twoWorkers},
	} {
		for _, sound := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sound gateway %t", test.name, sound), func(t *testing.T) {
				t.Parallel()
				gate := startGateway(t, func(string, int) int { return 200 })
				if !sound {
					forgetful(gate)
				}
				s := test.start(t, "PAYMENT_URL="+gate.url, "LEASE=1s", "WORKERS=4", "MAX_DEATHS=1000", "MAX_ATTEMPTS=1000", "STEP_TIMEOUT=300ms", "RETRY_BASE=10ms", "RETRY_CAP=100ms")
				const stock = 1_000_000
				s.front.Load().must(200, "PUT", "/inventory/default", fmt.Sprintf(`{"onHand":%d}`, stock))
				n, kills := size(60, 300, 2000), size(3, 5, 10)
				var ids []string
				for i := range kills {
					placed := s.customers(fmt.Sprint("r", i), n/kills)
					// The moment of the kill is what varies.
					<-time.After(time.Duration(rand.IntN(100)) * time.Millisecond)
					s.crash()
					ids = append(ids, placed()...)
				}
				p := s.front.Load()
				p.done(slow(90 * time.Second))
				confirmed := p.audit(gate, ids)
				p.checkStock(stock)
				p.counts("confirmed", confirmed, "")
				refused := 0
				for _, id := range ids {
					key := id + "/payment"
					if !sound && refuses(key) {
						refused++
						if gate.charges()[key] {
							t.Errorf("order %s was refused and charged", id)
						}
					}
				}
				if b := p.books(); b.Accepted != len(ids) || b.Confirmed != len(ids)-refused || b.Failed != refused {
					t.Errorf("books of %d orders of which %d were refused: %+v", len(ids), refused, b)
				}
				asked, _ := gate.snapshot()
				if len(asked) != len(ids) {
					t.Errorf("%d orders were charged under %d keys", len(ids), len(asked))
				}
			})
		}
	}
}

// refuses says whether the customer with this key has no money.
func refuses(key string) bool { return hash(key)%100 < 3 }

// forgetful answers 500 for a fifth of the requests, does not answer a
// twentieth, half of which it has charged, and refuses three in a hundred keys.
func forgetful(g *gateway) {
	g.decide = func(key string, _ int) int { // with the gateway's lock held
		switch x := rand.IntN(1000); {
		case refuses(key):
			return 402
		case x < 200:
			return 500
		case x < 225:
			g.states[key] = "authorised"
			return hang
		case x < 250:
			return hang
		}
		return 200
	}
}
