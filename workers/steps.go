package workers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"orderd/orders"
)

// errStopping is the cause of a step's end when the process is to stop.
var errStopping = errors.New("the process is stopping")

// steps runs what is left to do for a claimed order and returns the outcome to
// be committed. It knows no queue.
type steps struct {
	options *Options
	store   *orders.Store
	gateway Gateway
	logger  func(err any, stack []byte, order string) // of panics

	abandoned atomic.Int64 // steps that go on although they were given up
}

// step is one of the things done for an order.
type step struct {
	name orders.Step
	run  func(*steps, context.Context, *orders.Order) result
}

var sequence = []step{
	{orders.StepPayment, (*steps).payment},
	{orders.StepInventory, (*steps).inventory},
}

// work runs the steps in order until one does not end in done. Confirming, the
// last one, is the commit of the outcome itself.
func (s *steps) work(ctx context.Context, c orders.Claim) orders.Outcome {
	out := orders.Outcome{OrderID: c.Order.ID, Token: c.Token, Kind: orders.OutcomeConfirm}
	order := c.Order
	for _, st := range sequence {
		started := time.Now()
		res := s.one(ctx, st, &order)
		if res.payment != "" {
			out.Payment = res.payment
			order.Payment = res.payment
		}
		if res.verdict != done && context.Cause(ctx) == errStopping {
			return orders.Outcome{OrderID: out.OrderID, Token: out.Token, Kind: orders.OutcomeReturn, Payment: out.Payment}
		}
		out.Runs = append(out.Runs, orders.StepRun{Step: st.name, StartedAt: orders.MillisOf(started), TookMs: time.Since(started).Milliseconds(),
			Outcome: attemptOutcome[res.verdict], ErrorClass: res.class, Error: res.reason})
		if res.verdict != done {
			s.conclude(&out, &order, st.name, res)
			return out
		}
	}
	return out
}

// abandonAfter is how long a step may go on after its context has ended.
const abandonAfter = 2 * time.Second

// one runs one step with its deadline. A step that ignores its context is
// abandoned: it goes on by itself, counted, and its worker does other work.
func (s *steps) one(ctx context.Context, st step, order *orders.Order) result {
	ctx, cancel := context.WithTimeout(ctx, s.options.StepTimeout)
	ended := make(chan result, 1)
	own := *order // the step may outlive its order's work
	go func() {
		defer cancel()
		ended <- s.safely(ctx, st, &own)
	}()
	select {
	case res := <-ended:
		return res
	case <-ctx.Done():
	}
	t := time.NewTimer(abandonAfter)
	defer t.Stop()
	select {
	case res := <-ended:
		return res
	case <-t.C:
	}
	s.abandoned.Add(1)
	go func() { <-ended; s.abandoned.Add(-1) }()
	return retryLater("step_abandoned", "the step ignores its deadline and was abandoned", 0)
}

// safely runs a step. A panic is a failure of that order's step and not of the
// process.
func (s *steps) safely(ctx context.Context, st step, order *orders.Order) (res result) {
	defer func() {
		if p := recover(); p != nil {
			s.logger(p, debug.Stack(), order.ID)
			res = retryLater("panic", fmt.Sprint("the step panicked: ", p), 0)
		}
	}()
	return st.run(s, ctx, order)
}

// conclude turns the result of the step that ended the work into its outcome.
func (s *steps) conclude(out *orders.Outcome, order *orders.Order, name orders.Step, res result) {
	out.Step, out.Class, out.Reason = name, res.class, res.reason
	switch res.verdict {
	case retry:
		out.Kind = orders.OutcomeRetry
		out.Delay = s.options.backoff(order.Attempts+1, res.after)
	case reject:
		out.Kind = orders.OutcomeFail
	case wait:
		out.Kind = orders.OutcomeWait
		out.Delay = s.options.BackorderRetry
	}
}

// outOfStock is the outcome of an order whose stock was gone when it was to be
// confirmed: its inventory step ended otherwise than it had seemed.
func (s *steps) outOfStock(was orders.Outcome, order *orders.Order, sku string) orders.Outcome {
	res := s.missing(sku)
	was.Runs = append(was.Runs, orders.StepRun{Step: orders.StepConfirm, StartedAt: orders.MillisOf(time.Now()),
		Outcome: attemptOutcome[res.verdict], ErrorClass: res.class, Error: res.reason})
	s.conclude(&was, order, orders.StepConfirm, res)
	return was
}

func (s *steps) missing(sku string) result {
	res := rejected("out_of_stock", "not enough on hand of sku "+sku)
	if s.options.Backorder {
		res.verdict = wait
	}
	return res
}

// inventory looks whether there is enough on hand, so that nobody waits for a
// confirmation that cannot come. Confirming takes it.
func (s *steps) inventory(ctx context.Context, order *orders.Order) result {
	sku, err := s.store.Stock(ctx, order)
	switch {
	case err != nil:
		return retryLater("store", "the stock could not be looked up: "+err.Error(), 0)
	case sku != "":
		return s.missing(sku)
	}
	return result{}
}

// payment asks the gateway to authorise the amount, once per key: after an
// unknown outcome it enquires before it asks again with the same key.
func (s *steps) payment(ctx context.Context, order *orders.Order) result {
	if order.Payment == orders.PaymentAuthorised {
		return result{}
	}
	p := Payment{Key: order.PaymentKey(), OrderID: order.ID, Customer: order.Customer, Amount: order.Total, Attempts: order.Attempts}
	if !order.PaymentFresh {
		switch state, err := s.gateway.Enquire(ctx, p); {
		case err != nil:
			return err.result()
		case state == orders.PaymentAuthorised:
			return result{payment: state}
		case state == orders.PaymentRefused:
			res := rejected("payment_refused", "the payment was refused")
			res.payment = state
			return res
		case state == orders.PaymentVoided:
			// The next attempt uses a new key.
			res := retryLater("payment_voided", "the payment had been voided", 0)
			res.payment = state
			return res
		}
	}
	if err := s.gateway.Authorise(ctx, p); err != nil {
		return err.result()
	}
	return result{payment: orders.PaymentAuthorised}
}
