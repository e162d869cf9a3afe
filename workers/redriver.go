package workers

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"orderd/orders"
)

// Redriver goes on with the redrives that people have started: any process
// that has one does, each dead letter once.
type Redriver struct {
	store *orders.Store
	log   zerolog.Logger
}

// NewRedriver makes a Redriver.
func NewRedriver(store *orders.Store, log zerolog.Logger) *Redriver {
	return &Redriver{store: store, log: log}
}

const (
	redriveRetry = time.Second           // pause after a failure
	redriveTick  = 50 * time.Millisecond // least pause: a fast redrive takes several at once
)

// Run redrives until ctx ends. A store that is away is tried again.
func (r *Redriver) Run(ctx context.Context) error {
	away := false
	for {
		wait, err := r.store.RedriveStep(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if !away {
				r.log.Warn().Err(err).Msg("redrive stopped, trying again")
			}
			wait = redriveRetry
		}
		away = err != nil
		if !pause(ctx, max(wait, redriveTick)) {
			return nil
		}
	}
}
