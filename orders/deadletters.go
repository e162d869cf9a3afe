package orders

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The statuses of a dead letter.
const (
	DeadLetterOpen      = "open"
	DeadLetterRedriven  = "redriven"
	DeadLetterDiscarded = "discarded"
)

// DeadLetter is an order, or a message that is none, that needs a person.
type DeadLetter struct {
	ID       string // sortable
	OrderID  string // may be empty: the message named none
	Status   string // DeadLetterOpen, …
	Reason   string
	Class    string // error class
	Step     Step   // empty if no step was under way
	Round    int    // 0 for a message that did not become an order
	FailedAt Millis
	Redrives int    // how often the order was redriven so far
	Order    *Order // nil if there is no order
	Raw      []byte // the message byte for byte, if it did not become an order
	Customer string
	Note     string // why it was discarded
	DoneAt   Millis // when it was redriven or discarded
}

// DeadLetterFilter selects dead letters. The zero value of a field selects all.
type DeadLetterFilter struct {
	Status, Class, Customer, Reason string
	Before, After                   Millis // FailedAt < Before, >= After
	Cursor                          string
	Limit                           int // 1 to 500; 0 means 50
}

var insertDeadLetterSQL = "INSERT INTO dead_letters (id, order_id, round, status, reason, class, step, failed_at, customer, raw, note, copy, relay) " +
	"VALUES ($1, $2, $3, 'open', $4, $5, $6, $7, $8, $9, '', $10, $11) ON CONFLICT DO NOTHING"

// deadLetter is the row for an order that failed in this round.
func (t *tx) deadLetter(r *row, class, reason string, step Step, withCopy bool) *call {
	copies := 0
	if withCopy {
		copies = 1
		t.after = append(t.after, t.s.out.poll)
	}
	return &call{sql: insertDeadLetterSQL, args: []any{NewID(), r.ID, r.Round, reason, class, string(step), int64(t.now),
		r.Customer, nil, copies, t.s.process.id()}}
}

// maxReasonBytes bounds what is kept of a reason.
const maxReasonBytes = 1000

// rawDeadLetter keeps a message that did not become an order. Its id comes
// from the message, so that a redelivery is the same dead letter.
func (t *tx) rawDeadLetter(a *Arrival, reason, class string) *call {
	return &call{sql: insertDeadLetterSQL, args: []any{messageID("", a.MessageID, a.Body), a.Order.ID, 0, clip(reason, maxReasonBytes), class, "",
		int64(t.now), a.Order.Customer, a.Body, 0, 0}}
}

// clip cuts s to at most limit bytes of valid UTF-8.
func clip(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "")
	}
	return strings.ReplaceAll(s, "\x00", "") // PostgreSQL's text cannot hold it
}

const deadLetterColumns = "d.id, d.order_id, d.round, d.status, d.reason, d.class, d.step, d.failed_at, d.customer, d.raw, d.note, d.done_at"

func (d *DeadLetter) scan(scan scanFunc) error {
	err := scan(&d.ID, &d.OrderID, &d.Round, &d.Status, &d.Reason, &d.Class, &d.Step, &d.FailedAt, &d.Customer, &d.Raw, &d.Note, &d.DoneAt)
	d.Redrives = max(0, d.Round-1)
	return err
}

// where is the filter without its cursor.
func (f *DeadLetterFilter) where() *where {
	w := new(where)
	w.equal("d.status", f.Status)
	w.equal("d.class", f.Class)
	w.equal("d.customer", f.Customer)
	w.equal("d.reason", f.Reason)
	if f.Before != 0 {
		w.add("d.failed_at < ?", int64(f.Before))
	}
	if f.After != 0 {
		w.add("d.failed_at >= ?", int64(f.After))
	}
	return w
}

