package api

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"orderd/orders"
)

const (
	defaultSpan = 24 * time.Hour
	maxStatRows = 10_000 // steps between from and to
)

// statRow is how a sum looks outside.
type statRow struct {
	From     orders.Millis   `json:"from"`
	Status   orders.Status   `json:"status"`
	Currency orders.Currency `json:"currency"`
	Orders   int64           `json:"orders"`
	Redrives int64           `json:"redrives"`
	Revenue  jsontext.Value  `json:"revenue"` // a decimal number
}

func (s *Server) getStats(x *exchange, r *http.Request) error {
	from, to, step, err := s.statSpan(x, r)
	if err != nil {
		return err
	}
	rows, err := s.store.Stats(r.Context(), from, to, step)
	if err != nil {
		return err
	}
	out := struct {
		From   orders.Millis `json:"from"`
		To     orders.Millis `json:"to"`
		StepMs int64         `json:"stepMs"` // 0: one row for all
		Stats  []statRow     `json:"stats"`
	}{from, to, step.Milliseconds(), make([]statRow, len(rows))}
	for i, row := range rows {
		out.Stats[i] = statRow{
			From: row.From, Status: row.Status, Currency: row.Currency, Orders: row.Orders, Redrives: row.Redrives,
			Revenue: jsontext.Value(orders.Money{Minor: row.Minor, Currency: row.Currency}.String()),
		}
	}
	return x.encode(http.StatusOK, &out)
}

func (s *Server) statSpan(x *exchange, r *http.Request) (from, to orders.Millis, step time.Duration, err error) {
	if to, err = x.millis("to"); err != nil {
		return 0, 0, 0, err
	}
	if to == 0 {
		if to, err = s.store.Now(r.Context()); err != nil {
			return 0, 0, 0, err
		}
		to++ // what happens now is still part of it
	}
	if from, err = x.millis("from"); err != nil {
		return 0, 0, 0, err
	}
	if !x.query.Has("from") {
		from = max(0, to.Add(-defaultSpan))
	}
	if from >= to {
		return 0, 0, 0, fault(orders.KindInvalid, "from", "This has to be before to.")
	}
	if v := x.query.Get("step"); v != "" {
		step, err = time.ParseDuration(v)
		if err != nil || step <= 0 || step%time.Minute != 0 {
			return 0, 0, 0, fault(orders.KindInvalid, "step", "This has to be a duration in whole minutes, as 5m or 1h.")
		}
		if int64(to-from)/step.Milliseconds() > maxStatRows {
			return 0, 0, 0, fault(orders.KindInvalid, "step", "This makes more than %d steps.", maxStatRows)
		}
	}
	return from, to, step, nil
}

func (s *Server) getBooks(x *exchange, r *http.Request) error {
	b, err := s.store.Books(r.Context())
	if err != nil {
		return err
	}
	return x.encode(http.StatusOK, struct {
		Accepted  int64 `json:"accepted"`
		UnderWay  int64 `json:"underWay"`
		Confirmed int64 `json:"confirmed"`
		Shipped   int64 `json:"shipped"`
		Delivered int64 `json:"delivered"`
		Failed    int64 `json:"failed"`
		Expired   int64 `json:"expired"`
		Cancelled int64 `json:"cancelled"`
		Balanced  bool  `json:"balanced"`
	}(b))
}
