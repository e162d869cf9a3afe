package store

import (
	"encoding/binary"
	"fmt"
)

// The kinds of records. A record is its kind, then the fields, numbers as
// uvarints, texts behind their length.
const (
	recordPut      = 1 // queue, sequence, 3 times, received, limit, dead letter queue, from, payload
	recordReceived = 2 // queue, sequence, received
	recordSettled  = 3 // queue, sequence
	recordEvent    = 4 // channel, sequence, time, payload
	recordPosition = 5 // client, channel, group, sequence
	recordLast     = 6 // kind (q or e), name, last sequence, first sequence that is kept
	recordDelete   = 7 // kind (q or e), name
)

const (
	kindQueue  = 'q'
	kindEvents = 'e'
)

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendPut appends all of m's record but its payload.
func appendPut(b []byte, m *Message) []byte {
	b = appendText(append(b, recordPut), m.queue.name)
	b = binary.AppendUvarint(b, m.Seq)
	b = binary.AppendUvarint(b, uint64(m.SentAt))
	b = binary.AppendUvarint(b, uint64(m.ExpiresAt))
	b = binary.AppendUvarint(b, uint64(m.DelayedTo))
	b = binary.AppendUvarint(b, uint64(m.Received))
	b = binary.AppendUvarint(b, uint64(m.MaxReceived))
	b = appendText(b, m.DeadLetterTo)
	return appendText(b, m.From)
}

func appendEvent(b []byte, channel string, seq uint64, at int64) []byte {
	b = appendText(append(b, recordEvent), channel)
	b = binary.AppendUvarint(b, seq)
	return binary.AppendUvarint(b, uint64(at))
}

func appendReceived(b []byte, m *Message) []byte {
	b = appendText(append(b, recordReceived), m.queue.name)
	b = binary.AppendUvarint(b, m.Seq)
	return binary.AppendUvarint(b, uint64(m.Received))
}

func appendSettled(b []byte, m *Message) []byte {
	b = appendText(append(b, recordSettled), m.queue.name)
	return binary.AppendUvarint(b, m.Seq)
}

func appendPosition(b []byte, p Position, seq uint64) []byte {
	b = appendText(append(b, recordPosition), p.Client)
	b = appendText(b, p.Channel)
	b = appendText(b, p.Group)
	return binary.AppendUvarint(b, seq)
}

func appendLast(b []byte, kind byte, name string, last, first uint64) []byte {
	b = appendText(append(b, recordLast, kind), name)
	b = binary.AppendUvarint(b, last)
	return binary.AppendUvarint(b, first)
}

func appendDelete(b []byte, kind byte, name string) []byte {
	return appendText(append(b, recordDelete, kind), name)
}

// fields takes a record apart; after the first fault everything is zero.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) number() uint64 {
	n, width := binary.Uvarint(f.b)
	if width <= 0 {
		f.bad, f.b = true, nil
		return 0
	}
	f.b = f.b[width:]
	return n
}

func (f *fields) bytes() []byte {
	n := f.number()
	if n > uint64(len(f.b)) {
		f.bad, f.b = true, nil
		return nil
	}
	b := f.b[:n]
	f.b = f.b[n:]
	return b
}

func (f *fields) text() string { return string(f.bytes()) }

func (f *fields) kind() byte {
	if len(f.b) == 0 {
		f.bad = true
		return 0
	}
	k := f.b[0]
	f.b = f.b[1:]
	return k
}

// eachRecord calls fn for every record of a frame's payload with its offset
// there.
func eachRecord(payload []byte, fn func(offset int, record []byte) error) error {
	for offset := 0; offset < len(payload); {
		n, width := binary.Uvarint(payload[offset:])
		if width <= 0 || n == 0 || n > uint64(len(payload)-offset-width) {
			return fmt.Errorf("a record is longer than its frame: %w", ErrDamaged)
		}
		offset += width
		if err := fn(offset, payload[offset:offset+int(n)]); err != nil {
			return err
		}
		offset += int(n)
	}
	return nil
}
