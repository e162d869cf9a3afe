package orders_test

import (
	"context"
	"testing"
	"time"

	"orderd/orders"
)

// A process that was taken for dead, and does not know yet, claims an order.
// Nobody has its lease to wait for: the order is found and put back.
func TestStore_ReleaseOrphans(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.Lease, o.MaxDeaths = 300*time.Millisecond, 5
		s, other := mustOpen(t, o), mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		mustClaim(t, s, order)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for mustGet(t, other, order.ID).NextAttemptAt == 0 { // until other has released it
			if err := other.LookAfter(ctx); err != nil {
				t.Fatal(err)
			}
		}
		c := mustClaim(t, s, order)
		if c.Verdict != orders.Claimed {
			t.Fatalf("claim: %+v", c)
		}
		n := 0
		for n == 0 {
			if err := other.LookAfter(ctx); err != nil {
				t.Fatal(err)
			}
			var err error
			if n, err = other.ReleaseOrphans(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if n != 1 {
			t.Errorf("%d orders were put back", n)
		}
		got := mustFinish(t, s, orders.Outcome{OrderID: order.ID, Token: c.Token, Kind: orders.OutcomeConfirm, Payment: orders.PaymentAuthorised})
		if got.Result != orders.ResultLost {
			t.Errorf("the orphan's worker: result %d", got.Result)
		}
		mustConfirm(t, other, order)
		g, err := other.Gauges(ctx)
		if err != nil || g.PutBack != 1 {
			t.Errorf("gauges: %+v, %v", g, err)
		}
	})
}

func TestStore_LostDispatches_counted(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		mustAccept(t, s, seedOrder)
		waits := mustAccept(t, s, `{"orderId":"waits","customer":"c","items":1,"total":1}`)
		leased := mustAccept(t, s, `{"orderId":"leased","customer":"c","items":1,"total":1}`)
		done := mustAccept(t, s, `{"orderId":"done","customer":"c","items":1,"total":1}`)
		ds, err := s.NextDispatches(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.MarkSent(t.Context(), ds); err != nil {
			t.Fatal(err)
		}
		mustAccept(t, s, `{"orderId":"unsent","customer":"c","items":1,"total":1}`)
		c := mustClaim(t, s, waits)
		mustFinish(t, s, orders.Outcome{OrderID: waits.ID, Token: c.Token, Kind: orders.OutcomeRetry, Delay: time.Hour, Class: "gateway"})
		c = mustClaim(t, s, leased)
		mustConfirm(t, s, done)
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// Of five orders one is neither queued, leased, waiting nor done.
		if n, err := s.LostDispatches(t.Context(), now.Add(time.Hour), 10); err != nil || n != 1 {
			t.Errorf("put back: %d, %v", n, err)
		}
		if g, err := s.Gauges(t.Context()); err != nil || g.PutBack != 1 {
			t.Errorf("gauges: %+v, %v", g, err)
		}
		mustFinish(t, s, orders.Outcome{OrderID: leased.ID, Token: c.Token, Kind: orders.OutcomeReturn})
	})
}
