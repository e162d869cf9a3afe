package orders

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// SubscriberAnalytics is the subscriber whose handled events are added to the stats.
const SubscriberAnalytics = "analytics"

// Effect is what handling an event leads to; the zero value is nothing.
type Effect struct {
	Deliver bool   // a delivery to make
	Sent    bool   // a delivery that was already made
	To      string // address of the delivery
	Skip    string // why no delivery is made, if one was to be expected
}

func (f Effect) status() string {
	switch {
	case f.Skip != "":
		return DeliverySkipped
	case f.Sent:
		return DeliverySent
	case f.Deliver:
		return DeliveryPending
	}
	return DeliveryNone
}

// Handle records that subscriber handled numbered events, with their effects.
// fresh has one element per event: false means that it had been handled before
// and nothing changed.
func (s *Store) Handle(ctx context.Context, subscriber string, events []Event, effects []Effect) (fresh []bool, err error) {
	if len(events) != len(effects) {
		panic("orders: Handle needs one effect per event")
	}
	h := &handling{subscriber: subscriber, events: events, effects: effects}
	if err := s.write(ctx, handleLane, h); err != nil {
		return nil, s.fault("handle events", err)
	}
	return h.fresh, nil
}

type handling struct {
	subscriber string
	events     []Event
	effects    []Effect
	fresh      []bool
	inserts    []*call
	purged     int64 // marks up to this number may be gone
}

const insertDeliverySQL = "INSERT INTO deliveries (subscriber, number, order_id, seq, status, addressee, answer, tries, owner, token, created_at, due_at, done_at) " +
	"VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, 0, $8, $9, $10) ON CONFLICT (subscriber, number) DO NOTHING"

var handleLane = &lane{name: "handle events", run: func(t *tx, ops []*op) error {
	var calls []*call
	for _, o := range ops {
		h := o.arg.(*handling)
		h.purged = 0
		h.inserts = make([]*call, len(h.events))
		for i := range h.events {
			h.inserts[i] = t.insertDelivery(h.subscriber, &h.events[i], h.effects[i])
		}
		calls = append(append(calls, readPurged(h.subscriber, &h.purged)), h.inserts...)
	}
	if err := t.run(calls...); err != nil {
		return err
	}
	sums := make(map[statKey]*StatRow)
	var late []*call
	for _, o := range ops {
		h := o.arg.(*handling)
		h.fresh = make([]bool, len(h.events))
		for i := range h.events {
			switch {
			case h.inserts[i].rows != 1:
			case h.events[i].Number <= h.purged:
				// Handled so long ago that its mark is gone.
				late = append(late, &call{sql: "DELETE FROM deliveries WHERE subscriber = $1 AND number = $2", args: []any{h.subscriber, h.events[i].Number}})
			default:
				h.fresh[i] = true
				t.handled(h, i, sums)
			}
		}
	}
	if err := t.run(late...); err != nil {
		return err
	}
	return t.addStats(sums)
}}

func (t *tx) insertDelivery(subscriber string, e *Event, f Effect) *call {
	status := f.status()
	var due, done Millis
	if status == DeliveryPending {
		due = t.now
	} else {
		done = t.now
	}
	return &call{sql: insertDeliverySQL, args: []any{subscriber, e.Number, e.OrderID, e.Seq, status, f.To,
		clip(f.Skip, maxReasonBytes), int64(t.now), int64(due), int64(done)}}
}

// handled does what a newly handled event leads to in the same transaction.
func (t *tx) handled(h *handling, i int, sums map[statKey]*StatRow) {
	switch {
	case h.subscriber == SubscriberAnalytics:
		addStat(sums, &h.events[i])
	case h.effects[i].status() == DeliveryPending:
		t.after = append(t.after, func() { t.s.signal(SignalDelivery) })
	}
}

// handledMarks remembers up to where a subscriber has handled everything, so
// that Unhandled does not look through the whole log each time.
type handledMarks struct {
	mu   sync.Mutex // protects upTo
	upTo map[string]int64
}

func (m *handledMarks) get(subscriber string) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.upTo[subscriber]
	return n, ok
}

// all returns a copy.
func (m *handledMarks) all() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.upTo)
}

func (m *handledMarks) set(subscriber string, number int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.upTo == nil {
		m.upTo = make(map[string]int64)
	}
	m.upTo[subscriber] = max(number, m.upTo[subscriber])
}

// saveMarkEvery is how many events a mark moves before it is stored: a restart
// looks through at most that many again.
const saveMarkEvery = 1000

// Unhandled returns up to limit events that were numbered longer than quiet ago
// and that subscriber has not handled, in order.
func (s *Store) Unhandled(ctx context.Context, subscriber string, quiet time.Duration, limit int) ([]Event, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	from, err := s.handledUpTo(ctx, subscriber)
	if err != nil {
		return nil, err
	}
	// Numbers are given in the order of numbered_at: what is old enough is
	// everything up to one of them.
	var ready int64
	err = s.read(ctx, "look for old events", &call{
		sql:  "SELECT e.number FROM events e WHERE e.number > $1 AND e.numbered_at <= $2 ORDER BY e.number DESC LIMIT 1",
		args: []any{from, int64(now.Add(-quiet))}, row: func(scan scanFunc) error { return scan(&ready) }})
	if err != nil || ready == 0 {
		return nil, err
	}
	var out []Event
	err = s.read(ctx, "look for unhandled events", &call{
		sql: fmt.Sprintf("SELECT %s FROM events e WHERE e.number > $1 AND e.number <= $2 AND NOT EXISTS "+
			"(SELECT 1 FROM deliveries d WHERE d.subscriber = $3 AND d.number = e.number) "+
			"AND e.number > (SELECT COALESCE(MAX(number), 0) FROM positions WHERE name = $4) ORDER BY e.number LIMIT %d", eventColumns, limit),
		args: []any{from, ready, subscriber, positionPurged(subscriber)},
		row: func(scan scanFunc) error {
			var e Event
			err := e.scan(scan)
			out = append(out, e)
			return err
		}})
	if err != nil {
		return nil, err
	}
	if len(out) > 0 {
		ready = out[0].Number - 1
	}
	return out, s.handledTo(ctx, subscriber, from, ready)
}

const handledPrefix = "handled "

func positionHandled(subscriber string) string { return handledPrefix + subscriber }

func (s *Store) handledUpTo(ctx context.Context, subscriber string) (int64, error) {
	if n, ok := s.handled.get(subscriber); ok {
		return n, nil
	}
	n, err := s.readPosition(ctx, positionHandled(subscriber))
	if err == nil {
		s.handled.set(subscriber, n)
	}
	return n, err
}

func (s *Store) handledTo(ctx context.Context, subscriber string, from, to int64) error {
	s.handled.set(subscriber, to)
	if to/saveMarkEvery == from/saveMarkEvery {
		return nil
	}
	return s.change(ctx, "record what was handled", func(t *tx) error {
		return t.run(setPosition(positionHandled(subscriber), to))
	})
}
