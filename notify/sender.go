package notify

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"orderd/orders"
)

// sender makes one kind of delivery.
type sender func(ctx context.Context, d orders.Delivery) answer

// answer is how a delivery went.
type answer struct {
	status string        // orders.DeliverySent, DeliveryFailed, or DeliveryPending for another try
	answer string        // what the other side said
	after  time.Duration // least delay it asked for
}

const (
	deliverAtOnce = 8
	deliverBatch  = 64
	deliverEvery  = time.Second
	recordTimeout = 5 * time.Second
)

// deliver makes due deliveries until ctx ends; those under way are finished.
func (s *Subscriber) deliver(ctx context.Context) {
	wake, unsubscribe := s.store.Subscribe(orders.SignalDelivery)
	defer unsubscribe()
	tick := time.NewTicker(deliverEvery)
	defer tick.Stop()
	var work sync.WaitGroup
	defer work.Wait()
	places := make(chan struct{}, deliverAtOnce)
	away := false
	for {
		due, err := s.store.ClaimDeliveries(ctx, s.name, deliverBatch)
		if err != nil && !away && ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("deliveries cannot be claimed, trying on")
		}
		away = err != nil
		for _, d := range due {
			places <- struct{}{}
			work.Go(func() {
				defer func() { <-places }()
				s.one(ctx, d)
			})
		}
		if len(due) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-tick.C:
		}
	}
}

// one makes one delivery and records how it went, although ctx may have ended:
// a mail that left must not leave again.
func (s *Subscriber) one(ctx context.Context, d orders.Delivery) {
	res := s.send(ctx, d)
	delay := time.Duration(0)
	if res.status == orders.DeliveryPending {
		if d.Tries >= s.options.SendAttempts {
			res.status = orders.DeliveryFailed
			s.log.Warn().Str("order_id", d.OrderID).Str("answer", res.answer).Msg("delivery failed for good")
		}
		delay = s.backoff(d.Tries, res.after)
	}
	recordCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := s.store.FinishDelivery(recordCtx, d, res.status, res.answer, delay); err != nil {
		s.log.Warn().Err(err).Str("order_id", d.OrderID).Msg("delivery not recorded, it may be repeated")
	}
}

func (s *Subscriber) send(ctx context.Context, d orders.Delivery) answer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.SendTimeout)
	defer cancel()
	return s.sender(ctx, d)
}

// backoff is exponential with full jitter.
func (s *Subscriber) backoff(tries int, asked time.Duration) time.Duration {
	ceiling := s.options.RetryCap
	if shift := tries - 1; shift >= 0 && shift < 32 && s.options.RetryBase<<shift < ceiling {
		ceiling = s.options.RetryBase << shift
	}
	return min(max(time.Duration(rand.Int64N(int64(ceiling)+1)), asked), s.options.RetryCap)
}
