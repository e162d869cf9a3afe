package orders

import "context"

// DispatchKind says where a Dispatch goes.
type DispatchKind uint8

// The kinds of dispatches.
const (
	DispatchOrder      DispatchKind = iota // ORDERS_CHANNEL
	DispatchRetry                          // RETRY_CHANNEL
	DispatchDeadLetter                     // DLQ_CHANNEL
)

// Dispatch is something that has to be put on a queue.
type Dispatch struct {
	Kind      DispatchKind
	OrderID   string
	Customer  string
	Round     int
	Body      []byte
	ExpiresAt Millis // of the order; 0 for dead letters
	Reason    string // dead letters only

	seq    int64 // orders.seq, or outbox.id for dead letters
	resend int   // which sending of this row it is
}

// NextDispatches blocks until something is due or ctx ends.
func (s *Store) NextDispatches(ctx context.Context, max int) ([]Dispatch, error) {
	return nil, errNotBuilt
}

// MarkSent records that the broker has taken ds.
func (s *Store) MarkSent(ctx context.Context, ds []Dispatch) error { return errNotBuilt }

// Unsent says that ds did not get to the broker: they are handed out again.
func (s *Store) Unsent(ds []Dispatch) {}
