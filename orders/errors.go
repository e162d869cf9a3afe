package orders

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what went wrong in terms of the caller. The zero value is an
// internal error.
type Kind uint8

// The kinds, with the HTTP status that api gives them.
const (
	KindInternal         Kind = iota // 500: not the caller's fault
	KindBadRequest                   // 400: not JSON, or not what JSON allows
	KindUnauthorized                 // 401
	KindForbidden                    // 403
	KindNotFound                     // 404
	KindConflict                     // 409: taken by another, or the status forbids it
	KindTooLarge                     // 413
	KindUnsupportedMedia             // 415
	KindInvalid                      // 422: Field says where
	KindTooMany                      // 429: RetryAfter says how long to wait
	KindUnavailable                  // 503: RetryAfter says how long to wait
)

var kindNames = [...]string{
	"internal", "bad request", "unauthorized", "forbidden", "not found", "conflict",
	"too large", "unsupported media type", "invalid", "too many requests", "unavailable",
}

// String returns the kind's name in words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Error is an error with a kind for programs, a sentence for people and a cause
// for the log.
type Error struct {
	Kind  Kind
	Field string // the JSON field or header at fault, empty if none
	Msg   string // a sentence that may be shown to the caller
	Err   error  // the cause, never shown to the caller

	// RetryAfter is how long the caller should wait before trying again; zero
	// means that waiting does not help or that nothing is known.
	RetryAfter time.Duration
}

// Error returns the message with its field and its cause.
func (e *Error) Error() string {
	s := e.Msg
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Err == nil {
		return s
	}
	if s == "" {
		return e.Err.Error()
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the first *Error in err's chain; KindInternal if
// there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

func errorf(k Kind, field, format string, args ...any) *Error {
	return &Error{Kind: k, Field: field, Msg: fmt.Sprintf(format, args...)}
}
