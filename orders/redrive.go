package orders

import (
	"context"
)

// Redrive starts a new round for the order of an open dead letter: fresh
// attempts, a new expiresAt. KindConflict if the dead letter is not open, has
// no order, or its order was redriven MaxRedrives times and force is not set.
func (s *Store) Redrive(ctx context.Context, id, by string, force bool) (Order, error) {
	var out Order
	err := s.change(ctx, "redrive dead letter "+id, func(t *tx) error {
		d, r, err := t.openDeadLetter(id)
		if err != nil {
			return err
		}
		if r == nil {
			return errorf(KindConflict, "", "the dead letter is a message that did not become an order")
		}
		if d.Round != r.Round {
			return errorf(KindConflict, "", "the dead letter is of an earlier round of its order")
		}
		out, err = t.redrive(r, by, force)
		return err
	})
	if err != nil {
		return Order{}, err
	}
	return out, nil
}

// RedriveOrder starts a new round for a failed or expired order. KindConflict
// if it is neither, or was redriven MaxRedrives times and force is not set.
func (s *Store) RedriveOrder(ctx context.Context, orderID, by string, force bool) (Order, error) {
	var out Order
	err := s.change(ctx, "redrive order "+orderID, func(t *tx) error {
		r, err := t.loadOne(orderID)
		if err != nil {
			return err
		}
		out, err = t.redrive(r, by, force)
		return err
	})
	if err != nil {
		return Order{}, err
	}
	return out, nil
}

func (t *tx) redrive(r *row, by string, force bool) (Order, error) {
	if err := t.mayRedrive(r, force); err != nil {
		return Order{}, err
	}
	e := new(edits)
	detail := ""
	if force {
		detail = "forced"
	}
	t.newRound(e, r, by, detail)
	return r.Order, e.write(t)
}

// mayRedrive says why r cannot be redriven.
func (t *tx) mayRedrive(r *row, force bool) error {
	most := t.s.options.MaxRedrives
	switch {
	case !r.Status.CanBecome(StatusCreated):
		return errorf(KindConflict, "status", "an order that is %s cannot be redriven", r.Status)
	case !force && most > 0 && r.Round > most:
		return errorf(KindConflict, "", "the order was redriven %d times already: only force=true redrives it again", r.Round-1)
	}
	return nil
}

// newRound has an order done again from the start, with all that the policy
// grants a new order.
func (t *tx) newRound(e *edits, r *row, by, detail string) {
	e.add(&call{sql: "UPDATE dead_letters SET status = 'redriven', done_at = $1 WHERE order_id = $2 AND round = $3 AND status = 'open'",
		args: []any{int64(t.now), r.ID, r.Round}},
		t.audit(by, "redrive", r.ID, detail))
	r.Round++
	r.Attempts, r.Deaths = 0, 0
	r.ExpiresAt = t.now.Add(t.s.options.Expiration)
	r.cancelAt, r.cancelBy, r.cancelWhy = 0, "", ""
	r.send(t, dispatchOrder, 0)
	e.event(r.move(t, StatusCreated, by, "redriven"))
	e.save(r)
}
