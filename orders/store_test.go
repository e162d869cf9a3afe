package orders_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"orderd/orders"
)

func TestStore_Accept(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		got := mustAccept(t, s, seedOrder)
		if got.Status != orders.StatusCreated || got.ExpiresAt != got.AcceptedAt.Add(o.Expiration) || got.CreatedAt != 1700000000000 {
			t.Errorf("accepted order: %+v", got)
		}
		stored := mustGet(t, s, "ORD-2001")
		if diff := cmp.Diff([]orders.Change{{Status: orders.StatusCreated, At: got.AcceptedAt, Round: 1}}, stored.History); diff != "" {
			t.Error("history:", diff)
		}

		// The same order again, its createdAt ignored.
		again, err := s.Accept(t.Context(), mustDecode(t, strings.Replace(seedOrder, "1700000000000", "1700000000001", 1)), "")
		if err != nil || !again.Replayed || again.Order.CreatedAt != 1700000000000 {
			t.Errorf("repeat: %+v, %v", again, err)
		}
		_, err = s.Accept(t.Context(), mustDecode(t, strings.Replace(seedOrder, "149.97", "149.98", 1)), "")
		wantKind(t, err, orders.KindConflict)

		lines := mustAccept(t, s, `{"customer":"bob","lines":[{"sku":"a","quantity":2,"price":1.50},{"sku":"b","quantity":1,"price":0}],"language":"pt-BR","currency":"EUR"}`)
		if diff := cmp.Diff(lines.Lines, mustGet(t, s, lines.ID).Lines); diff != "" {
			t.Error("lines:", diff)
		}
		if lines.Items != 3 || lines.Total.String() != "3.00" {
			t.Errorf("sums: %d items, %s", lines.Items, lines.Total)
		}
	})
}

func TestStore_Accept_key(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustDecode(t, `{"customer":"alice","items":1,"total":1}`)
		first, err := s.Accept(t.Context(), order, "k1")
		if err != nil {
			t.Fatal(err)
		}
		mustConfirm(t, s, first.Order)
		second, err := s.Accept(t.Context(), order, "k1")
		if err != nil || !second.Replayed || string(second.Body) != string(first.Body) {
			t.Errorf("replay: %s, %v, want %s", second.Body, err, first.Body)
		}
		order.Items = 2
		_, err = s.Accept(t.Context(), order, "k1")
		wantKind(t, err, orders.KindInvalid)
		list, _, err := s.ListOrders(t.Context(), orders.OrderFilter{})
		if err != nil || len(list) != 1 {
			t.Errorf("got %d orders, %v, want 1", len(list), err)
		}
	})
}

// Many requests at once with few keys: one order per key, whoever was first.
func TestStore_Accept_keyRace(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		o2 := o
		var stores = []*orders.Store{s, mustOpen(t, o2)} // a second process
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				order := mustDecode(t, fmt.Sprintf(`{"customer":"c%d","items":1,"total":1}`, i%4))
				_, err := stores[i%2].Accept(t.Context(), order, fmt.Sprint("key", i%4))
				if err != nil && orders.KindOf(err) != orders.KindConflict {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		list, _, err := s.ListOrders(t.Context(), orders.OrderFilter{})
		if err != nil || len(list) != 4 {
			t.Errorf("got %d orders, %v, want 4", len(list), err)
		}
	})
}

