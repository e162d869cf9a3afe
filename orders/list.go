package orders

import "context"

// OrderFilter selects orders. The zero value of a field selects all.
type OrderFilter struct {
	Status   Status
	Customer string
	Cursor   string // of the page before
	Limit    int    // 1 to 500; 0 means 50
}

// ListOrders returns orders, the newest first, and the cursor of the next page,
// which is empty on the last one.
func (s *Store) ListOrders(ctx context.Context, f OrderFilter) (orders []Order, next string, err error) {
	return nil, "", errNotBuilt
}
