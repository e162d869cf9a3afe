package notify

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubemq-io/kubemq-go/v2"
	"github.com/rs/zerolog"

	"orderd/orders"
)

// Subscriber handles the event log for one purpose. Made by NewEmail, NewPush
// and NewAnalytics.
type Subscriber struct {
	name    string
	options Options
	store   *orders.Store
	dial    Dial
	log     zerolog.Logger

	effect  func(*orders.Event) orders.Effect
	sender  sender // nil if there is nothing to send
	group   string // of its subscriptions; empty: each hears everything
	workers int    // subscriptions

	bell     chan struct{}
	strange  chan orders.Event // status events of other programs
	hearing  atomic.Int32      // subscriptions that stand
	rebuilds []chan struct{}
}

const (
	quietFor    = 2 * time.Second // what was not heard for so long is taken from the log
	deafAfter   = 5 * time.Second // and then the subscription is made again
	lookEvery   = time.Second
	handleBatch = 500
	strangeRoom = 1000
	redialPause = 200 * time.Millisecond

	heartbeatChannel = "orderd.heartbeat"
	tagClient        = "client"
	heartbeatEvery   = 5 * time.Second
	heartbeatLost    = 17 * time.Second // three of them
)

func newSubscriber(name string, o Options, store *orders.Store, dial Dial, log zerolog.Logger) *Subscriber {
	return &Subscriber{name: name, options: o, store: store, dial: dial, log: log, workers: 1,
		bell: make(chan struct{}, 1), strange: make(chan orders.Event, strangeRoom)}
}

// NewAnalytics makes the subscriber whose handled events are summed by the
// store. Its subscriptions share their group's events.
func NewAnalytics(o Options, store *orders.Store, dial Dial, log zerolog.Logger) *Subscriber {
	s := newSubscriber(orders.SubscriberAnalytics, o, store, dial, log)
	s.group, s.workers = orders.SubscriberAnalytics, o.AnalyticsWorkers
	s.effect = func(*orders.Event) orders.Effect { return orders.Effect{} }
	return s
}

// State is "ok" while all subscriptions stand, else "connecting".
func (s *Subscriber) State() string {
	if int(s.hearing.Load()) == s.workers {
		return "ok"
	}
	return "connecting"
}

// Run handles events until ctx ends.
func (s *Subscriber) Run(ctx context.Context) error {
	var work sync.WaitGroup
	for i := range s.workers {
		rebuild := make(chan struct{}, 1)
		s.rebuilds = append(s.rebuilds, rebuild)
		work.Go(func() { s.listen(ctx, i, rebuild) })
	}
	if s.sender != nil {
		work.Go(func() { s.deliver(ctx) })
	}
	work.Go(func() { s.actOnStrange(ctx) })
	s.handle(ctx)
	work.Wait()
	return nil
}

// listen keeps one subscription, over one client after the other.
func (s *Subscriber) listen(ctx context.Context, worker int, rebuild <-chan struct{}) {
	id := s.name + "-" + s.store.Instance()
	if worker > 0 {
		id += "-" + strconv.Itoa(worker+1)
	}
	for ctx.Err() == nil {
		client, err := s.dial(ctx, id)
		if err != nil {
			return // only ctx's end is an error
		}
		err = s.subscribe(ctx, client)
		if err == nil {
			s.hearing.Add(1)
			s.ring() // what came before it stood
			s.untilDeaf(ctx, client, id, rebuild)
			s.hearing.Add(-1)
		} else if ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("subscription refused, trying again")
		}
		if err := client.Close(); err != nil {
			s.log.Debug().Err(err).Msg("client closed with an error")
		}
		pause(ctx, redialPause)
	}
}

// untilDeaf returns when ctx ends or the subscriptions of client have to be made
// again: because events were missed, or because client does not hear itself. A
// server may leave subscriptions silent without a word, and a quiet shop has no
// events to miss.
func (s *Subscriber) untilDeaf(ctx context.Context, client *kubemq.Client, id string, rebuild <-chan struct{}) {
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	var heard atomic.Int64
	heard.Store(time.Now().UnixNano())
	_, err := client.SubscribeToEvents(ctx, heartbeatChannel, "", kubemq.WithOnEvent(func(e *kubemq.Event) {
		if e.Tags[tagClient] == id {
			heard.Store(time.Now().UnixNano())
		}
	}))
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-rebuild:
			s.log.Warn().Msg("events are not heard, subscribing again")
			return
		case <-beat.C:
		}
		if silent := time.Since(time.Unix(0, heard.Load())); silent > heartbeatLost {
			s.log.Warn().Dur("silent_ms", silent).Msg("own heartbeat is not heard, subscribing again")
			return
		}
		sendCtx, cancel := context.WithTimeout(ctx, heartbeatEvery)
		sendErr := client.SendEvent(sendCtx, kubemq.NewEvent().SetChannel(heartbeatChannel).SetMetadata("heartbeat").AddTag(tagClient, id))
		cancel()
		if sendErr != nil {
			s.log.Debug().Err(sendErr).Msg("heartbeat not sent")
		}
	}
	s.log.Warn().Err(err).Msg("heartbeat cannot be heard, subscribing again")
}

