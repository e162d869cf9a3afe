package orders

import "context"

// The statuses of a dead letter.
const (
	DeadLetterOpen      = "open"
	DeadLetterRedriven  = "redriven"
	DeadLetterDiscarded = "discarded"
)

// DeadLetter is an order, or a message that is none, that needs a person.
type DeadLetter struct {
	ID       string // sortable
	OrderID  string // may be empty: the message named none
	Status   string // DeadLetterOpen, …
	Reason   string
	Class    string // error class
	Step     Step   // empty if no step was under way
	Round    int    // 0 for a message that did not become an order
	FailedAt Millis
	Redrives int
	Order    *Order // nil if there is no order
	Raw      []byte // the message byte for byte, if it did not become an order
	Customer string
}

// DeadLetterFilter selects dead letters. The zero value of a field selects all.
type DeadLetterFilter struct {
	Status, Class, Customer, Reason string
	Before, After                   Millis // FailedAt < Before, >= After
	Cursor                          string
	Limit                           int // 1 to 500; 0 means 50
}

// DeadLetters returns dead letters, the newest first, and the cursor of the next page.
func (s *Store) DeadLetters(ctx context.Context, f DeadLetterFilter) ([]DeadLetter, string, error) {
	return nil, "", errNotBuilt
}

// DeadLetter returns one dead letter, its order with attempts.
func (s *Store) DeadLetter(ctx context.Context, id string) (DeadLetter, error) {
	return DeadLetter{}, errNotBuilt
}

// Redrive starts a new round for the order of an open dead letter.
func (s *Store) Redrive(ctx context.Context, id, by string) (Order, error) {
	return Order{}, errNotBuilt
}

// RedriveOrder starts a new round for a failed or expired order.
func (s *Store) RedriveOrder(ctx context.Context, orderID, by string) (Order, error) {
	return Order{}, errNotBuilt
}

// Discard closes an open dead letter.
func (s *Store) Discard(ctx context.Context, id, reason, by string) (DeadLetter, error) {
	return DeadLetter{}, errNotBuilt
}

// KeepDeadLetter takes in messages from DLQ_CHANNEL; they may be acked after nil.
func (s *Store) KeepDeadLetter(ctx context.Context, in []Arrival) error { return errNotBuilt }
