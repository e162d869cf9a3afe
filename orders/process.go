package orders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"
)

// process is this process in the eyes of the others: an id that was never used
// before, so that nobody's orders can be taken for another's.
type process struct{ current atomic.Int64 }

func newProcess() *process {
	p := new(process)
	p.renew()
	return p
}

func (p *process) id() int64 { return p.current.Load() }

func (p *process) renew() { p.current.Store(rand.Int64N(1<<53-1) + 1) } // fits a JSON number

// slot is a place among the processes that share DATA_DIR: a file that is
// locked as long as its process lives. It holds the slot's name and the id of
// the process that has or had it.
type slot struct {
	name string
	file *os.File
}

const maxSlots = 1000

// takeSlot takes the first free slot and returns the ids of the processes that
// had this or another free slot before: the lock says that they are dead.
func takeSlot(dataDir string) (*slot, []int64, error) {
	dir := filepath.Join(dataDir, "instances")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, nil, fmt.Errorf("make instance folder: %w", err)
	}
	var mine *slot
	var dead []int64
	for n := 1; n <= maxSlots; n++ {
		path := filepath.Join(dir, strconv.Itoa(n))
		if _, err := os.Stat(path); mine != nil && errors.Is(err, os.ErrNotExist) {
			return mine, dead, nil
		}
		s, process, err := lockSlot(path, n)
		if err != nil {
			return nil, nil, fmt.Errorf("lock instance file %s: %w", path, err)
		}
		if s == nil {
			continue // its process lives
		}
		if process != 0 {
			dead = append(dead, process)
		}
		if mine == nil {
			mine = s
			continue
		}
		if err := errors.Join(s.write(0), s.close()); err != nil {
			return nil, nil, fmt.Errorf("free instance file %s: %w", path, err)
		}
	}
	if mine == nil {
		return nil, nil, fmt.Errorf("all %d instance files in %s are taken", maxSlots, dir)
	}
	return mine, dead, nil
}

// lockSlot returns nil if a living process has the slot.
func lockSlot(path string, n int) (*slot, int64, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, 0, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = nil
		}
		return nil, 0, errors.Join(err, f.Close())
	}
	text, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	s := &slot{file: f}
	var process int64
	if words := strings.Fields(string(text)); len(words) == 2 {
		s.name = words[0]
		process, _ = strconv.ParseInt(words[1], 10, 64)
	}
	if s.name == "" {
		// The random part keeps slots of different folders apart.
		s.name = strconv.Itoa(n) + "-" + strings.ToLower(ulid.Make().String()[18:])
	}
	return s, process, nil
}

func (s *slot) write(process int64) error {
	text := s.name + " " + strconv.FormatInt(process, 10) + "\n"
	if _, err := s.file.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	if err := s.file.Truncate(int64(len(text))); err != nil {
		return err
	}
	return s.file.Sync()
}

func (s *slot) close() error { return s.file.Close() }

// join registers this process and releases what dead ones held.
func (s *Store) join(ctx context.Context, dead []int64) error {
	if err := s.change(ctx, "register this process", s.register); err != nil {
		return err
	}
	if err := s.slot.write(s.process.id()); err != nil {
		return fmt.Errorf("write instance file: %w", err)
	}
	for _, id := range dead {
		if err := s.bury(ctx, id, proven); err != nil {
			return err
		}
	}
	return s.adopt(ctx)
}

func (s *Store) register(t *tx) error {
	until := t.now.Add(s.options.Lease)
	return t.run(&call{sql: "INSERT INTO processes (id, instance, lease_until) VALUES ($1, $2, $3)",
		args: []any{s.process.id(), s.slot.name, int64(until)}})
}

// leave gives the process's row back; its unsent orders are then anybody's.
func (s *Store) leave(ctx context.Context) error {
	id := s.process.id()
	err := s.change(ctx, "leave", func(t *tx) error {
		return t.run(&call{sql: "UPDATE processes SET lease_until = 0 WHERE id = $1", args: []any{id}})
	})
	if err != nil {
		return err
	}
	if err := s.bury(ctx, id, leaving); err != nil {
		return err
	}
	return s.slot.write(0)
}

