package api

import (
	"net/http"

	"orderd/orders"
)

// delivery is how a mail or push looks outside.
type delivery struct {
	ID          string        `json:"id"`
	Subscriber  string        `json:"subscriber"`
	OrderID     string        `json:"orderId"`
	Event       string        `json:"event"`                // order.<status>
	EventNumber int64         `json:"eventNumber,omitzero"` // as the id in GET /events
	Status      string        `json:"status"`
	To          string        `json:"to"`
	Tries       int           `json:"tries"`
	LastAnswer  string        `json:"lastAnswer,omitzero"`
	CreatedAt   orders.Millis `json:"createdAt"`
	DueAt       orders.Millis `json:"dueAt,omitzero"`
	DoneAt      orders.Millis `json:"doneAt,omitzero"`
}

func (s *Server) listDeliveries(x *exchange, r *http.Request) error {
	f := orders.DeliveryFilter{Subscriber: x.query.Get("subscriber"), Cursor: x.query.Get("cursor")}
	var err error
	if f.Status, err = x.oneOf("status", orders.DeliveryPending, orders.DeliverySending, orders.DeliverySent,
		orders.DeliverySkipped, orders.DeliveryFailed, orders.DeliveryUnknown); err != nil {
		return err
	}
	if f.OrderID, err = x.orderID("orderId"); err != nil {
		return err
	}
	if f.Limit, err = x.limit(); err != nil {
		return err
	}
	list, next, err := s.store.ListDeliveries(r.Context(), f)
	if err != nil {
		return err
	}
	out := struct {
		Deliveries []delivery `json:"deliveries"`
		Next       string     `json:"next"`
	}{make([]delivery, len(list)), next}
	for i, d := range list {
		out.Deliveries[i] = delivery{
			ID: d.ID, Subscriber: d.Subscriber, OrderID: d.OrderID, Status: d.Status, To: d.To, Tries: d.Tries,
			Event: "order." + string(d.Event.Status), EventNumber: d.Event.Number, LastAnswer: d.LastAnswer,
			CreatedAt: d.CreatedAt, DueAt: d.DueAt, DoneAt: d.DoneAt,
		}
	}
	return x.encode(http.StatusOK, &out)
}