func TestStore_Claim(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		first := mustClaim(t, s, order)
		if first.Verdict != orders.Claimed || first.Order.Status != orders.StatusProcessing || !first.Order.PaymentFresh || first.Order.Payment != orders.PaymentBegun {
			t.Fatalf("first claim: %+v", first)
		}
		if second := mustClaim(t, s, order); second.Verdict != orders.Ignored {
			t.Errorf("second claim: %+v", second)
		}
		run := orders.StepRun{Step: orders.StepPayment, StartedAt: 5, TookMs: 7, Outcome: orders.AttemptDone}
		confirm := orders.Outcome{OrderID: order.ID, Token: first.Token, Kind: orders.OutcomeConfirm, Payment: orders.PaymentAuthorised, Runs: []orders.StepRun{run}}
		if got := mustFinish(t, s, confirm); got.Result != orders.ResultApplied {
			t.Fatalf("finish: %+v", got)
		}
		if got := mustFinish(t, s, confirm); got.Result != orders.ResultLost {
			t.Errorf("finish again: %+v", got)
		}
		got := mustGet(t, s, order.ID)
		if got.Status != orders.StatusConfirmed || got.Payment != orders.PaymentAuthorised || len(got.History) != 3 || len(got.Tries) != 1 {
			t.Errorf("confirmed order: %+v", got)
		}
		if a := got.Tries[0]; a.Round != 1 || a.Attempt != 1 || a.Worker != s.Worker() || a.TookMs != 7 {
			t.Errorf("attempt: %+v", a)
		}
	})
}

func TestStore_Claim_foreign(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		arrival := func(id, body string) orders.Arrival {
			a := orders.Arrival{MessageID: id, Body: []byte(body)}
			a.Order, a.DecodeErr = orders.Decode(a.Body, false)
			return a
		}
		in := []orders.Arrival{
			arrival("1", seedOrder),
			arrival("2", seedOrder),                                   // there twice
			arrival("3", strings.Replace(seedOrder, "alice", "x", 1)), // id taken
			arrival("4", `{"customer":"bob","items":1,"total":2,"unknown":[1]}`),
			arrival("5", "\xff\x00 no JSON"),
		}
		for range 2 { // the second time as redeliveries
			if _, err := s.Claim(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
		list, _, err := s.ListOrders(t.Context(), orders.OrderFilter{Status: orders.StatusProcessing})
		if err != nil || len(list) != 2 {
			t.Fatalf("orders: %+v, %v", list, err)
		}
		letters, _, err := s.DeadLetters(t.Context(), orders.DeadLetterFilter{})
		if err != nil || len(letters) != 2 {
			t.Fatalf("dead letters: %+v, %v", letters, err)
		}
		for _, d := range letters {
			if d.Class == "invalid_message" && string(d.Raw) != "\xff\x00 no JSON" {
				t.Errorf("raw: %q", d.Raw)
			}
			_, err := s.Redrive(t.Context(), d.ID, "test", false)
			wantKind(t, err, orders.KindConflict)
		}
		ours := arrival("6", `{"orderId":"gone","customer":"bob","items":1,"total":2}`)
		ours.Origin = orders.Origin
		claims, err := s.Claim(t.Context(), []orders.Arrival{ours})
		if err != nil || claims[0].Verdict != orders.Ignored {
			t.Errorf("our own unknown order: %+v, %v", claims, err)
		}
	})
}

func TestStore_Finish_retryAndDeadLetter(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		for try := 1; try <= o.MaxAttempts; try++ {
			c := mustClaim(t, s, order)
			if c.Verdict != orders.Claimed {
				t.Fatalf("claim %d: %+v", try, c)
			}
			if try > 1 && c.Order.PaymentFresh {
				t.Error("the key was sent before, yet is called fresh")
			}
			run := orders.StepRun{Step: orders.StepPayment, Outcome: orders.AttemptRetry, ErrorClass: "gateway", Error: "503", StartedAt: orders.Millis(try)}
			got := mustFinish(t, s, orders.Outcome{OrderID: order.ID, Token: c.Token, Kind: orders.OutcomeRetry, Step: orders.StepPayment,
				Class: "gateway", Reason: "503", Runs: []orders.StepRun{run}})
			want := orders.ResultApplied
			if try == o.MaxAttempts {
				want = orders.ResultFailed
			}
			if got.Result != want {
				t.Errorf("try %d: result %d, want %d", try, got.Result, want)
			}
		}
		got := mustGet(t, s, order.ID)
		if got.Status != orders.StatusFailed || len(got.Tries) != o.MaxAttempts || got.Tries[2].Attempt != 3 {
			t.Errorf("failed order: %+v", got)
		}
		letters, _, err := s.DeadLetters(t.Context(), orders.DeadLetterFilter{Status: orders.DeadLetterOpen, Class: "gateway"})
		if err != nil || len(letters) != 1 || letters[0].Order == nil || letters[0].Step != orders.StepPayment {
			t.Fatalf("dead letters: %+v, %v", letters, err)
		}
		again, err := s.Redrive(t.Context(), letters[0].ID, "eve", false)
		if err != nil || again.Status != orders.StatusCreated || again.Round != 2 || again.Attempts != 0 {
			t.Fatalf("redrive: %+v, %v", again, err)
		}
		_, err = s.Redrive(t.Context(), letters[0].ID, "eve", false)
		wantKind(t, err, orders.KindConflict)
		mustConfirm(t, s, order)
		wantStatus(t, s, order.ID, orders.StatusConfirmed)
	})
}

