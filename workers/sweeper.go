package workers

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderd/orders"
)

// Sweeper does what is due by time alone: it expires overdue orders, has lost
// messages sent again, and voids payments that were given up.
type Sweeper struct {
	options  Options
	store    *orders.Store
	gateway  Gateway
	frontier func() orders.Millis
	arrived  arrivals // used by sweep only
	log      zerolog.Logger
}

// NewSweeper makes a Sweeper; frontier is Pool.Frontier.
func NewSweeper(o Options, store *orders.Store, gateway Gateway, frontier func() orders.Millis, log zerolog.Logger) *Sweeper {
	return &Sweeper{options: o, store: store, gateway: gateway, frontier: frontier, log: log}
}

const (
	sweepEvery = time.Second
	sweepBatch = 1000
	voidBatch  = 16
)

// Run sweeps until ctx ends. A store that is away is tried again. Voids have
// a loop of their own: a gateway that hangs must not keep orders from expiring.
func (s *Sweeper) Run(ctx context.Context) error {
	var voiding sync.WaitGroup
	voiding.Go(func() { s.every(ctx, "voiding", s.voids) })
	s.every(ctx, "sweeping", s.sweep)
	voiding.Wait()
	return nil
}

func (s *Sweeper) every(ctx context.Context, doing string, once func(context.Context) error) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	away := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := once(ctx)
		if err != nil && !away && ctx.Err() == nil {
			s.log.Warn().Err(err).Str("doing", doing).Msg("sweep failed, trying again")
		}
		away = err != nil
	}
}

func (s *Sweeper) sweep(ctx context.Context) error {
	for {
		n, err := s.store.ExpireDue(ctx, sweepBatch)
		if err != nil {
			return err
		}
		if n > 0 {
			s.log.Info().Int("orders", n).Msg("orders expired")
		}
		if n < sweepBatch {
			break
		}
	}
	return s.putBack(ctx)
}

// putBack looks for orders that nobody would ever work on: those of messages
// that were lost, and those leased to a process that is gone.
func (s *Sweeper) putBack(ctx context.Context) error {
	n, err := s.store.ReleaseOrphans(ctx)
	if err != nil {
		return err
	}
	if n > 0 {
		s.log.Warn().Int("orders", n).Msg("orders were leased to a process that is gone, put back")
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	frontier := s.arrived.frontier(s.frontier(), now)
	if frontier == 0 {
		return nil
	}
	if n, err = s.store.LostDispatches(ctx, frontier, sweepBatch); err != nil {
		return err
	}
	if n > 0 {
		s.log.Warn().Int("orders", n).Msg("messages were lost, sending them again")
	}
	return nil
}

const (
	// quietAfter is how long nothing may arrive until the queue is taken to be
	// empty: the messages of orders that still wait for theirs are lost then.
	quietAfter = time.Minute
	// quietLag is what may be on its way all the same.
	quietLag = 30 * time.Second
)

// arrivals tells when the last message arrived.
type arrivals struct {
	last  orders.Millis // the pool's frontier
	since orders.Millis // when it was seen first
}

// frontier is that of the pool as long as messages arrive. Once none did for
// quietAfter, it moves on with the time: the very last message may be lost too.
func (a *arrivals) frontier(pool, now orders.Millis) orders.Millis {
	if pool != a.last || a.since == 0 {
		a.last, a.since = pool, now
	}
	if now < a.since.Add(quietAfter) {
		return pool
	}
	return max(pool, now.Add(-quietLag))
}

// voids gives due authorisations back. A void is retried for ever: it is the
// customer's money.
func (s *Sweeper) voids(ctx context.Context) error {
	due, err := s.store.DueVoids(ctx, voidBatch)
	if err != nil {
		return err
	}
	for _, v := range due {
		if err := s.void(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sweeper) void(ctx context.Context, v orders.Void) error {
	stepCtx, cancel := context.WithTimeout(ctx, s.options.StepTimeout)
	defer cancel()
	refused := s.gateway.Void(stepCtx, v.Key)
	// Recorded even if ctx has ended: the gateway has done it.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), relayLastTime)
	defer stop()
	if refused == nil {
		return s.store.FinishVoid(ctx, v, true, "", 0)
	}
	s.log.Warn().Str("order_id", v.OrderID).Str("payment_key", v.Key).Str("reason", refused.Reason).Msg("payment not voided, trying again")
	return s.store.FinishVoid(ctx, v, false, refused.Reason, s.options.backoff(v.Tries+1, refused.After))
}
