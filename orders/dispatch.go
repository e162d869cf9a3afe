package orders

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// DispatchKind says where a Dispatch goes.
type DispatchKind uint8

// The kinds of dispatches.
const (
	DispatchOrder      DispatchKind = iota // ORDERS_CHANNEL
	DispatchRetry                          // RETRY_CHANNEL
	DispatchDeadLetter                     // DLQ_CHANNEL
)

// Dispatch is something that has to be put on a queue.
type Dispatch struct {
	Kind      DispatchKind
	OrderID   string
	Customer  string
	Round     int
	Body      []byte
	ExpiresAt Millis        // of the order; 0 for dead letters
	Left      time.Duration // until then, when it was handed out; 0: no end
	Reason    string        // dead letters only

	key dispatchKey
}

// dispatchKey names one sending of one row. The token tells a row that was
// claimed meanwhile from the one that was handed out.
type dispatchKey struct {
	id    string // of the order, or of the dead letter
	token int64
	kind  DispatchKind
}

const (
	maxReady  = 10_000          // dispatches in memory; what is over waits in the table
	pollEvery = 2 * time.Second // look into the table although nothing says so
)

// outgoing is what this process has to send: in memory what it has just
// committed, the rest in the table.
type outgoing struct {
	mu    sync.Mutex // protects all below
	ready []Dispatch
	known map[dispatchKey]struct{} // in ready, or handed out and not marked yet
	next  time.Time                // when to look into the table
	wake  chan struct{}
}

func newOutgoing() *outgoing {
	return &outgoing{known: make(map[dispatchKey]struct{}), wake: make(chan struct{}, 1)}
}

// poll has the table looked into at once.
func (o *outgoing) poll() { o.pollAt(time.Time{}) }

func (o *outgoing) pollAt(at time.Time) {
	o.mu.Lock()
	if at.Before(o.next) {
		o.next = at
	}
	o.mu.Unlock()
	o.ring()
}

func (o *outgoing) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// push adds a dispatch unless it is there already.
func (o *outgoing) push(d Dispatch) {
	o.mu.Lock()
	switch _, known := o.known[d.key]; {
	case known:
	case len(o.ready) >= maxReady:
		o.next = time.Time{}
	default:
		o.known[d.key] = struct{}{}
		o.ready = append(o.ready, d)
	}
	o.mu.Unlock()
	o.ring()
}

func (o *outgoing) take(limit int) []Dispatch {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(limit, len(o.ready))
	if n == 0 {
		return nil
	}
	out := o.ready[:n:n]
	o.ready = o.ready[n:]
	if len(o.ready) == 0 {
		o.ready = nil // lets the array go
	}
	return out
}

// wait returns how long until the table has to be looked into, and how many
// rows of it are known already.
func (o *outgoing) wait() (time.Duration, int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Until(o.next), len(o.known)
}

func (o *outgoing) forget(keys []dispatchKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range keys {
		delete(o.known, k)
	}
}

// dispatched notes what a committed row has to be sent.
func (s *Store) dispatched(r *row) {
	if r.relay != s.process.id() || r.dispatch == dispatchNone {
		return
	}
	if r.dispatch == dispatchRetry {
		s.out.pollAt(time.Now().Add(time.Duration(r.dueAt-s.clock.now()) * time.Millisecond))
		return
	}
	s.out.push(r.asDispatch())
}

func (r *row) asDispatch() Dispatch {
	d := Dispatch{Kind: DispatchOrder, OrderID: r.ID, Customer: r.Customer, Round: r.Round,
		Body: r.AppendMessage(make([]byte, 0, 256)), ExpiresAt: r.ExpiresAt}
	if r.dispatch == dispatchRetry {
		d.Kind = DispatchRetry
	}
	if r.waiting != 0 {
		d.ExpiresAt = 0 // what waits for stock does not expire
	}
	d.key = dispatchKey{r.ID, r.token, d.Kind}
	return d
}

// NextDispatches blocks until something is due, and returns at most max of it;
// nil and the context's error when ctx ends. What it returns is not returned
// again before MarkSent or Unsent.
func (s *Store) NextDispatches(ctx context.Context, max int) ([]Dispatch, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if out := s.out.take(max); len(out) > 0 {
			return s.withLeft(out), nil
		}
		wait, known := s.out.wait()
		if wait <= 0 {
			out, err := s.unsentRows(ctx, max, known)
			if err != nil || len(out) > 0 {
				return s.withLeft(out), err
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.out.wake:
		case <-timer.C:
		}
	}
}

func (s *Store) withLeft(ds []Dispatch) []Dispatch {
	now := s.clock.now()
	for i := range ds {
		if ds[i].ExpiresAt != 0 {
			ds[i].Left = time.Duration(ds[i].ExpiresAt-now) * time.Millisecond
		}
	}
	return ds
}

