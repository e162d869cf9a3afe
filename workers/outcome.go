package workers

import (
	"math/rand/v2"
	"time"

	"orderd/orders"
)

// verdict is how one run of a step ended.
type verdict uint8

const (
	done   verdict = iota // go on with the next step
	retry                 // transient: spends an attempt, due again after a delay
	reject                // permanent: spends no more attempts, dead letter
	wait                  // out of stock: spends no attempt, due again after a delay
)

// result is a verdict with its reason.
type result struct {
	verdict verdict
	class   string        // error class: a word for programs
	reason  string        // a sentence for people
	after   time.Duration // least delay that the other side asked for
	payment orders.PaymentState
}

func retryLater(class, reason string, after time.Duration) result {
	return result{verdict: retry, class: class, reason: reason, after: after}
}

func rejected(class, reason string) result {
	return result{verdict: reject, class: class, reason: reason}
}

var attemptOutcome = [...]string{done: orders.AttemptDone, retry: orders.AttemptRetry, reject: orders.AttemptReject, wait: orders.AttemptWait}

// backoff is the delay before the next attempt after failed ones: exponential
// with full jitter, so that orders that failed together do not come back
// together. asked is what the other side wants at least.
func (o *Options) backoff(failed int, asked time.Duration) time.Duration {
	ceiling := o.RetryCap
	if shift := failed - 1; shift < 32 && o.RetryBase<<shift < o.RetryCap {
		ceiling = o.RetryBase << shift
	}
	delay := time.Duration(rand.Int64N(int64(ceiling) + 1))
	return min(max(delay, asked), o.RetryCap)
}
