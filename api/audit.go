package api

import (
	"net/http"

	"orderd/orders"
)

// auditEntry is how one thing that a person did looks outside.
type auditEntry struct {
	ID     string        `json:"id"`
	At     orders.Millis `json:"at"`
	By     string        `json:"by"`
	Action string        `json:"action"`
	Target string        `json:"target"`
	Detail string        `json:"detail,omitzero"`
}

func (s *Server) listAudit(x *exchange, r *http.Request) error {
	f := orders.AuditFilter{
		By: x.query.Get("by"), Action: x.query.Get("action"), Target: x.query.Get("target"), Cursor: x.query.Get("cursor"),
	}
	var err error
	if f.Before, err = x.millis("before"); err != nil {
		return err
	}
	if f.After, err = x.millis("after"); err != nil {
		return err
	}
	if f.Limit, err = x.limit(); err != nil {
		return err
	}
	list, next, err := s.store.Audit(r.Context(), f)
	if err != nil {
		return err
	}
	out := struct {
		Audit []auditEntry `json:"audit"`
		Next  string       `json:"next"`
	}{make([]auditEntry, len(list)), next}
	for i, a := range list {
		out.Audit[i] = auditEntry(a)
	}
	return x.encode(http.StatusOK, &out)
}
