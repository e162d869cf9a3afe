package orders_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orderd/orders"
)

// mustPurge purges until done says so: a retention of a millisecond has to
// pass first, and marks are deleted in the second turn.
func mustPurge(t *testing.T, s *orders.Store, done func() error) {
	t.Helper()
	eventually(t, func() error {
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		return done()
	})
}

// mustPass waits until the store's time has moved on by d.
func mustPass(t *testing.T, s *orders.Store, d time.Duration) {
	t.Helper()
	begin, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		now, err := s.Now(t.Context())
		if err == nil && now < begin.Add(d) {
			err = errors.New("time stands still")
		}
		return err
	})
}

// marks returns what is known of the events that subscriber handled: mails,
// and those that led to none.
func marks(t *testing.T, s *orders.Store, subscriber string) []orders.Delivery {
	t.Helper()
	var out []orders.Delivery
	for _, status := range []string{"", orders.DeliveryNone} {
		list, _, err := s.ListDeliveries(t.Context(), orders.DeliveryFilter{Subscriber: subscriber, Status: status})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, list...)
	}
	return out
}

func TestStore_Purge_marks(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.EventRetention = time.Millisecond
		s := mustOpen(t, o)
		log := mustLog(t, s, seedOrder)
		deliver := orders.Effect{Deliver: true, To: "alice@example.com"}
		effects := []orders.Effect{{}, {}, deliver}
		handle := func(events []orders.Event, effects []orders.Effect, want bool) {
			t.Helper()
			fresh, err := s.Handle(t.Context(), "email", events, effects)
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range fresh {
				if f != want {
					t.Errorf("event %d: fresh is %v", events[i].Number, f)
				}
			}
		}
		mails := func() []orders.Delivery { return marks(t, s, "email") }
		handle(log, effects, true)
		if n := len(mails()); n != len(log) {
			t.Fatalf("%d marks", n)
		}
		if left, err := s.Unhandled(t.Context(), "email", 0, 10); err != nil || len(left) != 0 {
			t.Fatalf("unhandled: %+v, %v", left, err)
		}
		// The mail is not sent yet: its mark stays, the others go.
		mustPurge(t, s, func() error {
			if n := len(mails()); n != 1 {
				return fmt.Errorf("%d marks are left, want that of the mail", n)
			}
			return nil
		})
		ds, err := s.ClaimDeliveries(t.Context(), "email", 10)
		if err != nil || len(ds) != 1 {
			t.Fatalf("deliveries: %+v, %v", ds, err)
		}
		if err := s.Purge(t.Context()); err != nil || len(mails()) != 1 {
			t.Fatalf("while it is sent: %+v, %v", mails(), err)
		}
		if err := s.FinishDelivery(t.Context(), ds[0], orders.DeliverySent, "250 OK", 0); err != nil {
			t.Fatal(err)
		}
		mustPurge(t, s, func() error {
			if n := len(mails()); n != 0 {
				return fmt.Errorf("%d marks are left", n)
			}
			return nil
		})
		// What was handled stays handled, here and in a process that begins now.
		handle(log, effects, false)
		if n := len(mails()); n != 0 {
			t.Errorf("%d marks came back", n)
		}
		other := mustOpen(t, o)
		if left, err := other.Unhandled(t.Context(), "email", 0, 10); err != nil || len(left) != 0 {
			t.Errorf("unhandled: %+v, %v", left, err)
		}
		// The order is still there with its history, and what comes is delivered.
		if got := mustGet(t, s, "ORD-2001"); len(got.History) != len(log) {
			t.Errorf("history: %+v", got.History)
		}
		if _, err := s.Ship(t.Context(), "ORD-2001", "ups", "1", "eve"); err != nil {
			t.Fatal(err)
		}
		more, err := s.NumberEvents(t.Context(), 10)
		if err != nil || len(more) != 1 {
			t.Fatalf("events: %+v, %v", more, err)
		}
		handle(more, []orders.Effect{deliver}, true)
		if ds, err = s.ClaimDeliveries(t.Context(), "email", 10); err != nil || len(ds) != 1 {
			t.Errorf("the mail of the next event: %+v, %v", ds, err)
		}
	})
}

// The counts of what was handled long ago do not grow when it comes again.
func TestStore_Purge_stats(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.EventRetention = time.Millisecond
		s := mustOpen(t, o)
		log := mustLog(t, s, seedOrder)
		stats := func() []orders.StatRow {
			t.Helper()
			now, err := s.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rows, err := s.Stats(t.Context(), now.Add(-time.Hour), now.Add(time.Hour), 0)
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		none := make([]orders.Effect, len(log))
		if _, err := s.Handle(t.Context(), orders.SubscriberAnalytics, log, none); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Unhandled(t.Context(), orders.SubscriberAnalytics, 0, 10); err != nil {
			t.Fatal(err)
		}
		want := stats()
		mustPurge(t, s, func() error {
			if n := len(marks(t, s, orders.SubscriberAnalytics)); n != 0 {
				return fmt.Errorf("%d marks are left", n)
			}
			return nil
		})
		if _, err := s.Handle(t.Context(), orders.SubscriberAnalytics, log, none); err != nil {
			t.Fatal(err)
		}
		if len(want) == 0 || len(want) != len(stats()) {
			t.Fatalf("stats: %+v, before %+v", stats(), want)
		}
		for i, r := range stats() {
			if r.Orders != want[i].Orders || r.Minor != want[i].Minor {
				t.Errorf("stat: %+v, before %+v", r, want[i])
			}
		}
	})
}