// unsentRows looks into the table for what is due and not known yet.
func (s *Store) unsentRows(ctx context.Context, limit, known int) ([]Dispatch, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	s.clock.set(now)
	next := time.Now().Add(pollEvery)
	var found []Dispatch
	err = s.read(ctx, "look for orders to send", &call{
		sql:  "SELECT " + rowColumns + " FROM orders WHERE relay = $1 AND dispatch <> 0 ORDER BY due_at LIMIT $2",
		args: []any{s.process.id(), limit + known + 1},
		row: func(scan scanFunc) error {
			r := new(row)
			if err := r.scan(scan); err != nil {
				return err
			}
			if r.dueAt > now {
				if due := time.Now().Add(time.Duration(r.dueAt-now) * time.Millisecond); due.Before(next) {
					next = due
				}
				return nil
			}
			found = append(found, r.asDispatch())
			return nil
		}})
	if err != nil {
		return nil, err
	}
	copies, err := s.unsentCopies(ctx, limit)
	if err != nil {
		return nil, err
	}
	return s.out.admit(append(found, copies...), limit, next), nil
}

// admit keeps what is not known yet, at most limit, and notes when to look again.
func (o *outgoing) admit(found []Dispatch, limit int, next time.Time) []Dispatch {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next = next
	out := found[:0]
	for _, d := range found {
		if _, known := o.known[d.key]; known {
			continue
		}
		if len(out) == limit {
			o.next = time.Time{} // there is more
			break
		}
		o.known[d.key] = struct{}{}
		out = append(out, d)
	}
	return out
}

// unsentCopies looks for dead letters whose copy is not on DLQ_CHANNEL yet.
func (s *Store) unsentCopies(ctx context.Context, limit int) ([]Dispatch, error) {
	var out []Dispatch
	err := s.read(ctx, "look for dead letters to send", &call{
		sql: "SELECT d.id, d.reason, d.round, " + prefixed("o.", rowColumns) + " FROM dead_letters d JOIN orders o ON o.id = d.order_id " +
			"WHERE d.copy <> 0 AND d.relay = $1 LIMIT $2",
		args: []any{s.process.id(), limit},
		row: func(scan scanFunc) error {
			var r row
			var d Dispatch
			err := r.scan(func(dest ...any) error { return scan(append([]any{&d.key.id, &d.Reason, &d.Round}, dest...)...) })
			if err != nil {
				return err
			}
			d.Kind, d.key.kind = DispatchDeadLetter, DispatchDeadLetter
			d.OrderID, d.Customer, d.Body = r.ID, r.Customer, r.AppendMessage(nil)
			out = append(out, d)
			return nil
		}})
	return out, err
}

// MarkSent records that the broker has taken ds. A row that was claimed in the
// meantime is left as it is.
func (s *Store) MarkSent(ctx context.Context, ds []Dispatch) error {
	err := s.write(ctx, markLane, ds)
	if err != nil {
		return s.fault("mark orders as sent", err)
	}
	s.out.forget(keysOf(ds))
	return nil
}

var markLane = &lane{name: "mark orders as sent", run: func(t *tx, ops []*op) error {
	var calls []*call
	for _, o := range ops {
		for _, d := range o.arg.([]Dispatch) {
			if d.Kind == DispatchDeadLetter {
				calls = append(calls, &call{sql: "UPDATE dead_letters SET copy = 0 WHERE id = $1", args: []any{d.key.id}})
				continue
			}
			kind := int64(dispatchOrder)
			if d.Kind == DispatchRetry {
				kind = dispatchRetry
			}
			calls = append(calls, &call{sql: "UPDATE orders SET dispatch = 0, sent_at = $1 WHERE id = $2 AND token = $3 AND dispatch = $4",
				args: []any{int64(t.now), d.key.id, d.key.token, kind}})
		}
	}
	return t.run(calls...)
}}

// Unsent says that ds did not get to the broker: they are handed out again.
func (s *Store) Unsent(ds []Dispatch) {
	s.out.forget(keysOf(ds))
	s.out.poll()
}

func keysOf(ds []Dispatch) []dispatchKey {
	keys := make([]dispatchKey, len(ds))
	for i := range ds {
		keys[i] = ds[i].key
	}
	return keys
}

// clock tells the database's time between two looks at it.
type clock struct{ offset atomic.Int64 } // milliseconds to add to this host's clock

func (c *clock) set(now Millis) { c.offset.Store(int64(now - MillisOf(time.Now()))) }

func (c *clock) now() Millis { return MillisOf(time.Now()) + Millis(c.offset.Load()) }
