package orders

import "context"

// Accepted is the answer to Accept.
type Accepted struct {
	Order    Order
	Replayed bool   // nothing was stored: an earlier request had stored it
	Body     []byte // the answer's JSON; the first answer's, byte for byte, if a key was replayed
}

// Accept stores a new order, durably when it returns nil.
func (s *Store) Accept(ctx context.Context, o Order, key string) (Accepted, error) {
	return Accepted{}, errNotBuilt
}

// Get returns the order with its history and attempts.
func (s *Store) Get(ctx context.Context, id string) (Order, error) { return Order{}, errNotBuilt }
