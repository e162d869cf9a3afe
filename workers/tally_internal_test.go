package workers

import (
	"sync"
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	var ta tally
	select {
	case <-ta.none():
	case <-time.After(10 * time.Second):
		t.Fatal("an unused tally is not empty")
	}
	ta.add(2)
	first := ta.none()
	ta.add(-1)
	select {
	case <-first:
		t.Fatal("one is left, yet it is called none")
	default:
	}
	ta.add(-1)
	<-first
	// It grows from zero while others wait: what a WaitGroup does not allow.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				ta.add(1)
				ta.add(-1)
				<-ta.none()
			}
		})
	}
	wg.Wait()
}
