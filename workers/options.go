package workers

import "time"

// Options says how orders are worked on.
type Options struct {
	Workers         int           // steps that run at once
	MaxAttempts     int           // failed steps in a round before the dead letter
	StepTimeout     time.Duration // of one step
	Visibility      time.Duration // longest an order may be held without finishing a step; at least StepTimeout
	RetryBase       time.Duration // upper bound of the first delay; doubles with each attempt
	RetryCap        time.Duration // upper bound of all delays, Retry-After included
	PaymentURL      string        // of the gateway; empty: the simulator
	PaymentToken    string        // sent as a bearer token; empty: none
	Backorder       bool          // out of stock waits for stock instead of failing
	BackorderRetry  time.Duration // between two looks at the stock
	ShutdownTimeout time.Duration // of the whole process; steps get a third of it to finish
}
