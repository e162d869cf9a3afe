package workers

import (
	"testing"
	"time"

	"orderd/orders"
)

// As long as messages arrive, the newest tells what is lost; once none do, the
// clock does.
func TestArrivals(t *testing.T) {
	const begin = orders.Millis(1_700_000_000_000)
	at := func(d time.Duration) orders.Millis { return begin.Add(d) }
	var a arrivals
	for _, step := range []struct {
		name            string
		now, pool, want orders.Millis
	}{
		{"nothing has arrived yet", at(0), 0, 0},
		{"nor after a while", at(59 * time.Second), 0, 0},
		{"the queue is quiet from the start", at(time.Minute), 0, at(30 * time.Second)},
		{"a message arrives", at(61 * time.Second), at(50 * time.Second), at(50 * time.Second)},
		{"another one", at(100 * time.Second), at(90 * time.Second), at(90 * time.Second)},
		{"no more, for less than a minute", at(159 * time.Second), at(90 * time.Second), at(90 * time.Second)},
		{"the queue is quiet", at(160 * time.Second), at(90 * time.Second), at(130 * time.Second)},
		{"and stays so", at(200 * time.Second), at(90 * time.Second), at(170 * time.Second)},
		{"an old backlog moves again", at(201 * time.Second), at(91 * time.Second), at(91 * time.Second)},
	} {
		if got := a.frontier(step.pool, step.now); got != step.want {
			t.Errorf("%s: frontier is %d ms after the begin, want %d", step.name, got-begin, step.want-begin)
		}
	}
}
