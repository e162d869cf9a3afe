package orders

import (
	"context"
	"strconv"
	"time"
)

// Void is a payment that has to be voided.
type Void struct {
	OrderID string
	Key     string // the payment's key
	Tries   int    // tries so far
}

// DueVoids returns up to max voids that are due, leased to this process until
// FinishVoid, or until this process is dead.
func (s *Store) DueVoids(ctx context.Context, max int) ([]Void, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	var found []Void
	err = s.read(ctx, "look for voids", &call{
		sql:  "SELECT payment_key, order_id, tries FROM voids WHERE status = 'due' AND due_at <= $1 AND owner = 0 ORDER BY due_at LIMIT " + strconv.Itoa(max),
		args: []any{int64(now)},
		row: func(scan scanFunc) error {
			var v Void
			err := scan(&v.Key, &v.OrderID, &v.Tries)
			found = append(found, v)
			return err
		}})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	var out []Void
	err = s.change(ctx, "claim voids", func(t *tx) error {
		out = nil
		calls := make([]*call, len(found))
		for i, v := range found {
			calls[i] = &call{sql: "UPDATE voids SET owner = $1, tries = tries + 1 WHERE payment_key = $2 AND status = 'due' AND owner = 0",
				args: []any{s.process.id(), v.Key}}
		}
		if err := t.run(calls...); err != nil {
			return err
		}
		for i, v := range found {
			if calls[i].rows == 1 {
				out = append(out, v)
			}
		}
		return nil
	})
	return out, err
}

// FinishVoid records how a void went; not done means due again after delay.
func (s *Store) FinishVoid(ctx context.Context, v Void, done bool, note string, delay time.Duration) error {
	status := "due"
	if done {
		status = "done"
	}
	return s.change(ctx, "finish void "+v.Key, func(t *tx) error {
		return t.run(&call{sql: "UPDATE voids SET status = $1, owner = 0, note = $2, due_at = $3 WHERE payment_key = $4 AND owner = $5",
			args: []any{status, clip(note, maxReasonBytes), int64(t.now.Add(delay)), v.Key, s.process.id()}})
	})
}
