package store

import (
	"time"
)

// Commit is a transaction on its way to disk.
type Commit struct {
	done    chan struct{}
	err     error // valid when done is closed
	records []pendingRecord
	size    int
	copies  bool // it is the cleaner's
}

// pendingRecord is a record and what has to learn its place.
type pendingRecord struct {
	head, payload []byte
	message       *Message
	event         *eventRef
}

// Wait blocks until the transaction is on disk, or cannot get there. There is
// always an end to it.
func (c *Commit) Wait() error {
	<-c.done
	return c.err
}

// Done returns a channel that is closed when Wait would not block.
func (c *Commit) Done() <-chan struct{} { return c.done }

func (c *Commit) finish(err error) {
	c.err = err
	close(c.done)
}

// Tx changes the store's state. It holds the store's lock, so what is between
// Begin and Commit must be short and must not call the Store. After a failed
// transaction the state is not to be used.
type Tx struct {
	s *Store
	c *Commit
}

// Begin starts a transaction; Commit must follow.
func (s *Store) Begin() *Tx {
	s.mu.Lock()
	return &Tx{s: s, c: &Commit{done: make(chan struct{})}}
}

// Commit ends the transaction and hands it to the writer. Lazy says that nobody
// waits for it: it goes with the next frame, or after LazyDelay.
func (t *Tx) Commit(lazy bool) *Commit {
	s, c := t.s, t.c
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		c.finish(s.err)
		return c
	case len(c.records) == 0:
		c.finish(nil)
		return c
	}
	s.pending = append(s.pending, c)
	switch {
	case !lazy:
		s.due = true
		wake(s.kick)
	case !s.lazy && !s.due:
		s.lazy = true
		time.AfterFunc(LazyDelay, s.writeSoon)
	}
	return c
}

func (t *Tx) add(r pendingRecord) {
	t.c.records = append(t.c.records, r)
	t.c.size += len(r.head) + len(r.payload) + maxVarint
}

const maxVarint = 10

// Put adds m to a queue, which is made if it is not there, and sets m.Seq. The
// payload must not be changed afterwards.
func (t *Tx) Put(queue string, m *Message, payload []byte) {
	q := t.s.queue(queue)
	q.last++
	m.Seq, m.queue, m.payload, m.size = q.last, q, payload, len(payload)
	q.messages[m.Seq] = m
	t.s.memory += int64(len(payload))
	t.add(pendingRecord{head: appendPut(nil, m), payload: payload, message: m})
}

// Move takes m out of its queue and puts it at the end of another as to, with
// the payload it has. On disk both happen or none.
func (t *Tx) Move(m *Message, queue string, to *Message, payload []byte) {
	t.Settle(m)
	t.Put(queue, to, payload)
}

// Receive sets how often m was delivered.
func (t *Tx) Receive(m *Message, received int32) {
	if m.gone {
		return
	}
	m.Received = received
	t.add(pendingRecord{head: appendReceived(nil, m)})
}

// Settle takes m out of its queue for good.
func (t *Tx) Settle(m *Message) {
	if m.gone {
		return
	}
	t.add(pendingRecord{head: appendSettled(nil, m)})
	t.s.forget(m)
	delete(m.queue.messages, m.Seq)
}

// Gone says whether m was settled, or its queue deleted.
func (t *Tx) Gone(m *Message) bool { return m.gone }

// forget frees what m holds.
func (s *Store) forget(m *Message) {
	m.gone = true
	if m.payload != nil {
		s.memory -= int64(m.size)
	}
	s.release(m.place)
	m.place = place{}
}

// CreateQueue makes a queue without messages.
func (t *Tx) CreateQueue(name string) {
	t.add(pendingRecord{head: appendLast(nil, kindQueue, name, t.s.queue(name).last, 0)})
}

// DeleteQueue removes a queue with all its messages.
func (t *Tx) DeleteQueue(name string) {
	if t.s.queues[name] == nil {
		return
	}
	t.s.dropQueue(name)
	t.add(pendingRecord{head: appendDelete(nil, kindQueue, name)})
}

func (s *Store) queue(name string) *queueState {
	q := s.queues[name]
	if q == nil {
		q = &queueState{name: name, messages: make(map[uint64]*Message)}
		s.queues[name] = q
	}
	return q
}

func (s *Store) dropQueue(name string) {
	for _, m := range s.queues[name].messages {
		s.forget(m)
	}
	delete(s.queues, name)
}
