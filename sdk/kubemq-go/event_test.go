package kubemq_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubemq-io/kubemq-go/v2"
)

// inbox collects what a subscription gives to the program.
type inbox struct {
	events chan string // ids
	errs   chan error
}

func newInbox() *inbox {
	return &inbox{events: make(chan string, 10_000), errs: make(chan error, 1000)}
}

func (in *inbox) options() []kubemq.SubscribeOption {
	return []kubemq.SubscribeOption{
		kubemq.WithOnEvent(func(e *kubemq.Event) { in.events <- e.Id }),
		kubemq.WithOnEventStoreReceive(func(e *kubemq.EventStoreReceive) { in.events <- e.Id }),
		kubemq.WithOnError(func(err error) { in.errs <- err }),
	}
}

func (in *inbox) want(tb testing.TB, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		if got := next(tb, "event "+id, in.events); got != id {
			tb.Fatalf("got event %s, want %s", got, id)
		}
	}
}

func subscribe(tb testing.TB, c *kubemq.Client, channel, group string) (*kubemq.Subscription, *inbox) {
	tb.Helper()
	in := newInbox()
	s, err := c.SubscribeToEvents(context.Background(), channel, group, in.options()...)
	if err != nil {
		tb.Fatalf("subscribe: %v", err)
	}
	return s, in
}

func subscribeStore(tb testing.TB, c *kubemq.Client, channel string, start kubemq.SubscriptionOption) (*kubemq.Subscription, *inbox) {
	tb.Helper()
	in := newInbox()
	s, err := c.SubscribeToEventsStore(context.Background(), channel, "", start, in.options()...)
	if err != nil {
		tb.Fatalf("subscribe: %v", err)
	}
	return s, in
}

func publish(tb testing.TB, c *kubemq.Client, channel string, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		if err := c.SendEvent(context.Background(), kubemq.NewEvent().SetId(id).SetChannel(channel).SetMetadata("m")); err != nil {
			tb.Fatalf("publish %s: %v", id, err)
		}
	}
}

func publishStore(tb testing.TB, c *kubemq.Client, channel string, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		r, err := c.PublishEventStore(context.Background(), channel, []byte("x"), kubemq.WithID(id))
		if err != nil || !r.Sent || r.Id != id || r.Err != nil {
			tb.Fatalf("publish %s: got %+v, %v", id, r, err)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithClientId("me"))
	got := make(chan *kubemq.Event, 1)
	s, err := c.SubscribeToEvents(t.Context(), "e", "", kubemq.WithOnEvent(func(e *kubemq.Event) { got <- e }))
	if err != nil {
		t.Fatal(err)
	}
	err = c.PublishEvent(t.Context(), "e", []byte("body"), kubemq.WithID("1"), kubemq.WithMetadata("meta"), kubemq.WithTags(map[string]string{"status": "shipped"}))
	if err != nil {
		t.Fatal(err)
	}
	e := next(t, "event", got)
	if e.Id != "1" || e.Channel != "e" || e.Metadata != "meta" || string(e.Body) != "body" || e.Tags["status"] != "shipped" {
		t.Fatalf("got %v", e)
	}
	sub := get(b, func() *pb.Subscribe { return b.subscribed[0] })
	if sub.ClientID != "me" || sub.SubscribeTypeData != pb.Subscribe_Events || sub.EventsStoreTypeData != 0 {
		t.Errorf("on the wire: %v", sub)
	}
	s.Unsubscribe()
	next(t, "end", closedToValue(s.Done()))
	if !s.IsDone() || s.ID() == "" {
		t.Error("subscription is not done, or has no id")
	}
	eventually(t, "broker free of it", func() bool { return b.subscribers() == 0 })
}

// closedToValue gives one value when c is closed.
func TestGroupsShare(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	_, all := subscribe(t, c, "e", "")
	_, one := subscribe(t, c, "e", "analytics")
	_, two := subscribe(t, c, "e", "analytics")
	for i := range 20 {
		id := strconv.Itoa(i)
		publish(t, c, "e", id)
		all.want(t, id)
	}
	eventually(t, "20 shared events", func() bool { return len(one.events)+len(two.events) == 20 })
	if len(one.events) != 10 {
		t.Errorf("shares: %d and %d", len(one.events), len(two.events))
	}
}

