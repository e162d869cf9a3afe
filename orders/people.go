package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"
)

const (
	maxNoteChars  = 500 // a reason that a person gives
	maxLabelChars = 100 // carrier, tracking number
)

func checkText(field, s string, most int) error {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > most {
		return errorf(KindInvalid, field, "must have at most %d characters", most)
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return errorf(KindInvalid, field, "must not hold control characters")
		}
	}
	return nil
}

// Ship records that a confirmed order was handed to a carrier. KindConflict if
// the order is in another status, KindInvalid for a carrier or tracking number
// over 100 characters.
func (s *Store) Ship(ctx context.Context, id, carrier, tracking, by string) (Order, error) {
	if err := checkText("carrier", carrier, maxLabelChars); err != nil {
		return Order{}, err
	}
	if err := checkText("trackingNumber", tracking, maxLabelChars); err != nil {
		return Order{}, err
	}
	return s.act(ctx, id, StatusShipped, by, func(r *row) { r.Carrier, r.TrackingNumber = carrier, tracking })
}

// Deliver records that a shipped order has arrived. KindConflict if the order
// is in another status.
func (s *Store) Deliver(ctx context.Context, id, by string) (Order, error) {
	return s.act(ctx, id, StatusDelivered, by, func(*row) {})
}

// act changes an order's status on somebody's word.
func (s *Store) act(ctx context.Context, id string, to Status, by string, fn func(*row)) (Order, error) {
	err := s.change(ctx, "change order "+id, func(t *tx) error {
		r, err := t.loadOne(id)
		if err != nil {
			return err
		}
		if !r.Status.CanBecome(to) {
			return forbidden(r.Status, to)
		}
		fn(r)
		e := new(edits)
		e.event(r.move(t, to, by, ""))
		e.save(r)
		e.add(t.audit(by, string(to), id, ""))
		return e.write(t)
	})
	if err != nil {
		return Order{}, err
	}
	return s.Get(ctx, id)
}

func forbidden(from, to Status) error {
	return errorf(KindConflict, "status", "an order that is %s cannot become %s", from, to)
}

// Cancel cancels an order: at once if no worker holds it, with its stock given
// back and its payment voided. pending says that a worker holds it, which will
// end it as cancelled before it could be confirmed. KindConflict if the order's
// status does not allow it.
func (s *Store) Cancel(ctx context.Context, id, reason, by string) (o Order, pending bool, err error) {
	if err := checkText("reason", reason, maxNoteChars); err != nil {
		return Order{}, false, err
	}
	err = s.change(ctx, "cancel order "+id, func(t *tx) error {
		pending = false
		r, err := t.loadOne(id)
		if err != nil {
			return err
		}
		if !r.Status.CanBecome(StatusCancelled) {
			return forbidden(r.Status, StatusCancelled)
		}
		e := new(edits)
		e.add(t.audit(by, "cancel", id, reason))
		if r.cancelAt == 0 {
			r.cancelAt, r.cancelBy, r.cancelWhy = t.now, by, reason
		}
		if r.owner != 0 {
			pending = true
			e.save(r)
			return e.write(t)
		}
		if err := t.giveBack(e, r); err != nil {
			return err
		}
		t.cancel(e, r)
		return e.write(t)
	})
	if err != nil {
		return Order{}, false, err
	}
	o, err = s.Get(ctx, id)
	return o, pending, err
}

// giveBack returns the stock that confirming took.
func (t *tx) giveBack(e *edits, r *row) error {
	if r.stock == "" {
		return nil
	}
	var taken []need
	if err := json.Unmarshal([]byte(r.stock), &taken); err != nil {
		return fmt.Errorf("stock of order %s: %w", r.ID, err)
	}
	skus := make([]string, len(taken))
	for i, n := range taken {
		skus[i] = n.SKU
	}
	stock, err := t.stocks(skus)
	if err != nil {
		return err
	}
	stock.give(taken)
	stock.save(t, e)
	r.stock = ""
	return nil
}
