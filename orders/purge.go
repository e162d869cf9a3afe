package orders

import (
	"context"
	"strings"
	"time"
)

const (
	purgeEvery   = time.Hour
	purgeAtOnce  = 1000 // rows of one transaction
	ordersAtOnce = 200  // orders of one transaction, with all that belongs to them
)

// purges deletes what is old until ctx ends: at once, then every hour.
func (s *Store) purges(ctx context.Context) {
	tick := time.NewTicker(purgeEvery)
	defer tick.Stop()
	for {
		if err := s.purge(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("old rows not deleted")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// purge deletes what is older than its retention, a bounded number of rows at a
// time. An order's events stay as long as the order: they are its history. An
// open dead letter stays whatever its age.
func (s *Store) purge(ctx context.Context) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	for _, c := range s.oldRows(now) {
		if err := s.deleteAll(ctx, c); err != nil {
			return err
		}
	}
	aged, err := s.agedEvents(ctx, now)
	if err != nil {
		return err
	}
	if err := s.purgeMarks(ctx, aged); err != nil {
		return err
	}
	if s.options.OrderRetention == 0 {
		return nil
	}
	return s.purgeOrders(ctx, now, aged)
}

// deleteAll runs c, which deletes at most purgeAtOnce rows, until it finds no more.
func (s *Store) deleteAll(ctx context.Context, c *call) error {
	for {
		if err := s.change(ctx, "delete old rows", func(t *tx) error { c.rows = 0; return t.run(c) }); err != nil {
			return err
		}
		if c.rows < purgeAtOnce {
			return nil
		}
	}
}

// oldRows are the deletions that need no more than a time.
func (s *Store) oldRows(now Millis) []*call {
	old := func(age time.Duration) int64 { return int64(now) - age.Milliseconds() }
	limited := func(table, key, condition string, before int64) *call {
		return &call{sql: "DELETE FROM " + table + " WHERE " + key + " IN (SELECT " + key + " FROM " + table + " WHERE " + condition + " LIMIT $2)",
			args: []any{before, purgeAtOnce}}
	}
	log := old(s.options.EventRetention)
	return []*call{
		limited("idempotency", "idempotency_key", "at < $1", old(s.options.IdempotencyTTL)),
		limited("voids", "payment_key", "status = 'done' AND due_at < $1", log),
		limited("redrives", "id", "status <> 'running' AND done_at < $1", log),
		limited("dead_letters", "id", "round = 0 AND status = 'discarded' AND done_at < $1", log),
	}
}

const positionAged = "aged"

// agedEvents returns up to which number events are older than EventRetention.
// It looks at those only that have aged since the last time.
func (s *Store) agedEvents(ctx context.Context, now Millis) (int64, error) {
	from, err := s.readPosition(ctx, positionAged)
	if err != nil {
		return 0, err
	}
	last := from
	err = s.read(ctx, "look for old events", &call{
		sql: "SELECT COALESCE(MIN(CASE WHEN numbered_at > $1 THEN number END) - 1, MAX(number), $2) FROM " +
			"(SELECT number, numbered_at FROM events WHERE number > $2 ORDER BY number LIMIT 1000000) x",
		args: []any{int64(now) - s.options.EventRetention.Milliseconds(), from},
		row:  func(scan scanFunc) error { return scan(&last) }})
	if err != nil || last == from {
		return last, err
	}
	return last, s.change(ctx, "record which events are old", func(t *tx) error { return t.run(raisePosition(positionAged, last)) })
}

func positionPurged(subscriber string) string { return "purged " + subscriber }

// readPurged reads up to which number the marks of subscriber may be gone.
func readPurged(subscriber string, into *int64) *call {
	return &call{sql: "SELECT number FROM positions WHERE name = $1", args: []any{positionPurged(subscriber)},
		row: func(scan scanFunc) error { return scan(into) }}
}

// raisePosition is setPosition that never sets one back.
func raisePosition(name string, number int64) *call {
	c := setPosition(name, number)
	c.sql += " WHERE positions.number < excluded.number"
	return c
}

// purgeMarks deletes the handled marks of old events, deliveries among them,
// once they are done. A position takes their place: what is at or below it was
// handled. The position is raised in one turn and marks are deleted in the next,
// when the transactions that read the position before are long over.
func (s *Store) purgeMarks(ctx context.Context, aged int64) error {
	subscribers, err := s.handledPositions(ctx)
	if err != nil {
		return err
	}
	for subscriber, handled := range subscribers {
		purged, err := s.readPosition(ctx, positionPurged(subscriber))
		if err != nil {
			return err
		}
		err = s.deleteAll(ctx, &call{
			sql: "DELETE FROM deliveries WHERE subscriber = $1 AND number IN (SELECT number FROM deliveries WHERE subscriber = $1 AND number <= $2 " +
				"AND status NOT IN ('pending', 'sending') ORDER BY number LIMIT $3)",
			args: []any{subscriber, purged, purgeAtOnce}})
		if err != nil {
			return err
		}
		if next := min(aged, handled); next > purged {
			err = s.change(ctx, "record what was handled", func(t *tx) error {
				return t.run(raisePosition(positionHandled(subscriber), handled), raisePosition(positionPurged(subscriber), next))
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// handledPositions returns up to where each subscriber has handled everything.
func (s *Store) handledPositions(ctx context.Context) (map[string]int64, error) {
	out := make(map[string]int64)
	err := s.read(ctx, "look for subscribers", &call{
		sql: "SELECT name, number FROM positions WHERE name LIKE '" + handledPrefix + "%'",
		row: func(scan scanFunc) error {
			var name string
			var n int64
			err := scan(&name, &n)
			out[strings.TrimPrefix(name, handledPrefix)] = n
			return err
		}})
	for subscriber, n := range s.handled.all() {
		out[subscriber] = max(n, out[subscriber])
	}
	return out, err
}

// purgeOrders deletes finished orders that are older than OrderRetention and
// whose events are older than EventRetention, with all that belongs to them.
func (s *Store) purgeOrders(ctx context.Context, now Millis, aged int64) error {
	before := int64(now) - s.options.OrderRetention.Milliseconds()
	for {
		ids, err := s.orderIDs(ctx, "look for old orders",
			"SELECT id FROM orders WHERE status IN ('delivered', 'failed', 'expired', 'cancelled') AND accepted_at < $1 AND updated_at < $1 "+
				"AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.order_id = orders.id AND d.status = 'open') "+
				"AND NOT EXISTS (SELECT 1 FROM events e WHERE e.order_id = orders.id AND (e.number IS NULL OR e.number > $2)) "+
				"AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.order_id = orders.id) "+
				"AND NOT EXISTS (SELECT 1 FROM voids v WHERE v.order_id = orders.id AND v.status = 'due') "+
				"ORDER BY accepted_at LIMIT $3", before, aged, ordersAtOnce)
		if err != nil {
			return err
		}
		err = s.change(ctx, "delete old orders", func(t *tx) error {
			rows, err := t.load(ids)
			if err != nil {
				return err
			}
			var calls []*call
			for _, r := range rows {
				// It may have been redriven since.
				if r.Status.Terminal() && int64(r.UpdatedAt) < before {
					calls = append(calls, deleteOrder(r.ID)...)
				}
			}
			return t.run(calls...)
		})
		if err != nil || len(ids) < ordersAtOnce {
			return err
		}
	}
}

func deleteOrder(id string) []*call {
	var calls []*call
	for _, table := range []string{"runs", "dead_letters", "order_edits", "events"} {
		calls = append(calls, &call{sql: "DELETE FROM " + table + " WHERE order_id = $1", args: []any{id}})
	}
	return append(calls, &call{sql: "DELETE FROM orders WHERE id = $1", args: []any{id}})
}
