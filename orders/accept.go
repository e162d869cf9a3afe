package orders

import (
	"bytes"
	"context"
	"sync"
)

// Accepted is the answer to Accept.
type Accepted struct {
	Order    Order
	Replayed bool   // nothing was stored: an earlier request had stored it
	Body     []byte // the answer's JSON; the first answer's, byte for byte, if a key was replayed
}

// maxKeyBytes bounds an Idempotency-Key.
const maxKeyBytes = 255

// Accept stores a new order, durably when it returns nil. An order without ID
// gets one, and one without CreatedAt the time of its acceptance.
//
// With a key, the same order gives the first answer again; KindConflict if a
// request with that key is under way, KindInvalid if the key came with another
// order. Without one, an ID that is taken by the same order gives the order as
// it is now, by another KindConflict.
func (s *Store) Accept(ctx context.Context, o Order, key string) (Accepted, error) {
	a := &acceptance{in: o, key: key}
	if len(key) > maxKeyBytes {
		return Accepted{}, errorf(KindInvalid, "Idempotency-Key", "must have at most %d bytes", maxKeyBytes)
	}
	if key != "" {
		if !s.keys.enter(key) {
			return Accepted{}, errorf(KindConflict, "Idempotency-Key", "a request with this key is under way")
		}
		defer s.keys.leave(key)
	}
	if err := s.write(ctx, acceptLane, a); err != nil {
		return Accepted{}, s.fault("accept order "+o.ID, err)
	}
	return a.out, nil
}

// keys are the idempotency keys of requests under way in this process; between
// processes the table's primary key decides.
type keys struct {
	mu   sync.Mutex // protects busy
	busy map[string]struct{}
}

func newKeys() *keys { return &keys{busy: make(map[string]struct{})} }

func (k *keys) enter(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, busy := k.busy[key]; busy {
		return false
	}
	k.busy[key] = struct{}{}
	return true
}

func (k *keys) leave(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.busy, key)
}

// acceptance is one order on its way through acceptLane.
type acceptance struct {
	in       Order
	key      string
	row      *row
	insert   *call
	replayed bool // by key
	out      Accepted
}

var acceptLane = &lane{name: "accept order", run: func(t *tx, ops []*op) error {
	if err := t.replayKeys(ops); err != nil {
		return err
	}
	var calls []*call
	for _, o := range ops {
		a := o.arg.(*acceptance)
		if o.err != nil || a.replayed {
			continue
		}
		a.row = t.newRow(a.in)
		a.insert = a.row.insert()
		calls = append(calls, a.insert)
	}
	if err := t.run(calls...); err != nil {
		return err
	}
	if err := t.repeats(ops); err != nil {
		return err
	}
	return t.finishAccept(ops)
}}

// newRow makes an order as it is when it is accepted.
func (t *tx) newRow(o Order) *row {
	r := &row{Order: o}
	if r.ID == "" {
		r.ID = NewID()
	}
	if r.CreatedAt == 0 {
		r.CreatedAt = t.now
	}
	hash := o.Hash()
	r.hash = hash[:]
	r.Status = StatusCreated
	r.AcceptedAt, r.UpdatedAt = t.now, t.now
	r.ExpiresAt = t.now.Add(t.s.options.Expiration)
	r.Round, r.PaymentN, r.Payment = 1, 1, PaymentNone
	r.events = 1 // its event is written with it
	r.send(t, dispatchOrder, 0)
	return r
}

func (r *row) firstEvent() *Event {
	r.events--
	return r.event("", "")
}

// replayKeys answers the requests whose key is known.
func (t *tx) replayKeys(ops []*op) error {
	var calls []*call
	for _, o := range ops {
		a := o.arg.(*acceptance)
		a.row, a.insert, a.replayed = nil, nil, false
		if a.key == "" {
			continue
		}
		calls = append(calls, &call{sql: "SELECT hash, body FROM idempotency WHERE idempotency_key = $1", args: []any{a.key},
			row: func(scan scanFunc) error {
				var hash, body []byte
				if err := scan(&hash, &body); err != nil {
					return err
				}
				if !bytes.Equal(hash, keyedHash(&a.in)) {
					o.err = errorf(KindInvalid, "Idempotency-Key", "was used with another order")
					return nil
				}
				a.replayed = true
				a.out = Accepted{Replayed: true, Body: body}
				return nil
			}})
	}
	return t.run(calls...)
}

// repeats compares the orders whose id is taken with those that have it.
func (t *tx) repeats(ops []*op) error {
	var ids []string
	for _, o := range ops {
		if a := o.arg.(*acceptance); a.insert != nil && a.insert.rows == 0 {
			ids = append(ids, a.row.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := t.load(ids)
	if err != nil {
		return err
	}
	for _, o := range ops {
		a := o.arg.(*acceptance)
		if a.insert == nil || a.insert.rows != 0 {
			continue
		}
		r := rows[a.row.ID]
		same := false
		if r != nil {
			if same, err = t.sameOrder(r, &a.in); err != nil {
				return err
			}
		}
		if !same {
			o.err = errorf(KindConflict, "orderId", "is taken by another order")
			continue
		}
		a.out = Accepted{Order: r.Order, Replayed: true, Body: r.AppendJSON(nil)}
	}
	return nil
}

// finishAccept writes the events and keys of the orders that are new, and the
// keys of those that were repeated.
func (t *tx) finishAccept(ops []*op) error {
	var calls []*call
	var fresh []*row
	for _, o := range ops {
		a := o.arg.(*acceptance)
		if o.err != nil || a.replayed {
			continue
		}
		if a.insert.rows != 0 {
			calls = append(calls, a.row.firstEvent().insert())
			a.out = Accepted{Order: a.row.Order, Body: a.row.AppendJSON(make([]byte, 0, 512))}
			fresh = append(fresh, a.row)
		}
		if a.key != "" {
			calls = append(calls, &call{sql: "INSERT INTO idempotency (idempotency_key, hash, order_id, body, at) VALUES ($1, $2, $3, $4, $5)",
				args: []any{a.key, keyedHash(&a.in), a.row.ID, a.out.Body, int64(t.now)}})
		}
	}
	if len(fresh) > 0 {
		t.after = append(t.after, func() {
			for _, r := range fresh {
				t.s.dispatched(r)
			}
			t.s.signal(SignalCommitted)
		})
	}
	return t.run(calls...)
}
