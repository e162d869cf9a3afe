package orders

import (
	"context"
	"time"
)

// maxCommit is how many operations share one transaction at most.
const maxCommit = 256

// maxCollisions is how often a transaction is run that deadlocks with those of
// other processes, before its callers are told that the store is unavailable.
const maxCollisions = 10

// lane is one kind of write. Its operations of one commit run together, so
// that a remote database sees a few round trips and not a few for each.
type lane struct {
	name string
	run  func(t *tx, ops []*op) error // may run again after a rollback: no effect outside of the ops
}

// op is one write that waits for its commit.
type op struct {
	lane *lane
	arg  any
	err  error // of this operation alone; the others are not affected
	ctx  context.Context
	done chan struct{}
}

// tx is the open write transaction.
type tx struct {
	s     *Store
	ctx   context.Context
	on    session
	now   Millis
	after []func() // run once the commit is on disk
}

func (t *tx) run(calls ...*call) error { return t.on.run(t.ctx, calls) }

// write has arg done in lane and returns once its transaction is on disk, or
// failed. If ctx ends before the transaction is begun, nothing is done; after
// that it is waited for, within queryTimeout: the caller's variables are its
// own again only then.
func (s *Store) write(ctx context.Context, l *lane, arg any) error {
	o := &op{lane: l, arg: arg, ctx: ctx, done: make(chan struct{})}
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return s.fault(l.name, ctx.Err())
	case <-s.closing:
		return s.fault(l.name, errClosed)
	}
	select {
	case <-o.done:
		return s.fault(l.name, o.err)
	case <-s.closed:
		// The committer is gone; it may have done this one as its last.
		select {
		case <-o.done:
			return s.fault(l.name, o.err)
		default:
			return s.fault(l.name, errClosed)
		}
	}
}

var errClosed = &Error{Kind: KindUnavailable, Msg: "the store is closed", RetryAfter: retryAfter}

// once is the lane of rare writes: each is a function of its own.
var once = &lane{name: "write", run: func(t *tx, ops []*op) error {
	for _, o := range ops {
		if err := o.settle(o.arg.(func(*tx) error)(t)); err != nil {
			return err
		}
	}
	return nil
}}

// settle keeps a verdict (an *Error: nothing was written) as the operation's
// own, and returns any other error: that one ends the transaction.
func (o *op) settle(err error) error {
	if e, ok := err.(*Error); ok {
		o.err = e
		return nil
	}
	return err
}

// change runs fn in the next commit. An *Error from fn is its verdict; fn must
// not have written anything by then.
func (s *Store) change(ctx context.Context, doing string, fn func(*tx) error) error {
	if err := s.write(ctx, once, fn); err != nil {
		return s.fault(doing, err)
	}
	return nil
}

// commits is the committer: the only writer of this process. It takes whatever
// waits, so that the commit's cost is shared by all who came during the last.
func (s *Store) commits() {
	defer close(s.closed)
	batch := make([]*op, 0, maxCommit)
	for {
		select {
		case o := <-s.ops:
			batch = append(batch[:0], o)
		case <-s.closing:
			return
		}
		for more := true; more && len(batch) < maxCommit; {
			select {
			case o := <-s.ops:
				batch = append(batch, o)
			default:
				more = false
			}
		}
		s.commit(batch)
	}
}

func (s *Store) commit(batch []*op) {
	live := batch[:0]
	for _, o := range batch {
		if o.err = o.ctx.Err(); o.err != nil {
			close(o.done)
			continue
		}
		live = append(live, o)
	}
	if len(live) == 0 {
		return
	}
	err := s.attempt(live)
	for try := 1; err != nil && try < maxCollisions && s.db.collided(err); try++ {
		s.log.Debug().Err(err).Int("ops", len(live)).Msg("transaction collided with another process's, running it again")
		err = s.attempt(live)
	}
	if err != nil && !s.db.unavailable(err) {
		// One of them is at fault: alone, each gets what it deserves. A single one
		// is tried again too: what another process committed meanwhile, such as the
		// same Idempotency-Key, is seen then.
		for _, o := range live {
			if err := s.attempt([]*op{o}); err != nil {
				o.err = err
			}
			close(o.done)
		}
		return
	}
	for _, o := range live {
		if err != nil {
			o.err = err
		}
		close(o.done)
	}
}

// attempt runs ops in one transaction.
func (s *Store) attempt(ops []*op) error {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	start := time.Now()
	on, err := s.db.begin(ctx)
	if err != nil {
		return err
	}
	t := &tx{s: s, ctx: ctx, on: on, now: on.now()}
	s.clock.set(t.now)
	if err := t.lanes(ops); err != nil {
		on.rollback()
		return err
	}
	if err := on.commit(ctx); err != nil {
		return err
	}
	s.log.Trace().Int("ops", len(ops)).Dur("took_ms", time.Since(start)).Msg("committed")
	for _, fn := range t.after {
		fn()
	}
	return nil
}

// lanes runs ops lane by lane, in the order in which the lanes first occur.
func (t *tx) lanes(ops []*op) error {
	var group []*op
	for i, first := range ops {
		seen := false
		for _, o := range ops[:i] {
			seen = seen || o.lane == first.lane
		}
		if seen {
			continue
		}
		group = group[:0]
		for _, o := range ops[i:] {
			if o.lane == first.lane {
				o.err = nil
				group = append(group, o)
			}
		}
		if err := first.lane.run(t, group); err != nil {
			return err
		}
	}
	return nil
}
