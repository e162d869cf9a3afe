package orders

import (
	"context"
	"time"
)

// ExpireDue expires up to limit overdue orders that no process works on.
// Orders that wait for stock do not expire.
func (s *Store) ExpireDue(ctx context.Context, limit int) (n int, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	ids, err := s.orderIDs(ctx, "look for overdue orders",
		"SELECT id FROM orders WHERE status IN ('created', 'processing') AND expires_at <= $1 AND owner = 0 AND waiting_since = 0 ORDER BY expires_at LIMIT $2",
		int64(now), limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	err = s.change(ctx, "expire orders", func(t *tx) error {
		n = 0
		rows, err := t.load(ids)
		if err != nil {
			return err
		}
		e := new(edits)
		for _, r := range rows {
			if r.Status.underWay() && r.owner == 0 && r.waiting == 0 && r.ExpiresAt <= t.now {
				t.expire(e, r)
				n++
			}
		}
		return e.write(t)
	})
	return n, err
}

// resendAfter is how far the newest message that a dispatcher received must be
// ahead of a message that is taken for lost; doubled for each sending again.
const (
	resendAfter = 30 * time.Second
	maxDoubling = 10
)

// LostDispatches marks up to limit orders to be sent again whose message was
// lost: sent more than 30 s before frontier, the time at which the newest
// message that arrived was sent, and not worked on since.
func (s *Store) LostDispatches(ctx context.Context, frontier Millis, limit int) (n int, err error) {
	const lost = "status IN ('created', 'processing') AND dispatch = 0 AND owner = 0 AND sent_at < $1"
	latest := frontier.Add(-resendAfter)
	ids, err := s.orderIDs(ctx, "look for lost messages", "SELECT id FROM orders WHERE "+lost+" ORDER BY sent_at LIMIT $2", int64(latest), limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	err = s.change(ctx, "send lost orders again", func(t *tx) error {
		n = 0
		rows, err := t.load(ids)
		if err != nil {
			return err
		}
		e := new(edits)
		for _, r := range rows {
			if !r.Status.underWay() || r.owner != 0 || r.dispatch != dispatchNone || !r.lost(frontier) {
				continue
			}
			resends := r.resends + 1
			if r.Status == StatusCreated {
				r.send(t, dispatchOrder, 0)
			} else {
				r.send(t, dispatchRetry, t.now)
			}
			r.resends = resends
			e.save(r)
			n++
		}
		if n > 0 {
			e.add(count(counterPutBack, n))
		}
		return e.write(t)
	})
	return n, err
}

// ReleaseOrphans puts back orders that are leased to a process that nobody
// knows any more, and returns how many there were: it worked on while the others
// took it for dead.
func (s *Store) ReleaseOrphans(ctx context.Context) (n int, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	var gone []int64
	err = s.read(ctx, "look for orphaned orders", &call{
		// A process that is just registering again may have claims already.
		sql: "SELECT owner, COUNT(*) FROM orders WHERE owner <> 0 AND owner NOT IN (SELECT id FROM processes) " +
			"AND claimed_at < $1 GROUP BY owner", args: []any{int64(now.Add(-s.options.Lease))},
		row: func(scan scanFunc) error {
			var process, orders int64
			err := scan(&process, &orders)
			gone = append(gone, process)
			n += int(orders)
			return err
		}})
	if err != nil || n == 0 {
		return 0, err
	}
	for _, process := range gone {
		if err := s.bury(ctx, process, late); err != nil {
			return 0, err
		}
	}
	return n, s.change(ctx, "count orphaned orders", func(t *tx) error { return t.run(count(counterPutBack, n)) })
}

// counterPutBack counts the orders that were neither queued, leased, waiting
// nor done, and were put back.
const counterPutBack = "put back"

func count(name string, n int) *call {
	return &call{sql: "INSERT INTO counters (name, n) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET n = counters.n + excluded.n",
		args: []any{name, n}}
}

func (r *row) lost(frontier Millis) bool {
	return r.sentAt < frontier.Add(-resendAfter<<min(r.resends, maxDoubling))
}

func (s *Store) orderIDs(ctx context.Context, doing, sql string, args ...any) ([]string, error) {
	var ids []string
	err := s.read(ctx, doing, &call{sql: sql, args: args, row: func(scan scanFunc) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	}})
	return ids, err
}
