package kubemq

import (
	grpccodes "google.golang.org/grpc/codes"

	"github.com/kubemq-io/kubemq-go/v2/types"
)

// The types that live in package types, under the names programs use.
type (
	// ConnectionState is what a client's connection is doing.
	ConnectionState = types.ConnectionState
	// CredentialProvider gives the token that goes with each call.
	CredentialProvider = types.CredentialProvider
	// ErrorCategory groups errors by what a caller can do about them.
	ErrorCategory = types.ErrorCategory
	// ErrorCode names the kind of an error.
	ErrorCode = types.ErrorCode
	// JitterMode says how much chance there is in a waiting time.
	JitterMode = types.JitterMode
	// KubeMQError is the error that operations of the client return.
	KubeMQError = types.KubeMQError
	// Logger takes what the client has to say.
	Logger = types.Logger
	// ReconnectPolicy says how a lost connection is dialled again.
	ReconnectPolicy = types.ReconnectPolicy
	// RetryPolicy says how often and how fast a unary call is repeated.
	RetryPolicy = types.RetryPolicy
	// StaticTokenProvider gives one token for ever.
	StaticTokenProvider = types.StaticTokenProvider
	// TLSConfig says how the connection is secured.
	TLSConfig = types.TLSConfig
)

// The error categories; see IsRetryableCategory.
const (
	CategoryTransient      = types.CategoryTransient
	CategoryTimeout        = types.CategoryTimeout
	CategoryThrottling     = types.CategoryThrottling
	CategoryAuthentication = types.CategoryAuthentication
	CategoryAuthorization  = types.CategoryAuthorization
	CategoryValidation     = types.CategoryValidation
	CategoryNotFound       = types.CategoryNotFound
	CategoryFatal          = types.CategoryFatal
	CategoryCancellation   = types.CategoryCancellation
	CategoryBackpressure   = types.CategoryBackpressure
)

// The error codes, one for each category.
const (
	ErrCodeTransient      = types.ErrCodeTransient
	ErrCodeTimeout        = types.ErrCodeTimeout
	ErrCodeThrottling     = types.ErrCodeThrottling
	ErrCodeAuthentication = types.ErrCodeAuthentication
	ErrCodeAuthorization  = types.ErrCodeAuthorization
	ErrCodeValidation     = types.ErrCodeValidation
	ErrCodeNotFound       = types.ErrCodeNotFound
	ErrCodeFatal          = types.ErrCodeFatal
	ErrCodeCancellation   = types.ErrCodeCancellation
	ErrCodeBackpressure   = types.ErrCodeBackpressure
)

// The connection states.
const (
	StateIdle         = types.StateIdle
	StateConnecting   = types.StateConnecting
	StateReady        = types.StateReady
	StateReconnecting = types.StateReconnecting
	StateClosed       = types.StateClosed
)

// The jitter modes.
const (
	JitterNone  = types.JitterNone
	JitterFull  = types.JitterFull
	JitterEqual = types.JitterEqual
)

// ClassifyGRPCCode returns what a gRPC status code means to a caller.
func ClassifyGRPCCode(code grpccodes.Code) (cat ErrorCategory, ec ErrorCode) {
	return types.ClassifyGRPCCode(code)
}

// IsRetryableCategory says whether repeating an operation that failed with cat
// can help.
func IsRetryableCategory(cat ErrorCategory) bool { return types.IsRetryableCategory(cat) }

// DefaultReconnectPolicy returns attempts without end, from 100 ms doubling to
// at most 5 s.
func DefaultReconnectPolicy() ReconnectPolicy { return types.DefaultReconnectPolicy() }

// DefaultRetryPolicy returns three repetitions, from 100 ms doubling to at most
// 2 s.
func DefaultRetryPolicy() RetryPolicy { return types.DefaultRetryPolicy() }

// NewStaticTokenProvider returns a provider of token.
func NewStaticTokenProvider(token string) *StaticTokenProvider {
	return types.NewStaticTokenProvider(token)
}
