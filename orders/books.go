package orders

import "context"

// Books counts all orders by where they are.
type Books struct {
	Accepted, UnderWay, Confirmed, Shipped, Delivered, Failed, Expired, Cancelled int64
	Balanced                                                                      bool
}

// Gauges are counts for monitoring.
type Gauges struct {
	ByStatus          map[Status]int64
	Unsent            int64            // orders to be put on a queue now
	RetriesDue        int64            // of these, retries
	Waiting           int64            // retries that are not due yet
	OpenDeadLetters   map[string]int64 // by error class
	OldestDeadLetter  Millis           // 0 if none is open
	PendingDeliveries map[string]int64 // by subscriber
	DueVoids          int64
	UnnumberedEvents  int64
}

// Books returns the counts and whether they balance.
func (s *Store) Books(ctx context.Context) (Books, error) { return Books{}, errNotBuilt }

// Gauges returns counts for monitoring; cheap.
func (s *Store) Gauges(ctx context.Context) (Gauges, error) { return Gauges{}, errNotBuilt }

// Check looks for broken invariants and returns the first it finds.
func (s *Store) Check(ctx context.Context) error { return errNotBuilt }
