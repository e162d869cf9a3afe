package kubemq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// settleTime is how long a subscribe call waits for the broker to say that the
// subscription is in place. Brokers of release 2.4 say nothing until the first
// event.
const settleTime = 100 * time.Millisecond

// SubscribeOption sets a callback of a subscription.
type SubscribeOption func(*subscribeConfig)

type subscribeConfig struct {
	onEvent func(*Event)
	onStore func(*EventStoreReceive)
	onError func(error)
}

// WithOnEvent sets what SubscribeToEvents calls for each event. Calls come one
// at a time and in order, unless WithMaxConcurrentCallbacks says otherwise.
func WithOnEvent(handler func(*Event)) SubscribeOption {
	return func(c *subscribeConfig) { c.onEvent = handler }
}

// WithOnEventStoreReceive sets what SubscribeToEventsStore calls for each event,
// as WithOnEvent does.
func WithOnEventStoreReceive(handler func(*EventStoreReceive)) SubscribeOption {
	return func(c *subscribeConfig) { c.onStore = handler }
}

// WithOnError sets what is called, in turn with the events, when a subscription
// loses its stream (once for each loss and each refused attempt to get it back;
// it goes on trying) and, as a HandlerError, when a callback panicked or took
// longer than WithCallbackTimeout. Without it errors only go to the logger.
func WithOnError(handler func(error)) SubscribeOption {
	return func(c *subscribeConfig) { c.onError = handler }
}

// Subscription receives events until its context ends, it is cancelled, or the
// client is closed. It survives lost connections.
type Subscription struct {
	id     string
	cancel context.CancelFunc
	left   atomic.Int32 // goroutines that still run
	done   chan struct{}
}

// ID returns an id that no other subscription has.
func (s *Subscription) ID() string { return s.id }

// Cancel ends the subscription: no callback starts any more. It does not wait
// for one that runs; Done does.
func (s *Subscription) Cancel() { s.cancel() }

// Unsubscribe is Cancel.
func (s *Subscription) Unsubscribe() { s.cancel() }

// Done returns a channel that is closed when the subscription has ended and its
// last callback returned.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// IsDone says whether Done is closed.
func (s *Subscription) IsDone() bool { return isClosed(s.done) }

func (s *Subscription) leave() {
	if s.left.Add(-1) == 0 {
		s.cancel() // also when its context ended: nothing of it may stay with the client
		close(s.done)
	}
}

// SubscribeToEvents receives the events of channel, which may have wildcards:
// `*` for one part between dots, `>` at the end for one or more. Of subscribers
// with the same group only one receives each event; those without a group
// receive all.
//
// It returns when the broker confirmed the subscription, or a tenth of a second
// after it was sent, since brokers may not confirm. An error that comes until
// then is returned, later ones go to WithOnError. It waits 10 s for a connection
// if ctx has no deadline. The subscription ends with ctx.
func (c *Client) SubscribeToEvents(ctx context.Context, channel, group string, opts ...SubscribeOption) (*Subscription, error) {
	const op = "SubscribeToEvents"
	cfg := subscribeSettings(opts)
	if cfg.onEvent == nil {
		return nil, invalid(op, channel, "WithOnEvent must be given")
	}
	if err := checkSubscription(op, channel, group, true); err != nil {
		return nil, err
	}
	f := &feed{
		op:      op,
		request: &pb.Subscribe{SubscribeTypeData: pb.Subscribe_Events, ClientID: c.clientID, Channel: channel, Group: group},
		handle:  func(r *pb.EventReceive) { cfg.onEvent(eventReceived(r)) },
		onError: cfg.onError,
	}
	return c.subscribe(ctx, f)
}

