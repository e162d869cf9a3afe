package workers

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"orderd/orders"
)

// scripted is a gateway that does what the test says.
type scripted struct {
	authorise func(ctx context.Context, p Payment) *PaymentError
	state     orders.PaymentState
	enquiries int
}

func (g *scripted) Authorise(ctx context.Context, p Payment) *PaymentError {
	return g.authorise(ctx, p)
}

func (g *scripted) Enquire(context.Context, Payment) (orders.PaymentState, *PaymentError) {
	g.enquiries++
	return g.state, nil
}

func (g *scripted) Void(context.Context, string) *PaymentError { return nil }

func newSteps(t *testing.T, g Gateway) *steps {
	t.Helper()
	store, err := orders.Open(t.Context(), orders.Options{DataDir: t.TempDir(), Lease: time.Minute, Expiration: time.Minute, MaxAttempts: 3,
		MaxDeaths: 3, IdempotencyTTL: time.Hour, EventRetention: time.Hour, BackorderMax: time.Hour}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &steps{options: &Options{StepTimeout: time.Minute, RetryBase: time.Second, RetryCap: time.Minute}, store: store, gateway: g,
		logger: func(any, []byte, string) {}}
}

func claimOf(payment orders.PaymentState, fresh bool) orders.Claim {
	return orders.Claim{Token: 7, Order: orders.Order{ID: "o", Items: 1, Total: orders.Money{Minor: 1, Currency: "USD"}, Payment: payment, PaymentN: 1, PaymentFresh: fresh}}
}

func TestSteps_payment(t *testing.T) {
	yes := func(context.Context, Payment) *PaymentError { return nil }
	never := func(context.Context, Payment) *PaymentError { panic("must not be asked") }
	for _, test := range []struct {
		name      string
		claim     orders.Claim
		gateway   scripted
		want      orders.OutcomeKind
		payment   orders.PaymentState
		enquiries int
	}{
		{"first time", claimOf(orders.PaymentBegun, true), scripted{authorise: yes}, orders.OutcomeConfirm, orders.PaymentAuthorised, 0},
		{"authorised before", claimOf(orders.PaymentAuthorised, false), scripted{authorise: never}, orders.OutcomeConfirm, "", 0},
		{"unknown, was authorised", claimOf(orders.PaymentBegun, false), scripted{authorise: never, state: orders.PaymentAuthorised}, orders.OutcomeConfirm, orders.PaymentAuthorised, 1},
		{"unknown, was refused", claimOf(orders.PaymentBegun, false), scripted{authorise: never, state: orders.PaymentRefused}, orders.OutcomeFail, orders.PaymentRefused, 1},
		{"unknown, was voided", claimOf(orders.PaymentBegun, false), scripted{authorise: never, state: orders.PaymentVoided}, orders.OutcomeRetry, orders.PaymentVoided, 1},
		{"unknown to the gateway", claimOf(orders.PaymentBegun, false), scripted{authorise: yes, state: orders.PaymentNone}, orders.OutcomeConfirm, orders.PaymentAuthorised, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := test.gateway
			out := newSteps(t, &g).work(t.Context(), test.claim)
			if out.Kind != test.want || out.Payment != test.payment || g.enquiries != test.enquiries || out.Token != 7 {
				t.Errorf("got %+v after %d enquiries", out, g.enquiries)
			}
		})
	}
}

func TestSteps_work_panics(t *testing.T) {
	g := &scripted{authorise: func(context.Context, Payment) *PaymentError { panic("boom") }}
	out := newSteps(t, g).work(t.Context(), claimOf(orders.PaymentBegun, true))
	if out.Kind != orders.OutcomeRetry || out.Class != "panic" || len(out.Runs) != 1 || out.Runs[0].Outcome != orders.AttemptRetry {
		t.Errorf("got %+v", out)
	}
}

