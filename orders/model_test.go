package orders_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"orderd/orders"
)

// Random histories of a store with crashes between any two of its steps,
// against what each step promises. After every step all invariants hold
// (Store.Check: event log, books, dead letters, payments, stock), and whatever
// returned nil is still there.
func TestStore_model(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "orderd-model-")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		m := &model{o: options(t), known: make(map[string]*modelOrder), claims: make(map[string]int64)}
		m.o.DataDir = dir
		m.open(rt)
		defer m.s.Abandon()
		if _, err := m.s.SetInventory(context.Background(), orders.DefaultSKU, stockAtFirst, "model"); err != nil {
			rt.Fatal(err)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"accept": m.accept, "claim": m.claim, "finish": m.finish, "cancel": m.cancel, "ship": m.ship, "redrive": m.redrive,
			"discard": m.discard, "send": m.send, "number": m.number, "handle": m.handle, "lost": m.lost, "crash": m.crash, "": m.check,
		})
		m.settle(rt)
	})
}

const stockAtFirst = 20

type model struct {
	o      orders.Options
	s      *orders.Store
	known  map[string]*modelOrder
	claims map[string]int64 // tokens of what this process holds
	next   int
	last   int64 // newest number in the log
}

type modelOrder struct {
	order     orders.Order
	status    orders.Status
	cancelled bool // its cancel was answered: it must never be confirmed
}

func (m *model) open(rt *rapid.T) {
	s, err := orders.Open(context.Background(), m.o, zerolog.Nop())
	if err != nil {
		rt.Fatal(err)
	}
	m.s = s
}

func (m *model) must(rt *rapid.T, err error) {
	rt.Helper()
	if err != nil {
		rt.Fatal(err)
	}
}

func (m *model) pick(rt *rapid.T) *modelOrder {
	ids := make([]string, 0, len(m.known))
	for id := range m.known {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		rt.Skip("no orders")
	}
	slices.Sort(ids)
	return m.known[rapid.SampledFrom(ids).Draw(rt, "order")]
}

func (m *model) accept(rt *rapid.T) {
	id := fmt.Sprintf("o%d", m.next)
	if len(m.known) > 0 && rapid.Bool().Draw(rt, "repeat") {
		id = m.pick(rt).order.ID
	} else {
		m.next++
	}
	o, err := orders.Decode(fmt.Appendf(nil, `{"orderId":%q,"customer":"c@example.com","items":3,"total":1.5}`, id), true)
	m.must(rt, err)
	key := rapid.SampledFrom([]string{"", "key-" + id}).Draw(rt, "key")
	a, err := m.s.Accept(context.Background(), o, key)
	m.must(rt, err)
	if _, known := m.known[id]; known != a.Replayed {
		rt.Fatalf("order %s: known %v, replayed %v", id, known, a.Replayed)
	}
	if !a.Replayed {
		m.known[id] = &modelOrder{order: a.Order, status: orders.StatusCreated}
	}
}

func (m *model) claim(rt *rapid.T) {
	o := m.pick(rt)
	claims, err := m.s.Claim(context.Background(), []orders.Arrival{{MessageID: "x", Body: o.order.AppendMessage(nil), Order: o.order, Origin: orders.Origin}})
	m.must(rt, err)
	_, held := m.claims[o.order.ID]
	free := !held && (o.status == orders.StatusCreated || o.status == orders.StatusProcessing)
	if (claims[0].Verdict == orders.Claimed) != free {
		rt.Fatalf("order %s is %s and held %v, yet the claim says %d: %s", o.order.ID, o.status, held, claims[0].Verdict, claims[0].Reason)
	}
	if free {
		o.status = orders.StatusProcessing
		m.claims[o.order.ID] = claims[0].Token
	}
}

func (m *model) finish(rt *rapid.T) {
	o := m.pick(rt)
	token, held := m.claims[o.order.ID]
	if !held {
		token = rapid.Int64Range(0, 3).Draw(rt, "stale token")
	}
	kind := rapid.SampledFrom([]orders.OutcomeKind{orders.OutcomeConfirm, orders.OutcomeConfirm, orders.OutcomeRetry, orders.OutcomeFail, orders.OutcomeReturn, orders.OutcomeWait}).Draw(rt, "kind")
	out, err := m.s.Finish(context.Background(), []orders.Outcome{{OrderID: o.order.ID, Token: token, Kind: kind, Class: "model", Reason: "model", Payment: orders.PaymentAuthorised}})
	m.must(rt, err)
	got := out[0].Result
	if !held {
		if got != orders.ResultLost {
			rt.Fatalf("order %s was not held, yet an outcome gave %d", o.order.ID, got)
		}
		return
	}
	switch {
	case got == orders.ResultOutOfStock:
		if kind != orders.OutcomeConfirm {
			rt.Fatalf("kind %d gave out of stock", kind)
		}
		return // still held
	case got == orders.ResultLost:
		rt.Fatalf("order %s was held, yet its outcome is lost", o.order.ID)
	case o.cancelled != (got == orders.ResultCancelled):
		rt.Fatalf("order %s: cancelled %v, result %d", o.order.ID, o.cancelled, got)
	case got == orders.ResultCancelled:
		o.status = orders.StatusCancelled
	case got == orders.ResultFailed, kind == orders.OutcomeFail:
		o.status = orders.StatusFailed
	case kind == orders.OutcomeConfirm:
		o.status = orders.StatusConfirmed
	}
	delete(m.claims, o.order.ID)
}

