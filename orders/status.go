package orders

// Status is where an order is on its way.
type Status string

// The statuses. Processing covers waiting for a retry or for stock too.
const (
	StatusCreated    Status = "created"
	StatusProcessing Status = "processing"
	StatusConfirmed  Status = "confirmed"
	StatusShipped    Status = "shipped"
	StatusDelivered  Status = "delivered"
	StatusFailed     Status = "failed"
	StatusExpired    Status = "expired"
	StatusCancelled  Status = "cancelled"
)

// changes is the whole status machine: what a status may become. Failed and
// expired orders become created again by a redrive.
var changes = map[Status][]Status{
	StatusCreated:    {StatusProcessing, StatusFailed, StatusExpired, StatusCancelled},
	StatusProcessing: {StatusConfirmed, StatusFailed, StatusExpired, StatusCancelled},
	StatusConfirmed:  {StatusShipped, StatusCancelled},
	StatusShipped:    {StatusDelivered},
	StatusDelivered:  nil,
	StatusFailed:     {StatusCreated},
	StatusExpired:    {StatusCreated},
	StatusCancelled:  nil,
}

// Statuses returns every status in the order of an order's way, in a new slice.
func Statuses() []Status {
	return []Status{
		StatusCreated, StatusProcessing, StatusConfirmed, StatusShipped, StatusDelivered,
		StatusFailed, StatusExpired, StatusCancelled,
	}
}

// Valid says whether s is one of the statuses.
func (s Status) Valid() bool {
	_, ok := changes[s]
	return ok
}

// CanBecome says whether an order of status s may change to next.
func (s Status) CanBecome(next Status) bool {
	for _, c := range changes[s] {
		if c == next {
			return true
		}
	}
	return false
}

// Terminal says whether an order stays as it is unless somebody acts: it is
// delivered, failed, expired or cancelled.
func (s Status) Terminal() bool {
	switch s {
	case StatusDelivered, StatusFailed, StatusExpired, StatusCancelled:
		return true
	}
	return false
}

// underWay says whether the pipeline still has to do something for an order.
func (s Status) underWay() bool { return s == StatusCreated || s == StatusProcessing }
