package orders

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
