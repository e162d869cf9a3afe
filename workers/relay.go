package workers

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"orderd/orders"
	"orderd/queue"
)

// Relay puts on the queues what the store says is due: every process relays
// what it accepted, retries and copies of dead letters too.
type Relay struct {
	store *orders.Store
	queue *queue.Queue
	log   zerolog.Logger
}

// NewRelay makes a Relay.
func NewRelay(store *orders.Store, q *queue.Queue, log zerolog.Logger) *Relay {
	return &Relay{store: store, queue: q, log: log}
}

const (
	relayBatch    = 500
	relayWaitMin  = 100 * time.Millisecond
	relayWaitMax  = 5 * time.Second
	relayLastTime = 2 * time.Second
)

// Run relays until ctx ends. What is not sent then stays in the store for the
// next process.
func (r *Relay) Run(ctx context.Context) error {
	if err := r.queue.Connect(ctx); err != nil {
		return nil // only ctx's end is an error
	}
	wait := relayWaitMin
	away := false
	for {
		err := r.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if away {
				r.log.Info().Msg("sending to the queue again")
			}
			away, wait = false, relayWaitMin
			continue
		case !away:
			r.log.Warn().Err(err).Msg("orders wait in the store, the queue does not take them")
			away = true
		}
		if !pause(ctx, wait) {
			return nil
		}
		wait = min(2*wait, relayWaitMax)
	}
}

// once sends one batch. A batch that was begun is sent and marked even if ctx
// ends meanwhile: a message that is not marked would be sent twice.
func (r *Relay) once(ctx context.Context) error {
	ds, err := r.store.NextDispatches(ctx, relayBatch)
	if err != nil {
		return err
	}
	sent, unsent, sendErr := r.queue.Send(ctx, ds)
	if len(unsent) > 0 {
		r.store.Unsent(unsent)
	}
	if len(sent) == 0 {
		return sendErr
	}
	markCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayLastTime)
	defer cancel()
	if err := r.store.MarkSent(markCtx, sent); err != nil {
		// They go out again: a repeated message changes nothing.
		r.store.Unsent(sent)
		return err
	}
	return sendErr
}
