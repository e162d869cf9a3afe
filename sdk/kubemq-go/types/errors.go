package types

import (
	"strings"

	"google.golang.org/grpc/codes"
)

// ErrorCategory groups errors by what a caller can do about them.
type ErrorCategory int

// The categories. Transient, timeout and throttling errors may go away when the
// operation is repeated; the others will not.
const (
	CategoryTransient ErrorCategory = iota
	CategoryTimeout
	CategoryThrottling
	CategoryAuthentication
	CategoryAuthorization
	CategoryValidation
	CategoryNotFound
	CategoryFatal
	CategoryCancellation
	CategoryBackpressure
)

// ErrorCode names the kind of an error. Codes are stable and may be stored or
// compared.
type ErrorCode string

// The codes, one for each category.
const (
	ErrCodeTransient      ErrorCode = "TRANSIENT"
	ErrCodeTimeout        ErrorCode = "TIMEOUT"
	ErrCodeThrottling     ErrorCode = "THROTTLING"
	ErrCodeAuthentication ErrorCode = "AUTHENTICATION"
	ErrCodeAuthorization  ErrorCode = "AUTHORIZATION"
	ErrCodeValidation     ErrorCode = "VALIDATION"
	ErrCodeNotFound       ErrorCode = "NOT_FOUND"
	ErrCodeFatal          ErrorCode = "FATAL"
	ErrCodeCancellation   ErrorCode = "CANCELLATION"
	ErrCodeBackpressure   ErrorCode = "BACKPRESSURE"
)

// String returns the code itself.
func (c ErrorCode) String() string { return string(c) }

// ErrorSuggestions tells a person what to try, by code.
var ErrorSuggestions = map[ErrorCode]string{
	ErrCodeTransient:      "Retry the operation. If the problem persists, check server health.",
	ErrCodeTimeout:        "Increase the timeout or check server connectivity and firewall rules.",
	ErrCodeThrottling:     "Reduce request rate or increase server capacity.",
	ErrCodeAuthentication: "Check your auth token. It may have expired.",
	ErrCodeAuthorization:  "Verify the client has permissions for this channel.",
	ErrCodeValidation:     "Check the request parameters (channel, body, metadata).",
	ErrCodeNotFound:       "The channel or queue does not exist. Create it first.",
	ErrCodeFatal:          "This is an unrecoverable server error. Contact support.",
	ErrCodeCancellation:   "The operation was cancelled by the caller.",
	ErrCodeBackpressure:   "The reconnection buffer is full. Wait for reconnection or increase buffer size.",
}

// CategoryForCode returns the category of code, CategoryFatal for a code it
// does not know.
func CategoryForCode(code ErrorCode) ErrorCategory {
	switch code {
	case ErrCodeTransient:
		return CategoryTransient
	case ErrCodeTimeout:
		return CategoryTimeout
	case ErrCodeThrottling:
		return CategoryThrottling
	case ErrCodeAuthentication:
		return CategoryAuthentication
	case ErrCodeAuthorization:
		return CategoryAuthorization
	case ErrCodeValidation:
		return CategoryValidation
	case ErrCodeNotFound:
		return CategoryNotFound
	case ErrCodeCancellation:
		return CategoryCancellation
	case ErrCodeBackpressure:
		return CategoryBackpressure
	default:
		return CategoryFatal
	}
}

// ClassifyGRPCCode returns what a gRPC status code means to a caller. A code
// without a meaning of its own, OK included, is fatal.
func ClassifyGRPCCode(code codes.Code) (ErrorCategory, ErrorCode) {
	switch code {
	case codes.Unavailable, codes.Aborted, codes.Unknown:
		return CategoryTransient, ErrCodeTransient
	case codes.DeadlineExceeded:
		return CategoryTimeout, ErrCodeTimeout
	case codes.ResourceExhausted:
		return CategoryThrottling, ErrCodeThrottling
	case codes.Unauthenticated:
		return CategoryAuthentication, ErrCodeAuthentication
	case codes.PermissionDenied:
		return CategoryAuthorization, ErrCodeAuthorization
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.AlreadyExists:
		return CategoryValidation, ErrCodeValidation
	case codes.NotFound:
		return CategoryNotFound, ErrCodeNotFound
	case codes.Canceled:
		return CategoryCancellation, ErrCodeCancellation
	default:
		return CategoryFatal, ErrCodeFatal
	}
}

// IsRetryableCategory says whether repeating an operation that failed with cat
// can help. It says nothing about whether the first try had an effect.
func IsRetryableCategory(cat ErrorCategory) bool {
	return cat == CategoryTransient || cat == CategoryTimeout || cat == CategoryThrottling
}

// KubeMQError is the error that operations of the client return.
type KubeMQError struct {
	Code        ErrorCode // what kind of fault; decides the category
	Message     string    // for people
	Operation   string    // the method that failed, such as "SendQueueMessage"
	Channel     string    // the channel it was about, if any
	IsRetryable bool      // repeating the operation can help
	Cause       error     // what was returned from below, often a gRPC status; may be nil
	RequestID   string    // the id the broker knows the request by, if any
}

// NewError returns an error with code whose message is that of cause, or what
// ErrorSuggestions has for code if cause is nil.
func NewError(code ErrorCode, op, channel, requestID string, cause error) *KubeMQError {
	e := &KubeMQError{
		Code:        code,
		Message:     ErrorSuggestions[code],
		Operation:   op,
		Channel:     channel,
		IsRetryable: IsRetryableCategory(CategoryForCode(code)),
		Cause:       cause,
		RequestID:   requestID,
	}
	if cause != nil {
		e.Message = cause.Error()
	}
	return e
}

// Error returns operation, channel, message and code in one line.
func (e *KubeMQError) Error() string {
	var b strings.Builder
	b.WriteString("kubemq: ")
	if e.Operation != "" {
		b.WriteString(e.Operation)
		if e.Channel != "" {
			b.WriteString(" on ")
			b.WriteString(e.Channel)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	b.WriteString(" [")
	b.WriteString(string(e.Code))
	b.WriteString("]")
	return b.String()
}

// Unwrap returns the cause.
func (e *KubeMQError) Unwrap() error { return e.Cause }

// Is says whether target is a KubeMQError with the same code, so that
// errors.Is(err, &KubeMQError{Code: ErrCodeTimeout}) finds every timeout.
func (e *KubeMQError) Is(target error) bool {
	t, ok := target.(*KubeMQError)
	return ok && t.Code == e.Code
}