func TestStore_Finish_refusedPaymentGetsNewKey(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		c := mustClaim(t, s, order)
		if got := c.Order.PaymentKey(); got != "ORD-2001/payment" {
			t.Errorf("first key: %s", got)
		}
		mustFinish(t, s, orders.Outcome{OrderID: order.ID, Token: c.Token, Kind: orders.OutcomeFail, Class: "refused", Reason: "no", Payment: orders.PaymentRefused})
		if _, err := s.RedriveOrder(t.Context(), order.ID, "eve", false); err != nil {
			t.Fatal(err)
		}
		c = mustClaim(t, s, order)
		if got := c.Order.PaymentKey(); got != "ORD-2001/payment/2" || !c.Order.PaymentFresh {
			t.Errorf("second key: %s, fresh %v", got, c.Order.PaymentFresh)
		}
		mustFinish(t, s, orders.Outcome{OrderID: order.ID, Token: c.Token, Kind: orders.OutcomeReturn})
	})
}

func TestStore_Finish_stock(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		if _, err := s.SetInventory(t.Context(), orders.DefaultSKU, 5, "test"); err != nil {
			t.Fatal(err)
		}
		a := mustAccept(t, s, `{"orderId":"a","customer":"c","items":3,"total":1}`)
		b := mustAccept(t, s, `{"orderId":"b","customer":"c","items":3,"total":1}`)
		mustConfirm(t, s, a)
		c := mustClaim(t, s, b)
		got := mustFinish(t, s, orders.Outcome{OrderID: "b", Token: c.Token, Kind: orders.OutcomeConfirm, Payment: orders.PaymentAuthorised})
		if got.Result != orders.ResultOutOfStock || got.SKU != orders.DefaultSKU {
			t.Fatalf("confirm without stock: %+v", got)
		}
		if sku, err := s.Stock(t.Context(), &b); err != nil || sku != orders.DefaultSKU {
			t.Errorf("stock: %q, %v", sku, err)
		}
		mustFinish(t, s, orders.Outcome{OrderID: "b", Token: c.Token, Kind: orders.OutcomeWait, Class: "out_of_stock"})
		if _, _, err := s.Cancel(t.Context(), "a", "changed my mind", "eve"); err != nil {
			t.Fatal(err)
		}
		stock, err := s.Inventory(t.Context(), orders.DefaultSKU)
		if err != nil || stock.OnHand != 5 {
			t.Errorf("stock after cancel: %+v, %v", stock, err)
		}
		mustConfirm(t, s, b)
		voids, err := s.DueVoids(t.Context(), 10)
		if err != nil || len(voids) != 1 || voids[0].Key != "a/payment" {
			t.Fatalf("voids: %+v, %v", voids, err)
		}
		if err := s.FinishVoid(t.Context(), voids[0], true, "200", 0); err != nil {
			t.Fatal(err)
		}
		if voids, err = s.DueVoids(t.Context(), 10); err != nil || len(voids) != 0 {
			t.Errorf("voids after: %+v, %v", voids, err)
		}
	})
}

