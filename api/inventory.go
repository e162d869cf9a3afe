package api

import (
	"net/http"

	"orderd/orders"
)

// maxOnHand is the largest whole number that every JSON reader gets right.
const maxOnHand = 1<<53 - 1

// stock is how the stock of a sku looks outside.
type stock struct {
	SKU       string        `json:"sku"`
	OnHand    int64         `json:"onHand"`
	UpdatedAt orders.Millis `json:"updatedAt"`
}

func (s *Server) getInventory(x *exchange, r *http.Request) error {
	sku, err := pathID(r, "sku", "sku")
	if err != nil {
		return err
	}
	st, err := s.store.Inventory(r.Context(), sku)
	if err != nil {
		return err
	}
	return x.encode(http.StatusOK, stock(st))
}

func (s *Server) putInventory(x *exchange, r *http.Request) error {
	sku, err := pathID(r, "sku", "sku")
	if err != nil {
		return err
	}
	var in struct {
		OnHand *int64 `json:"onHand"`
	}
	if err := s.decodeSmall(r, &in, false); err != nil {
		return err
	}
	if in.OnHand == nil || *in.OnHand < 0 || *in.OnHand > maxOnHand {
		return fault(orders.KindInvalid, "onHand", "This has to be a whole number from 0 to %d.", maxOnHand)
	}
	st, err := s.store.SetInventory(r.Context(), sku, *in.OnHand, x.by)
	if err != nil {
		return err
	}
	return x.encode(http.StatusOK, stock(st))
}

func (s *Server) listInventory(x *exchange, r *http.Request) error {
	limit, err := x.limit()
	if err != nil {
		return err
	}
	list, next, err := s.store.ListInventory(r.Context(), x.query.Get("cursor"), limit)
	if err != nil {
		return err
	}
	out := struct {
		Inventory []stock `json:"inventory"`
		Next      string  `json:"next"`
	}{make([]stock, len(list)), next}
	for i, st := range list {
		out.Inventory[i] = stock(st)
	}
	return x.encode(http.StatusOK, &out)
}
