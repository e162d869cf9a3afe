package orders

import "sync"

// Signal is something that this process committed and others may wait for.
type Signal uint8

// The signals.
const (
	SignalCommitted Signal = iota // an event that needs a number
	SignalNumbered                // events got their numbers
	SignalDelivery                // a delivery became pending
)

type signals struct {
	mu        sync.Mutex // protects listeners
	listeners map[chan struct{}]Signal
}

// Subscribe returns a channel that receives when something of that kind was
// committed by this process; signals coalesce. Call the function to unsubscribe;
// the channel is not closed.
func (s *Store) Subscribe(kind Signal) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	s.signals.mu.Lock()
	defer s.signals.mu.Unlock()
	if s.signals.listeners == nil {
		s.signals.listeners = make(map[chan struct{}]Signal)
	}
	s.signals.listeners[c] = kind
	return c, func() {
		s.signals.mu.Lock()
		defer s.signals.mu.Unlock()
		delete(s.signals.listeners, c)
	}
}

func (s *Store) signal(kind Signal) {
	s.signals.mu.Lock()
	defer s.signals.mu.Unlock()
	for c, k := range s.signals.listeners {
		if k != kind {
			continue
		}
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
