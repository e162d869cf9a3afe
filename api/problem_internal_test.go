package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"orderd/orders"
)

func TestFail(t *testing.T) {
	cause := errors.New("secret cause")
	for _, tt := range []struct {
		name       string
		err        error
		code       int
		retryAfter string
		body       string // has to be in the answer
	}{
		{"BadRequest", &orders.Error{Kind: orders.KindBadRequest, Msg: "not JSON", Err: cause}, 400, "", `"detail":"not JSON"`},
		{"Unauthorized", fault(orders.KindUnauthorized, "", "no"), 401, "", `"title":"Unauthorized"`},
		{"Forbidden", fault(orders.KindForbidden, "", "no"), 403, "", `"status":403`},
		{"NotFound", fmt.Errorf("get: %w", fault(orders.KindNotFound, "", "no such order")), 404, "", `"detail":"no such order"`},
		{"Conflict", fault(orders.KindConflict, "orderId", "taken"), 409, "", `"detail":"orderId taken","field":"orderId"`},
		{"TooLarge", fault(orders.KindTooLarge, "", "x"), 413, "", `"status":413`},
		{"UnsupportedMedia", fault(orders.KindUnsupportedMedia, "", "x"), 415, "", `"status":415`},
		{"Invalid", fault(orders.KindInvalid, "items", "x"), 422, "", `"field":"items"`},
		{"TooMany", &orders.Error{Kind: orders.KindTooMany, Msg: "x", RetryAfter: 1500 * time.Millisecond}, 429, "2", `"status":429`},
		{"Unavailable", &orders.Error{Kind: orders.KindUnavailable, Err: cause}, 503, "1", `"detail":"The store`},
		{"Deadline", fmt.Errorf("wait: %w", context.DeadlineExceeded), 503, "1", `"status":503`},
		{"Internal", fmt.Errorf("read: %w", cause), 500, "", "request id"},
		{"InternalKind", &orders.Error{Msg: "secret cause"}, 500, "", "request id"},
		{"UnknownKind", &orders.Error{Kind: 99, Msg: "secret cause"}, 500, "", "request id"},
		{"NotUTF8", fault(orders.KindInvalid, "a\xff", "b\xff"), 422, "", `"field":"a` + "\ufffd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log strings.Builder
			s := &Server{log: zerolog.New(&log)}
			rec := httptest.NewRecorder()
			s.fail(&exchange{ResponseWriter: rec, id: "id-1"}, httptest.NewRequest("GET", "/x", nil), tt.err)
			if rec.Code != tt.code || rec.Header().Get("Retry-After") != tt.retryAfter || !strings.Contains(rec.Body.String(), tt.body) {
				t.Errorf("got %d, Retry-After %q, %s", rec.Code, rec.Header().Get("Retry-After"), rec.Body)
			}
			if strings.Contains(rec.Body.String(), "secret") {
				t.Errorf("the cause is shown: %s", rec.Body)
			}
			if logged := strings.Contains(log.String(), `"level":"error"`); logged != (tt.code == 500) {
				t.Errorf("logged %q", log.String())
			}
		})
	}
}

func TestFail_CallerLeft(t *testing.T) {
	var log strings.Builder
	s := &Server{log: zerolog.New(&log)}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	rec := httptest.NewRecorder()
	x := &exchange{ResponseWriter: rec}
	s.fail(x, httptest.NewRequest("GET", "/x", nil).WithContext(ctx), fmt.Errorf("read: %w", ctx.Err()))
	if rec.Code != 503 || x.status != statusGone || log.Len() > 0 {
		t.Errorf("answered %d, counted as %d, log %q", rec.Code, x.status, log.String())
	}
}

// panicking is a server whose only route does what the test says.
func panicking(t *testing.T, log *strings.Builder, do func(x *exchange)) *Server {
	t.Helper()
	s := &Server{
		log: zerolog.New(log), origins: http.NewCrossOriginProtection(),
		metrics: &metrics{requests: newRequestCounter(), seconds: newRequestSeconds()},
	}
	rt := &route{method: "GET", path: "/x", handle: func(_ *Server, x *exchange, _ *http.Request) error { do(x); return nil }}
	s.router = s.newRouter([]*route{rt})
	return s
}

func TestPanic(t *testing.T) {
	var log strings.Builder
	s := panicking(t, &log, func(*exchange) { panic("secret") })
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequest("GET", "/x", nil))
	if rec.Code != 500 || strings.Contains(rec.Body.String(), "secret") || rec.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	if n := strings.Count(log.String(), `"level":"error"`); n != 1 || !strings.Contains(log.String(), "secret") {
		t.Errorf("log = %s", log.String())
	}
}

// A panic after the answer has begun, and net/http's own, break the connection.
func TestPanic_Abort(t *testing.T) {
	for name, do := range map[string]func(*exchange){
		"AfterBegin": func(x *exchange) { _ = x.json(200, []byte("{}")); panic("late") },
		"Abort":      func(*exchange) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Errorf("panic = %v, want http.ErrAbortHandler", got)
				}
			}()
			panicking(t, &log, do).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil))
		})
	}
}
