package store

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// frameBytes is where the writer stops adding transactions to a frame. One
// transaction is never split, so frames may be longer.
const frameBytes = 16 << 20

// write is the only writer. Whatever is committed while it writes and syncs one
// frame goes into the next one together.
func (s *Store) write() {
	var buf []byte
	for stopping := false; ; {
		select {
		case <-s.kick:
		case <-s.stop:
			stopping = true
		}
		for {
			commits, roll, extra := s.takePending(stopping)
			if len(commits) == 0 && len(extra) == 0 {
				break
			}
			var err error
			if buf, err = s.writeFrame(buf, commits, roll, extra); err != nil {
				s.fail(err)
				for _, c := range commits {
					c.finish(err)
				}
				return
			}
		}
		if stopping {
			return
		}
	}
}

// takePending returns what goes into the next frame, whether that is to begin a
// segment, and records that go before those of the commits.
func (s *Store) takePending(stopping bool) (commits []*Commit, roll bool, extra []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.due && !stopping {
		return nil, false, nil
	}
	n, size := 0, 0
	for n < len(s.pending) && (n == 0 || size+s.pending[n].size <= frameBytes) {
		size += s.pending[n].size
		n++
	}
	commits, s.pending = s.pending[:n:n], s.pending[n:]
	if len(s.pending) == 0 {
		s.pending, s.due = nil, false
	}
	if s.posDirty {
		s.posDirty = false
		for p, st := range s.positions {
			if st.dirty {
				st.dirty = false
				extra = appendRecord(extra, appendPosition(nil, p, st.seq), nil)
			}
		}
	}
	if len(commits) == 0 && len(extra) == 0 {
		return nil, false, nil
	}
	s.busy = true
	if len(s.segments) == 0 || s.current().size >= s.options.SegmentBytes {
		roll, extra = true, s.checkpoint()
	}
	return commits, roll, extra
}

func (s *Store) current() *segment { return s.segments[len(s.segments)-1] }

// checkpoint is what a segment begins with: whatever is not said by the entries
// that are alive, so that the segments before can go.
func (s *Store) checkpoint() []byte {
	var b []byte
	for name, q := range s.queues {
		b = appendRecord(b, appendLast(nil, kindQueue, name, q.last, 0), nil)
	}
	for name, c := range s.channels {
		b = appendRecord(b, appendLast(nil, kindEvents, name, c.last, c.first), nil)
	}
	for p, st := range s.positions {
		b = appendRecord(b, appendPosition(nil, p, st.seq), nil)
	}
	return b
}

func appendRecord(b, head, payload []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(head)+len(payload)))
	return append(append(b, head...), payload...)
}

// writeFrame writes one frame, syncs it and lets everybody know. It returns
// buf for the next call.
func (s *Store) writeFrame(buf []byte, commits []*Commit, roll bool, extra []byte) ([]byte, error) {
	if roll {
		if err := s.roll(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	seg, number := s.current(), s.next
	s.mu.Unlock()

	frame := append(append(buf[:0], make([]byte, frameHeader)...), extra...)
	var places []place
	for _, c := range commits {
		for _, r := range c.records {
			frame = appendRecord(frame, r.head, r.payload)
			n := len(r.head) + len(r.payload)
			places = append(places, place{segment: seg, offset: seg.size + int64(len(frame)-n), length: n})
		}
	}
	sealFrame(frame, number)
	if err := seg.append(frame); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.busy = false
	s.idle.Broadcast()
	s.next++
	grown := int64(len(frame))
	seg.size += grown
	s.logBytes += grown
	s.settle(commits, places)
	if s.mayClean() {
		wake(s.sweep)
	}
	s.mu.Unlock()
	for _, c := range commits {
		c.finish(nil)
	}
	if cap(frame) > 4*frameBytes {
		return nil, nil // one huge message must not be held on to
	}
	return frame, nil
}

// append writes a frame and syncs it.
func (g *segment) append(frame []byte) error {
	if _, err := g.file.WriteAt(frame, g.size); err != nil {
		return fmt.Errorf("write to the store: %w", err)
	}
	// After a failed sync nobody knows what is on disk: there is no second try.
	if err := unix.Fdatasync(int(g.file.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", g.path, err)
	}
	return nil
}

// roll begins a segment. The one before is all synced by then.
func (s *Store) roll() error {
	s.mu.Lock()
	next := s.next
	s.mu.Unlock()
	seg, err := createSegment(s.dir, next)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.segments = append(s.segments, seg)
	s.mu.Unlock()
	return writeWatermark(s.dir, next-1)
}

// settle tells messages and events where they are now.
func (s *Store) settle(commits []*Commit, places []place) {
	for _, c := range commits {
		if c.copies {
			s.credit -= int64(c.size)
		} else {
			s.credit += int64(c.size)
		}
		for _, r := range c.records {
			p := places[0]
			places = places[1:]
			switch {
			case r.message != nil:
				s.placeMessage(r.message, p)
			case r.event != nil:
				s.placeEvent(r.event, p)
			}
		}
	}
}

func (s *Store) placeMessage(m *Message, p place) {
	if m.gone {
		return
	}
	s.release(m.place)
	m.place = p
	s.hold(p)
	if m.payload != nil && s.memory > s.options.MemoryBytes {
		s.memory -= int64(m.size)
		m.payload = nil
	}
}

func (s *Store) placeEvent(r *eventRef, p place) {
	c := r.channel
	if c.dropped {
		return
	}
	if r.moved {
		if e := c.entry(r.seq); e != nil {
			s.release(e.place)
			e.place = p
			s.hold(p)
		}
		return
	}
	c.entries = append(c.entries, eventEntry{place: p, at: r.at, size: r.size})
	c.bytes += int64(r.size)
	s.hold(p)
	s.retain(c)
	c.tell()
}
