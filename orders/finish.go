package orders

import (
	"context"
	"time"
)

// OutcomeKind is how work on a claimed order ended.
type OutcomeKind uint8

// The kinds of outcomes.
const (
	OutcomeConfirm OutcomeKind = iota // all steps are done
	OutcomeRetry                      // transient: spends an attempt, due again after Delay
	OutcomeFail                       // permanent: dead letter
	OutcomeReturn                     // cut off by a shutdown: nothing is counted, due at once
	OutcomeWait                       // out of stock: spends no attempt, due again after Delay
)

// StepRun is a step's run as the worker records it; Worker, Round and Attempt
// may be left empty, the store fills them in.
type StepRun = Attempt

// Outcome is the end of work on an order that was claimed.
type Outcome struct {
	OrderID string
	Token   int64
	Kind    OutcomeKind
	Delay   time.Duration // OutcomeRetry, OutcomeWait
	Step    Step          // the step that decided
	Class   string        // error class, for Retry, Fail and Wait
	Reason  string
	Payment PaymentState // what the payment step found out; empty: unchanged
	Runs    []StepRun    // steps run since the claim, oldest first
}

// Result is what Finish made of an Outcome.
type Result uint8

// The results.
const (
	ResultApplied    Result = iota
	ResultLost              // token or status are not this process's any more: nothing changed
	ResultCancelled         // a cancel was requested: the order is cancelled now, its payment will be voided
	ResultOutOfStock        // OutcomeConfirm only: nothing changed, SKU says what is missing
	ResultFailed            // OutcomeRetry or OutcomeWait that was the last one: dead letter written
)

// Finished is the answer to one Outcome.
type Finished struct {
	Result Result
	SKU    string // ResultOutOfStock only
}

// Finish applies outcomes, all in one transaction. The result has one element
// per outcome.
func (s *Store) Finish(ctx context.Context, in []Outcome) ([]Finished, error) {
	return nil, errNotBuilt
}
