package orders

import "context"

// Ship records that a confirmed order was handed to a carrier.
func (s *Store) Ship(ctx context.Context, id, carrier, tracking, by string) (Order, error) {
	return Order{}, errNotBuilt
}

// Deliver records that a shipped order has arrived.
func (s *Store) Deliver(ctx context.Context, id, by string) (Order, error) {
	return Order{}, errNotBuilt
}

// Cancel cancels an order; pending says that a worker holds it and will end it
// as cancelled.
func (s *Store) Cancel(ctx context.Context, id, reason, by string) (o Order, pending bool, err error) {
	return Order{}, false, errNotBuilt
}
