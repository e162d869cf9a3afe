package orders

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

const (
	redriveAtOnce = 100             // dead letters of one transaction
	redriveBurst  = int64(1e6)      // microseconds: what is made up for after a pause
	redriveLook   = 1 * time.Second // look for redrives that others started
)

// RedriveStep redrives the dead letters that are due in running redrives, and
// says how long there is nothing more to do: at most a second. Every process may
// call it at any time. The row of a redrive says when its next dead letter is
// due and is locked for each step, so that the rate is kept whoever steps, and
// a process that ends has nothing to give back.
func (s *Store) RedriveStep(ctx context.Context) (wait time.Duration, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	wait = redriveLook
	var due []string
	err = s.read(ctx, "look for redrives", &call{
		sql: "SELECT id, due_us FROM redrives WHERE status = 'running' ORDER BY due_us LIMIT 100",
		row: func(scan scanFunc) error {
			var id string
			var at int64
			if err := scan(&id, &at); err != nil {
				return err
			}
			if left := time.Duration(at-int64(now)*1000) * time.Microsecond; left > 0 {
				wait = min(wait, left)
				return nil
			}
			due = append(due, id)
			return nil
		}})
	for _, id := range due {
		wait = 0
		err = errors.Join(err, s.change(ctx, "go on with redrive "+id, func(t *tx) error { return t.redriveSome(id) }))
	}
	return wait, err
}

// redriveSome does what is due of one redrive.
func (t *tx) redriveSome(id string) error {
	j, err := t.lockRedrive(id)
	now := int64(t.now) * 1000
	if err != nil || j.Status != RedriveRunning || j.due > now {
		return err // another process was faster
	}
	j.due = max(j.due, now-redriveBurst)
	n := min((now-j.due)/j.Rate.gap()+1, redriveAtOnce)
	letters, err := t.nextLetters(&j, n)
	if err != nil {
		return err
	}
	e := new(edits)
	if err := t.redriveLetters(e, &j, letters); err != nil {
		return err
	}
	j.due += int64(len(letters)) * j.Rate.gap()
	if int64(len(letters)) < n {
		j.Status, j.DoneAt = RedriveDone, t.now
	}
	e.add(j.save())
	return e.write(t)
}

// nextLetters are the next n dead letters of j, oldest first.
func (t *tx) nextLetters(j *Redrive, n int64) ([]DeadLetter, error) {
	w := redrivable(j.Filter)
	w.add("d.failed_at <= ?", int64(j.CreatedAt))
	w.add("(d.failed_at, d.id) > (?, ?)", int64(j.failedAt), j.letter)
	w.args = append(w.args, n)
	var out []DeadLetter
	err := t.run(&call{
		sql:  "SELECT " + deadLetterColumns + " FROM dead_letters d" + w.String() + " ORDER BY d.failed_at, d.id LIMIT $" + strconv.Itoa(len(w.args)),
		args: w.args,
		row: func(scan scanFunc) error {
			var d DeadLetter
			err := d.scan(scan)
			out = append(out, d)
			return err
		}})
	return out, err
}

func (t *tx) redriveLetters(e *edits, j *Redrive, letters []DeadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	ids := make([]string, len(letters))
	for i := range letters {
		ids[i] = letters[i].OrderID
	}
	rows, err := t.load(slices.Clone(ids))
	if err != nil {
		return err
	}
	if err := t.refresh(letters); err != nil {
		return err
	}
	for i := range letters {
		d := &letters[i]
		j.failedAt, j.letter = d.FailedAt, d.ID
		r := rows[d.OrderID]
		if r == nil || r.Round != d.Round || d.Status != DeadLetterOpen || t.mayRedrive(r, j.Force) != nil {
			j.Refused++
			continue
		}
		t.newRound(e, r, j.By, "redrive "+j.ID)
		j.Redriven++
	}
	return nil
}

// refresh reads the statuses of letters again, now that their orders are
// locked: somebody may have discarded one meanwhile.
func (t *tx) refresh(letters []DeadLetter) error {
	calls := make([]*call, len(letters))
	for i := range letters {
		d := &letters[i]
		calls[i] = &call{sql: "SELECT status FROM dead_letters WHERE id = $1", args: []any{d.ID},
			row: func(scan scanFunc) error { return scan(&d.Status) }}
	}
	return t.run(calls...)
}
