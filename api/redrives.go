package api

import (
	"net/http"

	"orderd/orders"
)

// redriveFilter is what a redrive of many was asked to redrive.
type redriveFilter struct {
	ErrorClass string        `json:"errorClass,omitzero"`
	Customer   string        `json:"customer,omitzero"`
	Reason     string        `json:"reason,omitzero"`
	Before     orders.Millis `json:"before,omitzero"`
	After      orders.Millis `json:"after,omitzero"`
}

// redrive is how a redrive of many looks outside. A dry run has no id.
type redrive struct {
	ID        string        `json:"id,omitzero"`
	Status    string        `json:"status"`
	By        string        `json:"by,omitzero"`
	Filter    redriveFilter `json:"filter"`
	Rate      string        `json:"rate"`
	Force     bool          `json:"force"`
	Matched   int64         `json:"matched"`
	Redriven  int64         `json:"redriven"`
	Refused   int64         `json:"refused"`
	CreatedAt orders.Millis `json:"createdAt,omitzero"`
	DoneAt    orders.Millis `json:"doneAt,omitzero"`
}

func redriveOut(j *orders.Redrive) redrive {
	f := j.Filter
	return redrive{
		ID: j.ID, Status: j.Status, By: j.By, Filter: redriveFilter{f.Class, f.Customer, f.Reason, f.Before, f.After},
		Rate: j.Rate.String(), Force: j.Force, Matched: j.Matched, Redriven: j.Redriven, Refused: j.Refused,
		CreatedAt: j.CreatedAt, DoneAt: j.DoneAt,
	}
}

const redriveDry = "dry run"

// redriveDeadLetters starts a redrive of many, or with dryRun says what it
// would find.
func (s *Server) redriveDeadLetters(x *exchange, r *http.Request) error {
	if err := s.decodeSmall(r, &struct{}{}, true); err != nil {
		return err
	}
	f, err := x.deadLetterFilter(orders.DeadLetterOpen)
	if err != nil {
		return err
	}
	rate := orders.DefaultRate
	if x.query.Has("rate") {
		if rate, err = orders.ParseRate(x.query.Get("rate")); err != nil {
			return err
		}
	}
	force, err := x.flag("force")
	if err != nil {
		return err
	}
	dry, err := x.flag("dryRun")
	if err != nil {
		return err
	}
	if dry {
		j := orders.Redrive{Status: redriveDry, Filter: f, Rate: rate, Force: force}
		if j.Matched, j.Refused, err = s.store.CountRedrive(r.Context(), f, force); err != nil {
			return err
		}
		return x.encode(http.StatusOK, redriveOut(&j))
	}
	j, err := s.store.StartRedrive(r.Context(), f, rate, force, x.by)
	if err != nil {
		return err
	}
	x.Header()["Location"] = []string{"/redrives/" + j.ID}
	return x.encode(http.StatusAccepted, redriveOut(&j))
}

func (s *Server) listRedrives(x *exchange, r *http.Request) error {
	limit, err := x.limit()
	if err != nil {
		return err
	}
	list, next, err := s.store.Redrives(r.Context(), x.query.Get("cursor"), limit)
	if err != nil {
		return err
	}
	out := struct {
		Redrives []redrive `json:"redrives"`
		Next     string    `json:"next"`
	}{make([]redrive, len(list)), next}
	for i := range list {
		out.Redrives[i] = redriveOut(&list[i])
	}
	return x.encode(http.StatusOK, &out)
}

func (s *Server) getRedrive(x *exchange, r *http.Request) error {
	id, err := pathID(r, "id", "redrive")
	if err != nil {
		return err
	}
	j, err := s.store.GetRedrive(r.Context(), id)
	if err != nil {
		return err
	}
	return x.encode(http.StatusOK, redriveOut(&j))
}

func (s *Server) cancelRedrive(x *exchange, r *http.Request) error {
	id, err := s.action(r, "redrive", &struct{}{})
	if err != nil {
		return err
	}
	j, err := s.store.CancelRedrive(r.Context(), id, x.by)
	if err != nil {
		return err
	}
	return x.encode(http.StatusOK, redriveOut(&j))
}
