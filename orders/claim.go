package orders

import (
	"bytes"
	"context"
)

// Arrival is a message that came off a queue.
type Arrival struct {
	MessageID string // the broker's
	Body      []byte
	Order     Order  // decoded from Body; zero if DecodeErr is set
	DecodeErr error  // what Decode said
	Retry     bool   // from RETRY_CHANNEL
	ExpiresAt Millis // the message's own, 0 if none
	Origin    string // Origin for our own messages, else another program's
	Round     int    // tag round, 0 if none
	Reason    string // tag reason, of messages on DLQ_CHANNEL
}

// Origin is what orderd's own messages carry in their tag origin.
const Origin = "orderd"

// Verdict is what Claim decided about an arrival.
type Verdict uint8

// The verdicts. The message may be acked after any but Claimed.
const (
	Ignored      Verdict = iota // nothing changed; Reason says why
	Claimed                     // the order is leased to this process under Token
	ExpiredNow                  // the order was overdue and is expired now
	DeadLettered                // a dead letter was written; Reason says why
)

// Claim is the answer to one Arrival.
type Claim struct {
	Verdict Verdict
	Order   Order  // as claimed
	Token   int64  // to be named in the Outcome
	SentAt  Millis // when the order's message was sent, 0 if not known: how far the queue is worked off
	Reason  string
}

// Claim decides about arrivals. The result has one element per arrival; all of
// them share a transaction, which also holds the orders that other programs
// put on the queue. Nothing is decided if an error is returned.
func (s *Store) Claim(ctx context.Context, in []Arrival) ([]Claim, error) {
	c := &claiming{in: in}
	if err := s.write(ctx, claimLane, c); err != nil {
		return nil, s.fault("claim orders", err)
	}
	return c.out, nil
}

type claiming struct {
	in  []Arrival
	ids []string // of the order of each arrival, empty if there is none
	out []Claim
}

var claimLane = &lane{name: "claim orders", run: func(t *tx, ops []*op) error {
	var ids []string
	for _, o := range ops {
		c := o.arg.(*claiming)
		c.ids, c.out = make([]string, len(c.in)), make([]Claim, len(c.in))
		for i := range c.in {
			if c.ids[i] = c.in[i].orderID(); c.ids[i] != "" {
				ids = append(ids, c.ids[i])
			}
		}
	}
	rows, err := t.load(ids)
	if err != nil {
		return err
	}
	e := new(edits)
	for _, o := range ops {
		c := o.arg.(*claiming)
		for i := range c.in {
			if c.out[i], err = t.claim(e, rows, &c.in[i], c.ids[i]); err != nil {
				return err
			}
		}
	}
	return e.write(t)
}}

// orderID is the id of the order that the message is about. A message that
// names none gets one of its own, the same at every redelivery.
func (a *Arrival) orderID() string {
	switch {
	case a.DecodeErr != nil:
		return ""
	case a.Order.ID != "":
		return a.Order.ID
	}
	return messageID("m-", a.MessageID, a.Body)
}

// claim decides about one arrival. rows is kept up to date, so that a message
// that is there twice in one transaction meets what the first one did.
func (t *tx) claim(e *edits, rows map[string]*row, a *Arrival, id string) (Claim, error) {
	if a.DecodeErr != nil {
		reason := "not an order: " + a.DecodeErr.Error()
		e.add(t.rawDeadLetter(a, reason, "invalid_message"))
		return Claim{Verdict: DeadLettered, Reason: reason}, nil
	}
	r := rows[id]
	if r == nil {
		if a.Origin == Origin {
			return Claim{Reason: "an order of ours that this store does not know"}, nil
		}
		var err error
		if r, err = t.foreign(e, a, id); err != nil {
			return Claim{}, err
		}
		rows[id] = r
	}
	same, err := t.sameOrder(r, &a.Order)
	if err != nil {
		return Claim{}, err
	}
	if !same {
		reason := "orderId is taken by another order"
		e.add(t.rawDeadLetter(a, reason, "id_taken"))
		return Claim{Verdict: DeadLettered, Reason: reason}, nil
	}
	sent := r.sentAt
	c := t.claimRow(e, r)
	c.SentAt = sent
	return c, nil
}