func TestSubscriptionSurvivesRestart(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	_, in := subscribe(t, c, "e", "")
	for i := range 3 {
		publish(t, c, "e", "before")
		in.want(t, "before")
		b.stop()
		var e *kubemq.KubeMQError
		if err := next(t, "OnError", in.errs); !errors.As(err, &e) || e.Code != kubemq.ErrCodeTransient || e.Operation != "SubscribeToEvents" || e.Channel != "e" {
			t.Fatalf("round %d: got %v", i, err)
		}
		b.start()
		eventually(t, "subscribed again", func() bool { return b.subscribers() == 1 })
		if n := len(in.errs); n != 0 {
			t.Fatalf("round %d: %d more errors for one loss: %v", i, n, <-in.errs)
		}
	}
	publish(t, c, "e", "after")
	in.want(t, "after")
}

func TestSubscriptionSurvivesBrokenStream(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.OK, codes.Internal, codes.Unavailable, codes.Canceled, codes.Unauthenticated} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			c := connect(t, b)
			_, in := subscribe(t, c, "e", "")
			b.breakStreams(status.Error(code, "broken for a test"))
			next(t, "OnError", in.errs)
			eventually(t, "subscribed again", func() bool {
				return b.subscribers() == 1 && get(b, func() bool { return len(b.subscribed) == 2 })
			})
			publish(t, c, "e", "after")
			in.want(t, "after")
			if n := len(in.errs); n != 0 {
				t.Errorf("%d more errors for one loss", n)
			}
		})
	}
}

func TestStoreResumesAfterItsLastEvent(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]kubemq.SubscriptionOption{
		"first": kubemq.StartFromFirstEvent(), "new": kubemq.StartFromNewEvents(), "last": kubemq.StartFromLastEvent(),
		"sequence": kubemq.StartFromSequence(1), "time": kubemq.StartFromTime(time.Now().Add(-time.Hour)), "delta": kubemq.StartFromTimeDelta(time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			c := connect(t, b)
			_, in := subscribeStore(t, c, "e", start)
			publishStore(t, c, "e", "1", "2")
			in.want(t, "1", "2")
			b.stop()
			next(t, "OnError", in.errs)
			b.publish(&pb.Event{EventID: "3", Channel: "e", Metadata: "m", Store: true})
			b.start()
			in.want(t, "3") // neither 1 nor 2 again
			publishStore(t, c, "e", "4")
			in.want(t, "4")
		})
	}
}

// Ensure that a subscription that lost its stream before the first event gets
// what came meanwhile.
func TestStoreResumesBeforeItsFirstEvent(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]kubemq.SubscriptionOption{
		"new": kubemq.StartFromNewEvents(), "delta": kubemq.StartFromTimeDelta(time.Second), "first": kubemq.StartFromFirstEvent(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			c := connect(t, b)
			_, in := subscribeStore(t, c, "e", start)
			b.stop()
			next(t, "OnError", in.errs)
			b.publish(&pb.Event{EventID: "1", Channel: "e", Metadata: "m", Store: true})
			b.start()
			in.want(t, "1")
		})
	}
}

func TestStartPositionsOnTheWire(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	at := time.Unix(1700000000, 5)
	for i, tc := range []struct {
		start kubemq.SubscriptionOption
		kind  pb.Subscribe_EventsStoreType
		value int64
	}{
		{kubemq.StartFromNewEvents(), pb.Subscribe_StartNewOnly, 0},
		{kubemq.StartFromFirstEvent(), pb.Subscribe_StartFromFirst, 0},
		{kubemq.StartFromLastEvent(), pb.Subscribe_StartFromLast, 0},
		{kubemq.StartFromSequence(7), pb.Subscribe_StartAtSequence, 7},
		{kubemq.StartFromTime(at), pb.Subscribe_StartAtTime, 1700000000000000005},
		{kubemq.StartFromTimeDelta(1500 * time.Millisecond), pb.Subscribe_StartAtTimeDelta, 2},
	} {
		subscribeStore(t, c, "e", tc.start)
		got := get(b, func() *pb.Subscribe { return b.subscribed[i] })
		if got.EventsStoreTypeData != tc.kind || got.EventsStoreTypeValue != tc.value || got.SubscribeTypeData != pb.Subscribe_EventsStore {
			t.Errorf("got %v, want %v %d", got, tc.kind, tc.value)
		}
	}
}