func TestStore_Purge_keys(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.IdempotencyTTL = time.Millisecond
		s := mustOpen(t, o)
		first := mustDecode(t, `{"customer":"c","items":1,"total":1}`)
		if _, err := s.Accept(t.Context(), first, "k"); err != nil {
			t.Fatal(err)
		}
		_, err := s.Accept(t.Context(), mustDecode(t, `{"customer":"c","items":1,"total":2}`), "k")
		wantKind(t, err, orders.KindInvalid)
		mustPurge(t, s, func() error {
			_, err := s.Accept(t.Context(), mustDecode(t, `{"customer":"c","items":1,"total":2}`), "k")
			return err
		})
	})
}

// left says which of the orders are still there.
func left(t *testing.T, s *orders.Store, ids ...string) []string {
	t.Helper()
	var out []string
	for _, id := range ids {
		switch _, err := s.Get(t.Context(), id); {
		case err == nil:
			out = append(out, id)
		case orders.KindOf(err) != orders.KindNotFound:
			t.Fatal(err)
		}
	}
	return out
}

func TestStore_Purge_orders(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.EventRetention, o.OrderRetention = time.Millisecond, time.Millisecond
		s := mustOpen(t, o)
		ids := []string{"open", "discarded", "delivered", "confirmed", "cancelled", "created", "redriven"}
		all := make(map[string]orders.Order)
		for _, id := range ids {
			all[id] = mustAccept(t, s, `{"orderId":"`+id+`","customer":"c","items":1,"total":1}`)
		}
		for _, id := range []string{"open", "discarded", "redriven"} {
			mustKill(t, s, all[id], "refused")
		}
		for _, d := range mustLetters(t, s, orders.DeadLetterFilter{}) {
			var err error
			switch d.OrderID {
			case "discarded":
				_, err = s.Discard(t.Context(), d.ID, "a test", "eve")
			case "redriven":
				_, err = s.Redrive(t.Context(), d.ID, "eve", false)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		mustConfirm(t, s, all["delivered"])
		mustConfirm(t, s, all["confirmed"])
		_, err := s.Ship(t.Context(), "delivered", "", "", "eve")
		if err == nil {
			_, err = s.Deliver(t.Context(), "delivered", "eve")
		}
		if err == nil {
			_, _, err = s.Cancel(t.Context(), "cancelled", "", "eve")
		}
		// Messages that did not become orders: one open, one discarded.
		if err == nil {
			err = s.KeepDeadLetter(t.Context(), []orders.Arrival{
				{MessageID: "1", Body: []byte("open"), DecodeErr: context.Canceled}, {MessageID: "2", Body: []byte("discarded"), DecodeErr: context.Canceled}})
		}
		if err != nil {
			t.Fatal(err)
		}
		raw := mustLetters(t, s, orders.DeadLetterFilter{Class: "invalid_message"})
		for _, d := range raw {
			if string(d.Raw) == "discarded" {
				if _, err := s.Discard(t.Context(), d.ID, "noise", "eve"); err != nil {
					t.Fatal(err)
				}
			}
		}
		// Nothing goes as long as its events have no numbers.
		mustPass(t, s, 2*time.Millisecond)
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ids, left(t, s, ids...)); diff != "" {
			t.Errorf("before the events have numbers (-want +got):\n%s", diff)
		}
		if held, err := s.HoldEvents(t.Context()); err != nil || !held {
			t.Fatalf("hold the log: %v, %v", held, err)
		}
		if _, err := s.NumberEvents(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		want := []string{"open", "confirmed", "created", "redriven"}
		mustPurge(t, s, func() error {
			if diff := cmp.Diff(want, left(t, s, ids...)); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		events, err := s.EventsAfter(t.Context(), 0, 1000, orders.EventFilter{OrderID: "delivered"})
		if err != nil || len(events) != 0 {
			t.Errorf("events of a deleted order: %+v, %v", events, err)
		}
		letters := mustLetters(t, s, orders.DeadLetterFilter{Status: orders.DeadLetterOpen})
		if len(letters) != 2 {
			t.Errorf("open dead letters: %+v", letters)
		}
		if letters = mustLetters(t, s, orders.DeadLetterFilter{Class: "invalid_message"}); len(letters) != 1 || string(letters[0].Raw) != "open" {
			t.Errorf("messages that are no orders: %+v", letters)
		}
		if got := mustGet(t, s, "redriven"); len(got.Tries) != 1 || len(got.History) != 4 {
			t.Errorf("the redriven order: %+v", got)
		}
		if b, err := s.Books(t.Context()); err != nil || !b.Balanced || b.Accepted != 4 {
			t.Errorf("books: %+v, %v", b, err)
		}
	})
}

// More than one transaction takes at once.
func TestStore_Purge_many(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.EventRetention, o.OrderRetention = time.Millisecond, time.Millisecond
		s := mustOpen(t, o)
		bodies := make([]string, 450)
		for i := range bodies {
			bodies[i] = fmt.Sprintf(`{"orderId":"o-%d","customer":"c","items":1,"total":1}`, i)
		}
		if err := s.AcceptBatch(t.Context(), batchOf(bodies...), ""); err != nil {
			t.Fatal(err)
		}
		for i := range bodies {
			if _, _, err := s.Cancel(t.Context(), fmt.Sprintf("o-%d", i), "", "eve"); err != nil {
				t.Fatal(err)
			}
		}
		if held, err := s.HoldEvents(t.Context()); err != nil || !held {
			t.Fatalf("hold the log: %v, %v", held, err)
		}
		if _, err := s.NumberEvents(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
		mustPurge(t, s, func() error {
			if b, err := s.Books(t.Context()); err != nil || b.Accepted != 0 || b.Cancelled != 0 {
				return fmt.Errorf("books: %+v, %w", b, err)
			}
			return nil
		})
	})
}
