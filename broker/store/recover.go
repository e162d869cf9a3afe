package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The watermark file names a frame that was synced, so that a log that ends
// before it is known to be damaged. It is written when a segment is full and
// when the store is closed, and may be behind or missing.
const watermarkFile = "synced"

func writeWatermark(dir string, frame uint64) error {
	b := binary.LittleEndian.AppendUint64(nil, frame)
	b = binary.LittleEndian.AppendUint64(b, ^frame)
	tmp := filepath.Join(dir, watermarkFile+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("write watermark: %w", err)
	}
	// Not synced: an old, torn or missing one is as good as none.
	if err := os.Rename(tmp, filepath.Join(dir, watermarkFile)); err != nil {
		return fmt.Errorf("write watermark: %w", err)
	}
	return nil
}

func readWatermark(dir string) (uint64, error) {
	b, err := os.ReadFile(filepath.Join(dir, watermarkFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read watermark: %w", err)
	}
	if len(b) != 16 || binary.LittleEndian.Uint64(b) != ^binary.LittleEndian.Uint64(b[8:]) {
		return 0, nil
	}
	return binary.LittleEndian.Uint64(b), nil
}

// recover replays the log.
func (s *Store) recover() error {
	firsts, err := listSegments(s.dir)
	if err != nil {
		return err
	}
	synced, err := readWatermark(s.dir)
	if err != nil {
		return err
	}
	events := make(map[string][]foundEvent)
	for i, first := range firsts {
		if i == 0 {
			s.next = first
		}
		if first != s.next {
			return fmt.Errorf("%s: frame %d should come next: %w", segmentPath(s.dir, first), s.next, ErrDamaged)
		}
		if err := s.recoverSegment(first, i == len(firsts)-1, synced, events); err != nil {
			return err
		}
	}
	if s.next <= synced {
		return fmt.Errorf("%s: the log ends before frame %d, which was synced: %w", s.dir, synced, ErrDamaged)
	}
	s.credit = s.logBytes
	for name, c := range s.channels {
		s.recoverEvents(c, events[name])
	}
	for _, q := range s.queues {
		for _, m := range q.messages {
			s.hold(m.place)
		}
	}
	return nil
}

func (s *Store) recoverSegment(first uint64, last bool, synced uint64, events map[string][]foundEvent) error {
	path := segmentPath(s.dir, first)
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	seg := &segment{first: first, path: path, file: f}
	s.segments = append(s.segments, seg)
	data, err := readAll(f)
	if err != nil {
		return fmt.Errorf("read segment: %w", err)
	}
	for int(seg.size) < len(data) {
		payload, number, ok := parseFrame(data[seg.size:])
		if !ok || number != s.next {
			if !last || s.next <= synced || s.goesOn(data[seg.size:]) {
				return fmt.Errorf("%s, byte %d: frame %d is broken: %w", path, seg.size, s.next, ErrDamaged)
			}
			if err := errors.Join(f.Truncate(seg.size), f.Sync()); err != nil {
				return fmt.Errorf("cut the torn end of %s: %w", path, err)
			}
			break
		}
		at := seg.size + frameHeader
		err := eachRecord(payload, func(offset int, record []byte) error {
			return s.replay(record, place{segment: seg, offset: at + int64(offset), length: len(record)}, events)
		})
		if err != nil {
			return fmt.Errorf("%s, byte %d: %w", path, seg.size, err)
		}
		seg.size = at + int64(len(payload))
		s.next++
	}
	s.logBytes += seg.size
	return nil
}

func readAll(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	return data, err
}

// goesOn says whether a whole later frame follows somewhere in data.
func (s *Store) goesOn(data []byte) bool {
	want := binary.LittleEndian.AppendUint32(nil, frameMagic)
	for i := 1; i < len(data); i++ {
		at := bytes.Index(data[i:], want)
		if at < 0 {
			return false
		}
		i += at
		if _, number, ok := parseFrame(data[i:]); ok && number > s.next {
			return true
		}
	}
	return false
}

// foundEvent is an event as the log has it; moved events come again later.
type foundEvent struct {
	seq   uint64
	entry eventEntry
}

// replay does again what a record says.
func (s *Store) replay(record []byte, p place, events map[string][]foundEvent) error {
	f := fields{b: record}
	switch kind := f.kind(); kind {
	case recordPut:
		s.replayPut(&f, p)
	case recordReceived:
		if m, received := s.replayMessage(&f), f.number(); m != nil {
			m.Received = int32(received)
		}
	case recordSettled:
		if m := s.replayMessage(&f); m != nil {
			delete(m.queue.messages, m.Seq)
			s.forgetPayload(m)
		}
	case recordEvent:
		c, seq, at := s.channel(f.text()), f.number(), int64(f.number())
		c.last, c.lastAt = max(c.last, seq), max(c.lastAt, at)
		events[c.name] = append(events[c.name], foundEvent{seq, eventEntry{place: p, at: at, size: len(f.b)}})
	case recordPosition:
		at := Position{Client: f.text(), Channel: f.text(), Group: f.text()}
		s.channel(at.Channel)
		s.positions[at] = &positionState{seq: f.number()}
	case recordLast:
		s.replayLast(&f)
	case recordDelete:
		kind, name := f.kind(), f.text()
		if kind == kindQueue {
			s.replayDeleteQueue(name)
		} else if s.channels[name] != nil {
			delete(events, name)
			s.dropChannel(name)
		}
	default:
		return fmt.Errorf("a record has the unknown kind %d: %w", kind, ErrDamaged)
	}
	if f.bad {
		return fmt.Errorf("a record is too short: %w", ErrDamaged)
	}
	return nil
}

func (s *Store) replayPut(f *fields, p place) {
	q := s.queue(f.text())
	m := &Message{queue: q, Seq: f.number(), SentAt: int64(f.number()), ExpiresAt: int64(f.number()), DelayedTo: int64(f.number()),
		Received: int32(f.number()), MaxReceived: int32(f.number()), DeadLetterTo: f.text(), From: f.text(), size: len(f.b), place: p}
	if f.bad {
		return
	}
	if old := q.messages[m.Seq]; old != nil { // it was moved
		s.forgetPayload(old)
	}
	if s.memory+int64(m.size) <= s.options.MemoryBytes {
		m.payload = slices.Clone(f.b)
		s.memory += int64(m.size)
	}
	q.last = max(q.last, m.Seq)
	q.messages[m.Seq] = m
}

func (s *Store) forgetPayload(m *Message) {
	if m.payload != nil {
		s.memory -= int64(m.size)
	}
}

func (s *Store) replayMessage(f *fields) *Message {
	name, seq := f.text(), f.number()
	if q := s.queues[name]; q != nil {
		return q.messages[seq]
	}
	return nil
}

func (s *Store) replayLast(f *fields) {
	kind, name, last, first := f.kind(), f.text(), f.number(), f.number()
	if kind == kindQueue {
		q := s.queue(name)
		q.last = max(q.last, last)
		return
	}
	c := s.channel(name)
	c.last, c.first = max(c.last, last), max(c.first, first)
}

func (s *Store) replayDeleteQueue(name string) {
	if q := s.queues[name]; q != nil {
		for _, m := range q.messages {
			s.forgetPayload(m)
		}
		delete(s.queues, name)
	}
}

// recoverEvents makes a channel's events of what the log has of them: the
// newest place of each, without those that retention let go, of which any may
// be gone from the log already.
func (s *Store) recoverEvents(c *channelState, found []foundEvent) {
	slices.SortStableFunc(found, func(a, b foundEvent) int { return int(int64(a.seq - b.seq)) })
	kept := found[:0]
	for _, e := range found {
		if e.seq < c.first {
			continue
		}
		if n := len(kept); n > 0 && kept[n-1].seq == e.seq {
			kept[n-1] = e
			continue
		}
		kept = append(kept, e)
	}
	start := len(kept)
	for start > 0 && (start == len(kept) || kept[start-1].seq+1 == kept[start].seq) {
		start--
	}
	for _, e := range kept[start:] {
		c.entries = append(c.entries, e.entry)
		c.bytes += int64(e.entry.size)
		s.hold(e.entry.place)
	}
	c.first = c.last + 1 - uint64(len(c.entries))
	s.retain(c)
}
