package kubemq

import (
	"math"
	"time"
)

// The start positions, as they are on the wire.
const (
	startNewOnly     = 1
	startFromFirst   = 2
	startFromLast    = 3
	startAtSequence  = 4
	startAtTime      = 5 // value: Unix nanoseconds
	startAtTimeDelta = 6 // value: seconds
)

// SubscriptionOption says where a SubscribeToEventsStore begins.
type SubscriptionOption interface{ apply(*subscriptionOption) }

type subscriptionOption struct {
	kind  int32
	value int64
}

func (s subscriptionOption) apply(o *subscriptionOption) { *o = s }

// StartFromNewEvents begins with events that are stored from now on.
func StartFromNewEvents() SubscriptionOption { return subscriptionOption{kind: startNewOnly} }

// StartFromFirstEvent begins with the oldest event that the broker has.
func StartFromFirstEvent() SubscriptionOption { return subscriptionOption{kind: startFromFirst} }

// StartFromLastEvent begins with the newest event that the broker has.
func StartFromLastEvent() SubscriptionOption { return subscriptionOption{kind: startFromLast} }

// StartFromSequence begins with the event of that sequence, from 1.
func StartFromSequence(sequence int) SubscriptionOption {
	return subscriptionOption{kind: startAtSequence, value: int64(sequence)}
}

// StartFromTime begins with the first event stored at since or later, by the
// broker's clock.
func StartFromTime(since time.Time) SubscriptionOption {
	return subscriptionOption{kind: startAtTime, value: since.UnixNano()}
}

// StartFromTimeDelta begins with the first event stored within delta before now,
// by the broker's clock. The protocol has whole seconds; delta is rounded up.
func StartFromTimeDelta(delta time.Duration) SubscriptionOption {
	return subscriptionOption{kind: startAtTimeDelta, value: wholeSeconds(delta)}
}

func wholeSeconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

func (s *subscriptionOption) validate(op, channel string) error {
	switch s.kind {
	case startAtSequence, startAtTime, startAtTimeDelta:
		if s.value <= 0 {
			return invalid(op, channel, "start value must be above 0")
		}
	}
	return nil
}

// resume returns where to begin the next stream of a subscription that received
// up to sequence last (0 for nothing) and is this old. again says that there was
// a stream before.
func (s *subscriptionOption) resume(last uint64, age time.Duration, again bool) (kind int32, value int64) {
	switch {
	case last > 0:
		return startAtSequence, int64(last) + 1
	case !again:
		return s.kind, s.value
	case s.kind == startNewOnly:
		// What was stored since the subscription began is new. One second more:
		// an event too many is better than one too few. A delta, since only the
		// broker's clock counts.
		return startAtTimeDelta, wholeSeconds(age) + 1
	case s.kind == startAtTimeDelta:
		return startAtTimeDelta, s.value + wholeSeconds(age)
	default:
		return s.kind, s.value
	}
}
