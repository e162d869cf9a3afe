package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// role is one part of orderd that runs for as long as the process does.
type role struct {
	name string
	on   bool // what the role's environment variable says
	// run blocks until its context ends, finishes what it has begun and
	// returns nil. Any earlier return stops the whole process.
	run func(context.Context) error
}

// exit is how a role ended.
type exit struct {
	stage int
	name  string
	err   error
}

// errLeft is returned by serve when roles did not stop in time.
var errLeft = errors.New("still running at the end of SHUTDOWN_TIMEOUT")

// serve runs every role that is on until ctx ends or one of them returns. It
// starts the stages last to first and stops them first to last, so that what
// takes orders in is gone before what carries them out, and both are gone
// before the broker and the store they stand on. Each stage but the last may
// use half of the time that is left of timeout: a role that hangs in one stage
// must not cost the next one its chance to drain.
func serve(ctx context.Context, timeout time.Duration, log zerolog.Logger, stages ...[]role) error {
	ended := make(chan exit, len(slices.Concat(stages...))) // room for all: nobody who is late blocks
	cancels := make([]context.CancelFunc, len(stages))
	running := make([][]string, len(stages))
	for i := len(stages) - 1; i >= 0; i-- {
		stageCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		cancels[i] = cancel
		for _, r := range stages[i] {
			if !r.on {
				continue
			}
			running[i] = append(running[i], r.name)
			go func() { ended <- exit{i, r.name, r.run(stageCtx)} }()
		}
	}

	log.Info().Msg("ready")

	var fault error
	note := func(e exit, stopping bool) {
		running[e.stage] = slices.DeleteFunc(running[e.stage], func(n string) bool { return n == e.name })
		switch {
		case e.err != nil:
			fault = errors.Join(fault, fmt.Errorf("%s: %w", e.name, e.err))
		case !stopping:
			fault = errors.Join(fault, fmt.Errorf("%s: stopped by itself", e.name))
		}
	}

	select {
	case <-ctx.Done():
		log.Info().Dur("timeout_ms", timeout).Msg("stopping")
	case e := <-ended:
		note(e, false)
	}

	deadline := time.Now().Add(timeout)
	for i := range stages {
		cancels[i]()
		share := time.Until(deadline)
		if i < len(stages)-1 {
			share /= 2
		}
		limit := time.NewTimer(share)
	wait:
		for len(running[i]) > 0 {
			select {
			case e := <-ended:
				note(e, e.stage <= i)
			case <-limit.C:
				break wait
			}
		}
		limit.Stop()
	}
	if left := slices.Concat(running...); len(left) > 0 {
		fault = errors.Join(fault, fmt.Errorf("%s: %w", strings.Join(left, ", "), errLeft))
	}
	return fault
}
