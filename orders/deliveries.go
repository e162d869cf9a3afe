package orders

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The statuses of a delivery. DeliveryNone is a handled event that leads to none.
const (
	DeliveryNone    = "none"
	DeliveryPending = "pending"
	DeliverySending = "sending"
	DeliverySent    = "sent"
	DeliverySkipped = "skipped"
	DeliveryFailed  = "failed"
	DeliveryUnknown = "unknown"
)

// Delivery is a mail or push that an event leads to.
type Delivery struct {
	ID         string // <subscriber>:<event number>
	Subscriber string
	OrderID    string
	Status     string
	To         string
	LastAnswer string // what the other side said last, or why it was skipped
	Event      Event
	Order      Order // as it is now; filled by ClaimDeliveries only
	Tries      int
	CreatedAt  Millis
	DueAt      Millis
	DoneAt     Millis

	token int64
}

// DeliveryFilter selects deliveries. The zero value of a field selects all.
type DeliveryFilter struct {
	Subscriber, Status, OrderID string
	Cursor                      string
	Limit                       int // 1 to 500; 0 means 50
}

const deliveryColumns = "d.subscriber, d.status, d.addressee, d.answer, d.tries, d.token, d.created_at, d.due_at, d.done_at, " + eventColumns

func (d *Delivery) scan(scan scanFunc) error {
	err := d.Event.scan(func(dest ...any) error {
		return scan(append([]any{&d.Subscriber, &d.Status, &d.To, &d.LastAnswer, &d.Tries, &d.token, &d.CreatedAt, &d.DueAt, &d.DoneAt}, dest...)...)
	})
	d.OrderID = d.Event.OrderID
	d.ID = d.Subscriber + ":" + strconv.FormatInt(d.Event.Number, 10)
	return err
}

// dueDeliveries selects an order's oldest unfinished delivery only, and none
// while the subscriber has not handled all earlier events of the order: one
// order's mails leave one at a time and in order.
const dueDeliveries = "SELECT " + deliveryColumns + " FROM deliveries d JOIN events e ON e.order_id = d.order_id AND e.seq = d.seq " +
	"WHERE d.subscriber = $1 AND d.status = 'pending' AND d.due_at <= $2 " +
	"AND NOT EXISTS (SELECT 1 FROM deliveries p WHERE p.order_id = d.order_id AND p.subscriber = d.subscriber AND p.seq < d.seq " +
	"AND p.status IN ('pending', 'sending')) " +
	"AND NOT EXISTS (SELECT 1 FROM events f WHERE f.order_id = d.order_id AND f.seq < d.seq " +
	"AND (f.number IS NULL OR f.number > (SELECT COALESCE(MAX(number), 0) FROM positions WHERE name = 'purged ' || d.subscriber)) " +
	"AND NOT EXISTS (SELECT 1 FROM deliveries p WHERE p.subscriber = d.subscriber AND p.number = f.number)) " +
	"ORDER BY d.due_at LIMIT "

// ClaimDeliveries returns up to max due deliveries, leased to this process
// until FinishDelivery, or until this process is dead.
func (s *Store) ClaimDeliveries(ctx context.Context, subscriber string, max int) ([]Delivery, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	due := &call{sql: dueDeliveries + strconv.Itoa(max), args: []any{subscriber, int64(now)}}
	var out []Delivery
	due.row = func(scan scanFunc) error {
		var d Delivery
		err := d.scan(scan)
		out = append(out, d)
		return err
	}
	// Looked for outside of a transaction, so that nothing to do costs no commit.
	if err := s.read(ctx, "look for deliveries", due); err != nil || len(out) == 0 {
		return nil, err
	}
	if out, err = s.leaseDeliveries(ctx, out); err != nil {
		return nil, err
	}
	for i := range out {
		if out[i].Order, err = s.bare(ctx, out[i].OrderID); err != nil && KindOf(err) != KindNotFound {
			return nil, err
		}
	}
	return out, nil
}

func (s *Store) leaseDeliveries(ctx context.Context, found []Delivery) ([]Delivery, error) {
	var out []Delivery
	err := s.change(ctx, "claim deliveries", func(t *tx) error {
		out = nil
		calls := make([]*call, len(found))
		for i, d := range found {
			calls[i] = &call{sql: "UPDATE deliveries SET status = 'sending', owner = $1, token = token + 1, tries = tries + 1 " +
				"WHERE subscriber = $2 AND number = $3 AND status = 'pending' AND token = $4",
				args: []any{s.process.id(), d.Subscriber, d.Event.Number, d.token}}
		}
		if err := t.run(calls...); err != nil {
			return err
		}
		for i, d := range found {
			if calls[i].rows == 1 {
				d.token++
				d.Tries++
				d.Status = DeliverySending
				out = append(out, d)
			}
		}
		return nil
	})
	return out, err
}

// FinishDelivery records how a claimed delivery went: sent, failed, skipped,
// unknown, or pending again after delay. It does nothing if the delivery is not
// this process's any more.
func (s *Store) FinishDelivery(ctx context.Context, d Delivery, status, answer string, delay time.Duration) error {
	return s.write(ctx, deliveredLane, &delivered{d, status, answer, delay})
}

type delivered struct {
	d      Delivery
	status string
	answer string
	delay  time.Duration
}

var deliveredLane = &lane{name: "finish deliveries", run: func(t *tx, ops []*op) error {
	calls := make([]*call, len(ops))
	for i, o := range ops {
		f := o.arg.(*delivered)
		var due, done Millis
		if f.status == DeliveryPending {
			due = t.now.Add(f.delay)
		} else {
			done = t.now
		}
		calls[i] = &call{sql: "UPDATE deliveries SET status = $1, answer = $2, due_at = $3, done_at = $4, owner = 0 " +
			"WHERE subscriber = $5 AND number = $6 AND status = 'sending' AND token = $7",
			args: []any{f.status, clip(f.answer, maxReasonBytes), int64(due), int64(done), f.d.Subscriber, f.d.Event.Number, f.d.token}}
	}
	t.after = append(t.after, func() { t.s.signal(SignalDelivery) }) // the order's next one may go
	return t.run(calls...)
}}

// ListDeliveries returns deliveries, the newest first, and the cursor of the
// next page. Events that led to none are left out unless the filter's status
// asks for them.
func (s *Store) ListDeliveries(ctx context.Context, f DeliveryFilter) ([]Delivery, string, error) {
	w := new(where)
	w.equal("d.subscriber", f.Subscriber)
	w.equal("d.order_id", f.OrderID)
	if f.Status == "" {
		w.add("d.status <> 'none'")
	}
	w.equal("d.status", f.Status)
	if f.Cursor != "" {
		number, subscriber, err := parseCursor(f.Cursor)
		if err != nil {
			return nil, "", err
		}
		w.add("(d.number, d.subscriber) < (?, ?)", int64(number), subscriber)
	}
	limit := pageSize(f.Limit)
	var out []Delivery
	err := s.read(ctx, "list deliveries", &call{
		sql: "SELECT " + deliveryColumns + " FROM deliveries d JOIN events e ON e.order_id = d.order_id AND e.seq = d.seq" + w.String() +
			fmt.Sprintf(" ORDER BY d.number DESC, d.subscriber DESC LIMIT %d", limit+1),
		args: w.args,
		row: func(scan scanFunc) error {
			var d Delivery
			err := d.scan(scan)
			out = append(out, d)
			return err
		}})
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(out) > limit {
		out = out[:limit]
		last := out[limit-1]
		next = cursorOf(Millis(last.Event.Number), strings.Clone(last.Subscriber))
	}
	return out, next, nil
}
