package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"orderd/orders"
)

// statusOf is the whole mapping from kinds of errors to HTTP.
var statusOf = [...]int{
	orders.KindInternal:         http.StatusInternalServerError,
	orders.KindBadRequest:       http.StatusBadRequest,
	orders.KindUnauthorized:     http.StatusUnauthorized,
	orders.KindForbidden:        http.StatusForbidden,
	orders.KindNotFound:         http.StatusNotFound,
	orders.KindConflict:         http.StatusConflict,
	orders.KindTooLarge:         http.StatusRequestEntityTooLarge,
	orders.KindUnsupportedMedia: http.StatusUnsupportedMediaType,
	orders.KindInvalid:          http.StatusUnprocessableEntity,
	orders.KindTooMany:          http.StatusTooManyRequests,
	orders.KindUnavailable:      http.StatusServiceUnavailable,
}

// statusGone is what the metrics show for a caller who left before the answer.
const statusGone = 499

// problem is an RFC 9457 document. Its type is always about:blank: status and
// field say what happened, title is the status in words.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitzero"`
	Field    string `json:"field,omitzero"` // JSON field, query parameter or header at fault
	Instance string `json:"instance"`       // the request id, also in X-Request-Id and in the log
}

var errPanicked = errors.New("handler panicked")

// fault makes an error that the caller may read.
func fault(k orders.Kind, field, format string, args ...any) *orders.Error {
	return &orders.Error{Kind: k, Field: field, Msg: fmt.Sprintf(format, args...)}
}

// fail answers a request with what err says.
func (s *Server) fail(x *exchange, r *http.Request, err error) {
	var e *orders.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.DeadlineExceeded):
		e = &orders.Error{Kind: orders.KindUnavailable, Msg: "this took too long", Err: err}
	default:
		e = &orders.Error{Kind: orders.KindInternal, Err: err}
	}
	if r.Context().Err() != nil && x.status == 0 {
		// What went wrong is that the caller left. It is answered all the same: a
		// body that took too long ends the context too, and an empty 200 would
		// tell such a caller that the order was taken.
		x.Header().Set("Retry-After", "1")
		x.problem(http.StatusServiceUnavailable, "The request was broken off.", "")
		x.status = statusGone
		return
	}
	code, detail := told(e)
	switch code {
	case http.StatusInternalServerError:
		detail = "Something went wrong here. The log has more under this request id."
		if err != errPanicked { // which has its own line, with the stack
			s.log.Error().Err(err).Str("request_id", x.id).Str("method", r.Method).Str("path", r.URL.Path).Msg("request failed")
		}
	case http.StatusServiceUnavailable:
		s.log.Warn().Err(err).Str("request_id", x.id).Str("method", r.Method).Str("path", r.URL.Path).Msg("request refused for now")
		if detail == "" {
			detail = "The store cannot be reached. Try again later."
		}
	}
	if x.status != 0 { // the answer has begun: all that is left is to break it off
		panic(http.ErrAbortHandler)
	}
	h := x.Header()
	switch code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter(e.RetryAfter))
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="orderd"`)
	case http.StatusRequestEntityTooLarge:
		h.Set("Connection", "close") // the rest of the body is not worth reading
	}
	x.problem(code, detail, e.Field)
}

// told is the status and the detail of e.
func told(e *orders.Error) (code int, detail string) {
	code, detail = http.StatusInternalServerError, e.Msg
	if e.Field != "" && detail != "" && unicode.IsLower(rune(detail[0])) {
		detail = e.Field + " " + detail // the store says "is taken by another order"
	}
	if int(e.Kind) < len(statusOf) {
		code = statusOf[e.Kind]
	}
	return code, detail
}

// retryAfter gives d in whole seconds, rounded up, at least one.
func retryAfter(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

func (x *exchange) problem(code int, detail, field string) {
	p := problem{
		Type: "about:blank", Title: http.StatusText(code), Status: code,
		Detail: detail, Field: field, Instance: x.id,
	}
	// A detail may quote what the caller sent, which need not be UTF-8.
	body, err := json.Marshal(p, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(fmt.Sprintf("api: encode problem: %v", err)) // strings and an int cannot fail
	}
	h := x.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(code)
	_, _ = x.Write(body)
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.fail(w.(*exchange), r, fault(orders.KindNotFound, "", "There is nothing at this path."))
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	allow := s.allowed(r)
	w.Header().Set("Allow", allow)
	w.(*exchange).problem(http.StatusMethodNotAllowed, "This path takes "+allow+".", "")
}
