package orders

import "strconv"

// Event is one change of an order's status in the event log.
type Event struct {
	Number   int64 // position in the log, from 1 without gaps; 0 until numbered
	OrderID  string
	Seq      int // position among the order's events, from 1
	Status   Status
	Customer string
	Amount   Money
	At       Millis
	Round    int // 1, and one more for each redrive
	By       string
	Reason   string

	runs []Attempt // steps that led to this change, kept in its row
}

// EventID returns the event's id on KubeMQ: <orderId>:<sequence in that order>.
func (e *Event) EventID() string { return e.OrderID + ":" + strconv.Itoa(e.Seq) }
