package kubemq

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// notices runs the state callbacks in order on one goroutine, so that a slow
// one holds up nothing else.
type notices struct {
	log  Logger
	wake chan struct{} // capacity 1: something was added

	mu    sync.Mutex // protects queue and ended
	queue []func()
	ended bool // nothing is added any more
}

func newNotices(log Logger) *notices {
	return &notices{log: log, wake: make(chan struct{}, 1)}
}

// add lets fn be called after all those before; nil is skipped.
func (n *notices) add(fn func()) { n.put(fn, false) }

// close lets fn be called as the last one.
func (n *notices) close(fn func()) { n.put(fn, true) }

func (n *notices) put(fn func(), last bool) {
	n.mu.Lock()
	if fn != nil && !n.ended {
		n.queue = append(n.queue, fn)
	}
	n.ended = n.ended || last
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// run calls what is added until close.
func (n *notices) run() {
	for range n.wake {
		n.mu.Lock()
		batch, ended := n.queue, n.ended
		n.queue = nil
		n.mu.Unlock()
		for _, fn := range batch {
			if err := guard("state", fn); err != nil {
				n.log.Error("state callback panicked", "error", err)
			}
		}
		if ended {
			return
		}
	}
}

// guard calls fn and returns its panic as a HandlerError that says where.
func guard(handler string, fn func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &HandlerError{Handler: handler, Cause: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	fn()
	return nil
}