func TestStore_Cancel_ofClaimedOrder(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		c := mustClaim(t, s, order)
		got, pending, err := s.Cancel(t.Context(), order.ID, "no", "eve")
		if err != nil || !pending || !got.CancelRequested || got.Status != orders.StatusProcessing {
			t.Fatalf("cancel: %+v, %v, %v", got, pending, err)
		}
		f := mustFinish(t, s, orders.Outcome{OrderID: order.ID, Token: c.Token, Kind: orders.OutcomeConfirm, Payment: orders.PaymentAuthorised})
		if f.Result != orders.ResultCancelled {
			t.Errorf("finish: %+v", f)
		}
		wantStatus(t, s, order.ID, orders.StatusCancelled)
		voids, err := s.DueVoids(t.Context(), 10)
		if err != nil || len(voids) != 1 {
			t.Errorf("voids: %+v, %v", voids, err)
		}
		_, _, err = s.Cancel(t.Context(), order.ID, "", "eve")
		wantKind(t, err, orders.KindConflict)
	})
}

func TestStore_Ship(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		_, err := s.Ship(t.Context(), order.ID, "", "", "eve")
		wantKind(t, err, orders.KindConflict)
		_, err = s.Ship(t.Context(), "nobody", "", "", "eve")
		wantKind(t, err, orders.KindNotFound)
		mustConfirm(t, s, order)
		_, err = s.Ship(t.Context(), order.ID, "DHL\nX-Evil: 1", "", "eve")
		wantKind(t, err, orders.KindInvalid)
		got, err := s.Ship(t.Context(), order.ID, "DHL", "123", "eve")
		if err != nil || got.Status != orders.StatusShipped || got.Carrier != "DHL" || got.History[3].By != "eve" {
			t.Errorf("shipped: %+v, %v", got, err)
		}
		if got, err = s.Deliver(t.Context(), order.ID, "eve"); err != nil || got.Status != orders.StatusDelivered {
			t.Errorf("delivered: %+v, %v", got, err)
		}
	})
}

func TestStore_NextDispatches(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		ds, err := s.NextDispatches(t.Context(), 10)
		if err != nil || len(ds) != 1 || ds[0].Kind != orders.DispatchOrder || ds[0].Left <= 0 || ds[0].Left > o.Expiration {
			t.Fatalf("dispatches: %+v, %v", ds, err)
		}
		if got, err := orders.Decode(ds[0].Body, true); err != nil || got.Hash() != order.Hash() || got.ID != order.ID {
			t.Errorf("body: %s, %v", ds[0].Body, err)
		}
		s.Unsent(ds)
		if ds, err = s.NextDispatches(t.Context(), 10); err != nil || len(ds) != 1 {
			t.Fatalf("unsent dispatches: %+v, %v", ds, err)
		}
		// A message that arrives before its sending was recorded.
		c := mustClaim(t, s, order)
		mustFinish(t, s, orders.Outcome{OrderID: order.ID, Token: c.Token, Kind: orders.OutcomeRetry, Delay: 30 * time.Millisecond, Class: "x"})
		if err := s.MarkSent(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		if got := mustGet(t, s, order.ID); got.NextAttemptAt == 0 {
			t.Errorf("no retry is due: %+v", got)
		}
		if ds, err = s.NextDispatches(t.Context(), 10); err != nil || len(ds) != 1 || ds[0].Kind != orders.DispatchRetry {
			t.Fatalf("retry: %+v, %v", ds, err)
		}
		if err := s.MarkSent(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if ds, err = s.NextDispatches(ctx, 10); !errors.Is(err, context.DeadlineExceeded) || len(ds) != 0 {
			t.Errorf("nothing is due, got %+v, %v", ds, err)
		}
	})
}

