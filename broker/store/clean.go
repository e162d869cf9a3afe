package store

import (
	"errors"
	"fmt"
	"os"
)

// copyBytes is how much the cleaner copies at a time, so that others need not
// wait long.
const copyBytes = 1 << 20

// mayClean says whether the front can go or is worth copying. Where checkpoints
// or frames are large against the entries, copying may not make the log shorter:
// the credit ends that.
func (s *Store) mayClean() bool {
	// Until the second segment has its checkpoint, only the front one knows what
	// that says: names, last sequences, positions.
	if len(s.segments) < 2 || s.segments[1].size == 0 {
		return false
	}
	return s.segments[0].live == 0 ||
		s.credit > 0 && s.logBytes > s.options.CleanBytes && s.logBytes > 2*s.liveBytes+s.options.SegmentBytes
}

// clean gives disk space back.
func (s *Store) clean() {
	for {
		select {
		case <-s.rest:
			return
		case <-s.failed:
			return
		case <-s.sweep:
		}
		for {
			more, err := s.cleanFront()
			if err != nil {
				if s.Err() == nil {
					s.fail(fmt.Errorf("clean the store: %w", err))
				}
				return
			}
			if !more {
				break
			}
			select {
			case <-s.rest:
				return
			default:
			}
		}
	}
}

// cleanFront removes the front segment, copying what is alive in it if need be,
// and says whether it is worth trying again.
func (s *Store) cleanFront() (more bool, err error) {
	s.mu.Lock()
	if !s.mayClean() {
		s.mu.Unlock()
		return false, nil
	}
	front, live := s.segments[0], s.segments[0].live
	s.mu.Unlock()
	if live > 0 {
		if err := s.copyForward(front); err != nil {
			return false, err
		}
	}
	s.mu.Lock()
	if front.live > 0 {
		s.mu.Unlock()
		return false, fmt.Errorf("%s: %d entries are alive that are not in it: %w", front.path, front.live, ErrDamaged)
	}
	s.segments = s.segments[1:]
	s.logBytes -= front.size
	s.mu.Unlock()
	// In this order and each for good: if the front came back without those
	// behind it after a loss of power, settled messages would come back too.
	if err := errors.Join(front.file.Close(), os.Remove(front.path)); err != nil {
		return false, fmt.Errorf("remove segment: %w", err)
	}
	if err := syncDir(s.dir); err != nil {
		return false, fmt.Errorf("remove segment %s: %w", front.path, err)
	}
	return true, nil
}

// copyForward puts what is alive in a segment to the end of the log and waits
// until it is there.
func (s *Store) copyForward(seg *segment) error {
	for offset := int64(0); offset < seg.size; {
		payload, err := seg.frameAt(offset)
		if err != nil {
			return err
		}
		at := offset + frameHeader
		t, size := s.beginCopy(), 0
		err = eachRecord(payload, func(o int, record []byte) error {
			t.copyLive(record, place{segment: seg, offset: at + int64(o), length: len(record)})
			if size += len(record); size < copyBytes {
				return nil
			}
			err := t.Commit(false).Wait()
			t, size = s.beginCopy(), 0
			return err
		})
		if err := errors.Join(t.Commit(false).Wait(), err); err != nil {
			return err
		}
		offset = at + int64(len(payload))
	}
	return nil
}

func (s *Store) beginCopy() *Tx {
	t := s.Begin()
	t.c.copies = true
	return t
}

// frameAt reads the frame at an offset.
func (g *segment) frameAt(offset int64) ([]byte, error) {
	header := make([]byte, frameHeader)
	if _, err := g.file.ReadAt(header, offset); err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	frame := make([]byte, frameHeader+frameLength(header))
	if _, err := g.file.ReadAt(frame, offset); err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	payload, _, ok := parseFrame(frame)
	if !ok {
		return nil, fmt.Errorf("%s, byte %d: the frame is broken: %w", g.path, offset, ErrDamaged)
	}
	return payload, nil
}

// copyLive adds the entry again if the record at p is the newest of it.
func (t *Tx) copyLive(record []byte, p place) {
	f := fields{b: record}
	switch f.kind() {
	case recordPut:
		m := t.s.replayMessage(&f)
		if m == nil || m.place != p {
			return
		}
		payload := record[len(record)-m.size:]
		t.add(pendingRecord{head: appendPut(nil, m), payload: payload, message: m})
	case recordEvent:
		c, seq := t.s.channels[f.text()], f.number()
		if c == nil {
			return
		}
		e := c.entry(seq)
		if e == nil || e.place != p {
			return
		}
		payload := record[len(record)-e.size:]
		t.add(pendingRecord{head: appendEvent(nil, c.name, seq, e.at), payload: payload,
			event: &eventRef{channel: c, seq: seq, at: e.at, size: e.size, moved: true}})
	}
}
