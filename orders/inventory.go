package orders

import "context"

// Stock is what is on hand of a sku.
type Stock struct {
	SKU       string
	OnHand    int64
	UpdatedAt Millis
}

// Stock looks whether there is enough on hand for o: missingSKU is "" if so.
func (s *Store) Stock(ctx context.Context, o *Order) (missingSKU string, err error) {
	return "", errNotBuilt
}

// Inventory returns the stock of sku; KindNotFound if nobody has set it.
func (s *Store) Inventory(ctx context.Context, sku string) (Stock, error) {
	return Stock{}, errNotBuilt
}

// SetInventory sets what is on hand of sku.
func (s *Store) SetInventory(ctx context.Context, sku string, onHand int64, by string) (Stock, error) {
	return Stock{}, errNotBuilt
}

// ListInventory returns stocks by sku and the cursor of the next page.
func (s *Store) ListInventory(ctx context.Context, cursor string, limit int) ([]Stock, string, error) {
	return nil, "", errNotBuilt
}