func TestStore_NextDispatches_copyOfDeadLetter(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		ds, err := s.NextDispatches(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.MarkSent(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		c := mustClaim(t, s, order)
		mustFinish(t, s, orders.Outcome{OrderID: order.ID, Token: c.Token, Kind: orders.OutcomeFail, Class: "refused", Reason: "card refused"})
		ds, err = s.NextDispatches(t.Context(), 10)
		if err != nil || len(ds) != 1 || ds[0].Kind != orders.DispatchDeadLetter || ds[0].Reason != "card refused" || ds[0].OrderID != order.ID {
			t.Fatalf("copy: %+v, %v", ds, err)
		}
		// The keeper meets our own copy, and a stranger's messages.
		own := orders.Arrival{MessageID: "c", Body: ds[0].Body, Origin: orders.Origin, Reason: "card refused"}
		own.Order, own.DecodeErr = orders.Decode(own.Body, false)
		stranger := orders.Arrival{MessageID: "s", Body: []byte(`{"orderId":"S","customer":"s","items":1,"total":1}`)}
		stranger.Order, _ = orders.Decode(stranger.Body, false)
		junk := orders.Arrival{MessageID: "j", Body: []byte("junk"), DecodeErr: errors.New("no JSON")}
		for range 2 {
			if err := s.KeepDeadLetter(t.Context(), []orders.Arrival{own, stranger, junk}); err != nil {
				t.Fatal(err)
			}
		}
		letters, _, err := s.DeadLetters(t.Context(), orders.DeadLetterFilter{})
		if err != nil || len(letters) != 3 {
			t.Fatalf("dead letters: %+v, %v", letters, err)
		}
		wantStatus(t, s, "S", orders.StatusFailed)
	})
}

// A dead letter that the broker made of an order with attempts left.
func TestStore_KeepDeadLetter_putsBack(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		ds, err := s.NextDispatches(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.MarkSent(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		if err := s.KeepDeadLetter(t.Context(), []orders.Arrival{{MessageID: "1", Body: ds[0].Body, Order: order, Origin: orders.Origin}}); err != nil {
			t.Fatal(err)
		}
		if ds, err = s.NextDispatches(t.Context(), 1); err != nil || len(ds) != 1 || ds[0].Kind != orders.DispatchRetry {
			t.Errorf("put back: %+v, %v", ds, err)
		}
		wantStatus(t, s, order.ID, orders.StatusCreated)
	})
}

func TestStore_Events(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		other := mustOpen(t, o)
		if held, err := s.HoldEvents(t.Context()); err != nil || !held {
			t.Fatalf("hold: %v, %v", held, err)
		}
		if held, err := other.HoldEvents(t.Context()); err != nil || held {
			t.Fatalf("second holder: %v, %v", held, err)
		}
		for i := range 5 {
			order := mustAccept(t, s, fmt.Sprintf(`{"orderId":"o%d","customer":"c%d","items":1,"total":%d}`, i, i%2, i))
			mustConfirm(t, s, order)
		}
		if got, err := other.NumberEvents(t.Context(), 100); err != nil || len(got) != 0 {
			t.Errorf("numbered without the lease: %+v, %v", got, err)
		}
		var log []orders.Event
		for {
			got, err := s.NumberEvents(t.Context(), 4)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 {
				break
			}
			log = append(log, got...)
		}
		if len(log) != 15 {
			t.Fatalf("got %d events, want 15", len(log))
		}
		seq := make(map[string]int)
		for i, e := range log {
			if e.Number != int64(i+1) {
				t.Errorf("event %d has number %d", i, e.Number)
			}
			if seq[e.OrderID]++; e.Seq != seq[e.OrderID] {
				t.Errorf("event %d of %s has sequence %d, want %d", i, e.OrderID, e.Seq, seq[e.OrderID])
			}
		}
		after, err := other.EventsAfter(t.Context(), 3, 100, orders.EventFilter{Statuses: []orders.Status{orders.StatusConfirmed, orders.StatusCreated}, Customer: "c1"})
		if err != nil || len(after) == 0 {
			t.Fatalf("events after 3: %+v, %v", after, err)
		}
		f := orders.EventFilter{Statuses: []orders.Status{orders.StatusConfirmed, orders.StatusCreated}, Customer: "c1"}
		want := []orders.Event{}
		for _, e := range log[3:] {
			if f.Match(&e) {
				want = append(want, e)
			}
		}
		if diff := cmp.Diff(want, after, cmp.AllowUnexported(orders.Event{})); diff != "" {
			t.Error("events after 3:", diff)
		}
		if err := s.SetPublished(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		if n, err := other.PublishedUpTo(t.Context()); err != nil || n != 7 {
			t.Errorf("published: %d, %v", n, err)
		}
		if err := s.ReleaseEvents(t.Context()); err != nil {
			t.Fatal(err)
		}
		if held, err := other.HoldEvents(t.Context()); err != nil || !held {
			t.Errorf("after release: %v, %v", held, err)
		}
	})
}

