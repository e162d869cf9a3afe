package orders

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The statuses of a Redrive.
const (
	RedriveRunning   = "running"
	RedriveDone      = "done"
	RedriveCancelled = "cancelled"
)

// Redrive is the redriving of all dead letters that a filter selects, at a
// rate. It is in the store: it goes on in any process, and after a restart.
type Redrive struct {
	ID        string
	Status    string // RedriveRunning, …
	By        string
	Filter    DeadLetterFilter // Class, Customer, Reason, Before and After of it
	Rate      Rate
	Force     bool  // past MaxRedrives too
	Matched   int64 // dead letters when it began
	Redriven  int64
	Refused   int64 // for they were redriven MaxRedrives times, or are not open any more
	CreatedAt Millis
	DoneAt    Millis // 0 while it is running

	due      int64 // microseconds, of the next dead letter
	failedAt Millis
	letter   string // with failedAt: the last dead letter that was looked at
}

// Rate is how many dead letters are redriven per time. The zero value is DefaultRate.
type Rate struct {
	N   int64 // 1 to MaxRate
	Per time.Duration
}

// DefaultRate is the rate of a redrive that names none.
var DefaultRate = Rate{20, time.Second}

// MaxRate is the most that one second, minute or hour may have.
const MaxRate = 1000

var ratePeriods = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// ParseRate reads a rate such as 20/s, 300/m or 5/h. The error is an *Error of
// KindInvalid.
func ParseRate(text string) (Rate, error) {
	n, per, _ := strings.Cut(text, "/")
	r := Rate{Per: ratePeriods[per]}
	var err error
	if r.N, err = strconv.ParseInt(n, 10, 64); err != nil || r.Per == 0 || r.N < 1 || r.N > MaxRate {
		return Rate{}, errorf(KindInvalid, "rate", "must be a number from 1 to %d per s, m or h, such as 20/s", MaxRate)
	}
	return r, nil
}

// String returns the rate as ParseRate reads it.
func (r Rate) String() string {
	for unit, per := range ratePeriods {
		if per == r.Per {
			return strconv.FormatInt(r.N, 10) + "/" + unit
		}
	}
	return fmt.Sprintf("%d/%s", r.N, r.Per)
}

// gap is the time from one dead letter to the next in microseconds.
func (r Rate) gap() int64 { return max(1, r.Per.Microseconds()/r.N) }

// redrivable selects the open dead letters of f that have an order.
func redrivable(f DeadLetterFilter) *where {
	f.Status = DeadLetterOpen
	w := f.where()
	w.add("d.round > 0")
	return w
}

// CountRedrive returns how many dead letters a redrive of f would find, and
// how many of them it would refuse.
func (s *Store) CountRedrive(ctx context.Context, f DeadLetterFilter, force bool) (matched, refused int64, err error) {
	err = s.read(ctx, "count dead letters", s.countRedrive(f, force, &matched, &refused))
	return matched, refused, err
}

func (s *Store) countRedrive(f DeadLetterFilter, force bool, matched, refused *int64) *call {
	w := redrivable(f)
	most := "0"
	if s.options.MaxRedrives > 0 && !force {
		most = "COUNT(CASE WHEN d.round > " + strconv.Itoa(s.options.MaxRedrives) + " THEN 1 END)"
	}
	return &call{sql: "SELECT COUNT(*), " + most + " FROM dead_letters d" + w.String(), args: w.args,
		row: func(scan scanFunc) error { return scan(matched, refused) }}
}

// StartRedrive begins to redrive the open dead letters that f selects; those
// that become dead letters later are not among them. f.Status, Cursor and Limit
// are ignored.
func (s *Store) StartRedrive(ctx context.Context, f DeadLetterFilter, rate Rate, force bool, by string) (Redrive, error) {
	if rate == (Rate{}) {
		rate = DefaultRate
	}
	f = DeadLetterFilter{Class: f.Class, Customer: f.Customer, Reason: f.Reason, Before: f.Before, After: f.After}
	j := Redrive{ID: NewID(), Status: RedriveRunning, By: by, Filter: f, Rate: rate, Force: force}
	err := s.change(ctx, "start a redrive", func(t *tx) error {
		var refused int64
		j.CreatedAt = t.now
		j.due = int64(t.now) * 1000
		if err := t.run(s.countRedrive(f, force, &j.Matched, &refused)); err != nil {
			return err
		}
		return t.run(j.insert(), t.audit(by, "start redrive", j.ID, j.describe()))
	})
	if err != nil {
		return Redrive{}, err
	}
	return j, nil
}

// describe is what the audit says of a redrive.
func (j *Redrive) describe() string {
	text := fmt.Sprintf("%d dead letters at %s", j.Matched, j.Rate)
	for _, c := range []struct{ name, value string }{{"class", j.Filter.Class}, {"customer", j.Filter.Customer}, {"reason", j.Filter.Reason}} {
		if c.value != "" {
			text += ", " + c.name + " " + c.value
		}
	}
	if j.Filter.Before != 0 {
		text += ", before " + j.Filter.Before.Time().Format(time.RFC3339)
	}
	if j.Filter.After != 0 {
		text += ", from " + j.Filter.After.Time().Format(time.RFC3339)
	}
	if j.Force {
		text += ", forced"
	}
	return text
}

