package orders

import (
	"context"
	"fmt"
)

// Stock is what is on hand of a sku.
type Stock struct {
	SKU       string
	OnHand    int64
	UpdatedAt Millis
}

// maxOnHand bounds what is on hand of one sku, so that giving back never overflows.
const maxOnHand = 1 << 53

// Stock looks whether there is enough on hand for o: missingSKU is "" if so.
// Nothing is reserved; confirming takes it, or finds it gone.
func (s *Store) Stock(ctx context.Context, o *Order) (missingSKU string, err error) {
	for _, need := range o.needs() {
		have, err := s.Inventory(ctx, need.SKU)
		switch {
		case err != nil && KindOf(err) == KindNotFound: // not tracked
		case err != nil:
			return "", err
		case have.OnHand < need.Quantity:
			return need.SKU, nil
		}
	}
	return "", nil
}

// Inventory returns the stock of sku; KindNotFound if nobody has set it: it is
// not tracked then, and orders for it are confirmed whatever their quantity.
func (s *Store) Inventory(ctx context.Context, sku string) (Stock, error) {
	out := Stock{SKU: sku}
	c := &call{sql: "SELECT on_hand, updated_at FROM inventory WHERE sku = $1", args: []any{sku},
		row: func(scan scanFunc) error { return scan(&out.OnHand, &out.UpdatedAt) }}
	if err := s.read(ctx, "get stock of "+sku, c); err != nil {
		return Stock{}, err
	}
	if c.rows == 0 {
		return Stock{}, errorf(KindNotFound, "", "nobody has set the stock of %s", clip(sku, maxIDBytes))
	}
	return out, nil
}

// SetInventory sets what is on hand of sku, from 0 to 2^53. KindInvalid
// otherwise.
func (s *Store) SetInventory(ctx context.Context, sku string, onHand int64, by string) (Stock, error) {
	if !ValidID(sku) {
		return Stock{}, errorf(KindInvalid, "sku", "must be 1 to %d of the characters A-Z a-z 0-9 . _ : ~ -", maxIDBytes)
	}
	if onHand < 0 || onHand > maxOnHand {
		return Stock{}, errorf(KindInvalid, "onHand", "must be from 0 to %d", int64(maxOnHand))
	}
	out := Stock{SKU: sku, OnHand: onHand}
	err := s.change(ctx, "set stock of "+sku, func(t *tx) error {
		out.UpdatedAt = t.now
		return t.run(
			&call{sql: "INSERT INTO inventory (sku, on_hand, updated_at) VALUES ($1, $2, $3) ON CONFLICT (sku) DO UPDATE " +
				"SET on_hand = excluded.on_hand, updated_at = excluded.updated_at", args: []any{sku, onHand, int64(t.now)}},
			t.audit(by, "set stock", sku, fmt.Sprint(onHand)))
	})
	if err != nil {
		return Stock{}, err
	}
	return out, nil
}

// ListInventory returns stocks by sku and the cursor of the next page.
func (s *Store) ListInventory(ctx context.Context, cursor string, limit int) ([]Stock, string, error) {
	limit = pageSize(limit)
	w := new(where)
	if cursor != "" {
		_, sku, err := parseCursor(cursor)
		if err != nil {
			return nil, "", err
		}
		w.add("sku > ?", sku)
	}
	var out []Stock
	err := s.read(ctx, "list stocks", &call{
		sql:  "SELECT sku, on_hand, updated_at FROM inventory" + w.String() + fmt.Sprintf(" ORDER BY sku LIMIT %d", limit+1),
		args: w.args,
		row: func(scan scanFunc) error {
			var st Stock
			err := scan(&st.SKU, &st.OnHand, &st.UpdatedAt)
			out = append(out, st)
			return err
		}})
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(out) > limit {
		out = out[:limit]
		next = cursorOf(0, out[limit-1].SKU)
	}
	return out, next, nil
}
