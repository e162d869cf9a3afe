package orders

import "context"

// Abandon leaves the store as the end of its process would: nothing is given
// back, the lock on the instance file is gone.
func (s *Store) Abandon() {
	s.close.Do(func() {
		close(s.closing)
		<-s.closed
		_ = s.db.close()
		_ = s.slot.close()
	})
}

// LookAfter is one turn of Run.
func (s *Store) LookAfter(ctx context.Context) error { return s.lookAfter(ctx) }

// Purge is the hourly part of Run.
func (s *Store) Purge(ctx context.Context) error { return s.purge(ctx) }

// Migrations are the tables' versions.
var Migrations = migrations
