package orders

import (
	"context"
	"time"
)

// Void is a payment that has to be voided.
type Void struct {
	OrderID string
	Key     string // the payment's key
	Tries   int    // tries so far

	id    int64
	token int64
}

// DueVoids returns up to max voids that are due, leased to this process.
func (s *Store) DueVoids(ctx context.Context, max int) ([]Void, error) { return nil, errNotBuilt }

// FinishVoid records how a void went; not done means due again after delay.
func (s *Store) FinishVoid(ctx context.Context, v Void, done bool, note string, delay time.Duration) error {
	return errNotBuilt
}