func (m *model) cancel(rt *rapid.T) {
	o := m.pick(rt)
	_, pending, err := m.s.Cancel(context.Background(), o.order.ID, "model", "model")
	_, held := m.claims[o.order.ID]
	if allowed := o.status.CanBecome(orders.StatusCancelled); (err == nil) != allowed || pending != (allowed && held) {
		rt.Fatalf("cancel of order %s, %s, held %v: pending %v, %v", o.order.ID, o.status, held, pending, err)
	}
	if err != nil {
		return
	}
	if o.cancelled = true; !pending {
		o.status = orders.StatusCancelled
	}
}

func (m *model) ship(rt *rapid.T) {
	o := m.pick(rt)
	to, act := orders.StatusShipped, func() (orders.Order, error) { return m.s.Ship(context.Background(), o.order.ID, "", "", "model") }
	if rapid.Bool().Draw(rt, "deliver") {
		to, act = orders.StatusDelivered, func() (orders.Order, error) { return m.s.Deliver(context.Background(), o.order.ID, "model") }
	}
	_, err := act()
	if allowed := o.status.CanBecome(to); (err == nil) != allowed {
		rt.Fatalf("%s to %s: %v", o.status, to, err)
	} else if allowed {
		o.status = to
	}
}

func (m *model) open1(rt *rapid.T) orders.DeadLetter {
	list, _, err := m.s.DeadLetters(context.Background(), orders.DeadLetterFilter{Status: orders.DeadLetterOpen})
	m.must(rt, err)
	if len(list) == 0 {
		rt.Skip("no dead letters")
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(rt, "dead letter")]
}

func (m *model) redrive(rt *rapid.T) {
	d := m.open1(rt)
	got, err := m.s.Redrive(context.Background(), d.ID, "model", false)
	if orders.KindOf(err) == orders.KindConflict && err != nil {
		rt.Skip("redriven too often")
	}
	m.must(rt, err)
	o := m.known[d.OrderID]
	if o.status != orders.StatusFailed || got.Round != d.Round+1 {
		rt.Fatalf("redrive of order %s, %s: %+v", d.OrderID, o.status, got)
	}
	o.status = orders.StatusCreated
}

func (m *model) discard(rt *rapid.T) {
	_, err := m.s.Discard(context.Background(), m.open1(rt).ID, "model", "model")
	m.must(rt, err)
}

// send hands out what is due; the broker takes it or not.
func (m *model) send(rt *rapid.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing due is no reason to wait
	ds, err := m.s.NextDispatches(ctx, rapid.IntRange(1, 5).Draw(rt, "batch"))
	if err != nil && !errors.Is(err, context.Canceled) && orders.KindOf(err) != orders.KindUnavailable {
		rt.Fatal(err)
	}
	for _, d := range ds {
		o := m.known[d.OrderID]
		if o == nil {
			rt.Fatalf("a message for an order that was never accepted: %+v", d)
		}
	}
	if rapid.Bool().Draw(rt, "taken") {
		m.must(rt, m.s.MarkSent(context.Background(), ds))
	} else {
		m.s.Unsent(ds)
	}
}

func (m *model) number(rt *rapid.T) {
	held, err := m.s.HoldEvents(context.Background())
	m.must(rt, err)
	if !held {
		rt.Fatal("nobody else holds the log")
	}
	events, err := m.s.NumberEvents(context.Background(), rapid.IntRange(1, 10).Draw(rt, "batch"))
	m.must(rt, err)
	for _, e := range events {
		if m.last++; e.Number != m.last {
			rt.Fatalf("event %s got number %d, want %d", e.EventID(), e.Number, m.last)
		}
	}
}

func (m *model) handle(rt *rapid.T) {
	events, err := m.s.Unhandled(context.Background(), "email", 0, rapid.IntRange(1, 10).Draw(rt, "batch"))
	m.must(rt, err)
	effects := make([]orders.Effect, len(events))
	for i := range effects {
		effects[i] = orders.Effect{Deliver: true, To: "c@example.com"}
	}
	fresh, err := m.s.Handle(context.Background(), "email", events, effects)
	m.must(rt, err)
	if slices.Contains(fresh, false) {
		rt.Fatal("what is unhandled was handled before")
	}
}

func (m *model) lost(rt *rapid.T) {
	now, err := m.s.Now(context.Background())
	m.must(rt, err)
	_, err = m.s.LostDispatches(context.Background(), now+1_000_000_000, 100)
	m.must(rt, err)
}

// crash ends the process without a word and starts its successor: what was
// held is free, and its deaths are counted.
func (m *model) crash(rt *rapid.T) {
	m.s.Abandon()
	m.open(rt)
	for id := range m.claims {
		o, err := m.s.Get(context.Background(), id)
		m.must(rt, err)
		m.known[id].status = o.Status
		if o.Status == orders.StatusConfirmed {
			rt.Fatalf("order %s was confirmed by a crash", id)
		}
	}
	clear(m.claims)
}

func (m *model) check(rt *rapid.T) {
	m.must(rt, m.s.Check(context.Background()))
	for id, o := range m.known {
		got, err := m.s.Get(context.Background(), id)
		m.must(rt, err)
		if got.Status != o.status {
			rt.Fatalf("order %s is %s, want %s", id, got.Status, o.status)
		}
	}
}

// settle works everything off and compares the stock.
func (m *model) settle(rt *rapid.T) {
	stock, err := m.s.Inventory(context.Background(), orders.DefaultSKU)
	m.must(rt, err)
	taken := int64(0)
	for _, o := range m.known {
		switch o.status {
		case orders.StatusConfirmed, orders.StatusShipped, orders.StatusDelivered:
			taken += 3
		}
	}
	if stock.OnHand != stockAtFirst-taken {
		rt.Fatalf("on hand: %d, want %d less %d", stock.OnHand, stockAtFirst, taken)
	}
}
