package kubemq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubemq-io/kubemq-go/v2/types"
)

var (
	// ErrClientClosed is what calls on a closed client return, bare or as the
	// cause of a KubeMQError.
	ErrClientClosed = errors.New("kubemq: client closed")
	// ErrValidation is in every error about a value that the client refuses
	// without asking the broker.
	ErrValidation = errors.New("kubemq: validation failed")

	errGivenUp        = errors.New("attempts to reconnect are used up")
	errReceiverClosed = errors.New("receiver closed")
	errServerClosed   = errors.New("broker closed the stream")
)

// TransportError is the cause of an error that came from the connection rather
// than from the broker's answer.
type TransportError struct {
	Op    string // what was being done
	Cause error
}

// Error returns what was being done and the cause.
func (e *TransportError) Error() string { return e.Op + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Cause }

// StreamBrokenError is returned when a stream ended while the fate of messages
// on it was open.
type StreamBrokenError struct {
	// UnacknowledgedIDs are, on a downstream, the messages received and not
	// settled, which the broker gives out again; on an upstream, the requests
	// sent and not answered, of which it may have stored any.
	UnacknowledgedIDs []string
}

// Error says how many were open.
func (e *StreamBrokenError) Error() string {
	return fmt.Sprintf("stream broken with %d unacknowledged", len(e.UnacknowledgedIDs))
}

// HandlerError is given to WithOnError when a callback of the program panicked
// or took longer than WithCallbackTimeout.
type HandlerError struct {
	Handler string // which callback
	Cause   error
}

// Error returns the callback and the cause.
func (e *HandlerError) Error() string { return "callback " + e.Handler + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *HandlerError) Unwrap() error { return e.Cause }

// BufferFullError is the cause of an error of a call that would have waited for
// a lost connection when ReconnectPolicy.BufferSize calls were waiting already.
type BufferFullError struct {
	BufferSize  int
	QueuedCount int
}

// Error returns both counts.
func (e *BufferFullError) Error() string {
	return fmt.Sprintf("%d calls are waiting for the connection, limit %d", e.QueuedCount, e.BufferSize)
}

// invalid returns the error for a value refused here.
func invalid(op, channel, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	e := types.NewError(ErrCodeValidation, op, channel, "", fmt.Errorf("%w: %s", ErrValidation, msg))
	e.Message = msg
	return e
}

// closedError returns the error for an operation on something closed.
func closedError(op, channel string, cause error) error {
	return types.NewError(ErrCodeCancellation, op, channel, "", cause)
}

// callError turns what gRPC returned into the error for the caller. ctx is the
// call's: if it ended, the error also is the context's.
func callError(ctx context.Context, op, channel, requestID string, err error) error {
	var known *KubeMQError
	if errors.As(err, &known) {
		return err
	}
	code, msg := codes.Unknown, err.Error()
	if st, ok := status.FromError(err); ok {
		code, msg = st.Code(), st.Message()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	cause := error(&TransportError{Op: op, Cause: err})
	if end := ctx.Err(); end != nil {
		// The status can be another one when both ended at about the same time;
		// what the caller did is the better explanation.
		code = codes.Canceled
		if errors.Is(end, context.DeadlineExceeded) {
			code = codes.DeadlineExceeded
		}
		cause = fmt.Errorf("%w: %w", end, cause)
	}
	_, ec := types.ClassifyGRPCCode(code)
	e := types.NewError(ec, op, channel, requestID, cause)
	e.Message = msg
	if tooLarge(code, msg) {
		e.Code, e.IsRetryable = ErrCodeValidation, false
	}
	return e
}

// tooLarge recognises gRPC's refusal of a message above the size limit, which
// shares its code with overload but never gets better.
func tooLarge(code codes.Code, msg string) bool {
	return code == codes.ResourceExhausted && strings.Contains(msg, "larger than max")
}
