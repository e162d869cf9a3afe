package orders

import "context"

// ExpireDue expires up to limit overdue orders that no process works on.
func (s *Store) ExpireDue(ctx context.Context, limit int) (n int, err error) { return 0, errNotBuilt }

// LostDispatches marks up to limit orders whose message was lost to be sent again.
func (s *Store) LostDispatches(ctx context.Context, frontier Millis, limit int) (n int, err error) {
	return 0, errNotBuilt
}
