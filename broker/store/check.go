package store

import (
	"bytes"
	"errors"
	"fmt"
)

// Check verifies what must always hold: that every entry's newest record is
// where it is believed to be and says what the memory says, and that what is
// counted adds up. It reads all that is alive, holding the store's lock, and is
// meant for tests and repairs.
func (s *Store) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && (s.busy || len(s.pending) > 0 || s.posDirty) {
		s.due = true
		wake(s.kick)
		s.idle.Wait()
	}
	if s.err != nil {
		return s.err
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	live, bytesIn := make(map[*segment]int), make(map[*segment]int64)
	var memory, alive int64
	for name, q := range s.queues {
		for seq, m := range q.messages {
			live[m.place.segment]++
			bytesIn[m.place.segment] += int64(m.place.length)
			alive += int64(m.place.length)
			if m.payload != nil {
				memory += int64(m.size)
			}
			if err := s.checkMessage(q, seq, m); err != nil {
				fault("queue %s, message %d: %w", name, seq, err)
			}
		}
	}
	for name, c := range s.channels {
		if c.first+uint64(len(c.entries))-1 != c.last {
			fault("channel %s: %d events from %d, but the last is %d", name, len(c.entries), c.first, c.last)
		}
		for i, e := range c.entries {
			live[e.place.segment]++
			bytesIn[e.place.segment] += int64(e.place.length)
			alive += int64(e.place.length)
			if err := checkEvent(c, c.first+uint64(i), e); err != nil {
				fault("channel %s, event %d: %w", name, c.first+uint64(i), err)
			}
		}
	}
	var log int64
	for _, seg := range s.segments {
		log += seg.size
		if live[seg] != seg.live || bytesIn[seg] != seg.bytes {
			fault("%s: %d entries of %d bytes are alive, %d of %d are counted", seg.path, live[seg], bytesIn[seg], seg.live, seg.bytes)
		}
		delete(live, seg)
		if info, err := seg.file.Stat(); err != nil {
			fault("%w", err)
		} else if info.Size() != seg.size {
			fault("%s: is %d bytes long, not %d", seg.path, info.Size(), seg.size)
		}
	}
	if len(live) > 0 {
		fault("entries are in %d segments that are not there", len(live))
	}
	if log != s.logBytes || alive != s.liveBytes || memory != s.memory {
		fault("log %d, alive %d, in memory %d bytes; counted are %d, %d, %d", log, alive, memory, s.logBytes, s.liveBytes, s.memory)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrDamaged, errors.Join(faults...))
	}
	return nil
}

func (s *Store) checkMessage(q *queueState, seq uint64, m *Message) error {
	switch {
	case m.Seq != seq || m.queue != q || m.gone:
		return errors.New("it is another one")
	case seq > q.last:
		return fmt.Errorf("the last one is %d", q.last)
	}
	record, err := m.place.read(m.place.length)
	if err != nil {
		return err
	}
	onDisk := Message{queue: q}
	f := fields{b: record}
	f.kind()
	name := f.text()
	onDisk.Seq, onDisk.SentAt, onDisk.ExpiresAt, onDisk.DelayedTo = f.number(), int64(f.number()), int64(f.number()), int64(f.number())
	f.number() // the receive count is newer in memory
	onDisk.Received, onDisk.MaxReceived, onDisk.DeadLetterTo, onDisk.From = m.Received, int32(f.number()), f.text(), f.text()
	if f.bad || name != q.name || !bytes.Equal(appendPut(nil, &onDisk), appendPut(nil, m)) {
		return errors.New("its record is another's")
	}
	if payload := record[len(record)-m.size:]; m.payload != nil && !bytes.Equal(payload, m.payload) {
		return errors.New("its payload on disk is another one")
	}
	return nil
}

func checkEvent(c *channelState, seq uint64, e eventEntry) error {
	record, err := e.place.read(e.place.length)
	if err != nil {
		return err
	}
	if head := appendEvent(nil, c.name, seq, e.at); !bytes.Equal(head, record[:e.place.length-e.size]) {
		return errors.New("its record is another's")
	}
	return nil
}
