package orders

import (
	"context"
	"errors"
	"fmt"
)

// Books counts all orders by where they are.
type Books struct {
	Accepted, UnderWay, Confirmed, Shipped, Delivered, Failed, Expired, Cancelled int64
	Balanced                                                                      bool
}

// Gauges are counts for monitoring.
type Gauges struct {
	ByStatus          map[Status]int64
	Unsent            int64             // orders to be put on a queue now
	RetriesDue        int64             // of these, retries
	Waiting           int64             // retries that are not due yet
	DeadLetters       []DeadLetterClass // the open ones
	OldestDeadLetter  Millis            // 0 if none is open
	PutBack           int64             // orders that were lost between store and queue, ever
	PendingDeliveries map[string]int64  // by subscriber
	DueVoids          int64
	UnnumberedEvents  int64
}

// Books returns the counts and whether they balance. What was accepted is
// counted in the event log, where the orders are now in the orders: two tables
// that only their common transactions keep together.
func (s *Store) Books(ctx context.Context) (Books, error) {
	var b Books
	into := map[Status]*int64{StatusCreated: &b.UnderWay, StatusProcessing: &b.UnderWay, StatusConfirmed: &b.Confirmed,
		StatusShipped: &b.Shipped, StatusDelivered: &b.Delivered, StatusFailed: &b.Failed, StatusExpired: &b.Expired, StatusCancelled: &b.Cancelled}
	err := s.read(ctx, "count orders", &call{
		// One statement: both counts are of the same moment.
		sql: "SELECT '', COUNT(*) FROM events WHERE seq = 1 UNION ALL SELECT status, COUNT(*) FROM orders GROUP BY status",
		row: func(scan scanFunc) error {
			var status Status
			var n int64
			if err := scan(&status, &n); err != nil {
				return err
			}
			if status == "" {
				b.Accepted = n
				return nil
			}
			if into[status] == nil {
				return fmt.Errorf("there are orders of status %q", status)
			}
			*into[status] += n
			return nil
		}})
	if err != nil {
		return Books{}, err
	}
	b.Balanced = b.Accepted == b.UnderWay+b.Confirmed+b.Shipped+b.Delivered+b.Failed+b.Expired+b.Cancelled
	return b, nil
}

// Gauges returns counts for monitoring; each is answered from an index, that of
// the dead letters with a look at each one's order.
func (s *Store) Gauges(ctx context.Context) (Gauges, error) {
	g := Gauges{ByStatus: make(map[Status]int64), PendingDeliveries: make(map[string]int64)}
	now, err := s.Now(ctx)
	if err != nil {
		return g, err
	}
	one := func(n *int64) func(scanFunc) error { return func(scan scanFunc) error { return scan(n) } }
	byName := func(m map[string]int64) func(scanFunc) error {
		return func(scan scanFunc) error {
			var name string
			var n int64
			err := scan(&name, &n)
			m[name] = n
			return err
		}
	}
	byStatus := make(map[string]int64)
	calls := []*call{
		{sql: "SELECT status, COUNT(*) FROM orders GROUP BY status", row: byName(byStatus)},
		{sql: "SELECT COUNT(*) FROM orders WHERE dispatch <> 0 AND due_at <= $1", args: []any{int64(now)}, row: one(&g.Unsent)},
		{sql: "SELECT COUNT(*) FROM orders WHERE dispatch <> 0 AND dispatch = 2 AND due_at <= $1", args: []any{int64(now)}, row: one(&g.RetriesDue)},
		{sql: "SELECT COUNT(*) FROM orders WHERE dispatch <> 0 AND due_at > $1", args: []any{int64(now)}, row: one(&g.Waiting)},
		{sql: "SELECT COALESCE(MIN(n), 0) FROM counters WHERE name = $1", args: []any{counterPutBack}, row: one(&g.PutBack)},
		{sql: "SELECT subscriber, COUNT(*) FROM deliveries WHERE status IN ('pending', 'sending') GROUP BY subscriber", row: byName(g.PendingDeliveries)},
		{sql: "SELECT COUNT(*) FROM voids WHERE status = 'due'", row: one(&g.DueVoids)},
		{sql: "SELECT COUNT(*) FROM events WHERE number IS NULL", row: one(&g.UnnumberedEvents)},
	}
	for _, c := range calls {
		if err := s.read(ctx, "count for monitoring", c); err != nil {
			return Gauges{}, err
		}
	}
	for status, n := range byStatus {
		g.ByStatus[Status(status)] = n
	}
	if g.DeadLetters, err = s.DeadLetterSummary(ctx, DeadLetterFilter{Status: DeadLetterOpen}); err != nil {
		return Gauges{}, err
	}
	for _, c := range g.DeadLetters {
		if g.OldestDeadLetter == 0 || c.FirstSeen < g.OldestDeadLetter {
			g.OldestDeadLetter = c.FirstSeen
		}
	}
	return g, nil
}

