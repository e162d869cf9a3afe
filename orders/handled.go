package orders

import (
	"context"
	"time"
)

// SubscriberAnalytics is the subscriber whose handled events are added to the stats.
const SubscriberAnalytics = "analytics"

// Effect is what handling an event leads to; the zero value is nothing.
type Effect struct {
	Deliver bool   // a delivery to make
	Sent    bool   // a delivery that was already made
	To      string // address of the delivery
	Skip    string // why no delivery is made, if one was to be expected
}

// Handle records that subscriber handled events, with their effects. fresh has
// one element per event: false means that it had been handled before and
// nothing changed.
func (s *Store) Handle(ctx context.Context, subscriber string, events []Event, effects []Effect) (fresh []bool, err error) {
	return nil, errNotBuilt
}

// Unhandled returns up to limit events that were numbered longer than quiet ago
// and that subscriber has not handled.
func (s *Store) Unhandled(ctx context.Context, subscriber string, quiet time.Duration, limit int) ([]Event, error) {
	return nil, errNotBuilt
}
