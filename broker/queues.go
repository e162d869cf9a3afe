package broker

import (
	"cmp"
	"container/list"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderd/broker/store"
)

// answerBytes bounds the answer to a poll when it has more than one message:
// clients whose receive limit is gRPC's default of 4 MiB lose their stream if
// more comes.
const answerBytes = 3 << 20

// entry is a message as queues see it: ready, delayed, or held by a consumer.
type entry struct {
	m        *store.Message
	q        *queue
	at       int64 // since when it can be received, Unix nanoseconds: its place in the queue
	ordered  int   // index in q.ready or queues.delayed
	expiring int   // index in queues.expiring
	held     bool
}

func byTime(e *entry) int64       { return e.at }
func byExpiry(e *entry) int64     { return e.m.ExpiresAt }
func orderIndex(e *entry) *int    { return &e.ordered }
func expiringIndex(e *entry) *int { return &e.expiring }

type queue struct {
	name    string
	known   bool // there was a message, or somebody created it
	ready   entries
	waiters list.List // of *waiter, the longest waiting first
	lastAt  int64     // SentAt of the newest message: clocks may go back, queues not
	held    int
	delayed int
	expired int // messages that expired since the start
	sent    int64
	taken   int64
}

// waiter is a poll that waits for messages.
type waiter struct {
	max     int
	granted chan grant // capacity 1
	place   *list.Element
}

// grant is what a waiter gets. The messages may be delivered when commit is on
// disk: it counts them as received.
type grant struct {
	entries []*entry
	commit  *store.Commit
}

// queues schedules the messages of all queues. What has to last is in the
// store; every change of it is made by a change.
type queues struct {
	log   zerolog.Logger
	store *store.Store
	alarm chan struct{} // something falls due earlier than before; capacity 1

	mu       sync.Mutex // protects all below, and the order in which the store learns of it
	byName   map[string]*queue
	delayed  entries // of all queues
	expiring entries // of all queues, ready or delayed
	rings    int64   // when the clock looks next, Unix nanoseconds
}

func openQueues(s *store.Store, log zerolog.Logger) (*queues, error) {
	qs := &queues{
		log: log, store: s, alarm: make(chan struct{}, 1), byName: make(map[string]*queue),
		delayed: entries{at: byTime, index: orderIndex}, expiring: entries{at: byExpiry, index: expiringIndex},
	}
	var spent []*entry
	for _, name := range s.Queues() {
		q := qs.queue(name)
		q.known = true
		now := time.Now().UnixNano()
		for _, m := range s.Messages(name) {
			e := &entry{m: m, q: q, ordered: notInHeap, expiring: notInHeap}
			q.lastAt = max(q.lastAt, m.SentAt)
			if m.MaxReceived > 0 && m.Received >= m.MaxReceived {
				e.held = true // by the consumer that was there before the crash
				q.held++
				spent = append(spent, e)
				continue
			}
			qs.schedule(e, now)
		}
	}
	slices.SortFunc(spent, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.m.SentAt, b.m.SentAt), cmp.Compare(a.m.Seq, b.m.Seq))
	})
	if err := qs.giveBack(spent, true); err != nil {
		return nil, fmt.Errorf("move dead letters: %w", err)
	}
	return qs, nil
}

func (qs *queues) queue(name string) *queue {
	q := qs.byName[name]
	if q == nil {
		q = &queue{name: name, ready: entries{at: byTime, index: orderIndex}}
		qs.byName[name] = q
	}
	return q
}

// schedule puts a message where it waits for a consumer or its time.
func (qs *queues) schedule(e *entry, now int64) {
	e.at = max(e.m.SentAt, e.m.DelayedTo)
	if e.m.DelayedTo > now {
		e.q.delayed++
		qs.delayed.add(e)
	} else {
		e.q.ready.add(e)
	}
	if e.m.ExpiresAt > 0 {
		qs.expiring.add(e)
	}
}

// unschedule takes a message out of wherever it waits.
func (qs *queues) unschedule(e *entry) {
	if e.ordered != notInHeap {
		if e.ordered < qs.delayed.Len() && qs.delayed.list[e.ordered] == e {
			e.q.delayed--
			qs.delayed.remove(e)
		} else {
			e.q.ready.remove(e)
		}
	}
	qs.expiring.remove(e)
}

// change is one step from a consistent state to the next, in memory and in the
// store's log alike.
type change struct {
	*store.Tx
	qs      *queues
	now     int64
	touched []*queue
	waiters []*waiter
	grants  []grant
}