// mustLog confirms an order and returns its numbered events.
func mustLog(t *testing.T, s *orders.Store, body string) []orders.Event {
	t.Helper()
	mustConfirm(t, s, mustAccept(t, s, body))
	if _, err := s.HoldEvents(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := s.NumberEvents(t.Context(), 100)
	if err != nil || len(log) != 3 {
		t.Fatalf("log: %+v, %v", log, err)
	}
	return log
}

func TestStore_Handle(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		log := mustLog(t, s, seedOrder)
		none := make([]orders.Effect, 3)
		fresh, err := s.Handle(t.Context(), orders.SubscriberAnalytics, log[1:], none[1:])
		if diff := cmp.Diff([]bool{true, true}, fresh); diff != "" || err != nil {
			t.Error(diff, err)
		}
		left, err := s.Unhandled(t.Context(), orders.SubscriberAnalytics, 0, 10)
		if err != nil || len(left) != 1 || left[0].Number != 1 {
			t.Errorf("unhandled: %+v, %v", left, err)
		}
		fresh, err = s.Handle(t.Context(), orders.SubscriberAnalytics, log, none)
		if diff := cmp.Diff([]bool{true, false, false}, fresh); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if left, err = s.Unhandled(t.Context(), orders.SubscriberAnalytics, 0, 10); err != nil || len(left) != 0 {
			t.Errorf("unhandled: %+v, %v", left, err)
		}
		stats, err := s.Stats(t.Context(), 0, 1<<52, 0)
		if err != nil || len(stats) != 3 {
			t.Fatalf("stats: %+v, %v", stats, err)
		}
		for _, r := range stats {
			if r.Orders != 1 || r.Minor != 14997 || r.Redrives != 0 {
				t.Errorf("stat: %+v", r)
			}
		}
	})
}

func TestStore_ClaimDeliveries(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		log := mustLog(t, s, seedOrder)
		deliver := orders.Effect{Deliver: true, To: "alice@example.com"}
		// The last one is handled first: it has to wait for the others.
		if _, err := s.Handle(t.Context(), "email", log[2:], []orders.Effect{deliver}); err != nil {
			t.Fatal(err)
		}
		if ds, err := s.ClaimDeliveries(t.Context(), "email", 10); err != nil || len(ds) != 0 {
			t.Fatalf("out of order: %+v, %v", ds, err)
		}
		if _, err := s.Handle(t.Context(), "email", log[:2], []orders.Effect{{Skip: "no address"}, deliver}); err != nil {
			t.Fatal(err)
		}
		var sent []int64
		for range 2 {
			ds, err := s.ClaimDeliveries(t.Context(), "email", 10)
			if err != nil || len(ds) != 1 {
				t.Fatalf("deliveries: %+v, %v", ds, err)
			}
			if again, err := s.ClaimDeliveries(t.Context(), "email", 10); err != nil || len(again) != 0 {
				t.Fatalf("claimed twice: %+v, %v", again, err)
			}
			if ds[0].Order.ID != "ORD-2001" || ds[0].To != deliver.To {
				t.Errorf("delivery: %+v", ds[0])
			}
			sent = append(sent, ds[0].Event.Number)
			if err := s.FinishDelivery(t.Context(), ds[0], orders.DeliverySent, "250 OK", 0); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]int64{2, 3}, sent); diff != "" {
			t.Error("order of mails:", diff)
		}
		list, next, err := s.ListDeliveries(t.Context(), orders.DeliveryFilter{Subscriber: "email", Limit: 2})
		if err != nil || len(list) != 2 || list[0].Status != orders.DeliverySent || next == "" {
			t.Fatalf("list: %+v, %q, %v", list, next, err)
		}
		list, next, err = s.ListDeliveries(t.Context(), orders.DeliveryFilter{Subscriber: "email", Limit: 2, Cursor: next})
		if err != nil || len(list) != 1 || list[0].Status != orders.DeliverySkipped || next != "" {
			t.Errorf("second page: %+v, %q, %v", list, next, err)
		}
	})
}

