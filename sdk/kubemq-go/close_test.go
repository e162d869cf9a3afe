package kubemq_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubemq-io/kubemq-go/v2"
)

func TestCloseWaitsForCalls(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	arrived, proceed := make(chan bool, 1), make(chan struct{})
	b.set(func() {
		b.fail = func(method string) error {
			if method != "SendQueueMessage" {
				return nil
			}
			arrived <- true
			<-proceed
			return nil
		}
	})
	sent := make(chan error, 1)
	go func() {
		_, err := c.SendQueueMessageSimple(context.Background(), "q", []byte("x"))
		sent <- err
	}()
	next(t, "call at the broker", arrived)
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	eventually(t, "close under way", func() bool {
		_, err := c.Ping(t.Context())
		return errors.Is(err, kubemq.ErrClientClosed)
	})
	if len(closed) != 0 {
		t.Error("close did not wait")
	}
	close(proceed)
	if err := next(t, "send", sent); err != nil {
		t.Errorf("send: %v", err)
	}
	if err := next(t, "close", closed); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestCloseBreaksOffCalls(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithDrainTimeout(10*time.Millisecond))
	arrived, release := make(chan bool, 1), make(chan struct{})
	defer close(release)
	b.set(func() {
		b.fail = func(string) error {
			arrived <- true
			<-release
			return nil
		}
	})
	sent := make(chan error, 1)
	go func() {
		_, err := c.SendQueueMessageSimple(context.Background(), "q", []byte("x"))
		sent <- err
	}()
	next(t, "call at the broker", arrived)
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := next(t, "send", sent); !errors.Is(err, kubemq.ErrClientClosed) {
		t.Errorf("send: got %v", err)
	}
}

func TestEverythingAfterClose(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	send(t, c, "q", "1")
	held := poll(t, r, "q", 1)
	s, _ := subscribe(t, c, "e", "")
	u, err := c.QueueUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !s.IsDone() {
		t.Error("subscription is not done")
	}
	next(t, "upstream's end", closedToValue(u.Done))
	if held.Messages[0].Ack() == nil {
		t.Error("ack after close must fail")
	}
	for name, do := range map[string]func() error{
		"ping":         func() error { _, err := c.Ping(t.Context()); return err },
		"send":         func() error { _, err := c.SendQueueMessageSimple(t.Context(), "q", []byte("x")); return err },
		"event":        func() error { return c.PublishEvent(t.Context(), "e", []byte("x")) },
		"poll":         func() error { _, err := r.Poll(t.Context(), &kubemq.PollRequest{Channel: "q"}); return err },
		"poll queue":   func() error { _, err := c.PollQueue(t.Context(), &kubemq.PollRequest{Channel: "q"}); return err },
		"receiver":     func() error { _, err := c.NewQueueDownstreamReceiver(t.Context()); return err },
		"upstream":     func() error { _, err := c.QueueUpstream(t.Context()); return err },
		"event stream": func() error { _, err := c.SendEventStream(t.Context()); return err },
		"store stream": func() error { _, err := c.SendEventStoreStream(t.Context()); return err },
		"subscribe": func() error {
			_, err := c.SubscribeToEvents(t.Context(), "e", "", kubemq.WithOnEvent(func(*kubemq.Event) {}))
			return err
		},
	} {
		if err := do(); !errors.Is(err, kubemq.ErrClientClosed) {
			t.Errorf("%s: got %v, want ErrClientClosed", name, err)
		}
	}
}

func TestCloseReportsACallbackThatHangs(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c, err := kubemq.NewClientFromAddress(b.addr, kubemq.WithDrainTimeout(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	hang, begun := make(chan struct{}), make(chan bool, 1)
	s, err := c.SubscribeToEvents(t.Context(), "e", "", kubemq.WithOnEvent(func(*kubemq.Event) {
		begun <- true
		<-hang
	}))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, c, "e", "1")
	next(t, "callback", begun)
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "callback still runs") {
		t.Errorf("got %v", err)
	}
	close(hang)
	next(t, "end", closedToValue(s.Done()))
}

func TestCloseAnyTime(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for range 20 {
		c := connect(t, b)
		var g sync.WaitGroup
		ctx := context.Background()
		for _, work := range []func() error{
			func() error { _, err := c.SendQueueMessageSimple(ctx, "q", []byte("x")); return err },
			func() error { _, err := c.PollQueue(ctx, &kubemq.PollRequest{Channel: "q"}); return err },
			func() error {
				r, err := c.NewQueueDownstreamReceiver(ctx)
				if err != nil {
					return err
				}
				resp, err := r.Poll(ctx, &kubemq.PollRequest{Channel: "q"})
				if err == nil {
					_ = resp.AckAll() // may be too late
				}
				return errors.Join(err, r.Close())
			},
			func() error {
				s, err := c.SubscribeToEvents(ctx, "e", "g", kubemq.WithOnEvent(func(*kubemq.Event) {}))
				if err == nil {
					s.Cancel()
					<-s.Done()
				}
				return err
			},
			func() error {
				u, err := c.QueueUpstream(ctx)
				if err == nil {
					u.Close()
					<-u.Done
				}
				return err
			},
			func() error {
				s, err := c.SendEventStream(ctx)
				if err == nil {
					s.Close()
					<-s.Done
				}
				return err
			},
		} {
			g.Go(func() {
				for work() == nil {
				}
			})
		}
		eventually(t, "some work", func() bool { return b.count("SendEventsStream") > 3 })
		b.set(func() { b.seen = nil })
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		g.Wait()
	}
}