// SubscribeToEventsStore receives the stored events of channel from where
// startOpt says. After a lost connection it goes on after the last event
// received, or, if there was none yet, where it would have begun; events can
// come twice then. Brokers may keep the position of a client id and group, and
// then ignore startOpt when it comes back. The rest is as for SubscribeToEvents,
// without wildcards.
func (c *Client) SubscribeToEventsStore(ctx context.Context, channel, group string, startOpt SubscriptionOption, opts ...SubscribeOption) (*Subscription, error) {
	const op = "SubscribeToEventsStore"
	cfg := subscribeSettings(opts)
	if cfg.onStore == nil {
		return nil, invalid(op, channel, "WithOnEventStoreReceive must be given")
	}
	if err := checkSubscription(op, channel, group, false); err != nil {
		return nil, err
	}
	if startOpt == nil {
		return nil, invalid(op, channel, "a start option must be given")
	}
	start := &subscriptionOption{}
	startOpt.apply(start)
	if err := start.validate(op, channel); err != nil {
		return nil, err
	}
	f := &feed{
		op:      op,
		request: &pb.Subscribe{SubscribeTypeData: pb.Subscribe_EventsStore, ClientID: c.clientID, Channel: channel, Group: group},
		start:   start,
		handle:  func(r *pb.EventReceive) { cfg.onStore(storedReceived(r)) },
		onError: cfg.onError,
	}
	return c.subscribe(ctx, f)
}

func subscribeSettings(opts []SubscribeOption) *subscribeConfig {
	cfg := &subscribeConfig{}
	for _, o := range opts {
		if o != nil {
			o(cfg)
		}
	}
	return cfg
}

func checkSubscription(op, channel, group string, wildcards bool) error {
	if err := checkChannel(op, channel, wildcards); err != nil {
		return err
	}
	if group == "" {
		return nil
	}
	if err := checkChannel(op, group, false); err != nil {
		return invalid(op, channel, "group: %v", err)
	}
	return nil
}

// feed is the working part of a subscription: one goroutine keeps a stream and
// fills items, others empty items into callbacks.
type feed struct {
	c       *Client
	ctx     context.Context // ends with the subscription
	op      string
	request *pb.Subscribe
	start   *subscriptionOption // nil for plain events
	handle  func(*pb.EventReceive)
	onError func(error) // may be nil

	sub   *Subscription
	items chan item
	begun time.Time // when the first stream was asked for
	last  uint64    // sequence of the last stored event received

	opened      chan struct{} // closed when the first stream is open
	established chan struct{} // closed when the broker confirmed it
	failed      chan error    // capacity 1: why the first stream failed
	openedOnce  sync.Once
	confirmOnce sync.Once
	first       atomic.Bool // the subscribe call, or the failure that ends it, has been decided
}

// item is an event or an error on its way to a callback.
type item struct {
	event *pb.EventReceive
	err   error
}

func (c *Client) subscribe(ctx context.Context, f *feed) (*Subscription, error) {
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	sub := &Subscription{id: newID(), done: make(chan struct{})}
	sub.cancel = func() {
		stop()
		cancel()
	}
	f.c, f.ctx, f.sub = c, ctx, sub
	f.items = make(chan item, c.opts.receiveBuffer)
	f.begun = time.Now()
	f.opened, f.established, f.failed = make(chan struct{}), make(chan struct{}), make(chan error, 1)
	if err := f.launch(); err != nil {
		return nil, err
	}
	if err := f.awaitFirst(caller); err != nil {
		sub.Cancel()
		return nil, err
	}
	return sub, nil
}

// launch starts the goroutines of the feed.
func (f *feed) launch() error {
	callbacks := f.c.opts.callbacks.MaxConcurrent
	f.sub.left.Store(int32(1 + callbacks))
	ok := f.c.spawn(f.run)
	if !ok {
		f.sub.leave()
	}
	for range callbacks {
		if !ok || !f.c.spawnHandler(f.dispatch) {
			ok = false
			f.sub.leave()
		}
	}
	if !ok {
		f.sub.Cancel()
		return closedError(f.op, f.request.GetChannel(), ErrClientClosed)
	}
	return nil
}

// awaitFirst waits for the first stream to be in place or to fail.
func (f *feed) awaitFirst(caller context.Context) error {
	ctx, cancel := f.c.callContext(caller, DefaultSubscribeTimeout)
	defer cancel()
	opened := f.opened
	var settle <-chan time.Time
	for {
		select {
		case <-opened:
			t := time.NewTimer(settleTime)
			defer t.Stop()
			opened, settle = nil, t.C
			continue
		case <-f.established:
		case <-settle:
		case err := <-f.failed:
			return err
		case <-ctx.Done():
			if !f.first.CompareAndSwap(false, true) {
				return <-f.failed
			}
			return callError(ctx, f.op, f.request.GetChannel(), "", ctx.Err())
		}
		if !f.first.CompareAndSwap(false, true) {
			return <-f.failed
		}
		return nil
	}
}

