package types

import "time"

// JitterMode says how much chance there is in a waiting time, so that many
// clients do not come back at the same moment.
type JitterMode int

// The modes. JitterNone waits exactly the computed time, JitterFull any time
// from zero to that, JitterEqual from half of it to all of it.
const (
	JitterNone JitterMode = iota
	JitterFull
	JitterEqual
)

// String returns "none", "full" or "equal".
func (m JitterMode) String() string {
	switch m {
	case JitterNone:
		return "none"
	case JitterFull:
		return "full"
	case JitterEqual:
		return "equal"
	default:
		return "unknown"
	}
}

// RetryPolicy says how often and how fast a unary call is repeated.
//
// Calls that change nothing when repeated (Ping, channel management) are
// repeated after any error that may go away. Sends are repeated only if the
// failed try surely never left this process: a message is not sent twice by a
// retry. The zero value repeats nothing.
type RetryPolicy struct {
	MaxRetries     int           // tries after the first one; 0 for none
	InitialBackoff time.Duration // wait before the first repetition
	MaxBackoff     time.Duration // the longest wait; 0 for no limit
	Multiplier     float64       // growth of the wait from one repetition to the next; below 1 means 1
	JitterMode     JitterMode    // chance in the wait
}

// DefaultRetryPolicy returns three repetitions, from 100 ms doubling to at most
// 2 s, with full jitter.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{
		MaxRetries:     3,
		InitialBackoff: 100 * time.Millisecond,
		MaxBackoff:     2 * time.Second,
		Multiplier:     2,
		JitterMode:     JitterFull,
	}
}

// ReconnectPolicy says how a lost connection is dialled again, and how a
// subscription that the broker ended is opened again.
type ReconnectPolicy struct {
	MaxAttempts  int           // failed attempts in a row after which the client gives up and closes; 0 for never
	InitialDelay time.Duration // wait before the second attempt; 0 means 100 ms
	MaxDelay     time.Duration // the longest wait; 0 means 5 s
	Multiplier   float64       // growth of the wait from one attempt to the next; below 1 means 2
	JitterMode   JitterMode    // chance in the wait
	BufferSize   int           // calls that may wait for a lost connection at one time, more get a BufferFullError; 0 for no limit
}

// DefaultReconnectPolicy returns attempts without end, from 100 ms doubling to
// at most 5 s, with equal jitter, and no limit on the calls that wait.
func DefaultReconnectPolicy() ReconnectPolicy {
	return ReconnectPolicy{
		InitialDelay: 100 * time.Millisecond,
		MaxDelay:     5 * time.Second,
		Multiplier:   2,
		JitterMode:   JitterEqual,
	}
}