func (s *Subscriber) subscribe(ctx context.Context, client *kubemq.Client) error {
	interrupted := kubemq.WithOnError(func(err error) { s.log.Debug().Err(err).Msg("subscription interrupted") })
	_, err := client.SubscribeToEventsStore(ctx, s.options.EventsChannel, s.group, kubemq.StartFromNewEvents(),
		kubemq.WithOnEventStoreReceive(func(*kubemq.EventStoreReceive) { s.ring() }), interrupted)
	if err != nil {
		return fmt.Errorf("subscribe to kept events: %w", err)
	}
	_, err = client.SubscribeToEvents(ctx, s.options.EventsChannel, "orderd-"+s.name, kubemq.WithOnEvent(s.heard), interrupted)
	if err != nil {
		return fmt.Errorf("subscribe to events: %w", err)
	}
	return nil
}

func (s *Subscriber) ring() {
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// heard takes in a plain event: our own are in the log, others' are not.
func (s *Subscriber) heard(e *kubemq.Event) {
	if e.Tags[tagOrigin] == orders.Origin {
		return
	}
	event, err := foreign(e)
	if err != nil {
		s.log.Debug().Err(err).Str("event_id", e.Id).Msg("event of another program ignored")
		return
	}
	select {
	case s.strange <- event:
	default:
		s.log.Warn().Str("order_id", event.OrderID).Msg("event of another program dropped, too many wait")
	}
}

// actOnStrange acts on events of other programs, at most once each.
func (s *Subscriber) actOnStrange(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.strange:
			if s.sender == nil {
				s.log.Debug().Str("order_id", e.OrderID).Msg("event of another program is not counted")
				continue
			}
			if f := s.effect(&e); f.Deliver && f.Skip == "" {
				res := s.send(ctx, orders.Delivery{Subscriber: s.name, OrderID: e.OrderID, To: f.To, Event: e})
				s.log.Debug().Str("order_id", e.OrderID).Str("answer", res.answer).Msg("event of another program acted on")
			}
		}
	}
}

// handle handles what the bell announces, and looks by itself every second for
// what it did not.
func (s *Subscriber) handle(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	away := false
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-s.bell:
			_, err = s.handleSince(ctx, 0)
		case <-tick.C:
			err = s.look(ctx)
		}
		if err != nil && !away && ctx.Err() == nil {
			s.log.Warn().Err(err).Msg("events cannot be handled, trying on")
		}
		away = err != nil
	}
}

// look handles what was not heard. If that goes on, the subscriptions are
// taken for dead: a server may leave them silent without a word.
func (s *Subscriber) look(ctx context.Context) error {
	old, err := s.handleSince(ctx, deafAfter)
	if err != nil {
		return err
	}
	if old > 0 && s.State() == "ok" {
		for _, r := range s.rebuilds {
			select {
			case r <- struct{}{}:
			default:
			}
		}
	}
	_, err = s.handleSince(ctx, quietFor)
	return err
}

// handleSince handles all events that were numbered longer than quiet ago, and
// returns how many had not been handled.
func (s *Subscriber) handleSince(ctx context.Context, quiet time.Duration) (int, error) {
	total := 0
	for {
		events, err := s.store.Unhandled(ctx, s.name, quiet, handleBatch)
		if err != nil || len(events) == 0 {
			return total, err
		}
		effects := make([]orders.Effect, len(events))
		for i := range events {
			effects[i] = s.effect(&events[i])
		}
		fresh, err := s.store.Handle(ctx, s.name, events, effects)
		if err != nil {
			return total, err
		}
		for _, f := range fresh {
			if f {
				total++
			}
		}
		if len(events) < handleBatch {
			return total, nil
		}
	}
}
