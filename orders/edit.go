package orders

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// editable are the members of an order that a person may change.
var editable = []string{"customer", "items", "total", "currency", "lines", "language"}

// EditDeadLetter changes the order of an open dead letter before its redrive.
// patch is a JSON object with the members of NewOrder to be replaced; null
// takes one away. New lines bring their own items and total. What comes out
// must be what Decode takes, and the errors are the same.
//
// A payment that was begun or authorised for another amount, currency or
// customer is voided: the next claim pays with a new key. KindConflict if the
// dead letter is not open or has no order.
func (s *Store) EditDeadLetter(ctx context.Context, id string, patch []byte, by string) (Order, error) {
	orderID := ""
	err := s.change(ctx, "edit the order of dead letter "+id, func(t *tx) error {
		d, r, err := t.openDeadLetter(id)
		if err != nil {
			return err
		}
		if r == nil || r.Round != d.Round {
			return errorf(KindConflict, "", "the dead letter has no order that could be edited")
		}
		orderID = r.ID
		after, err := r.patched(patch)
		if err != nil {
			return err
		}
		return t.edit(r, &after, &d, by)
	})
	if err != nil {
		return Order{}, err
	}
	return s.Get(ctx, orderID)
}

func (t *tx) edit(r *row, after *Order, d *DeadLetter, by string) error {
	before := r.Order
	hash := after.Hash()
	if bytes.Equal(hash[:], r.hash) {
		return nil
	}
	e := new(edits)
	if before.Total != after.Total || before.Customer != after.Customer {
		t.void(e, r)
	}
	e.add(&call{sql: "INSERT INTO order_edits (order_id, hash, body, at, actor) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
		args: []any{r.ID, r.hash, before.AppendMessage(nil), int64(t.now), by}})
	r.hash = hash[:]
	r.Customer, r.Items, r.Total, r.Lines, r.Language = after.Customer, after.Items, after.Total, after.Lines, after.Language
	r.touch(t)
	e.save(r)
	e.add(
		&call{sql: "UPDATE orders SET customer = $1, items = $2, amount = $3, currency = $4, lines = $5, language = $6, hash = $7 WHERE id = $8",
			args: []any{r.Customer, r.Items, r.Total.Minor, string(r.Total.Currency), storedLines(r.Lines), r.Language, r.hash, r.ID}},
		&call{sql: "UPDATE dead_letters SET customer = $1 WHERE id = $2", args: []any{r.Customer, d.ID}},
		t.audit(by, "edit", r.ID, difference(&before, after)))
	return e.write(t)
}

// wasAsked says whether hash is of what the order was before an edit: a
// message or a request of that text is about this order still.
func (t *tx) wasAsked(id string, hash []byte) (bool, error) {
	c := &call{sql: "SELECT 1 FROM order_edits WHERE order_id = $1 AND hash = $2", args: []any{id, hash},
		row: func(scan scanFunc) error { var one int; return scan(&one) }}
	err := t.run(c)
	return c.rows > 0, err
}

// patched returns the order with the members of patch.
func (o *Order) patched(patch []byte) (Order, error) {
	d := decoders.Get().(*decoder)
	defer d.release()
	changes := make(map[string]jsontext.Value)
	err := d.object(patch, func(name string, v jsontext.Value) {
		if !slices.Contains(editable, name) {
			d.fail(name, "is not a member of an order that can be edited")
		}
		changes[name] = v.Clone()
	})
	if err != nil {
		return Order{}, err
	}
	if d.fault != nil {
		return Order{}, d.fault
	}
	merged := []byte{'{'}
	add := func(name string, v jsontext.Value) {
		if len(merged) > 1 {
			merged = append(merged, ',')
		}
		merged = append(append(appendString(merged, name), ':'), v...)
	}
	err = d.object(o.AppendMessage(nil), func(name string, v jsontext.Value) {
		_, changed := changes[name]
		// Items and total of the lines that were do not bind the new ones.
		lines, relined := changes["lines"]
		derived := relined && lines.Kind() != 'n' && (name == "items" || name == "total")
		if !changed && !derived {
			add(name, v.Clone())
		}
	})
	if err != nil {
		return Order{}, fmt.Errorf("read order %s: %w", o.ID, err)
	}
	for _, name := range editable {
		if v, changed := changes[name]; changed && v.Kind() != 'n' {
			add(name, v)
		}
	}
	return Decode(append(merged, '}'), true)
}

// difference tells in words what an edit changed.
func difference(before, after *Order) string {
	var parts []string
	note := func(name, was, is string) {
		if was != is {
			parts = append(parts, fmt.Sprintf("%s: %s -> %s", name, was, is))
		}
	}
	note("total", before.Total.String()+" "+string(before.Total.Currency), after.Total.String()+" "+string(after.Total.Currency))
	note("items", fmt.Sprint(before.Items), fmt.Sprint(after.Items))
	note("customer", before.Customer, after.Customer)
	note("language", before.Language, after.Language)
	note("lines", string(before.appendLines(nil)), string(after.appendLines(nil)))
	return strings.Join(parts, "; ")
}
