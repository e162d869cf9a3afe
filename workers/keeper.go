package workers

import (
	"context"

	"github.com/rs/zerolog"

	"orderd/orders"
	"orderd/queue"
)

// Keeper takes in what arrives on DLQ_CHANNEL: our own copies, and what the
// broker or other programs put there.
type Keeper struct {
	store *orders.Store
	queue *queue.Queue
	log   zerolog.Logger
}

// NewKeeper makes a Keeper.
func NewKeeper(store *orders.Store, q *queue.Queue, log zerolog.Logger) *Keeper {
	return &Keeper{store: store, queue: q, log: log}
}

const keeperBatch = 100

// Run keeps dead letters until ctx ends. A message is acked once it is in the
// store.
func (k *Keeper) Run(ctx context.Context) error {
	r := k.queue.NewReceiver(queue.DeadLetters)
	defer func() {
		if err := r.Close(); err != nil {
			k.log.Debug().Err(err).Msg("receiver closed with an error")
		}
	}()
	for {
		msgs, err := r.Poll(ctx, keeperBatch)
		if err != nil {
			return nil // only ctx's end and Close are errors
		}
		if len(msgs) > 0 && !k.keep(ctx, msgs) {
			return nil
		}
	}
}

// keep tries until the store has taken msgs, and says false if ctx ended first.
func (k *Keeper) keep(ctx context.Context, msgs []*queue.Message) bool {
	in := make([]orders.Arrival, len(msgs))
	for i, m := range msgs {
		in[i] = m.Arrival
	}
	for wait := storeRetryMin; ; wait = min(2*wait, storeRetryMax) {
		err := k.store.KeepDeadLetter(ctx, in)
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			k.log.Warn().Err(err).Int("messages", len(msgs)).Msg("dead letters not stored, trying again")
		}
		if !pause(ctx, wait) {
			for _, m := range msgs {
				m.Drop()
			}
			return false
		}
	}
	for _, m := range msgs {
		if err := m.Ack(); err != nil {
			k.log.Debug().Err(err).Msg("message not acked, it may come again")
		}
	}
	return true
}