// invariants are statements that must find nothing.
var invariants = []struct{ name, sql string }{
	{"an order whose event log does not end in its status",
		"SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.order_id = o.id AND e.seq = o.events AND e.status = o.status)"},
	{"an order with a gap in its event log",
		"SELECT o.id FROM orders o WHERE o.events <> (SELECT COUNT(*) FROM events e WHERE e.order_id = o.id) OR 1 <> (SELECT MIN(e.seq) FROM events e WHERE e.order_id = o.id)"},
	{"an order that was confirmed twice in a round",
		"SELECT order_id FROM events WHERE status = 'confirmed' GROUP BY order_id, round HAVING COUNT(*) > 1"},
	{"a leased order that is not processing",
		"SELECT id FROM orders WHERE owner <> 0 AND status <> 'processing'"},
	{"an order that is done but has to be sent",
		"SELECT id FROM orders WHERE dispatch <> 0 AND status NOT IN ('created', 'processing')"},
	{"a failed order without its dead letter",
		"SELECT o.id FROM orders o WHERE o.status = 'failed' AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.order_id = o.id AND d.round = o.round AND d.status <> 'redriven')"},
	{"an open dead letter of an order that is not failed",
		"SELECT d.id FROM dead_letters d JOIN orders o ON o.id = d.order_id WHERE d.status = 'open' AND d.round > 0 AND (o.status <> 'failed' OR o.round <> d.round)"},
	{"a cancelled order whose payment nobody voids",
		"SELECT id FROM orders WHERE status IN ('cancelled', 'expired') AND payment IN ('begun', 'authorised')"},
	{"negative stock",
		"SELECT sku FROM inventory WHERE on_hand < 0"},
	{gapFault,
		"SELECT 'last' FROM (SELECT COALESCE(MAX(number), 0) AS last, COUNT(number) AS n FROM events) x WHERE last <> n"},
	{"an order's events numbered out of their sequence",
		"SELECT a.order_id FROM events a JOIN events b ON b.order_id = a.order_id AND b.seq = a.seq + 1 WHERE b.number IS NOT NULL AND (a.number IS NULL OR a.number > b.number)"},
	{"a handled event that is not in the log",
		"SELECT d.order_id FROM deliveries d WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.order_id = d.order_id AND e.seq = d.seq AND e.number = d.number)"},
}

const gapFault = "a gap in the numbers of the event log"

// Check looks for broken invariants and returns all it finds: for tests and
// for a person in doubt; it reads every table.
func (s *Store) Check(ctx context.Context) error {
	var faults error
	for _, inv := range invariants {
		if inv.name == gapFault && s.options.OrderRetention != 0 {
			continue // the events of deleted orders are gone
		}
		err := s.read(ctx, "check the store", &call{sql: inv.sql + " LIMIT 5", row: func(scan scanFunc) error {
			var id string
			err := scan(&id)
			faults = errors.Join(faults, fmt.Errorf("%s: %s", inv.name, id))
			return err
		}})
		if err != nil {
			return err
		}
	}
	if b, err := s.Books(ctx); err != nil {
		return err
	} else if !b.Balanced {
		faults = errors.Join(faults, fmt.Errorf("books do not balance: %+v", b))
	}
	return faults
}
