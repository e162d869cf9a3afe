package store

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"time"
)

// Event is a kept event.
type Event struct {
	Seq     uint64 // in its channel, from 1
	At      int64  // Unix nanoseconds, never less than that of the one before
	Payload []byte
}

type eventEntry struct {
	place place
	at    int64
	size  int // of the payload
}

// eventRef is an event on its way to disk. Moved says that it was there before.
type eventRef struct {
	channel *channelState
	seq     uint64
	at      int64
	size    int
	moved   bool
}

// channelState has the events of a channel that are on disk: readers see no
// others.
type channelState struct {
	name    string
	last    uint64 // sequence of the newest event, on disk or not
	lastAt  int64
	first   uint64 // sequence of entries[0]
	entries []eventEntry
	bytes   int64
	changed chan struct{} // closed when there is more to read
	dropped bool
}

func (c *channelState) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *channelState) entry(seq uint64) *eventEntry {
	if seq < c.first || seq-c.first >= uint64(len(c.entries)) {
		return nil
	}
	return &c.entries[seq-c.first]
}

func (s *Store) channel(name string) *channelState {
	c := s.channels[name]
	if c == nil {
		c = &channelState{name: name, first: 1, changed: make(chan struct{})}
		s.channels[name] = c
		close(s.created)
		s.created = make(chan struct{})
	}
	return c
}

// Event adds an event to a channel, which is made if it is not there, and
// returns its sequence. It can be read when the transaction is on disk.
func (t *Tx) Event(channel string, payload []byte) uint64 {
	c := t.s.channel(channel)
	c.last++
	c.lastAt = max(c.lastAt, time.Now().UnixNano())
	t.add(pendingRecord{
		head: appendEvent(nil, channel, c.last, c.lastAt), payload: payload,
		event: &eventRef{channel: c, seq: c.last, at: c.lastAt, size: len(payload)},
	})
	return c.last
}

// CreateChannel makes a channel without events.
func (t *Tx) CreateChannel(name string) {
	c := t.s.channel(name)
	t.add(pendingRecord{head: appendLast(nil, kindEvents, name, c.last, c.first)})
}

// DeleteChannel removes a channel with its events and all positions in it.
func (t *Tx) DeleteChannel(name string) {
	if t.s.channels[name] == nil {
		return
	}
	t.s.dropChannel(name)
	t.add(pendingRecord{head: appendDelete(nil, kindEvents, name)})
}

func (s *Store) dropChannel(name string) {
	c := s.channels[name]
	s.dropEvents(c, len(c.entries))
	c.dropped = true
	c.tell()
	delete(s.channels, name)
	for p := range s.positions {
		if p.Channel == name {
			delete(s.positions, p)
		}
	}
}

// dropEvents forgets the n oldest events of a channel.
func (s *Store) dropEvents(c *channelState, n int) {
	for _, e := range c.entries[:n] {
		s.release(e.place)
		c.bytes -= int64(e.size)
	}
	c.entries = c.entries[n:]
	c.first += uint64(n)
}

// retain forgets events beyond what the options allow.
func (s *Store) retain(c *channelState) {
	n, bytes := max(0, len(c.entries)-s.options.EventsPerChannel), c.bytes
	for _, e := range c.entries[:n] {
		bytes -= int64(e.size)
	}
	for n < len(c.entries)-1 && bytes > s.options.EventBytes {
		bytes -= int64(c.entries[n].size)
		n++
	}
	if n > 0 {
		s.dropEvents(c, n)
	}
}

// EventsAfter reads up to limit events with sequences above after, but stops at
// the first that makes them more than a mebibyte. If there are none it returns a
// channel that is closed when there may be. Skipped counts events that are
// missing between after and the first one, because they were too many to keep.
func (s *Store) EventsAfter(channel string, after uint64, limit int) (events []Event, skipped uint64, more <-chan struct{}, err error) {
	for {
		s.mu.Lock()
		if s.err != nil {
			defer s.mu.Unlock()
			return nil, 0, nil, s.err
		}
		c := s.channels[channel]
		if c == nil {
			defer s.mu.Unlock()
			return nil, 0, s.created, nil
		}
		from := max(after+1, c.first)
		if c.entry(from) == nil {
			defer s.mu.Unlock()
			return nil, 0, c.changed, nil
		}
		rest := c.entries[from-c.first:]
		entries := slices.Clone(rest[:min(limit, len(rest))])
		s.mu.Unlock()
		events, err = readEvents(entries, from)
		if errors.Is(err, os.ErrClosed) {
			continue // they were moved meanwhile, or the store was closed
		}
		if err != nil {
			return nil, 0, nil, fmt.Errorf("read events of channel %s: %w", channel, err)
		}
		return events, from - after - 1, nil, nil
	}
}

const readBytes = 1 << 20

func readEvents(entries []eventEntry, from uint64) ([]Event, error) {
	events := make([]Event, 0, len(entries))
	size := 0
	for i, e := range entries {
		if size += e.size; size > readBytes && i > 0 {
			break
		}
		payload, err := e.place.read(e.size)
		if err != nil {
			return nil, err
		}
		events = append(events, Event{Seq: from + uint64(i), At: e.at, Payload: payload})
	}
	return events, nil
}

// Bounds returns the sequences of the oldest and newest event that can be read;
// first is last+1 if there is none.
func (s *Store) Bounds(channel string) (first, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channel]
	if c == nil {
		return 1, 0
	}
	return c.first, c.first + uint64(len(c.entries)) - 1
}

// FirstSince returns the sequence of the first event not older than at, Unix
// nanoseconds, or that of the next event to come.
func (s *Store) FirstSince(channel string, at int64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channel]
	if c == nil {
		return 1
	}
	return c.first + uint64(sort.Search(len(c.entries), func(i int) bool { return c.entries[i].at >= at }))
}

// Channels returns the names of the channels of kept events, in no order.
func (s *Store) Channels() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.channels))
	for name := range s.channels {
		names = append(names, name)
	}
	return names
}

// Position returns how far a subscription has read, and whether it is known.
func (s *Store) Position(p Position) (seq uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.positions[p]; st != nil {
		return st.seq, true
	}
	return 0, false
}

// Position makes a position known, if it is not, and returns where it is. Wait
// for the transaction to have it on disk.
func (t *Tx) Position(p Position, seq uint64) uint64 {
	if st := t.s.positions[p]; st != nil {
		return st.seq
	}
	t.s.channel(p.Channel)
	t.s.positions[p] = &positionState{seq: seq}
	t.add(pendingRecord{head: appendPosition(nil, p, seq)})
	return seq
}

// SetPosition moves a position that is known forward. It gets to disk within a tenth of
// a second, and when the store is closed.
func (s *Store) SetPosition(p Position, seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.positions[p]
	if st == nil || st.seq >= seq {
		return
	}
	st.seq, st.dirty = seq, true
	if !s.posDirty {
		s.posDirty = true
		time.AfterFunc(positionDelay, s.writeSoon)
	}
}
