package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"orderd/orders"
)

// maxPooledBytes is the size up to which a buffer is kept for later requests: one
// huge body must not stay in memory for ever.
const maxPooledBytes = 64 << 10

// buffer holds bodies coming in or going out.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, 2048)} }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

// free hands the buffer back; what is in it must not be used any more.
func (b *buffer) free() {
	if cap(b.b) <= maxPooledBytes {
		b.b = b.b[:0]
		buffers.Put(b)
	}
}

// readJSON reads the body of a request, which has to say that it is JSON.
func (s *Server) readJSON(r *http.Request, buf *buffer) error {
	if err := checkType(r.Header); err != nil {
		return err
	}
	return s.readBody(r, buf)
}

func (s *Server) readBody(r *http.Request, buf *buffer) error {
	tooLarge := func() error {
		return fault(orders.KindTooLarge, "", "The body has more than %d bytes.", s.opts.MaxBody)
	}
	if r.ContentLength > s.opts.MaxBody {
		return tooLarge()
	}
	b := buf.b[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		buf.b = b
		if int64(len(b)) > s.opts.MaxBody {
			return tooLarge()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &orders.Error{Kind: orders.KindBadRequest, Msg: "The body broke off.", Err: err}
		}
	}
}

func checkType(h http.Header) error {
	if v := h["Content-Type"]; len(v) == 1 && v[0] == "application/json" && h["Content-Encoding"] == nil {
		return nil // what nearly all send
	}
	_, err := bodyType(h, "application/json")
	return err
}

// bodyType returns which of types the body of a request says it is.
func bodyType(h http.Header, types ...string) (string, error) {
	if enc := h.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return "", fault(orders.KindUnsupportedMedia, "Content-Encoding", "The body has to come uncompressed, not as %q.", enc)
	}
	given := strings.Join(h["Content-Type"], ", ")
	typ, params, err := mime.ParseMediaType(given)
	if err != nil || !slices.Contains(types, typ) {
		return "", fault(orders.KindUnsupportedMedia, "Content-Type", "The body has to be %s, not %q.", strings.Join(types, " or "), given)
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return "", fault(orders.KindUnsupportedMedia, "Content-Type", "JSON is UTF-8: leave out %s=%q.", name, value)
		}
	}
	return typ, nil
}

// decodeSmall reads the body into the fields of into. With optional a request
// without any body is as good as {}.
func (s *Server) decodeSmall(r *http.Request, into any, optional bool) error {
	if optional && r.ContentLength == 0 {
		return nil
	}
	buf := getBuffer()
	defer buf.free()
	if err := s.readJSON(r, buf); err != nil {
		return err
	}
	return strictJSON(buf.b, into)
}

// strictJSON refuses what is not JSON as a bad request, and what is but not what
// was asked for as invalid.
func strictJSON(body []byte, into any) error {
	v := jsontext.Value(body)
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	var bad *jsontext.SyntacticError
	var wrong *json.SemanticError
	switch {
	case err == nil && v.Kind() == jsontext.KindBeginObject:
		return nil
	case err == nil:
		return fault(orders.KindInvalid, "", "The body has to be a JSON object.")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &orders.Error{Kind: orders.KindInvalid, Field: pointerOf(err), Msg: "This field is there more than once.", Err: err}
	case errors.As(err, &bad) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return &orders.Error{Kind: orders.KindBadRequest, Msg: "The body is not valid JSON in UTF-8.", Err: err}
	case errors.Is(err, json.ErrUnknownName):
		return &orders.Error{Kind: orders.KindInvalid, Field: pointerOf(err), Msg: "This field is not known.", Err: err}
	case errors.As(err, &wrong):
		return &orders.Error{Kind: orders.KindInvalid, Field: pointerOf(err), Msg: "This value has the wrong type or is out of range.", Err: err}
	}
	return &orders.Error{Kind: orders.KindBadRequest, Msg: "The body could not be read.", Err: err}
}

// pointerOf returns where in the body err is, as a field's name.
func pointerOf(err error) string {
	var wrong *json.SemanticError
	var bad *jsontext.SyntacticError
	switch {
	case errors.As(err, &bad):
		return strings.TrimPrefix(string(bad.JSONPointer), "/")
	case errors.As(err, &wrong):
		return strings.TrimPrefix(string(wrong.JSONPointer), "/")
	}
	return ""
}

// checkText refuses what no database or log should have to hold: control
// characters, broken UTF-8, and more than limit characters.
func checkText(field, s string, limit int) error {
	if !utf8.ValidString(s) || strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return fault(orders.KindInvalid, field, "This has to be text without control characters.")
	}
	if utf8.RuneCountInString(s) > limit {
		return fault(orders.KindInvalid, field, "This may have at most %d characters.", limit)
	}
	return nil
}

// maxKeyBytes is how long an Idempotency-Key may be.
const maxKeyBytes = 255

// idempotencyKey returns the request's key, empty if there is none.
func idempotencyKey(h http.Header) (string, error) {
	v := h["Idempotency-Key"]
	if len(v) == 0 {
		return "", nil
	}
	if len(v) > 1 {
		return "", fault(orders.KindInvalid, "Idempotency-Key", "This header is there more than once.")
	}
	if len(v[0]) == 0 || len(v[0]) > maxKeyBytes ||
		strings.IndexFunc(v[0], func(c rune) bool { return c < ' ' || c > '~' }) >= 0 {
		return "", fault(orders.KindInvalid, "Idempotency-Key", "A key has 1 to %d printable ASCII characters.", maxKeyBytes)
	}
	return v[0], nil
}
