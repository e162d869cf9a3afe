package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Options of a store. Zero values mean what the fields say.
type Options struct {
	SegmentBytes     int64 // size after which a new file is begun; 0: 32 MiB
	MemoryBytes      int64 // payloads of queue messages that stay in memory; 0: 256 MiB
	CleanBytes       int64 // the log's front is not copied below this length; 0: 64 MiB
	EventsPerChannel int   // kept events of one channel, oldest go first; 0: 1,000,000
	EventBytes       int64 // and their payloads in all; 0: 1 GiB
}

// LazyDelay is how long a lazy transaction waits for company before it is
// written.
const LazyDelay = 3 * time.Millisecond

// positionDelay is how long SetPosition may be behind on disk.
const positionDelay = 100 * time.Millisecond

// Message is one message of a queue. Who has it reads the exported fields while
// no transaction that changes them can run; only the store sets them after Put.
type Message struct {
	Seq          uint64 // in its queue, from 1; set by Put
	SentAt       int64  // Unix nanoseconds
	ExpiresAt    int64  // Unix nanoseconds, 0: never
	DelayedTo    int64  // Unix nanoseconds, 0: not delayed
	Received     int32  // deliveries so far
	MaxReceived  int32  // deliveries allowed, 0: any number
	DeadLetterTo string // queue for it after that, empty: none
	From         string // queue that it was dead-lettered from, empty: none

	queue   *queueState
	payload []byte // nil if it is only on disk
	size    int    // of the payload
	place   place  // zero until it is on disk
	gone    bool
}

// Queue returns the name of the message's queue.
func (m *Message) Queue() string { return m.queue.name }

// Size returns the payload's size in bytes.
func (m *Message) Size() int { return m.size }

// place is where an entry's newest record is.
type place struct {
	segment *segment
	offset  int64
	length  int
}

type queueState struct {
	name     string
	last     uint64 // sequence of the newest message there ever was
	messages map[uint64]*Message
}

// Position names how far a subscription has read.
type Position struct{ Client, Channel, Group string }

type positionState struct {
	seq   uint64
	dirty bool // not yet handed to the writer
}

// Store is an open store. Safe for concurrent use.
type Store struct {
	dir     string
	options Options
	lock    *os.File
	kick    chan struct{} // the writer has something to do; capacity 1
	sweep   chan struct{} // the cleaner may have something to do; capacity 1
	stop    chan struct{} // closed when the writer is to write what is left and return
	rest    chan struct{} // closed when the cleaner is to return
	failed  chan struct{} // closed at the first fault
	writer  sync.WaitGroup
	cleaner sync.WaitGroup
	closing sync.Once
	closed  error // what Close returns

	mu        sync.Mutex // protects all below; not held over I/O
	err       error      // why nothing works any more
	pending   []*Commit  // in order, not yet taken by the writer
	busy      bool       // the writer is at a frame
	idle      sync.Cond  // of mu: a frame is done, or err is set
	due       bool       // pending is to be written now
	lazy      bool       // a timer will make it due
	next      uint64     // number of the next frame
	segments  []*segment // oldest first, the last one is written to
	logBytes  int64
	liveBytes int64
	credit    int64 // bytes that the cleaner may copy: as many as others have written
	memory    int64 // payload bytes held
	queues    map[string]*queueState
	channels  map[string]*channelState
	created   chan struct{} // closed when there is another channel
	positions map[Position]*positionState
	posDirty  bool
}

// Open opens the store in dir and makes it if it is not there.
// errors.Is(err, ErrLocked) if it is open elsewhere.
func Open(dir string, o Options) (*Store, error) {
	o.SegmentBytes = orElse(o.SegmentBytes, 32<<20)
	o.MemoryBytes = orElse(o.MemoryBytes, 256<<20)
	o.CleanBytes = orElse(o.CleanBytes, 64<<20)
	o.EventsPerChannel = orElse(o.EventsPerChannel, 1_000_000)
	o.EventBytes = orElse(o.EventBytes, 1<<30)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make store folder: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{
		dir: dir, options: o, lock: lock, next: 1,
		kick: make(chan struct{}, 1), sweep: make(chan struct{}, 1), stop: make(chan struct{}), rest: make(chan struct{}), failed: make(chan struct{}),
		queues: make(map[string]*queueState), channels: make(map[string]*channelState), created: make(chan struct{}), positions: make(map[Position]*positionState),
	}
	s.idle.L = &s.mu
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	s.writer.Go(s.write)
	s.cleaner.Go(s.clean)
	return s, nil
}

