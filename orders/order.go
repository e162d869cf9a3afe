package orders

import (
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"
)

// Millis is a point in time in Unix milliseconds, UTC. Zero means none.
type Millis int64

// MillisOf returns t in Unix milliseconds, and 0 for the zero time.
func MillisOf(t time.Time) Millis {
	if t.IsZero() {
		return 0
	}
	return Millis(t.UnixMilli())
}

// Time returns m as a time in UTC, and the zero time for 0.
func (m Millis) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}

// Add returns the point in time d after m, in whole milliseconds.
func (m Millis) Add(d time.Duration) Millis { return m + Millis(d.Milliseconds()) }

// Line is one position of an order.
type Line struct {
	SKU      string
	Quantity int64
	Price    int64 // of one piece, in minor units of the order's currency
}

// DefaultSKU is what an order without lines draws its items from.
const DefaultSKU = "default"

// Step is one of the three things done for an order, in this order.
type Step string

// The steps.
const (
	StepPayment   Step = "payment"
	StepInventory Step = "inventory"
	StepConfirm   Step = "confirm"
)

// PaymentState is what is known about an order's payment under its current key.
type PaymentState string

// The states of a payment. Begun covers every unknown outcome.
const (
	PaymentNone       PaymentState = "none"
	PaymentBegun      PaymentState = "begun"
	PaymentAuthorised PaymentState = "authorised"
	PaymentRefused    PaymentState = "refused"
	PaymentVoided     PaymentState = "voided"
)

// owed says whether cancelling the order must void its payment.
func (p PaymentState) owed() bool { return p == PaymentBegun || p == PaymentAuthorised }

// Order is an order as it is known to the store.
type Order struct {
	ID       string
	Customer string
	Items    int64 // sum of the lines' quantities if there are lines
	Total    Money
	Lines    []Line // may be empty
	Language string // BCP 47 tag for mails, may be empty

	CreatedAt Millis // the client's, or acceptance

	Status        Status
	AcceptedAt    Millis
	UpdatedAt     Millis
	ExpiresAt     Millis
	NextAttemptAt Millis // when a retry is due, 0 if none is waiting

	CancelRequested bool // the worker that holds the order will cancel it
	Carrier         string
	TrackingNumber  string

	Round    int // 1, and one more for each redrive
	Attempts int // steps that ran and failed in this round
	Deaths   int // workers that died with this order in this round

	Payment  PaymentState
	PaymentN int // number of the payment key in use, from 1

	// PaymentFresh says that the payment key was never sent to the gateway before
	// this claim, so that there is nothing to enquire about.
	PaymentFresh bool

	History []Change  // oldest first; filled by Store.Get only
	Tries   []Attempt // oldest first; filled by Store.Get and Store.DeadLetter only
}

// Change is one change of an order's status.
type Change struct {
	Status Status
	At     Millis
	By     string // who asked for it, empty for the pipeline itself
	Reason string
	Round  int
}

// The outcomes of an Attempt.
const (
	AttemptDone   = "done"
	AttemptRetry  = "retry"
	AttemptReject = "reject"
	AttemptWait   = "wait"
	AttemptDied   = "died"
)

// Attempt is one run of a step.
type Attempt struct {
	Step       Step
	Round      int
	Attempt    int // from 1 within the round
	StartedAt  Millis
	TookMs     int64
	Outcome    string // one of the Attempt constants
	ErrorClass string
	Error      string
	Worker     string
}

// PaymentKey returns the idempotency key of the payment in use: <id>/payment,
// and <id>/payment/<n> from the second on.
func (o *Order) PaymentKey() string { return paymentKey(o.ID, o.PaymentN) }

func paymentKey(id string, n int) string {
	if n <= 1 {
		return id + "/payment"
	}
	return id + "/payment/" + strconv.Itoa(n)
}

// NewID returns a new order id, sortable by the time of its making (a ULID).
func NewID() string { return ulid.Make().String() }

const maxIDBytes = 128

// ValidID says whether s may be an order id or a sku: 1 to 128 of the
// characters A-Z a-z 0-9 . _ : ~ - but neither . nor .., which no URL path can
// hold (RFC 3986, 5.2.4).
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > maxIDBytes || s == "." || s == ".." {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == ':', c == '~', c == '-':
		default:
			return false
		}
	}
	return true
}
