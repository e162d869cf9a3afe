package orders

import (
	"context"
	"time"
)

// The statuses of a delivery. DeliveryNone is a handled event that leads to none.
const (
	DeliveryNone    = "none"
	DeliveryPending = "pending"
	DeliverySending = "sending"
	DeliverySent    = "sent"
	DeliverySkipped = "skipped"
	DeliveryFailed  = "failed"
	DeliveryUnknown = "unknown"
)

// Delivery is a mail or push that an event leads to.
type Delivery struct {
	ID         string
	Subscriber string
	OrderID    string
	Status     string
	To         string
	LastAnswer string // what the other side said last, or why it was skipped
	Event      Event
	Order      Order // as it is now; filled by ClaimDeliveries only
	Tries      int
	CreatedAt  Millis
	DueAt      Millis
	DoneAt     Millis

	token int64
}

// DeliveryFilter selects deliveries. The zero value of a field selects all.
type DeliveryFilter struct {
	Subscriber, Status, OrderID string
	Cursor                      string
	Limit                       int // 1 to 500; 0 means 50
}

// ClaimDeliveries returns up to max due deliveries, leased to this process.
func (s *Store) ClaimDeliveries(ctx context.Context, subscriber string, max int) ([]Delivery, error) {
	return nil, errNotBuilt
}

// FinishDelivery records how a delivery went: sent, failed, skipped, unknown, or
// pending again after delay.
func (s *Store) FinishDelivery(ctx context.Context, d Delivery, status, answer string, delay time.Duration) error {
	return errNotBuilt
}

// ListDeliveries returns deliveries, the newest first, and the cursor of the next page.
func (s *Store) ListDeliveries(ctx context.Context, f DeliveryFilter) ([]Delivery, string, error) {
	return nil, "", errNotBuilt
}
