package orders

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// row is an order with what only the store knows of it. Every change of an
// order is: load its row, change the row, save it guarded by what was loaded.
type row struct {
	Order
	hash       []byte
	events     int
	owner      int64
	token      int64
	step       Step
	claimedAt  Millis
	fresh      int64
	dispatch   int64
	dueAt      Millis
	relay      int64
	sentAt     Millis
	resends    int64
	waiting    Millis
	stock      string
	cancelAt   Millis
	cancelBy   string
	cancelWhy  string
	loadStatus Status // as loaded: the guard of save
	loadToken  int64
}

// Values of orders.dispatch.
const (
	dispatchNone  = 0
	dispatchOrder = 1
	dispatchRetry = 2
)

const rowColumns = "id, customer, items, amount, currency, lines, language, hash, created_at, accepted_at, " + rowMutable

// rowMutable is what save writes.
const rowMutable = "status, updated_at, expires_at, round, attempts, deaths, events, owner, token, step, claimed_at, " +
	"payment, payment_n, payment_fresh, dispatch, due_at, relay, sent_at, resends, waiting_since, stock, " +
	"cancel_at, cancel_by, cancel_reason, carrier, tracking"

func (r *row) scan(scan scanFunc) error {
	var lines string
	err := scan(&r.ID, &r.Customer, &r.Items, &r.Total.Minor, &r.Total.Currency, &lines, &r.Language, &r.hash,
		&r.CreatedAt, &r.AcceptedAt, &r.Status, &r.UpdatedAt, &r.ExpiresAt, &r.Round, &r.Attempts, &r.Deaths,
		&r.events, &r.owner, &r.token, &r.step, &r.claimedAt, &r.Payment, &r.PaymentN, &r.fresh, &r.dispatch,
		&r.dueAt, &r.relay, &r.sentAt, &r.resends, &r.waiting, &r.stock, &r.cancelAt, &r.cancelBy, &r.cancelWhy,
		&r.Carrier, &r.TrackingNumber)
	if err != nil {
		return err
	}
	r.loadStatus, r.loadToken = r.Status, r.token
	r.CancelRequested = r.cancelAt != 0 && r.Status.underWay()
	r.PaymentFresh = r.fresh != 0
	if r.Status == StatusProcessing && r.dispatch == dispatchRetry {
		r.NextAttemptAt = r.dueAt
	}
	if lines != "" {
		if err := json.Unmarshal([]byte(lines), &r.Lines); err != nil {
			return fmt.Errorf("lines of order %s: %w", r.ID, err)
		}
	}
	return nil
}

func (r *row) mutable() []any {
	return []any{string(r.Status), int64(r.UpdatedAt), int64(r.ExpiresAt), r.Round, r.Attempts, r.Deaths, r.events, r.owner, r.token,
		string(r.step), int64(r.claimedAt), string(r.Payment), r.PaymentN, r.fresh, r.dispatch, int64(r.dueAt), r.relay,
		int64(r.sentAt), r.resends, int64(r.waiting), r.stock, int64(r.cancelAt), r.cancelBy, r.cancelWhy, r.Carrier, r.TrackingNumber}
}

var (
	insertRowSQL = "INSERT INTO orders (" + rowColumns + ") VALUES (" + placeholders(1, 36) + ") ON CONFLICT (id) DO NOTHING"
	saveRowSQL   = "UPDATE orders SET (" + rowMutable + ") = (" + placeholders(1, 26) + ") WHERE id = $27 AND token = $28 AND status = $29"
)

func placeholders(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		if i > from {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", i)
	}
	return b.String()
}

// insert adds the row unless the id is taken: then call.rows is 0.
func (r *row) insert() *call {
	args := append([]any{r.ID, r.Customer, r.Items, r.Total.Minor, string(r.Total.Currency), storedLines(r.Lines), r.Language, r.hash,
		int64(r.CreatedAt), int64(r.AcceptedAt)}, r.mutable()...)
	return &call{sql: insertRowSQL, args: args}
}

func storedLines(lines []Line) string {
	if len(lines) == 0 {
		return ""
	}
	b, err := json.Marshal(lines)
	if err != nil {
		panic(err) // strings and integers only
	}
	return string(b)
}

// save writes the row if it is still as it was loaded.
func (r *row) save() *call {
	return &call{sql: saveRowSQL, args: append(r.mutable(), r.ID, r.loadToken, string(r.loadStatus))}
}