func orElse[N int | int64](n, otherwise N) N {
	if n == 0 {
		return otherwise
	}
	return n
}

// Close writes what is left and unlocks the folder. It may be called again.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.rest) // first: it may wait for the writer
		s.cleaner.Wait()
		close(s.stop)
		s.writer.Wait()
		s.mu.Lock()
		err, next := s.err, s.next
		s.mu.Unlock()
		s.fail(ErrClosed)
		if err == nil {
			err = writeWatermark(s.dir, next-1)
		}
		s.closed = errors.Join(err, s.closeFiles())
	})
	return s.closed
}

func (s *Store) closeFiles() error {
	var err error
	for _, seg := range s.segments {
		err = errors.Join(err, seg.file.Close())
	}
	return errors.Join(err, s.lock.Close())
}

// Failed returns a channel that is closed when the store can write no more, be
// it that the disk failed or that it was closed. Err then says why.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err returns why the store can write no more, nil if it can.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// fail makes err the end of everything. Whoever waits gets it.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.failed)
	}
	for _, c := range s.pending {
		c.finish(s.err)
	}
	s.pending = nil
	s.idle.Broadcast()
	for _, ch := range s.channels {
		ch.tell()
	}
	close(s.created)
	s.created = make(chan struct{})
}

// Bytes returns the length of the log and how much of it is alive.
func (s *Store) Bytes() (log, alive int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logBytes, s.liveBytes
}

// Queues returns the names of the queues there are, in no order.
func (s *Store) Queues() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.queues))
	for name := range s.queues {
		names = append(names, name)
	}
	return names
}

// Messages returns a queue's messages, in no order.
func (s *Store) Messages(queue string) []*Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[queue]
	if q == nil {
		return nil
	}
	out := make([]*Message, 0, len(q.messages))
	for _, m := range q.messages {
		out = append(out, m)
	}
	return out
}

// Queue describes a queue: how many messages there are, the size of their
// payloads, the lowest sequence among them and the highest there ever was.
func (s *Store) Queue(name string) (messages int, bytes int64, first, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		return 0, 0, 0, 0
	}
	first = q.last + 1
	for seq, m := range q.messages {
		bytes += int64(m.size)
		first = min(first, seq)
	}
	return len(q.messages), bytes, first, q.last
}

// Payload returns the message's payload, which must not be changed. It reads
// the disk if the payload is not in memory.
func (s *Store) Payload(m *Message) ([]byte, error) {
	for {
		s.mu.Lock()
		payload, p, size, gone := m.payload, m.place, m.size, m.gone
		s.mu.Unlock()
		if gone {
			return nil, ErrGone
		}
		if payload != nil || size == 0 {
			return payload, nil
		}
		b, err := p.read(size)
		if errors.Is(err, os.ErrClosed) && s.Err() == nil {
			continue // it was moved meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read message %d of queue %s: %w", m.Seq, m.Queue(), err)
		}
		return b, nil
	}
}

// read returns the last size bytes of the record, which are its payload.
func (p place) read(size int) ([]byte, error) {
	if p.segment == nil {
		return nil, errors.New("it is nowhere")
	}
	b := make([]byte, size)
	at := p.offset + int64(p.length-size)
	if _, err := p.segment.file.ReadAt(b, at); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s ends before byte %d: %w", p.segment.path, at+int64(size), ErrDamaged)
		}
		return nil, err
	}
	return b, nil
}

// hold counts the entry at p as alive.
func (s *Store) hold(p place) {
	p.segment.live++
	p.segment.bytes += int64(p.length)
	s.liveBytes += int64(p.length)
}

// release counts the entry at p as dead.
func (s *Store) release(p place) {
	if p.segment == nil {
		return
	}
	p.segment.live--
	p.segment.bytes -= int64(p.length)
	s.liveBytes -= int64(p.length)
	if p.segment.live == 0 && p.segment == s.segments[0] {
		wake(s.sweep)
	}
}

// writeSoon makes what is pending due.
func (s *Store) writeSoon() {
	s.mu.Lock()
	s.due, s.lazy = true, false
	s.mu.Unlock()
	wake(s.kick)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