// sameOrder says whether o asks for what r does, or did before an edit.
func (t *tx) sameOrder(r *row, o *Order) (bool, error) {
	hash := o.Hash()
	if bytes.Equal(hash[:], r.hash) {
		return true, nil
	}
	return t.wasAsked(r.ID, hash[:])
}

// foreign creates the order that another program put on the queue. The row is
// inserted at once, so that claiming it is the same as for all others.
func (t *tx) foreign(e *edits, a *Arrival, id string) (*row, error) {
	o := a.Order
	o.ID = id
	r := t.newRow(o)
	if a.ExpiresAt > t.now {
		r.ExpiresAt = a.ExpiresAt
	}
	r.dispatch = dispatchNone
	r.sentAt = t.now
	insert := r.insert()
	if err := t.run(insert, r.firstEvent().insert()); err != nil {
		return nil, err
	}
	r.loadStatus, r.loadToken = r.Status, r.token
	r.events = 1
	return r, nil
}

func (t *tx) claimRow(e *edits, r *row) Claim {
	switch {
	case !r.Status.underWay():
		return Claim{Reason: "the order is " + string(r.Status), Order: r.Order}
	case r.owner != 0:
		return Claim{Reason: "the order is leased", Order: r.Order}
	case r.dispatch == dispatchRetry && r.dueAt > t.now:
		return Claim{Reason: "the order is not due yet", Order: r.Order}
	case r.waiting == 0 && r.ExpiresAt <= t.now:
		t.expire(e, r)
		return Claim{Verdict: ExpiredNow, Order: r.Order}
	}
	if r.Status == StatusCreated {
		e.event(r.move(t, StatusProcessing, "", ""))
	} else {
		r.touch(t)
	}
	r.owner, r.step, r.claimedAt = t.s.process.id(), StepPayment, t.now
	if r.Deaths > 0 {
		r.step = "" // begun by Begin: until then its worker's death is not its fault
	}
	r.token++
	r.dispatch, r.dueAt = dispatchNone, 0
	r.NextAttemptAt = 0
	r.sentAt = max(r.sentAt, t.now)
	r.beginPayment()
	e.save(r)
	return Claim{Verdict: Claimed, Order: r.Order, Token: r.token}
}

// Begin records that work on a claimed order that has seen a worker die begins
// now: from then on another death is counted against it. It says false if the
// claim is not this process's any more.
func (s *Store) Begin(ctx context.Context, id string, token int64) (bool, error) {
	begun := false
	err := s.change(ctx, "begin order "+id, func(t *tx) error {
		c := &call{sql: "UPDATE orders SET step = $1, claimed_at = $2 WHERE id = $3 AND token = $4 AND owner = $5 AND status = 'processing'",
			args: []any{string(StepPayment), int64(t.now), id, token, s.process.id()}}
		err := t.run(c)
		begun = c.rows == 1
		return err
	})
	return begun && err == nil, err
}

// beginPayment records that the gateway may be asked from now on. A key is
// used again unless its outcome was a definite no.
func (r *row) beginPayment() {
	r.fresh = 0
	switch r.Payment {
	case PaymentRefused, PaymentVoided:
		r.PaymentN++
		r.fresh = 1
		r.Payment = PaymentBegun
	case PaymentNone:
		r.fresh = 1
		r.Payment = PaymentBegun
	}
	r.PaymentFresh = r.fresh != 0
}

// expire ends an order whose time is over.
func (t *tx) expire(e *edits, r *row) {
	r.rest()
	e.event(r.move(t, StatusExpired, "", "not confirmed before expiresAt"))
	t.void(e, r)
	e.save(r)
}
