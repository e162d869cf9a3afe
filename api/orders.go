package api

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"orderd/orders"
)

// How long the texts may be that people add to orders, in characters.
const (
	maxCarrier  = 100
	maxTracking = 200
	maxReason   = 1000
)

// createOrder is the hot path: no reflection, one pooled buffer, one call to the
// store. The answer's body is the store's.
func (s *Server) createOrder(x *exchange, r *http.Request) error {
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	buf := getBuffer()
	defer buf.free()
	if err := s.readJSON(r, buf); err != nil {
		return err
	}
	o, err := orders.Decode(buf.b, true)
	if err != nil {
		return err
	}
	acc, err := s.store.Accept(r.Context(), o, key)
	if err != nil {
		return err
	}
	h := x.Header()
	id := acc.Order.ID
	if acc.Replayed {
		h["Idempotency-Replayed"] = yes
		if id == "" { // of an answer that was kept under its key there is only the body
			if id, err = orderIDIn(acc.Body); err != nil {
				return err
			}
		}
	}
	h["Location"] = []string{"/orders/" + id}
	return x.json(http.StatusAccepted, acc.Body)
}

func orderIDIn(body []byte) (string, error) {
	var o struct {
		OrderID string `json:"orderId"`
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return "", fmt.Errorf("read kept answer: %w", err)
	}
	return o.OrderID, nil
}

func (s *Server) listOrders(x *exchange, r *http.Request) error {
	status, err := orderStatus(x.query.Get("status"))
	if err != nil {
		return err
	}
	limit, err := x.limit()
	if err != nil {
		return err
	}
	list, next, err := s.store.ListOrders(r.Context(), orders.OrderFilter{
		Status: status, Customer: x.query.Get("customer"), Cursor: x.query.Get("cursor"), Limit: limit,
	})
	if err != nil {
		return err
	}
	return x.list("orders", next, len(list), func(i int, b []byte) []byte { return list[i].AppendJSON(b) })
}

// list answers with a page of n entries, each appended by entry.
func (x *exchange) list(plural, next string, n int, entry func(i int, b []byte) []byte) error {
	buf := getBuffer()
	defer buf.free()
	b := append(buf.b, `{"`...)
	b = append(b, plural...)
	b = append(b, `":[`...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = entry(i, b)
	}
	b = append(b, `],"next":`...)
	b = appendString(b, next)
	buf.b = append(b, '}')
	return x.json(http.StatusOK, buf.b)
}

// appendString appends s in quotes. What is not UTF-8 is replaced, which the
// function says by an error that changes nothing here.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

func (x *exchange) order(code int, o *orders.Order) error {
	buf := getBuffer()
	defer buf.free()
	buf.b = o.AppendJSON(buf.b)
	return x.json(code, buf.b)
}

func (s *Server) getOrder(x *exchange, r *http.Request) error {
	id, err := pathID(r, "id", "order")
	if err != nil {
		return err
	}
	o, err := s.store.Get(r.Context(), id)
	if err != nil {
		return err
	}
	return x.order(http.StatusOK, &o)
}

func (s *Server) shipOrder(x *exchange, r *http.Request) error {
	var in struct {
		Carrier        string `json:"carrier"`
		TrackingNumber string `json:"trackingNumber"`
	}
	id, err := s.action(r, "order", &in)
	if err != nil {
		return err
	}
	if err := checkText("carrier", in.Carrier, maxCarrier); err != nil {
		return err
	}
	if err := checkText("trackingNumber", in.TrackingNumber, maxTracking); err != nil {
		return err
	}
	o, err := s.store.Ship(r.Context(), id, in.Carrier, in.TrackingNumber, x.by)
	if err != nil {
		return err
	}
	return x.order(http.StatusOK, &o)
}

// action reads what requests have in common that do something to an order or a
// dead letter: its id, and a body that may be left out.
func (s *Server) action(r *http.Request, noun string, into any) (id string, err error) {
	if id, err = pathID(r, "id", noun); err != nil {
		return "", err
	}
	return id, s.decodeSmall(r, into, true)
}

func (s *Server) deliverOrder(x *exchange, r *http.Request) error {
	id, err := s.action(r, "order", &struct{}{})
	if err != nil {
		return err
	}
	o, err := s.store.Deliver(r.Context(), id, x.by)
	if err != nil {
		return err
	}
	return x.order(http.StatusOK, &o)
}

// reason is the body of requests that may say why.
type reason struct {
	Reason string `json:"reason"`
}

func (s *Server) cancelOrder(x *exchange, r *http.Request) error {
	var in reason
	id, err := s.action(r, "order", &in)
	if err != nil {
		return err
	}
	if err := checkText("reason", in.Reason, maxReason); err != nil {
		return err
	}
	o, pending, err := s.store.Cancel(r.Context(), id, in.Reason, x.by)
	if err != nil {
		return err
	}
	if pending { // a worker holds the order and will end it as cancelled
		return x.order(http.StatusAccepted, &o)
	}
	return x.order(http.StatusOK, &o)
}

func (s *Server) redriveOrder(x *exchange, r *http.Request) error {
	id, err := s.action(r, "order", &struct{}{})
	if err != nil {
		return err
	}
	force, err := x.flag("force")
	if err != nil {
		return err
	}
	o, err := s.store.RedriveOrder(r.Context(), id, x.by, force)
	if err != nil {
		return err
	}
	return x.order(http.StatusAccepted, &o)
}
