package orders

import (
	"context"
	"time"
)

// StatRow is the sum of what happened from From on for one step of time.
type StatRow struct {
	From     Millis
	Status   Status
	Currency Currency
	Orders   int64 // orders that got this status for the first time
	Redrives int64 // orders that got it in a later round
	Minor    int64 // amount of Orders, in minor units
}

// Stats returns sums for [from, to) in steps of whole minutes; a step of 0 is
// one row for all.
func (s *Store) Stats(ctx context.Context, from, to Millis, step time.Duration) ([]StatRow, error) {
	return nil, errNotBuilt
}
