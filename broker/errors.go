package broker

import (
	"errors"

	"orderd/broker/store"
)

// ErrLocked is returned by Open when another process has the store open.
var ErrLocked = store.ErrLocked

// refusal is an error whose text clients know.
type refusal string

func (r refusal) Error() string { return string(r) }

// Returned to clients when a request is not valid. The texts are those of
// KubeMQ servers, trailing spaces included, since clients compare them.
const (
	errNoClientID       = refusal("Error 101: invalid clientID value, cannot be empty")
	errNoChannel        = refusal("Error 102: invalid channel value, cannot be empty")
	errWildcards        = refusal("Error 107: invalid channel value, no wildcards are allowed")
	errWhitespace       = refusal("Error 108: invalid channel value, no white spaces are allowed")
	errNoContent        = refusal("Error 110: invalid message, cannot be empty")
	errStartType        = refusal("Error 111: invalid subscription type, cannot be undefined or 0")
	errStartSequence    = refusal("Error 112: invalid subscription type start at sequence value, cannot by 0 or negative")
	errStartTime        = refusal("Error 113: invalid subscription type start at time value, cannot by 0 or negative")
	errStartDelta       = refusal("Error 114: invalid subscription type start at time delta value, cannot by 0 or negative")
	errNotEventsStore   = refusal("Error 118: event store parameters were set but subscribe type is not event store")
	errTrailingDot      = refusal("Error 119: invalid channel value, cannot end with `.`")
	errQueueName        = refusal("Error 120: invalid queue name value, cannot be empty, contains wildcards ,white spaces and end with dot")
	errMaxMessages      = refusal("Error 122: max messages should be between 1 and max message setting in kubemq config  ")
	errExpiration       = refusal("Error 133: invalid expiration seconds, exceed max expiration seconds setting in kubemq config")
	errMaxReceiveCount  = refusal("Error 134: invalid max received count, cannot be negative or exceed max receive count setting in kubemq config")
	errDelay            = refusal("Error 135: invalid delay seconds, exceed max delay seconds setting in kubemq config")
	errWaitTimeout      = refusal("Error 136: invalid wait timeout, value cannot be negative or exceed max wait timeout seconds setting in kubemq config")
	errSubscriptionType = refusal("Error 207: invalid subscribe type")
)

// Returned to clients of queue streams.
const (
	errNoMessages      = refusal("no messages to send")
	errEmptyBatch      = refusal("empty messages batch")
	errUnknownRequest  = refusal("request unknown")
	errNoTransaction   = refusal("transaction is completed or transaction id not found")
	errNoRequeueTarget = refusal("cannot requeue messages with empty channel destination ")
	errTooManyPolls    = refusal("too many polls are waiting on this stream")
)

// What clients are told when the disk fails. The cause, which names files, goes
// to the log.
const (
	errNotWritten = refusal("the broker cannot write to its store")
	errNotRead    = refusal("the broker cannot read its store")
)

// onDisk waits until a change is on disk.
func onDisk(c *store.Commit) error {
	err := c.Wait()
	switch {
	case errors.Is(err, store.ErrClosed):
		return errStopping
	case err != nil:
		return errNotWritten
	}
	return nil
}

// errStopping is returned inside the broker when it stops while a client waits.
const errStopping = refusal("the broker is stopping")