// change makes a step, then lets waiters have what became ready by it. Lazy
// says that nobody waits for what fn does to be on disk.
func (qs *queues) change(lazy bool, fn func(*change)) *store.Commit {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	c := &change{Tx: qs.store.Begin(), qs: qs, now: time.Now().UnixNano()}
	fn(c)
	for _, q := range c.touched {
		c.serve(q)
		if !q.known && q.waiters.Len() == 0 {
			delete(qs.byName, q.name)
		}
	}
	commit := c.Commit(lazy && len(c.grants) == 0)
	for i, w := range c.waiters {
		c.grants[i].commit = commit
		w.granted <- c.grants[i]
	}
	qs.setAlarm()
	return commit
}

func (c *change) touch(q *queue) {
	for _, t := range c.touched {
		if t == q {
			return
		}
	}
	c.touched = append(c.touched, q)
}

// serve gives ready messages to waiters.
func (c *change) serve(q *queue) {
	for q.waiters.Len() > 0 && q.ready.Len() > 0 {
		w := q.waiters.Front().Value.(*waiter)
		got := c.take(q, w.max)
		if len(got) == 0 {
			return
		}
		q.waiters.Remove(w.place)
		w.place = nil
		c.waiters = append(c.waiters, w)
		c.grants = append(c.grants, grant{entries: got})
	}
}

// take takes up to limit messages for a consumer and counts them as received.
func (c *change) take(q *queue, limit int) []*entry {
	var got []*entry
	size := 0
	for len(got) < limit {
		e := q.ready.first()
		if e == nil {
			break
		}
		if c.isExpired(e) {
			c.qs.unschedule(e)
			c.expire(e)
			continue
		}
		if size += e.m.Size(); size > answerBytes && len(got) > 0 {
			break
		}
		c.qs.unschedule(e)
		e.held = true
		q.held++
		q.taken++
		c.Receive(e.m, e.m.Received+1)
		got = append(got, e)
	}
	return got
}

func (c *change) isExpired(e *entry) bool { return e.m.ExpiresAt > 0 && e.m.ExpiresAt <= c.now }

func (c *change) expire(e *entry) {
	e.q.expired++
	c.Settle(e.m)
}

// put adds a message to a queue and schedules it.
func (c *change) put(name string, m *store.Message, payload []byte) {
	q := c.qs.queue(name)
	q.known = true
	q.sent++
	q.lastAt = max(q.lastAt, c.now)
	m.SentAt = q.lastAt
	c.Put(name, m, payload)
	c.qs.schedule(&entry{m: m, q: q, ordered: notInHeap, expiring: notInHeap}, c.now)
	c.touch(q)
}

// release ends a consumer's hold of a message and says whether there was one,
// and still is a message.
func (c *change) release(e *entry) bool {
	if !e.held {
		return false
	}
	e.held = false
	e.q.held--
	return !c.Gone(e.m)
}

// setAlarm has the clock look when the next message falls due.
func (qs *queues) setAlarm() {
	next := qs.nextDue()
	if next != 0 && (qs.rings == 0 || next < qs.rings) {
		select {
		case qs.alarm <- struct{}{}:
		default:
		}
	}
}

func (qs *queues) nextDue() int64 {
	next := int64(0)
	if e := qs.delayed.first(); e != nil {
		next = e.at
	}
	if e := qs.expiring.first(); e != nil && (next == 0 || e.m.ExpiresAt < next) {
		next = e.m.ExpiresAt
	}
	return next
}

// dueAtOnce bounds how many messages the clock moves under one lock.
const dueAtOnce = 1_000

// clock lets delays and expirations end until stop is closed.
func (qs *queues) clock(stop <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-qs.alarm:
		case <-timer.C:
		}
		qs.change(true, func(c *change) { c.fallDue() })
		qs.mu.Lock()
		qs.rings = qs.nextDue()
		wait := time.Hour
		if qs.rings != 0 {
			wait = time.Until(time.Unix(0, qs.rings))
		}
		qs.mu.Unlock()
		timer.Reset(max(0, wait))
	}
}

func (c *change) fallDue() {
	for range dueAtOnce {
		e := c.qs.delayed.first()
		if e == nil || e.at > c.now {
			break
		}
		c.qs.delayed.remove(e)
		e.q.delayed--
		e.q.ready.add(e)
		c.touch(e.q)
	}
	for range dueAtOnce {
		e := c.qs.expiring.first()
		if e == nil || !c.isExpired(e) {
			break
		}
		c.qs.unschedule(e)
		c.expire(e)
	}
}

func (qs *queues) stats(s *Stats) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	s.Queues = len(qs.byName)
	for _, q := range qs.byName {
		s.Waiting += q.ready.Len()
		s.Delayed += q.delayed
		s.Unacked += q.held
		s.Polls += q.waiters.Len()
	}
}