func TestStore_ListOrders(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		for i := range 7 {
			mustAccept(t, s, fmt.Sprintf(`{"orderId":"o%d","customer":"c%d","items":1,"total":1}`, i, i%2))
		}
		var got []string
		f := orders.OrderFilter{Status: orders.StatusCreated, Customer: "c0", Limit: 3}
		for {
			page, next, err := s.ListOrders(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, order := range page {
				got = append(got, order.ID)
			}
			if next == "" {
				break
			}
			f.Cursor = next
		}
		if diff := cmp.Diff([]string{"o6", "o4", "o2", "o0"}, got); diff != "" {
			t.Error(diff)
		}
		for _, cursor := range []string{"!", "AAAA", "MQ"} {
			_, _, err := s.ListOrders(t.Context(), orders.OrderFilter{Cursor: cursor})
			wantKind(t, err, orders.KindInvalid)
		}
	})
}

func TestStore_ExpireDue(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.Expiration = time.Millisecond
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		eventually(t, func() error {
			n, err := s.ExpireDue(t.Context(), 10)
			if err == nil && n != 1 {
				err = errors.New("nothing expired")
			}
			return err
		})
		wantStatus(t, s, order.ID, orders.StatusExpired)
		if c := mustClaim(t, s, order); c.Verdict != orders.Ignored {
			t.Errorf("claim of an expired order: %+v", c)
		}
		if got, err := s.RedriveOrder(t.Context(), order.ID, "eve", false); err != nil || got.Status != orders.StatusCreated {
			t.Errorf("redrive: %+v, %v", got, err)
		}
		eventually(t, func() error {
			if c := mustClaim(t, s, order); c.Verdict != orders.ExpiredNow {
				return fmt.Errorf("claim of an overdue order: %+v", c)
			}
			return nil
		})
	})
}

func TestStore_LostDispatches(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		mustAccept(t, s, seedOrder)
		ds, err := s.NextDispatches(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.MarkSent(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			frontier time.Duration
			want     int
		}{{29 * time.Second, 0}, {31 * time.Second, 1}} {
			if n, err := s.LostDispatches(t.Context(), now.Add(step.frontier), 10); err != nil || n != step.want {
				t.Errorf("frontier %s: got %d, %v, want %d", step.frontier, n, err, step.want)
			}
		}
		if ds, err = s.NextDispatches(t.Context(), 1); err != nil || len(ds) != 1 {
			t.Fatalf("sent again: %+v, %v", ds, err)
		}
		if err := s.MarkSent(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		// Sent twice, it is given double the time.
		if n, err := s.LostDispatches(t.Context(), now.Add(45*time.Second), 10); err != nil || n != 0 {
			t.Errorf("second loss: got %d, %v", n, err)
		}
	})
}

// A process that ended without a word: its successor in the folder goes on at
// once, although the lease still runs.
func TestOpen_afterCrash(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.Lease = time.Hour
		crashed := mustCrash(t, o, func(s *orders.Store) {
			order := mustAccept(t, s, seedOrder)
			mustClaim(t, s, order)
			mustAccept(t, s, `{"orderId":"unsent","customer":"c","items":1,"total":1}`)
		})
		s := mustOpen(t, o)
		if s.Instance() != crashed {
			t.Errorf("instance: got %s, want %s", s.Instance(), crashed)
		}
		kinds := map[string]orders.DispatchKind{}
		for len(kinds) < 2 {
			ds, err := s.NextDispatches(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				kinds[d.OrderID] = d.Kind
			}
		}
		if diff := cmp.Diff(map[string]orders.DispatchKind{"ORD-2001": orders.DispatchRetry, "unsent": orders.DispatchOrder}, kinds); diff != "" {
			t.Error(diff)
		}
		got := mustGet(t, s, "ORD-2001")
		if got.Deaths != 1 || len(got.Tries) != 1 || got.Tries[0].Outcome != orders.AttemptDied || got.Attempts != 0 {
			t.Errorf("after a death: %+v", got)
		}
		c := mustClaim(t, s, got)
		if c.Order.PaymentFresh {
			t.Error("the payment was begun by the dead worker, yet is called fresh")
		}
		mustFinish(t, s, orders.Outcome{OrderID: got.ID, Token: c.Token, Kind: orders.OutcomeReturn})
	})
}

