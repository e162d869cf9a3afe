package workers

import (
	"context"
	"strings"

	"orderd/orders"
)

// simulator is the gateway of an orderd without PAYMENT_URL. It authorises
// everything but what these customers ask for, in any domain:
//
//	refuse@    is refused for good
//	failonce@  fails the first attempt of each round
//	fail@      fails every attempt
//	hang@      never answers
type simulator struct{}

func (simulator) Authorise(ctx context.Context, p Payment) *PaymentError {
	who, _, _ := strings.Cut(p.Customer, "@")
	switch {
	case who == "refuse":
		return &PaymentError{Refused: true, Class: "payment_refused", Reason: "the simulator refuses payments of refuse@"}
	case who == "fail", who == "failonce" && p.Attempts == 0:
		return &PaymentError{Class: "simulated", Reason: "the simulator fails payments of " + who + "@"}
	case who == "hang":
		<-ctx.Done()
		return unreachable(ctx.Err())
	}
	return nil
}

// Enquire knows nothing: the simulator keeps no books.
func (simulator) Enquire(context.Context, Payment) (orders.PaymentState, *PaymentError) {
	return orders.PaymentNone, nil
}

func (simulator) Void(context.Context, string) *PaymentError { return nil }