func TestSubscribeErrors(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	on := kubemq.WithOnEvent(func(*kubemq.Event) {})
	onStore := kubemq.WithOnEventStoreReceive(func(*kubemq.EventStoreReceive) {})
	first := kubemq.StartFromFirstEvent()
	for name, do := range map[string]func() error{
		"no channel":       func() error { _, err := c.SubscribeToEvents(t.Context(), "", "", on); return err },
		"white space":      func() error { _, err := c.SubscribeToEvents(t.Context(), "a b", "", on); return err },
		"no handler":       func() error { _, err := c.SubscribeToEvents(t.Context(), "a", ""); return err },
		"bad group":        func() error { _, err := c.SubscribeToEvents(t.Context(), "a", "g h", on); return err },
		"store wildcard":   func() error { _, err := c.SubscribeToEventsStore(t.Context(), "a.*", "", first, onStore); return err },
		"store no handler": func() error { _, err := c.SubscribeToEventsStore(t.Context(), "a", "", first, on); return err },
		"store no start":   func() error { _, err := c.SubscribeToEventsStore(t.Context(), "a", "", nil, onStore); return err },
		"store sequence 0": func() error {
			_, err := c.SubscribeToEventsStore(t.Context(), "a", "", kubemq.StartFromSequence(0), onStore)
			return err
		},
		"store zero delta": func() error {
			_, err := c.SubscribeToEventsStore(t.Context(), "a", "", kubemq.StartFromTimeDelta(0), onStore)
			return err
		},
		"event no channel": func() error { return c.SendEvent(t.Context(), kubemq.NewEvent().SetMetadata("m")) },
		"event empty":      func() error { return c.SendEvent(t.Context(), kubemq.NewEvent().SetChannel("e")) },
		"event nil":        func() error { return c.SendEvent(t.Context(), nil) },
		"event wildcard":   func() error { return c.PublishEvent(t.Context(), "a.>", []byte("x")) },
		"stored event nil": func() error { _, err := c.SendEventStore(t.Context(), nil); return err },
	} {
		if err := do(); !errors.Is(err, kubemq.ErrValidation) {
			t.Errorf("%s: got %v, want ErrValidation", name, err)
		}
	}
	if n := get(b, func() int { return len(b.seen) }); n != 0 {
		t.Errorf("%d calls reached the broker", n)
	}
	if s, err := c.SubscribeToEvents(t.Context(), "a.*.>", "g", on); err != nil {
		t.Errorf("wildcards: %v", err)
	} else {
		s.Cancel()
	}
}

func TestSubscribeRefusedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	b.set(func() {
		b.fail = func(string) error {
			return status.Error(codes.Internal, "Error 107: invalid channel value, no wildcards are allowed")
		}
	})
	in := newInbox()
	s, err := c.SubscribeToEvents(t.Context(), "e", "", in.options()...)
	var e *kubemq.KubeMQError
	if s != nil || !errors.As(err, &e) || e.Code != kubemq.ErrCodeFatal || e.Message != "Error 107: invalid channel value, no wildcards are allowed" {
		t.Fatalf("got %v, %v", s, err)
	}
	if n := b.count("SubscribeToEvents"); n != 1 {
		t.Errorf("attempts: got %d, want 1", n)
	}
}

