package broker

import (
	"errors"

	"orderd/broker/store"
)

// ErrLocked is returned by Open when another process has the store open.
var ErrLocked = store.ErrLocked

// Returned to clients when a request is not valid. The texts are those of
// KubeMQ servers, trailing spaces included, since clients compare them.
var (
	errNoClientID       = errors.New("Error 101: invalid clientID value, cannot be empty")
	errNoChannel        = errors.New("Error 102: invalid channel value, cannot be empty")
	errWildcards        = errors.New("Error 107: invalid channel value, no wildcards are allowed")
	errWhitespace       = errors.New("Error 108: invalid channel value, no white spaces are allowed")
	errNoContent        = errors.New("Error 110: invalid message, cannot be empty")
	errStartType        = errors.New("Error 111: invalid subscription type, cannot be undefined or 0")
	errStartSequence    = errors.New("Error 112: invalid subscription type start at sequence value, cannot by 0 or negative")
	errStartTime        = errors.New("Error 113: invalid subscription type start at time value, cannot by 0 or negative")
	errStartDelta       = errors.New("Error 114: invalid subscription type start at time delta value, cannot by 0 or negative")
	errNotEventsStore   = errors.New("Error 118: event store parameters were set but subscribe type is not event store")
	errTrailingDot      = errors.New("Error 119: invalid channel value, cannot end with `.`")
	errQueueName        = errors.New("Error 120: invalid queue name value, cannot be empty, contains wildcards ,white spaces and end with dot")
	errMaxMessages      = errors.New("Error 122: max messages should be between 1 and max message setting in kubemq config  ")
	errExpiration       = errors.New("Error 133: invalid expiration seconds, exceed max expiration seconds setting in kubemq config")
	errMaxReceiveCount  = errors.New("Error 134: invalid max received count, cannot be negative or exceed max receive count setting in kubemq config")
	errDelay            = errors.New("Error 135: invalid delay seconds, exceed max delay seconds setting in kubemq config")
	errWaitTimeout      = errors.New("Error 136: invalid wait timeout, value cannot be negative or exceed max wait timeout seconds setting in kubemq config")
	errSubscriptionType = errors.New("Error 207: invalid subscribe type")
)

// Returned to clients of queue streams.
var (
	errNoMessages      = errors.New("no messages to send")
	errEmptyBatch      = errors.New("empty messages batch")
	errUnknownRequest  = errors.New("request unknown")
	errNoTransaction   = errors.New("transaction is completed or transaction id not found")
	errNoRequeueTarget = errors.New("cannot requeue messages with empty channel destination ")
	errTooManyPolls    = errors.New("too many polls are waiting on this stream")
)

// errStopping is returned inside the broker when it stops while a client waits.
var errStopping = errors.New("the broker is stopping")
