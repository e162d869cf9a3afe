package orders

import (
	"context"
	"fmt"
)

// EventFilter selects events. The zero value selects all.
type EventFilter struct {
	Statuses []Status
	Customer string
	OrderID  string
}

// Match says whether f selects e.
func (f *EventFilter) Match(e *Event) bool {
	if f.Customer != "" && f.Customer != e.Customer || f.OrderID != "" && f.OrderID != e.OrderID {
		return false
	}
	for _, s := range f.Statuses {
		if s == e.Status {
			return true
		}
	}
	return len(f.Statuses) == 0
}

// Names in leases and positions.
const (
	leaseEvents       = "events"
	positionNumbered  = "numbered"
	positionPublished = "published"
)

// HoldEvents takes or renews the lease on the event log. Only its holder may
// number and publish; it runs out after Options.Lease.
func (s *Store) HoldEvents(ctx context.Context) (held bool, err error) {
	err = s.change(ctx, "hold the event log", func(t *tx) error {
		c := &call{sql: "INSERT INTO leases (name, process, until) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE " +
			"SET process = excluded.process, until = excluded.until WHERE leases.process = excluded.process OR leases.until < $4",
			args: []any{leaseEvents, s.process.id(), int64(t.now.Add(s.options.Lease)), int64(t.now)}}
		err := t.run(c)
		held = c.rows == 1
		return err
	})
	return held && err == nil, err
}

// ReleaseEvents gives the lease on the event log back.
func (s *Store) ReleaseEvents(ctx context.Context) error {
	return s.change(ctx, "release the event log", func(t *tx) error {
		return t.run(&call{sql: "DELETE FROM leases WHERE name = $1 AND process = $2", args: []any{leaseEvents, s.process.id()}})
	})
}

// holds says whether this process has the lease, and locks it if so.
func (t *tx) holds() (bool, error) {
	c := &call{sql: "SELECT 1 FROM leases WHERE name = $1 AND process = $2 AND until >= $3" + t.s.db.forUpdate(),
		args: []any{leaseEvents, t.s.process.id(), int64(t.now)}, row: func(scan scanFunc) error { var one int; return scan(&one) }}
	err := t.run(c)
	return c.rows == 1, err
}

const eventColumns = "e.number, e.order_id, e.seq, e.status, e.customer, e.amount, e.currency, e.at, e.actor, e.reason, e.round"

func (e *Event) scan(scan scanFunc) error {
	var number *int64
	err := scan(&number, &e.OrderID, &e.Seq, &e.Status, &e.Customer, &e.Amount.Minor, &e.Amount.Currency, &e.At, &e.By, &e.Reason, &e.Round)
	if number != nil {
		e.Number = *number
	}
	return err
}

// NumberEvents numbers up to max committed events and returns them in order:
// in the log without gaps, an order's in their own sequence. It does nothing
// and returns nil if this process does not hold the lease.
func (s *Store) NumberEvents(ctx context.Context, max int) ([]Event, error) {
	// Looked for first, so that nothing to do costs no commit.
	waiting := &call{sql: "SELECT 1 FROM events WHERE number IS NULL LIMIT 1", row: func(scan scanFunc) error { var one int; return scan(&one) }}
	if err := s.read(ctx, "look for events to number", waiting); err != nil || waiting.rows == 0 {
		return nil, err
	}
	var out []Event
	err := s.change(ctx, "number events", func(t *tx) error {
		out = nil
		held, err := t.holds()
		if err != nil || !held {
			return err
		}
		out, err = t.numberEvents(max)
		if len(out) > 0 {
			t.after = append(t.after, func() { s.signal(SignalNumbered) })
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (t *tx) numberEvents(limit int) ([]Event, error) {
	var out []Event
	last, err := t.position(positionNumbered)
	if err != nil {
		return nil, err
	}
	err = t.run(&call{sql: fmt.Sprintf("SELECT %s FROM events e WHERE e.number IS NULL ORDER BY e.at, e.order_id, e.seq LIMIT %d", eventColumns, limit),
		row: func(scan scanFunc) error {
			var e Event
			err := e.scan(scan)
			out = append(out, e)
			return err
		}})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	calls := make([]*call, 0, len(out)+1)
	for i := range out {
		last++
		out[i].Number = last
		calls = append(calls, &call{sql: "UPDATE events SET number = $1, numbered_at = $2 WHERE order_id = $3 AND seq = $4",
			args: []any{last, int64(t.now), out[i].OrderID, out[i].Seq}})
	}
	return out, t.run(append(calls, setPosition(positionNumbered, last))...)
}

func (t *tx) position(name string) (int64, error) {
	var n int64
	err := t.run(&call{sql: "SELECT number FROM positions WHERE name = $1", args: []any{name}, row: func(scan scanFunc) error { return scan(&n) }})
	return n, err
}

func setPosition(name string, number int64) *call {
	return &call{sql: "INSERT INTO positions (name, number) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET number = excluded.number",
		args: []any{name, number}}
}

func (s *Store) readPosition(ctx context.Context, name string) (int64, error) {
	var n int64
	err := s.read(ctx, "read position "+name, &call{sql: "SELECT number FROM positions WHERE name = $1", args: []any{name},
		row: func(scan scanFunc) error { return scan(&n) }})
	return n, err
}

// PublishedUpTo returns the number of the last event that was published.
func (s *Store) PublishedUpTo(ctx context.Context) (int64, error) {
	return s.readPosition(ctx, positionPublished)
}

// SetPublished records the number of the last event that was published. It
// does nothing if this process does not hold the lease any more.
func (s *Store) SetPublished(ctx context.Context, number int64) error {
	return s.change(ctx, "record what was published", func(t *tx) error {
		held, err := t.holds()
		if err != nil || !held {
			return err
		}
		return t.run(setPosition(positionPublished, number))
	})
}

// EventsAfter returns up to limit numbered events after number that f selects.
func (s *Store) EventsAfter(ctx context.Context, number int64, limit int, f EventFilter) ([]Event, error) {
	w := new(where)
	w.add("e.number > ?", number)
	w.equal("e.customer", f.Customer)
	w.equal("e.order_id", f.OrderID)
	if len(f.Statuses) > 0 {
		in, args := "", []any(nil)
		for i, status := range f.Statuses {
			if i > 0 {
				in += ", "
			}
			in += "?"
			args = append(args, string(status))
		}
		w.add("e.status IN ("+in+")", args...)
	}
	var out []Event
	err := s.read(ctx, "read the event log", &call{
		sql:  "SELECT " + eventColumns + " FROM events e" + w.String() + fmt.Sprintf(" ORDER BY e.number LIMIT %d", limit),
		args: w.args,
		row: func(scan scanFunc) error {
			var e Event
			err := e.scan(scan)
			out = append(out, e)
			return err
		}})
	return out, err
}

// LastEvent returns the numbers of the first and the last event in the log; 0, 0 if it is empty.
func (s *Store) LastEvent(ctx context.Context) (first, last int64, err error) {
	err = s.read(ctx, "look for the last event", &call{sql: "SELECT COALESCE(MIN(number), 0), COALESCE(MAX(number), 0) FROM events",
		row: func(scan scanFunc) error { return scan(&first, &last) }})
	return first, last, err
}