// Run renews this process's lease every third of it, releases what processes
// held whose lease has run out, takes over what they had not sent yet and
// deletes what is older than its retention. It returns nil when ctx ends; a
// database that is away is tried again.
func (s *Store) Run(ctx context.Context) error {
	var cleaning sync.WaitGroup
	// Apart, so that deleting much never keeps the lease from being renewed.
	cleaning.Go(func() { s.purges(ctx) })
	cleaning.Go(func() { s.checkDamage(ctx) })
	defer cleaning.Wait()
	tick := time.NewTicker(s.options.Lease / 3)
	defer tick.Stop()
	away := false
	for {
		err := s.lookAfter(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !away:
			s.log.Warn().Err(err).Msg("process lease not renewed")
		case err == nil && away:
			s.log.Info().Msg("process lease renewed again")
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Store) lookAfter(ctx context.Context) error {
	renewed := true
	err := s.change(ctx, "renew the process lease", func(t *tx) error {
		c := &call{sql: "UPDATE processes SET lease_until = $1 WHERE id = $2",
			args: []any{int64(t.now.Add(s.options.Lease)), s.process.id()}}
		err := t.run(c)
		renewed = c.rows == 1
		return err
	})
	if err != nil {
		return err
	}
	if !renewed {
		if err := s.rejoin(ctx); err != nil {
			return err
		}
	}
	dead, err := s.overdue(ctx)
	if err != nil {
		return err
	}
	for _, id := range dead {
		s.log.Warn().Int64("process", id).Msg("process lease ran out, its orders are released")
		if err := s.bury(ctx, id, late); err != nil {
			return err
		}
	}
	return s.adopt(ctx)
}

// rejoin comes back from a time in which others took this process for dead and
// released its orders: under a new id, so that nothing of the old one counts.
func (s *Store) rejoin(ctx context.Context) error {
	s.log.Warn().Msg("process was taken for dead, registering again")
	s.process.renew()
	if err := s.change(ctx, "register this process", s.register); err != nil {
		return err
	}
	if err := s.slot.write(s.process.id()); err != nil {
		return fmt.Errorf("write instance file: %w", err)
	}
	return nil
}

func (s *Store) overdue(ctx context.Context) ([]int64, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	var dead []int64
	err = s.read(ctx, "look for dead processes", &call{
		sql: "SELECT id FROM processes WHERE lease_until < $1 AND id <> $2", args: []any{int64(now), s.process.id()},
		row: func(scan scanFunc) error {
			var id int64
			err := scan(&id)
			dead = append(dead, id)
			return err
		}})
	return dead, err
}

const buryAtOnce = 500

// cause is why a process is taken for gone.
type cause uint8

const (
	late    cause = iota // its lease ran out; it may have come back since
	proven               // its instance file is free
	leaving              // it says so itself: no death is counted
)

// bury releases everything a process held: its claims (a death is counted for
// each), its deliveries and voids under way, its leases and its row.
func (s *Store) bury(ctx context.Context, id int64, why cause) error {
	for more := true; more; {
		err := s.change(ctx, "release a dead process", func(t *tx) error {
			var err error
			more, err = t.bury(id, why)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) bury(id int64, why cause) (more bool, err error) {
	living := &call{sql: "SELECT 1 FROM processes WHERE id = $1 AND lease_until >= $2" + t.s.db.forUpdate(), args: []any{id, int64(t.now)},
		row: func(scan scanFunc) error { var one int; return scan(&one) }}
	var ids []string
	claimed := &call{sql: "SELECT id FROM orders WHERE owner = $1 AND owner <> 0 LIMIT $2", args: []any{id, buryAtOnce},
		row: func(scan scanFunc) error {
			var order string
			err := scan(&order)
			ids = append(ids, order)
			return err
		}}
	if err := t.run(living, claimed); err != nil {
		return false, err
	}
	if why == late && living.rows > 0 {
		return false, nil
	}
	rows, err := t.load(ids)
	if err != nil {
		return false, err
	}
	e := new(edits)
	for _, r := range rows {
		switch {
		case r.owner != id:
		case why == leaving && r.cancelAt == 0:
			r.touch(t)
			r.release(t, t.now)
			e.save(r)
		default:
			t.died(e, r)
		}
	}
	if err := e.write(t); err != nil {
		return false, err
	}
	if len(ids) == buryAtOnce {
		return true, nil
	}
	return false, t.buryRest(id)
}

func (t *tx) buryRest(id int64) error {
	return t.run(
		&call{sql: "UPDATE deliveries SET status = 'pending', owner = 0 WHERE status = 'sending' AND owner = $1", args: []any{id}},
		&call{sql: "UPDATE voids SET owner = 0 WHERE status = 'due' AND owner = $1", args: []any{id}},
		&call{sql: "DELETE FROM leases WHERE process = $1", args: []any{id}},
		&call{sql: "DELETE FROM processes WHERE id = $1", args: []any{id}},
	)
}

// died counts the loss of the worker that held r. An order that has seen one
// before, and whose work had not begun this time, is not to blame: what kills
// its workers must not take the orders beside it along.
func (t *tx) died(e *edits, r *row) {
	if r.step == "" {
		t.releaseUnbegun(e, r)
		return
	}
	r.Deaths++
	run := Attempt{Step: r.step, Round: r.Round, Attempt: r.Attempts + 1, StartedAt: r.claimedAt,
		TookMs: int64(max(0, t.now-r.claimedAt)), Outcome: AttemptDied, ErrorClass: "worker_died",
		Error: "the process that ran this step ended", Worker: strconv.FormatInt(r.owner, 10)}
	e.add(insertRuns(r, []Attempt{run}))
	switch {
	case r.cancelAt != 0:
		t.cancel(e, r)
	case r.Deaths >= t.s.options.MaxDeaths:
		t.fail(e, r, "worker_died", deathReason(r.Deaths), run.Step, nil)
	default:
		r.touch(t)
		r.release(t, t.now)
		e.save(r)
	}
}

func (t *tx) releaseUnbegun(e *edits, r *row) {
	if r.cancelAt != 0 {
		t.cancel(e, r)
		return
	}
	r.touch(t)
	r.release(t, t.now)
	e.save(r)
}

// adopt makes this process send what no living process will send.
func (s *Store) adopt(ctx context.Context) error {
	// Looked for first, so that the usual tick costs no commit.
	found := false
	look := &call{sql: "SELECT 1 FROM orders WHERE dispatch <> 0 AND relay NOT IN (SELECT id FROM processes) " +
		"UNION ALL SELECT 1 FROM dead_letters WHERE copy <> 0 AND relay NOT IN (SELECT id FROM processes) LIMIT 1",
		row: func(scan scanFunc) error { found = true; var one int; return scan(&one) }}
	if err := s.read(ctx, "look for unsent orders", look); err != nil || !found {
		return err
	}
	return s.change(ctx, "take over unsent orders", func(t *tx) error {
		t.after = append(t.after, s.out.poll)
		return t.run(
			&call{sql: "UPDATE orders SET relay = $1 WHERE dispatch <> 0 AND relay NOT IN (SELECT id FROM processes)",
				args: []any{s.process.id()}},
			&call{sql: "UPDATE dead_letters SET relay = $1 WHERE copy <> 0 AND relay NOT IN (SELECT id FROM processes)",
				args: []any{s.process.id()}})
	})
}
