package notify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubemq-io/kubemq-go/v2"
	"github.com/rs/zerolog"

	"orderd/orders"
)

// Publisher numbers committed events and publishes them. Of all processes, the
// one that holds the lease on the log does it.
type Publisher struct {
	options Options
	store   *orders.Store
	dial    Dial
	log     zerolog.Logger

	held   atomic.Bool
	wake   chan struct{} // something was numbered, or the lease changed hands
	online atomic.Bool
}

// NewPublisher makes a Publisher.
func NewPublisher(o Options, store *orders.Store, dial Dial, log zerolog.Logger) *Publisher {
	return &Publisher{options: o, store: store, dial: dial, log: log, wake: make(chan struct{}, 1)}
}

const (
	holdEvery      = time.Second
	numberEvery    = 100 * time.Millisecond // events that other processes committed
	numberBatch    = 1000
	publishBatch   = 500
	publishRetry   = 200 * time.Millisecond
	resultsTimeout = 10 * time.Second
	releaseTimeout = 2 * time.Second
)

// State is "standby" while another process publishes, "ok" while this one does,
// and "connecting" while it cannot.
func (p *Publisher) State() string {
	switch {
	case !p.held.Load():
		return "standby"
	case p.online.Load():
		return "ok"
	}
	return "connecting"
}

// Run numbers and publishes until ctx ends.
func (p *Publisher) Run(ctx context.Context) error {
	var publishing sync.WaitGroup
	publishing.Go(func() { p.publish(ctx) })
	p.number(ctx)
	publishing.Wait()
	if !p.held.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := p.store.ReleaseEvents(ctx); err != nil {
		p.log.Warn().Err(err).Msg("lease on the event log not given back, it will run out")
	}
	return nil
}

// number holds the lease and numbers what is committed.
func (p *Publisher) number(ctx context.Context) {
	committed, unsubscribe := p.store.Subscribe(orders.SignalCommitted)
	defer unsubscribe()
	hold := time.NewTicker(holdEvery)
	defer hold.Stop()
	tick := time.NewTicker(numberEvery)
	defer tick.Stop()
	away := false
	err := p.hold(ctx)
	for {
		for err == nil && p.held.Load() {
			var events []orders.Event
			if events, err = p.store.NumberEvents(ctx, numberBatch); len(events) == 0 {
				break
			}
			p.ring()
		}
		if err != nil && !away && ctx.Err() == nil {
			p.log.Warn().Err(err).Msg("events cannot be numbered, trying on")
		}
		away = err != nil
		err = nil
		select {
		case <-ctx.Done():
			return
		case <-hold.C:
			err = p.hold(ctx)
		case <-committed:
		case <-tick.C:
		}
	}
}

func (p *Publisher) hold(ctx context.Context) error {
	held, err := p.store.HoldEvents(ctx)
	if err != nil {
		return err // the lease may still be ours: numbering finds out
	}
	if p.held.Swap(held) != held {
		p.log.Info().Bool("held", held).Msg("lease on the event log")
		p.ring()
	}
	return nil
}

func (p *Publisher) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// publish publishes what is numbered, over one connection after the other.
func (p *Publisher) publish(ctx context.Context) {
	away := false
	for ctx.Err() == nil {
		if !p.held.Load() {
			select {
			case <-ctx.Done():
			case <-p.wake:
			}
			continue
		}
		err := p.session(ctx)
		p.online.Store(false)
		if err == nil || ctx.Err() != nil {
			away = false
			continue
		}
		if !away {
			p.log.Warn().Err(err).Msg("events cannot be published, they wait in the store")
		}
		away = true
		pause(ctx, publishRetry)
	}
}

// session publishes until ctx ends, the lease is lost, or the connection fails.
func (p *Publisher) session(ctx context.Context) error {
	client, err := p.dial(ctx, "orderd-publisher-"+p.store.Instance())
	if err != nil {
		return err
	}
	defer func() {
		if err := client.Close(); err != nil {
			p.log.Debug().Err(err).Msg("client closed with an error")
		}
	}()
	s, err := openStreams(ctx, client)
	if err != nil {
		return err
	}
	defer s.close()
	at, err := p.store.PublishedUpTo(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(holdEvery)
	defer tick.Stop()
	p.online.Store(true)
	for p.held.Load() {
		events, err := p.store.EventsAfter(ctx, at, publishBatch, orders.EventFilter{})
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if err := p.send(ctx, s, events); err != nil {
				return err
			}
			at = events[len(events)-1].Number
			if err := p.store.SetPublished(ctx, at); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-tick.C:
		case <-s.kept.Done:
			return errors.New("the stream of kept events ended")
		case <-s.plain.Done:
			return errors.New("the stream of events ended")
		}
	}
	return nil
}

// streams are the two ways out: to live listeners, and to those who come later.
type streams struct {
	plain *kubemq.EventStreamHandle
	kept  *kubemq.EventStoreStreamHandle
}

func openStreams(ctx context.Context, client *kubemq.Client) (*streams, error) {
	// Not tied to ctx: the last batch is sent although the process stops.
	ctx = context.WithoutCancel(ctx)
	plain, err := client.SendEventStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("open stream of events: %w", err)
	}
	kept, err := client.SendEventStoreStream(ctx)
	if err != nil {
		plain.Close()
		return nil, fmt.Errorf("open stream of kept events: %w", err)
	}
	return &streams{plain, kept}, nil
}

func (s *streams) close() {
	s.plain.Close()
	s.kept.Close()
}

// send publishes a batch, and returns once every kept event is answered.
func (p *Publisher) send(ctx context.Context, s *streams, events []orders.Event) error {
	open := make(map[string]bool, len(events))
	answered := make(chan error, 1)
	for i := range events {
		open[events[i].EventID()] = true
	}
	timeout := time.NewTimer(resultsTimeout)
	defer timeout.Stop()
	var reading sync.WaitGroup
	defer reading.Wait()
	over := make(chan struct{})
	defer close(over)
	reading.Go(func() { answered <- results(s, open, over) })
	for i := range events {
		if err := s.plain.Send(p.plain(&events[i])); err != nil {
			return fmt.Errorf("publish event %s: %w", events[i].EventID(), err)
		}
		if err := s.kept.Send(p.kept(&events[i])); err != nil {
			return fmt.Errorf("publish event %s: %w", events[i].EventID(), err)
		}
	}
	select {
	case err := <-answered:
		return err
	case <-timeout.C:
		return errors.New("published events were not answered in time")
	case <-ctx.Done():
		// Not waited for: they are published again by whoever comes next.
		return ctx.Err()
	}
}

// results reads answers until none of open is left.
func results(s *streams, open map[string]bool, over <-chan struct{}) error {
	for len(open) > 0 {
		select {
		case r, ok := <-s.kept.Results:
			if !ok { // closed before Done
				return errors.New("the stream of kept events ended")
			}
			if !r.Sent {
				return fmt.Errorf("event %s was refused: %s", r.EventID, r.Error)
			}
			delete(open, r.EventID)
		case err, ok := <-s.plain.Errors:
			if !ok { // closed before Done
				return errors.New("the stream of events ended")
			}
			return err
		case <-s.kept.Done:
			return errors.New("the stream of kept events ended")
		case <-over:
			return nil
		}
	}
	return nil
}
