package api

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"orderd/orders"
)

const (
	jsonBody  = "application/json"
	linesBody = "application/x-ndjson"
)

// batchResult is what became of one order of a batch: status and order, or
// status and problem.
type batchResult struct {
	Index    int            `json:"index"`
	Status   int            `json:"status"`
	Replayed bool           `json:"replayed,omitzero"`
	Order    jsontext.Value `json:"order,omitzero"`
	Problem  *problem       `json:"problem,omitzero"`
}

// createOrders takes many orders in one transaction, each for itself.
func (s *Server) createOrders(x *exchange, r *http.Request) error {
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	typ, err := bodyType(r.Header, jsonBody, linesBody)
	if err != nil {
		return err
	}
	buf := getBuffer()
	defer buf.free()
	if err := s.readBody(r, buf); err != nil {
		return err
	}
	split := splitArray
	if typ == linesBody {
		split = splitLines
	}
	items, err := split(buf.b)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return fault(orders.KindInvalid, "", "A batch has at least one order.")
	}
	if err := s.store.AcceptBatch(r.Context(), items, key); err != nil {
		return err
	}
	return x.batch(items)
}

// addItem reads one order of a batch. What is wrong with it is its own fault
// and not the batch's; that there are too many is.
func addItem(items []orders.BatchItem, body []byte) ([]orders.BatchItem, error) {
	if len(items) == orders.MaxBatch {
		return nil, fault(orders.KindTooLarge, "", "A batch has at most %d orders.", orders.MaxBatch)
	}
	o, err := orders.Decode(body, true)
	return append(items, orders.BatchItem{In: o, Err: err}), nil
}

// splitArray takes a JSON array apart. Faults within an element are left to
// the element, as long as it is clear where it ends.
func splitArray(body []byte) ([]orders.BatchItem, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	bad := func(err error) error {
		return &orders.Error{Kind: orders.KindBadRequest, Msg: "The body is not valid JSON.", Err: err}
	}
	if kind := dec.PeekKind(); kind != '[' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, bad(err)
		}
		return nil, fault(orders.KindInvalid, "", "The body has to be a JSON array.")
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, bad(err)
	}
	var items []orders.BatchItem
	for dec.PeekKind() != ']' {
		v, err := dec.ReadValue()
		if err != nil {
			return nil, bad(err)
		}
		if items, err = addItem(items, v); err != nil {
			return nil, err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, bad(err)
	}
	if rest := bytes.TrimSpace(body[dec.InputOffset():]); len(rest) > 0 {
		return nil, fault(orders.KindBadRequest, "", "There is more after the JSON array.")
	}
	return items, nil
}

// splitLines takes NDJSON apart; empty lines are not counted.
func splitLines(body []byte) (items []orders.BatchItem, err error) {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if items, err = addItem(items, line); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (x *exchange) batch(items []orders.BatchItem) error {
	out := struct {
		Accepted int           `json:"accepted"`
		Refused  int           `json:"refused"`
		Results  []batchResult `json:"results"`
	}{Results: make([]batchResult, len(items))}
	for i := range items {
		item := &items[i]
		if item.Err != nil {
			out.Refused++
			out.Results[i] = x.refusal(i, item.Err)
			continue
		}
		out.Accepted++
		out.Results[i] = batchResult{Index: i, Status: http.StatusAccepted, Replayed: item.Out.Replayed, Order: item.Out.Body}
	}
	return x.encode(http.StatusOK, &out)
}

func (x *exchange) refusal(i int, err error) batchResult {
	var e *orders.Error
	if !errors.As(err, &e) {
		e = &orders.Error{Kind: orders.KindInternal, Err: err}
	}
	code, detail := told(e)
	if code == http.StatusBadRequest {
		code = http.StatusUnprocessableEntity // the request was fine, this item is not
	}
	return batchResult{Index: i, Status: code, Problem: &problem{
		Type: "about:blank", Title: http.StatusText(code), Status: code, Detail: detail, Field: e.Field, Instance: x.id,
	}}
}
