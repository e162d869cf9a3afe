package api

import (
	"crypto/rand"
	"encoding/hex"
	stdlog "log"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// exchange is one request being answered: the ResponseWriter that handlers get,
// together with what is known about the request. It is used again for later
// requests, so a handler must not keep it.
type exchange struct {
	http.ResponseWriter
	id     string     // of the request, for people to find it in the log
	by     string     // who asks, as history records it
	route  *route     // nil if none matched
	query  url.Values // checked against the route's parameters; nil if there are none
	status int        // 0 until the header was written
	bytes  int64
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// WriteHeader notes the status and passes it on; only the first one counts.
func (x *exchange) WriteHeader(code int) {
	if x.status == 0 && code >= 200 { // 1xx is not the answer yet
		x.status = code
	}
	x.ResponseWriter.WriteHeader(code)
}

// Write passes p on and counts it.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(p)
	x.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// Flush sends what was written so far.
func (x *exchange) Flush() {
	// The only error is ErrNotSupported, which net/http's writers never give.
	_ = http.NewResponseController(x.ResponseWriter).Flush()
}

// Header values that are the same for every answer; net/http only reads them.
var (
	jsonType = []string{"application/json"}
	noSniff  = []string{"nosniff"}
	noStore  = []string{"no-store"}
	yes      = []string{"true"}
)

// json answers with a body that is JSON already.
func (x *exchange) json(code int, body []byte) error {
	h := x.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.WriteHeader(code)
	_, _ = x.Write(body) // the caller is gone: nobody to tell, and nothing to undo
	return nil
}

// ServeHTTP answers one request: it names it, lets the router find the handler,
// turns a panic into an answer, and counts and logs the outcome.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	x := exchanges.Get().(*exchange)
	*x = exchange{ResponseWriter: rw, id: requestID(r.Header)}
	h := rw.Header()
	h["X-Request-Id"] = []string{x.id}
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	began := time.Now()
	defer func() { s.finish(x, r, began, recover()) }()
	s.router.ServeHTTP(x, r)
}

func (s *Server) finish(x *exchange, r *http.Request, began time.Time, panicked any) {
	if panicked != nil && panicked != http.ErrAbortHandler {
		s.log.Error().Str("request_id", x.id).Str("method", r.Method).Str("path", r.URL.Path).
			Interface("panic", panicked).Bytes("stack", debug.Stack()).Msg("handler panicked")
		if x.status == 0 {
			s.fail(x, r, errPanicked)
		} else {
			panicked = http.ErrAbortHandler // half an answer must not look like a whole one
		}
	}
	took := time.Since(began)
	s.metrics.request(x, r.Method, took)
	if e := s.log.Debug(); e.Enabled() {
		e.Str("request_id", x.id).Str("method", r.Method).Str("path", r.URL.Path).
			Int("status", x.status).Int64("bytes", x.bytes).Dur("took_ms", took).Msg("http request")
	}
	if panicked == http.ErrAbortHandler {
		panic(panicked)
	}
	*x = exchange{}
	exchanges.Put(x)
}

// handler adapts a route for the router: who asks, what with, and the error.
func (s *Server) handler(rt *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		x.route = rt
		err := s.admit(x, r)
		if err == nil {
			x.query, err = rt.parseQuery(r.URL.RawQuery)
		}
		if err == nil {
			err = rt.handle(s, x, r)
		}
		if err != nil {
			s.fail(x, r, err)
		}
	}
}

var (
	idPrefix  = newIDPrefix()
	idCounter atomic.Uint64
)

func newIDPrefix() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:]) + "-"
}

// requestID returns the caller's own X-Request-Id if it is a harmless word, and
// otherwise a new one.
func requestID(h http.Header) string {
	if v := h["X-Request-Id"]; len(v) == 1 && harmlessID(v[0]) {
		return v[0]
	}
	var b [32]byte
	return string(strconv.AppendUint(append(b[:0], idPrefix...), idCounter.Add(1), 10))
}

// harmlessID says whether s can stand in a header, a log and a URI as it is.
func harmlessID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	return strings.IndexFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' && c != '.'
	}) < 0
}

// quietLog takes what net/http says about connections that went wrong: nothing
// that someone must act on.
func quietLog(log zerolog.Logger) *stdlog.Logger { return stdlog.New(connLog{log}, "", 0) }

type connLog struct{ log zerolog.Logger }

func (l connLog) Write(p []byte) (int, error) {
	l.log.Debug().Str("detail", strings.TrimSpace(string(p))).Msg("http connection")
	return len(p), nil
}