// What a shutdown cuts off is returned and not counted.
func TestSteps_work_cutOff(t *testing.T) {
	ctx, cut := context.WithCancelCause(t.Context())
	g := &scripted{authorise: func(ctx context.Context, _ Payment) *PaymentError {
		cut(errStopping)
		<-ctx.Done()
		return unreachable(ctx.Err())
	}}
	out := newSteps(t, g).work(ctx, claimOf(orders.PaymentBegun, true))
	if out.Kind != orders.OutcomeReturn || len(out.Runs) != 0 {
		t.Errorf("got %+v", out)
	}
}

func TestSteps_work_deadline(t *testing.T) {
	g := &scripted{authorise: func(ctx context.Context, _ Payment) *PaymentError { <-ctx.Done(); return unreachable(ctx.Err()) }}
	s := newSteps(t, g)
	s.options.StepTimeout = 10 * time.Millisecond
	out := s.work(t.Context(), claimOf(orders.PaymentBegun, true))
	if out.Kind != orders.OutcomeRetry || out.Class != "gateway_timeout" {
		t.Errorf("got %+v", out)
	}
}

func TestSteps_work_outOfStock(t *testing.T) {
	g := &scripted{authorise: func(context.Context, Payment) *PaymentError { return nil }}
	s := newSteps(t, g)
	if _, err := s.store.SetInventory(t.Context(), orders.DefaultSKU, 0, "test"); err != nil {
		t.Fatal(err)
	}
	out := s.work(t.Context(), claimOf(orders.PaymentBegun, true))
	if out.Kind != orders.OutcomeFail || out.Class != "out_of_stock" || out.Payment != orders.PaymentAuthorised {
		t.Errorf("without backorder: %+v", out)
	}
	s.options.Backorder, s.options.BackorderRetry = true, time.Second
	if out = s.work(t.Context(), claimOf(orders.PaymentBegun, true)); out.Kind != orders.OutcomeWait || out.Delay != time.Second {
		t.Errorf("with backorder: %+v", out)
	}
}

func TestOptions_backoff(t *testing.T) {
	o := Options{RetryBase: time.Second, RetryCap: 10 * time.Second}
	for _, test := range []struct {
		failed          int
		asked           time.Duration
		least, most     time.Duration
		wantsSomeSpread bool
	}{
		{1, 0, 0, time.Second, true},
		{3, 0, 0, 4 * time.Second, true},
		{5, 0, 0, 10 * time.Second, true},
		{1000, 0, 0, 10 * time.Second, true},
		{1, 7 * time.Second, 7 * time.Second, 7 * time.Second, false},
		{1, time.Hour, 10 * time.Second, 10 * time.Second, false},
	} {
		seen := make(map[time.Duration]bool)
		for range 200 {
			d := o.backoff(test.failed, test.asked)
			if d < test.least || d > test.most {
				t.Fatalf("backoff(%d, %s) = %s, want %s to %s", test.failed, test.asked, d, test.least, test.most)
			}
			seen[d] = true
		}
		if test.wantsSomeSpread && len(seen) < 100 {
			t.Errorf("backoff(%d): only %d different delays of 200", test.failed, len(seen))
		}
	}
}

// A step that ignores its context does not hold its worker for ever.
func TestSteps_work_abandoned(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	g := &scripted{authorise: func(context.Context, Payment) *PaymentError { <-hold; return nil }}
	s := newSteps(t, g)
	s.options.StepTimeout = 10 * time.Millisecond
	out := s.work(t.Context(), claimOf(orders.PaymentBegun, true))
	if out.Kind != orders.OutcomeRetry || out.Class != "step_abandoned" || out.Payment != "" {
		t.Errorf("got %+v", out)
	}
	if n := s.abandoned.Load(); n != 1 {
		t.Errorf("%d steps are abandoned, want 1", n)
	}
	close(hold)
	deadline := time.After(10 * time.Second)
	for s.abandoned.Load() != 0 {
		select {
		case <-deadline:
			t.Fatal("the step has ended and is still counted")
		case <-time.After(time.Millisecond):
		}
	}
}