// run keeps a stream until the subscription ends.
func (f *feed) run() {
	defer f.sub.leave()
	policy := filled(f.c.opts.reconnect)
	for try := 0; ; try++ {
		opened := time.Now()
		alive, err := f.session()
		if f.ctx.Err() != nil {
			f.stopped()
			return
		}
		err = callError(f.ctx, f.op, f.request.GetChannel(), "", err)
		if f.first.CompareAndSwap(false, true) {
			f.failed <- err
			return
		}
		// A broker that does not confirm took it if it let it live.
		if alive || time.Since(opened) > policy.MaxDelay {
			try = 0
		}
		f.c.log.Warn("subscription lost its stream", "channel", f.request.GetChannel(), "group", f.request.GetGroup(), "error", err)
		f.put(item{err: err})
		if !pause(f.ctx, delay(try, policy.InitialDelay, policy.MaxDelay, policy.Multiplier, policy.JitterMode)) {
			f.stopped()
			return
		}
	}
}

// stopped tells a subscribe call that still waits.
func (f *feed) stopped() {
	if f.first.CompareAndSwap(false, true) {
		cause := ErrClientClosed
		if f.c.ctx.Err() == nil {
			cause = f.ctx.Err()
		}
		f.failed <- closedError(f.op, f.request.GetChannel(), cause)
	}
}

// session is one stream from its opening to its end. alive says that the broker
// confirmed it.
func (f *feed) session() (alive bool, err error) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	stream, err := f.c.rpc.SubscribeToEvents(ctx, f.position())
	if err != nil {
		return false, err
	}
	f.openedOnce.Do(func() { close(f.opened) })
	if header, err := stream.Header(); err == nil && header != nil {
		alive = true
		f.confirmOnce.Do(func() { close(f.established) })
	}
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = errServerClosed
		}
		if err != nil {
			return alive, err
		}
		if !f.put(item{event: r}) {
			return alive, f.ctx.Err()
		}
		f.last = r.GetSequence()
	}
}

// put hands it to the callbacks, waiting for room, which in the end makes the
// broker wait. It gives up when the subscription ends.
func (f *feed) put(it item) bool {
	select {
	case f.items <- it:
		return true
	case <-f.ctx.Done():
		return false
	}
}

// position returns the request for the next stream.
func (f *feed) position() *pb.Subscribe {
	r := &pb.Subscribe{
		SubscribeTypeData: f.request.GetSubscribeTypeData(),
		ClientID:          f.request.GetClientID(),
		Channel:           f.request.GetChannel(),
		Group:             f.request.GetGroup(),
	}
	if f.start != nil {
		kind, value := f.start.resume(f.last, time.Since(f.begun), isClosed(f.opened))
		r.EventsStoreTypeData, r.EventsStoreTypeValue = pb.Subscribe_EventsStoreType(kind), value
	}
	return r
}

// dispatch runs callbacks until the subscription ends.
func (f *feed) dispatch() {
	defer f.sub.leave()
	for {
		select {
		case <-f.ctx.Done():
			return
		default:
		}
		select {
		case <-f.ctx.Done():
			return
		case it := <-f.items:
			f.callback(it)
		}
	}
}

func (f *feed) callback(it item) {
	if it.err != nil {
		f.tell(it.err)
		return
	}
	limit := f.c.opts.callbacks.Timeout
	begun := time.Now()
	if limit > 0 {
		t := time.AfterFunc(limit, func() {
			f.c.log.Warn("callback is slow", "channel", f.request.GetChannel(), "limit", limit)
		})
		defer t.Stop()
	}
	if err := guard(f.op, func() { f.handle(it.event) }); err != nil {
		f.tell(err)
	}
	if took := time.Since(begun); limit > 0 && took > limit {
		f.tell(&HandlerError{Handler: f.op, Cause: fmt.Errorf("took %s, limit %s: %w", took, limit, context.DeadlineExceeded)})
	}
}

// tell gives err to the program.
func (f *feed) tell(err error) {
	if f.onError == nil {
		var h *HandlerError
		if errors.As(err, &h) { // losses are logged where they happen
			f.c.log.Error("callback failed", "channel", f.request.GetChannel(), "error", err)
		}
		return
	}
	if p := guard("WithOnError", func() { f.onError(err) }); p != nil {
		f.c.log.Error("callback failed", "channel", f.request.GetChannel(), "error", p)
	}
}