// Ensure that a broker that does not confirm subscriptions, as those of release
// 2.4, is not waited for.
func TestSubscribeUnconfirmed(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.set(func() { b.confirm = false })
	c := connect(t, b)
	begun := time.Now()
	_, in := subscribe(t, c, "e", "")
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	eventually(t, "subscribed", func() bool { return b.subscribers() == 1 })
	publish(t, c, "e", "1")
	in.want(t, "1")
}

// Ensure that each refused attempt to come back is told and that the
// subscription goes on trying.
func TestResubscribeRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	_, in := subscribe(t, c, "e", "")
	var attempts atomic.Int32
	b.set(func() {
		b.fail = func(string) error {
			attempts.Add(1)
			return status.Error(codes.Internal, "stan: clientID already registered")
		}
	})
	b.breakStreams(status.Error(codes.Unavailable, "gone"))
	next(t, "loss", in.errs)
	for range 3 {
		var e *kubemq.KubeMQError
		if err := next(t, "refusal", in.errs); !errors.As(err, &e) || e.Message != "stan: clientID already registered" {
			t.Fatalf("got %v", err)
		}
	}
	b.set(func() { b.fail = nil })
	eventually(t, "subscribed again", func() bool { return b.subscribers() == 1 })
	if told, tried := 3+len(in.errs), int(attempts.Load()); told > tried {
		t.Errorf("%d refusals told, %d attempts", told, tried)
	}
	publish(t, c, "e", "1")
	in.want(t, "1")
}

func TestSubscriptionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	in := newInbox()
	s, err := c.SubscribeToEvents(ctx, "e", "", in.options()...)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	next(t, "end", closedToValue(s.Done()))
	if len(in.errs) != 0 {
		t.Errorf("an end that was asked for is no error: %v", <-in.errs)
	}
}

func TestCallbackPanics(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	in := newInbox()
	_, err := c.SubscribeToEvents(t.Context(), "e", "", append(in.options(), kubemq.WithOnEvent(func(e *kubemq.Event) {
		if e.Id == "bad" {
			panic("for a test")
		}
		in.events <- e.Id
	}))...)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, c, "e", "bad", "good")
	in.want(t, "good")
	var h *kubemq.HandlerError
	if err := next(t, "HandlerError", in.errs); !errors.As(err, &h) || h.Handler != "SubscribeToEvents" {
		t.Fatalf("got %v", err)
	}
}

func TestSlowCallbackIsReported(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithCallbackTimeout(time.Millisecond))
	in := newInbox()
	_, err := c.SubscribeToEvents(t.Context(), "e", "", append(in.options(), kubemq.WithOnEvent(func(*kubemq.Event) {
		<-time.After(20 * time.Millisecond) // being slow is the matter here
	}))...)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, c, "e", "1")
	if err := next(t, "HandlerError", in.errs); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

func TestConcurrentCallbacks(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithMaxConcurrentCallbacks(3))
	meet := make(chan struct{})
	done := make(chan bool, 3)
	_, err := c.SubscribeToEvents(t.Context(), "e", "", kubemq.WithOnEvent(func(e *kubemq.Event) {
		if e.Id == "3" {
			close(meet)
		}
		<-meet
		done <- true
	}))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, c, "e", "1", "2", "3")
	for range 3 {
		next(t, "callback that waits for the others", done)
	}
}

// Ensure that events keep their order and none is lost over a slow callback with
// a small buffer.
func TestOrderUnderBackpressure(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithReceiveBufferSize(1))
	_, in := subscribe(t, c, "e", "")
	s, err := c.SendEventStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n = 3000
	for i := range n {
		if err := s.Send(kubemq.NewEvent().SetId(strconv.Itoa(i)).SetChannel("e").SetBody(make([]byte, 100))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		in.want(t, strconv.Itoa(i))
	}
	s.Close()
	next(t, "end", closedToValue(s.Done))
	if err, open := <-s.Errors; open {
		t.Errorf("error on a clean end: %v", err)
	}
	if err := s.Send(kubemq.NewEvent().SetChannel("e").SetMetadata("m")); err == nil {
		t.Error("send on a closed stream must fail")
	}
}

// Ensure that a batch above the size limit is refused without ending the
// stream.
