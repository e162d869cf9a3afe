package orders

import "context"

// Arrival is a message that came off a queue.
type Arrival struct {
	Body      []byte
	Order     Order  // decoded from Body; zero if DecodeErr is set
	DecodeErr error  // what Decode said
	Retry     bool   // from RETRY_CHANNEL
	ExpiresAt Millis // the message's own, 0 if none
	Origin    string // "orderd" for our own messages, "" for other programs'
	Round     int    // tag round, 0 if none
	Reason    string // tag reason, of messages on DLQ_CHANNEL
}

// Verdict is what Claim decided about an arrival.
type Verdict uint8

// The verdicts. The message may be acked after any but Claimed.
const (
	Ignored      Verdict = iota // nothing changed; Reason says why
	Claimed                     // the order is leased to this process under Token
	ExpiredNow                  // the order was overdue and is expired now
	DeadLettered                // a dead letter was written; Reason says why
)

// Claim is the answer to one Arrival.
type Claim struct {
	Verdict Verdict
	Order   Order // as claimed
	Token   int64 // to be named in the Outcome
	Reason  string
}

// Claim decides about arrivals, all in one transaction. The result has one
// element per arrival.
func (s *Store) Claim(ctx context.Context, in []Arrival) ([]Claim, error) { return nil, errNotBuilt }