// mustCrash opens a store in a copy of the world that nobody closes: its
// instance file is freed by hand, as the end of a process does.
func mustCrash(t *testing.T, o orders.Options, work func(*orders.Store)) (instance string) {
	t.Helper()
	s, err := orders.Open(t.Context(), o, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	work(s)
	s.Abandon()
	return s.Instance()
}

func TestStore_Run_buriesTheDead(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.Lease = 300 * time.Millisecond
		var id string
		mustCrashElsewhere(t, o, func(s *orders.Store) {
			order := mustAccept(t, s, seedOrder)
			id = order.ID
			mustClaim(t, s, order)
		})
		s := mustOpen(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		eventually(t, func() error {
			if got := mustGet(t, s, id); got.Deaths != 1 {
				return fmt.Errorf("not released: %+v", got)
			}
			return nil
		})
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// mustCrashElsewhere is a crash that no instance file tells of.
func mustCrashElsewhere(t *testing.T, o orders.Options, work func(*orders.Store)) {
	t.Helper()
	mustCrash(t, o, work)
	if err := os.RemoveAll(filepath.Join(o.DataDir, "instances")); err != nil {
		t.Fatal(err)
	}
}

func TestStore_deaths(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.Lease = time.Hour
		mustCrash(t, o, func(s *orders.Store) { mustClaim(t, s, mustAccept(t, s, seedOrder)) })
		// Beside the order that kills the next worker, it is not to blame.
		mustCrash(t, o, func(s *orders.Store) {
			mustClaim(t, s, mustGet(t, s, "ORD-2001"))
		})
		mustCrash(t, o, func(s *orders.Store) {
			got := mustGet(t, s, "ORD-2001")
			if got.Deaths != 1 || got.Status != orders.StatusProcessing {
				t.Errorf("after the death of another's worker: %+v", got)
			}
			c := mustClaim(t, s, got)
			if begun, err := s.Begin(t.Context(), got.ID, c.Token+1); err != nil || begun {
				t.Errorf("begun with another's token: %v, %v", begun, err)
			}
			if begun, err := s.Begin(t.Context(), got.ID, c.Token); err != nil || !begun {
				t.Errorf("not begun: %v, %v", begun, err)
			}
		})
		s := mustOpen(t, o)
		wantStatus(t, s, "ORD-2001", orders.StatusFailed)
		letters, _, err := s.DeadLetters(t.Context(), orders.DeadLetterFilter{})
		if err != nil || len(letters) != 1 || letters[0].Class != "worker_died" {
			t.Errorf("dead letters: %+v, %v", letters, err)
		}
	})
}

func TestStore_unavailable(t *testing.T) {
	s, err := orders.Open(t.Context(), options(t), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Accept(t.Context(), mustDecode(t, seedOrder), "")
	wantKind(t, err, orders.KindUnavailable)
	_, err = s.Get(t.Context(), "x")
	wantKind(t, err, orders.KindUnavailable)
}

func eventually(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-tick.C
	}
}

// Several processes relay, each what it accepted, until its lease has run out.
func TestStore_NextDispatches_twoProcesses(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		first, second := mustOpen(t, o), mustOpen(t, o)
		for i := range 20 {
			s := first
			if i%2 == 1 {
				s = second
			}
			mustAccept(t, s, fmt.Sprintf(`{"orderId":"o%d","customer":"c","items":1,"total":1}`, i))
		}
		seen := make(map[string]int)
		for _, s := range []*orders.Store{first, second} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			for {
				ds, err := s.NextDispatches(ctx, 7)
				if err != nil {
					break
				}
				for _, d := range ds {
					seen[d.OrderID]++
				}
			}
			cancel()
		}
		for i := range 20 {
			if n := seen[fmt.Sprintf("o%d", i)]; n != 1 {
				t.Errorf("order o%d was handed out %d times", i, n)
			}
		}
	})
}