const redriveColumns = "id, status, actor, class, customer, reason, before_at, after_at, force, rate, matched, redriven, refused, " +
	"failed_at, letter, created_at, due_us, done_at"

func (j *Redrive) insert() *call {
	force := 0
	if j.Force {
		force = 1
	}
	return &call{sql: "INSERT INTO redrives (" + redriveColumns + ") VALUES (" + placeholders(1, 18) + ")",
		args: []any{j.ID, j.Status, j.By, j.Filter.Class, j.Filter.Customer, j.Filter.Reason, int64(j.Filter.Before), int64(j.Filter.After),
			force, j.Rate.String(), j.Matched, j.Redriven, j.Refused, int64(j.failedAt), j.letter, int64(j.CreatedAt), j.due, int64(j.DoneAt)}}
}

func (j *Redrive) scan(scan scanFunc) error {
	var force int64
	var rate string
	err := scan(&j.ID, &j.Status, &j.By, &j.Filter.Class, &j.Filter.Customer, &j.Filter.Reason, &j.Filter.Before, &j.Filter.After,
		&force, &rate, &j.Matched, &j.Redriven, &j.Refused, &j.failedAt, &j.letter, &j.CreatedAt, &j.due, &j.DoneAt)
	if err != nil {
		return err
	}
	j.Force = force != 0
	j.Rate, err = ParseRate(rate)
	return err
}

// GetRedrive returns how far a redrive is; KindNotFound if there is none of
// that id.
func (s *Store) GetRedrive(ctx context.Context, id string) (Redrive, error) {
	var j Redrive
	c := &call{sql: "SELECT " + redriveColumns + " FROM redrives WHERE id = $1", args: []any{id}, row: j.scan}
	if err := s.read(ctx, "get redrive "+id, c); err != nil {
		return Redrive{}, err
	}
	if c.rows == 0 {
		return Redrive{}, noRedrive(id)
	}
	return j, nil
}

func noRedrive(id string) error {
	return errorf(KindNotFound, "", "there is no redrive %s", clip(id, maxIDBytes))
}

// Redrives returns redrives, the newest first, and the cursor of the next
// page, empty on the last.
func (s *Store) Redrives(ctx context.Context, cursor string, limit int) ([]Redrive, string, error) {
	w := new(where)
	if err := w.before("created_at", "id", cursor); err != nil {
		return nil, "", err
	}
	limit = pageSize(limit)
	var out []Redrive
	err := s.read(ctx, "list redrives", &call{
		sql:  "SELECT " + redriveColumns + " FROM redrives" + w.String() + fmt.Sprintf(" ORDER BY created_at DESC, id DESC LIMIT %d", limit+1),
		args: w.args,
		row: func(scan scanFunc) error {
			var j Redrive
			err := j.scan(scan)
			out = append(out, j)
			return err
		}})
	if err != nil || len(out) <= limit {
		return out, "", err
	}
	out = out[:limit]
	return out, cursorOf(out[limit-1].CreatedAt, out[limit-1].ID), nil
}

// CancelRedrive ends a running redrive: what it has redriven stays so.
// KindConflict if it is not running any more.
func (s *Store) CancelRedrive(ctx context.Context, id, by string) (Redrive, error) {
	var out Redrive
	err := s.change(ctx, "cancel redrive "+id, func(t *tx) error {
		j, err := t.lockRedrive(id)
		if err != nil {
			return err
		}
		if j.Status != RedriveRunning {
			return errorf(KindConflict, "status", "the redrive is %s", j.Status)
		}
		j.Status, j.DoneAt = RedriveCancelled, t.now
		out = j
		return t.run(j.save(), t.audit(by, "cancel redrive", id, fmt.Sprintf("%d of %d redriven", j.Redriven, j.Matched)))
	})
	if err != nil {
		return Redrive{}, err
	}
	return out, nil
}

func (t *tx) lockRedrive(id string) (Redrive, error) {
	var j Redrive
	c := &call{sql: "SELECT " + redriveColumns + " FROM redrives WHERE id = $1" + t.s.db.forUpdate(), args: []any{id}, row: j.scan}
	if err := t.run(c); err != nil {
		return j, err
	}
	if c.rows == 0 {
		return j, noRedrive(id)
	}
	return j, nil
}

func (j *Redrive) save() *call {
	return &call{sql: "UPDATE redrives SET status = $1, redriven = $2, refused = $3, failed_at = $4, letter = $5, due_us = $6, done_at = $7 WHERE id = $8",
		args: []any{j.Status, j.Redriven, j.Refused, int64(j.failedAt), j.letter, j.due, int64(j.DoneAt), j.ID}}
}
