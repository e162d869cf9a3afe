package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"orderd/orders"
)

const (
	maxLimit      = 500
	maxQueryChars = 512
	// maxMillis is the end of the year 9999: later times cannot be written as RFC 3339.
	maxMillis = 253402300799999
)

// parseQuery reads a query string. A parameter that the route does not have is an
// error: a filter with a typing mistake must not select everything.
func (rt *route) parseQuery(raw string) (url.Values, error) {
	if raw == "" || rt.anyQuery {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &orders.Error{Kind: orders.KindBadRequest, Msg: "The query string cannot be read.", Err: err}
	}
	for name, vs := range values {
		p := rt.parameter(name)
		if p == nil {
			if checkText("", name, maxQueryChars) != nil {
				name = "?"
			}
			return nil, fault(orders.KindInvalid, name, "This query parameter is not known here.")
		}
		if len(vs) > 1 && !p.repeats {
			return nil, fault(orders.KindInvalid, name, "This query parameter is there more than once.")
		}
		for _, v := range vs {
			if err := checkText(name, v, maxQueryChars); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

func (rt *route) parameter(name string) *parameter {
	for _, p := range rt.query {
		if p.name == name {
			return p
		}
	}
	return nil
}

// limit returns the size of the page that is asked for, 0 for the default.
func (x *exchange) limit() (int, error) {
	v := x.query.Get("limit")
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > maxLimit {
		return 0, fault(orders.KindInvalid, "limit", "This has to be a number from 1 to %d.", maxLimit)
	}
	return n, nil
}

// orderStatus checks that v is a status or empty.
func orderStatus(v string) (orders.Status, error) {
	if s := orders.Status(v); v == "" || s.Valid() {
		return s, nil
	}
	return "", fault(orders.KindInvalid, "status", "This has to be one of %s.", joinStatuses())
}

func joinStatuses() string {
	var names []string
	for _, s := range orders.Statuses() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// oneOf checks that a parameter is empty or one of a few words.
func (x *exchange) oneOf(name string, words ...string) (string, error) {
	v := x.query.Get(name)
	if v == "" || slices.Contains(words, v) {
		return v, nil
	}
	return "", fault(orders.KindInvalid, name, "This has to be one of %s.", strings.Join(words, ", "))
}

// flag reads a parameter that is true or false; false if it is not there.
func (x *exchange) flag(name string) (bool, error) {
	v, err := x.oneOf(name, "true", "false")
	return v == "true", err
}

// orderID returns a parameter that has to be an order's id, or empty.
func (x *exchange) orderID(name string) (string, error) {
	v := x.query.Get(name)
	if v != "" && !orders.ValidID(v) {
		return "", fault(orders.KindInvalid, name, "This cannot be the id of an order.")
	}
	return v, nil
}

// millis reads a point in time: Unix milliseconds or RFC 3339; 0 if it is not there.
func (x *exchange) millis(name string) (orders.Millis, error) {
	v := x.query.Get(name)
	if v == "" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= 0 && n <= maxMillis {
		return orders.Millis(n), nil
	}
	// An offset's + comes as a space if the caller did not escape it.
	t, err := time.Parse(time.RFC3339Nano, strings.ReplaceAll(v, " ", "+"))
	if err != nil || t.UnixMilli() < 0 {
		return 0, fault(orders.KindInvalid, name, "This has to be a time from 1970 on: Unix milliseconds or RFC 3339.")
	}
	return orders.MillisOf(t), nil
}

// pathID returns the {id} or {sku} of the path; what cannot be one is not looked
// for. noun is what the caller is told does not exist.
func pathID(r *http.Request, param, noun string) (string, error) {
	// The router matches the escaped path if there is one.
	id, err := url.PathUnescape(chi.URLParam(r, param))
	if err != nil || !orders.ValidID(id) {
		return "", fault(orders.KindNotFound, "", "There is no such %s.", noun)
	}
	return id, nil
}
