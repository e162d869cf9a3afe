package orders

import "context"

// EventFilter selects events. The zero value selects all.
type EventFilter struct {
	Statuses []Status
	Customer string
	OrderID  string
}

// HoldEvents takes or renews the lease on the event log.
func (s *Store) HoldEvents(ctx context.Context) (held bool, err error) { return false, errNotBuilt }

// NumberEvents numbers up to max committed events and returns them in order.
func (s *Store) NumberEvents(ctx context.Context, max int) ([]Event, error) { return nil, errNotBuilt }

// PublishedUpTo returns the number of the last event that was published.
func (s *Store) PublishedUpTo(ctx context.Context) (int64, error) { return 0, errNotBuilt }

// SetPublished records the number of the last event that was published.
func (s *Store) SetPublished(ctx context.Context, number int64) error { return errNotBuilt }

// ReleaseEvents gives the lease on the event log back.
func (s *Store) ReleaseEvents(ctx context.Context) error { return errNotBuilt }

// EventsAfter returns up to limit numbered events after number that f selects.
func (s *Store) EventsAfter(ctx context.Context, number int64, limit int, f EventFilter) ([]Event, error) {
	return nil, errNotBuilt
}

// LastEvent returns the numbers of the first and the last event in the log; 0, 0 if it is empty.
func (s *Store) LastEvent(ctx context.Context) (first, last int64, err error) {
	return 0, 0, errNotBuilt
}
