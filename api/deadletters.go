package api

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"orderd/orders"
)

// deadLetter is how a dead letter looks outside.
type deadLetter struct {
	ID         string         `json:"id"`
	OrderID    string         `json:"orderId,omitzero"`
	Status     string         `json:"status"`
	Reason     string         `json:"reason"`
	ErrorClass string         `json:"errorClass"`
	Step       orders.Step    `json:"step,omitzero"`
	Round      int            `json:"round"`
	FailedAt   orders.Millis  `json:"failedAt"`
	Redrives   int            `json:"redrives"`
	Order      jsontext.Value `json:"order,omitzero"`
	Raw        []byte         `json:"raw,omitempty"` // base64
	Note       string         `json:"note,omitzero"`
	DoneAt     orders.Millis  `json:"doneAt,omitzero"`
}

func deadLetterOut(d *orders.DeadLetter) deadLetter {
	out := deadLetter{
		ID: d.ID, OrderID: d.OrderID, Status: d.Status, Reason: d.Reason, ErrorClass: d.Class, Step: d.Step,
		Round: d.Round, FailedAt: d.FailedAt, Redrives: d.Redrives, Raw: d.Raw,
		Note: d.Note, DoneAt: d.DoneAt,
	}
	if d.Order != nil {
		out.Order = d.Order.AppendJSON(nil)
	}
	return out
}

// encode answers with v as JSON. Texts that came from elsewhere and are not UTF-8
// are mended: a dead letter must be readable whatever is in it.
func (x *exchange) encode(code int, v any) error {
	body, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return x.json(code, body)
}

// deadLetterFilter reads what all queries about dead letters have in common.
func (x *exchange) deadLetterFilter(statuses ...string) (f orders.DeadLetterFilter, err error) {
	f.Class, f.Customer, f.Reason = x.query.Get("errorClass"), x.query.Get("customer"), x.query.Get("reason")
	if f.Status, err = x.oneOf("status", statuses...); err != nil {
		return f, err
	}
	if f.Before, err = x.millis("before"); err != nil {
		return f, err
	}
	f.After, err = x.millis("after")
	return f, err
}

func (s *Server) listDeadLetters(x *exchange, r *http.Request) error {
	f, err := x.deadLetterFilter(orders.DeadLetterOpen, orders.DeadLetterRedriven, orders.DeadLetterDiscarded)
	if err != nil {
		return err
	}
	f.Cursor = x.query.Get("cursor")
	if f.Limit, err = x.limit(); err != nil {
		return err
	}
	list, next, err := s.store.DeadLetters(r.Context(), f)
	if err != nil {
		return err
	}
	out := struct {
		DeadLetters []deadLetter `json:"deadLetters"`
		Next        string       `json:"next"`
	}{make([]deadLetter, len(list)), next}
	for i := range list {
		out.DeadLetters[i] = deadLetterOut(&list[i])
	}
	return x.encode(http.StatusOK, &out)
}

func (s *Server) getDeadLetter(x *exchange, r *http.Request) error {
	id, err := pathID(r, "id", "dead letter")
	if err != nil {
		return err
	}
	d, err := s.store.DeadLetter(r.Context(), id)
	if err != nil {
		return err
	}
	return x.encode(http.StatusOK, deadLetterOut(&d))
}

func (s *Server) redriveDeadLetter(x *exchange, r *http.Request) error {
	id, err := s.action(r, "dead letter", &struct{}{})
	if err != nil {
		return err
	}
	force, err := x.flag("force")
	if err != nil {
		return err
	}
	o, err := s.store.Redrive(r.Context(), id, x.by, force)
	if err != nil {
		return err
	}
	x.Header()["Location"] = []string{"/orders/" + o.ID}
	return x.order(http.StatusAccepted, &o)
}

func (s *Server) discardDeadLetter(x *exchange, r *http.Request) error {
	var in reason
	id, err := s.action(r, "dead letter", &in)
	if err != nil {
		return err
	}
	if in.Reason == "" {
		return fault(orders.KindInvalid, "reason", "Discarding needs a reason.")
	}
	if err := checkText("reason", in.Reason, maxReason); err != nil {
		return err
	}
	d, err := s.store.Discard(r.Context(), id, in.Reason, x.by)
	if err != nil {
		return err
	}
	return x.encode(http.StatusOK, deadLetterOut(&d))
}

// deadLetterClass sums up the dead letters of one error class.
type deadLetterClass struct {
	ErrorClass string                    `json:"errorClass"`
	Count      int64                     `json:"count"`
	FirstSeen  orders.Millis             `json:"firstSeen"`
	LastSeen   orders.Millis             `json:"lastSeen"`
	AtStake    map[string]jsontext.Value `json:"atStake"` // amounts by currency
}

func (s *Server) sumUpDeadLetters(x *exchange, r *http.Request) error {
	f, err := x.deadLetterFilter(orders.DeadLetterOpen, orders.DeadLetterRedriven, orders.DeadLetterDiscarded)
	if err != nil {
		return err
	}
	if f.Status == "" {
		f.Status = orders.DeadLetterOpen
	}
	list, err := s.store.DeadLetterSummary(r.Context(), f)
	if err != nil {
		return err
	}
	out := struct {
		Status  string            `json:"status"`
		Count   int64             `json:"count"`
		Classes []deadLetterClass `json:"classes"`
	}{Status: f.Status, Classes: make([]deadLetterClass, len(list))}
	for i, c := range list {
		out.Count += c.Count
		stake := make(map[string]jsontext.Value, len(c.AtStake))
		for _, a := range c.AtStake {
			stake[string(a.Currency)] = jsontext.Value(a.String())
		}
		out.Classes[i] = deadLetterClass{c.Class, c.Count, c.FirstSeen, c.LastSeen, stake}
	}
	return x.encode(http.StatusOK, &out)
}

// editDeadLetter changes the order of an open dead letter.
func (s *Server) editDeadLetter(x *exchange, r *http.Request) error {
	id, err := pathID(r, "id", "dead letter")
	if err != nil {
		return err
	}
	buf := getBuffer()
	defer buf.free()
	if err := s.readJSON(r, buf); err != nil {
		return err
	}
	o, err := s.store.EditDeadLetter(r.Context(), id, buf.b, x.by)
	if err != nil {
		return err
	}
	return x.order(http.StatusOK, &o)
}