// DeadLetters returns dead letters, the newest first, each with its order but
// without history, and the cursor of the next page, empty on the last.
// KindInvalid for a cursor that is none.
func (s *Store) DeadLetters(ctx context.Context, f DeadLetterFilter) ([]DeadLetter, string, error) {
	w := f.where()
	if err := w.before("d.failed_at", "d.id", f.Cursor); err != nil {
		return nil, "", err
	}
	limit := pageSize(f.Limit)
	var out []DeadLetter
	err := s.read(ctx, "list dead letters", &call{
		sql:  "SELECT " + deadLetterColumns + " FROM dead_letters d" + w.String() + fmt.Sprintf(" ORDER BY d.failed_at DESC, d.id DESC LIMIT %d", limit+1),
		args: w.args,
		row: func(scan scanFunc) error {
			var d DeadLetter
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
		next = cursorOf(out[limit-1].FailedAt, out[limit-1].ID)
	}
	for i := range out {
		if out[i].Round == 0 {
			continue
		}
		if err := s.fillOrder(ctx, &out[i], false); err != nil {
			return nil, "", err
		}
	}
	return out, next, nil
}

func (s *Store) fillOrder(ctx context.Context, d *DeadLetter, full bool) error {
	get := s.bare
	if full {
		get = s.Get
	}
	o, err := get(ctx, d.OrderID)
	switch {
	case KindOf(err) == KindNotFound && err != nil: // deleted by ORDER_RETENTION
		return nil
	case err != nil:
		return err
	}
	d.Order = &o
	return nil
}

// DeadLetter returns one dead letter, its order with history and attempts.
func (s *Store) DeadLetter(ctx context.Context, id string) (DeadLetter, error) {
	d, found := DeadLetter{}, false
	err := s.read(ctx, "get dead letter "+id, &call{
		sql: "SELECT " + deadLetterColumns + " FROM dead_letters d WHERE d.id = $1", args: []any{id},
		row: func(scan scanFunc) error { found = true; return d.scan(scan) }})
	switch {
	case err != nil:
		return DeadLetter{}, err
	case !found:
		return DeadLetter{}, errorf(KindNotFound, "", "there is no dead letter %s", clip(id, maxIDBytes))
	case d.Round > 0:
		err = s.fillOrder(ctx, &d, true)
	}
	return d, err
}

// openDeadLetter reads and locks an open dead letter and its order, which is
// nil if there is none. The order is locked first, as everywhere.
func (t *tx) openDeadLetter(id string) (d DeadLetter, r *row, err error) {
	get := &call{sql: "SELECT " + deadLetterColumns + " FROM dead_letters d WHERE d.id = $1", args: []any{id}, row: d.scan}
	if err := t.run(get); err != nil {
		return d, nil, err
	}
	if get.rows == 0 {
		return d, nil, errorf(KindNotFound, "", "there is no dead letter %s", clip(id, maxIDBytes))
	}
	if d.Round > 0 {
		rows, err := t.load([]string{d.OrderID})
		if err != nil {
			return d, nil, err
		}
		r = rows[d.OrderID]
	}
	get.sql += t.s.db.forUpdate()
	if err := t.run(get); err != nil {
		return d, nil, err
	}
	if d.Status != DeadLetterOpen {
		return d, nil, errorf(KindConflict, "status", "the dead letter is %s", d.Status)
	}
	return d, r, nil
}

// Discard closes an open dead letter; the order stays failed, its payment is
// voided if any of it may be authorised. KindConflict if it is not open.
func (s *Store) Discard(ctx context.Context, id, reason, by string) (DeadLetter, error) {
	var out DeadLetter
	err := s.change(ctx, "discard dead letter "+id, func(t *tx) error {
		d, r, err := t.openDeadLetter(id)
		if err != nil {
			return err
		}
		e := new(edits)
		if r != nil && r.Round == d.Round && r.Status == StatusFailed {
			t.void(e, r)
			e.save(r)
		}
		d.Status, d.Note, d.DoneAt = DeadLetterDiscarded, clip(reason, maxReasonBytes), t.now
		e.add(&call{sql: "UPDATE dead_letters SET status = 'discarded', note = $1, done_at = $2 WHERE id = $3", args: []any{d.Note, int64(d.DoneAt), id}},
			t.audit(by, "discard", id, reason))
		out = d
		return e.write(t)
	})
	if err != nil {
		return DeadLetter{}, err
	}
	return out, nil
}

// KeepDeadLetter takes in messages from DLQ_CHANNEL; they may be acked after
// nil. Our own copies and repeated messages change nothing. A dead letter that
// the broker made of an order which has attempts left puts that order back.
func (s *Store) KeepDeadLetter(ctx context.Context, in []Arrival) error {
	return s.change(ctx, "keep dead letters", func(t *tx) error {
		var ids []string
		for i := range in {
			if id := in[i].orderID(); id != "" {
				ids = append(ids, id)
			}
		}
		rows, err := t.load(ids)
		if err != nil {
			return err
		}
		e := new(edits)
		for i := range in {
			if err := t.keep(e, rows, &in[i]); err != nil {
				return err
			}
		}
		return e.write(t)
	})
}

func (t *tx) keep(e *edits, rows map[string]*row, a *Arrival) error {
	if a.DecodeErr != nil {
		e.add(t.rawDeadLetter(a, "not an order: "+a.DecodeErr.Error(), "invalid_message"))
		return nil
	}
	id := a.orderID()
	r := rows[id]
	if r == nil {
		if a.Origin == Origin {
			return nil // of a store that is gone
		}
		var err error
		if r, err = t.foreign(e, a, id); err != nil {
			return err
		}
		rows[id] = r
		t.fail(e, r, "dead_lettered", dlqReason(a), "", nil)
		return nil
	}
	same, err := t.sameOrder(r, &a.Order)
	if err != nil {
		return err
	}
	switch {
	case !same:
		e.add(t.rawDeadLetter(a, "orderId is taken by another order", "id_taken"))
	case a.Reason != "", !r.Status.underWay(), r.owner != 0, r.dispatch != dispatchNone:
		// Our own copy, or an order that is done, in work or on its way already.
	default:
		r.touch(t)
		r.send(t, dispatchRetry, t.now)
		e.save(r)
	}
	return nil
}

func dlqReason(a *Arrival) string {
	if a.Reason != "" {
		return clip(a.Reason, maxReasonBytes)
	}
	return "the broker dead-lettered it"
}