// move changes the status and returns the event of the change. The status
// machine must allow it: everything else was checked before.
func (r *row) move(t *tx, to Status, by, reason string) *Event {
	if !r.Status.CanBecome(to) {
		panic(fmt.Sprintf("order %s: %s cannot become %s", r.ID, r.Status, to))
	}
	r.Status = to
	r.touch(t)
	return r.event(by, reason)
}

// touch sets the time of the last change. It never goes back, so that an
// order's events are in order by time even if the clock was set back.
func (r *row) touch(t *tx) { r.UpdatedAt = max(t.now, r.UpdatedAt) }

func (r *row) event(by, reason string) *Event {
	r.events++
	return &Event{OrderID: r.ID, Seq: r.events, Status: r.Status, Customer: r.Customer, Amount: r.Total,
		At: r.UpdatedAt, Round: r.Round, By: by, Reason: reason}
}

var insertEventSQL = "INSERT INTO events (order_id, seq, status, customer, amount, currency, at, numbered_at, actor, reason, round, runs) " +
	"VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $10, $11)"

func (e *Event) insert() *call {
	runs := ""
	if len(e.runs) > 0 {
		runs = string(appendRuns(nil, e.runs))
	}
	return &call{sql: insertEventSQL, args: []any{e.OrderID, e.Seq, string(e.Status), e.Customer, e.Amount.Minor,
		string(e.Amount.Currency), int64(e.At), e.By, e.Reason, e.Round, runs}}
}

// release ends a claim and has the order put on RETRY_CHANNEL at due.
func (r *row) release(t *tx, due Millis) {
	r.owner = 0
	r.step = ""
	r.send(t, dispatchRetry, due)
}

// send has the order put on a queue by this process.
func (r *row) send(t *tx, kind int64, due Millis) {
	r.dispatch, r.dueAt, r.relay = kind, due, t.s.process.id()
	r.sentAt, r.resends = 0, 0
}

// rest ends all of an order's claims and dispatches.
func (r *row) rest() {
	r.owner, r.step, r.dispatch, r.dueAt, r.waiting = 0, "", dispatchNone, 0, 0
}

// load reads and locks the rows of ids; ids nobody has are missing in the map.
// Sorted, so that two processes never wait for each other.
func (t *tx) load(ids []string) (map[string]*row, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	rows := make(map[string]*row, len(ids))
	calls := make([]*call, len(ids))
	text := "SELECT " + rowColumns + " FROM orders WHERE id = $1" + t.s.db.forUpdate()
	for i, id := range ids {
		calls[i] = &call{sql: text, args: []any{id}, row: func(scan scanFunc) error {
			r := new(row)
			if err := r.scan(scan); err != nil {
				return err
			}
			rows[r.ID] = r
			return nil
		}}
	}
	return rows, t.run(calls...)
}

func (t *tx) loadOne(id string) (*row, error) {
	rows, err := t.load([]string{id})
	if err != nil {
		return nil, err
	}
	if r := rows[id]; r != nil {
		return r, nil
	}
	return nil, errorf(KindNotFound, "", "there is no order %s", id)
}

// edits collects the changes of several rows of one lane.
type edits struct {
	rows  []*row
	saved map[*row]bool
	other []*call
}

func (e *edits) save(r *row) {
	if e.saved[r] {
		return
	}
	if e.saved == nil {
		e.saved = make(map[*row]bool)
	}
	e.saved[r] = true
	e.rows = append(e.rows, r)
}

func (e *edits) add(calls ...*call) { e.other = append(e.other, calls...) }

func (e *edits) event(ev *Event) { e.other = append(e.other, ev.insert()) }

// write writes what was collected and wakes those who wait for it.
func (e *edits) write(t *tx) error {
	calls := make([]*call, 0, len(e.rows)+len(e.other))
	for _, r := range e.rows {
		calls = append(calls, r.save())
	}
	calls = append(calls, e.other...)
	if len(calls) == 0 {
		return nil
	}
	if err := t.run(calls...); err != nil {
		return err
	}
	for i, r := range e.rows {
		if calls[i].rows != 1 {
			return fmt.Errorf("order %s changed under its lock", r.ID)
		}
	}
	t.after = append(t.after, func() {
		for _, r := range e.rows {
			t.s.dispatched(r)
		}
		t.s.signal(SignalCommitted)
	})
	return nil
}
