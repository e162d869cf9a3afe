package kubemq_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubemq-io/kubemq-go/v2"
)

func TestRefusedSettlement(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	send(t, c, "q", "1")
	resp := poll(t, r, "q", 1)
	b.set(func() { b.refuse = "no way" })
	if err := resp.Messages[0].Ack(); err != nil {
		t.Fatalf("ack: %v", err)
	}
	err := next(t, "refusal", r.Errors())
	var e *kubemq.KubeMQError
	if !errors.As(err, &e) || e.Operation != "Ack" || e.Message != "no way" || e.RequestID != resp.TransactionID+"/1" {
		t.Fatalf("got %#v", err)
	}
}

func TestRefusalsNeverBlock(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	b.set(func() { b.refuse = "no" })
	for range 200 {
		send(t, c, "q", "x")
		if err := poll(t, r, "q", 1).AckAll(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.Errors()); n == 0 {
		t.Error("no refusal kept")
	}
}

func TestPollSurvivesRestart(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	send(t, c, "q", "1", "2")
	held := poll(t, r, "q", 1)
	wantIDs(t, ids(held), "1")

	failed := make(chan error, 1)
	go func() {
		_, err := r.Poll(context.Background(), &kubemq.PollRequest{Channel: "none", WaitTimeoutSeconds: 30})
		failed <- err
	}()
	eventually(t, "second poll", func() bool { return get(b, func() bool { return len(b.requests) == 2 }) })
	b.stop()
	var e *kubemq.KubeMQError
	if err := next(t, "failed poll", failed); !errors.As(err, &e) || e.Code != kubemq.ErrCodeTransient || !e.IsRetryable {
		t.Fatalf("poll under way: got %v, want a transient error", err)
	}
	var broken *kubemq.StreamBrokenError
	if err := held.Messages[0].Ack(); !errors.As(err, &broken) || !slices.Equal(broken.UnacknowledgedIDs, []string{"1"}) {
		t.Fatalf("ack of an old stream: got %v", err)
	}
	if err := next(t, "report", r.Errors()); !errors.As(err, &broken) || !slices.Equal(broken.UnacknowledgedIDs, []string{"1"}) {
		t.Fatalf("report: got %v", err)
	}
	b.start()
	wantIDs(t, ids(poll(t, r, "q", 10)), "1", "2")
}

func TestPollSurvivesBrokenStream(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.OK, codes.Internal, codes.Unavailable, codes.Unimplemented} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			c := connect(t, b)
			r := newReceiver(t, c)
			for i := range 5 {
				send(t, c, "q", "1")
				// The client learns of a broken stream a moment later, or during
				// this poll.
				var resp *kubemq.PollResponse
				eventually(t, "poll on a new stream", func() bool {
					var err error
					resp, err = r.Poll(t.Context(), &kubemq.PollRequest{Channel: "q", WaitTimeoutSeconds: 1})
					return err == nil && len(resp.Messages) == 1
				})
				if err := resp.AckAll(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "settled", func() bool {
					return get(b, func() bool { return b.settled == i+1 })
				})
				b.breakStreams(status.Error(code, "broken for a test"))
			}
		})
	}
}

func TestPollContextEnds(t *testing.T) {
	t.Parallel()
	for name, deaf := range map[string]bool{"attentive broker": false, "deaf broker": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			b.set(func() { b.deaf = deaf })
			c := connect(t, b)
			r := newReceiver(t, c)
			send(t, c, "held", "h")
			held := poll(t, r, "held", 1)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := r.Poll(ctx, &kubemq.PollRequest{Channel: "q", WaitTimeoutSeconds: 60})
				failed <- err
			}()
			eventually(t, "poll", func() bool { return get(b, func() bool { return len(b.requests) == 2 }) })
			cancel()
			if err := next(t, "cancelled poll", failed); !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v, want context.Canceled", err)
			}
			if held.Messages[0].Ack() == nil {
				t.Error("ack on the stream that was given up must fail")
			}
			eventually(t, "held message back", func() bool { return len(b.queued("held")) == 1 })
			send(t, c, "q", "1")
			wantIDs(t, ids(poll(t, r, "q", 1)), "1")
		})
	}
}

func TestPollDeadline(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := r.Poll(ctx, &kubemq.PollRequest{Channel: "q", WaitTimeoutSeconds: 60})
	var e *kubemq.KubeMQError
	if !errors.As(err, &e) || e.Code != kubemq.ErrCodeTimeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a timeout", err)
	}
}

func TestConcurrentPollsTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	const n = 50
	for range n {
		send(t, c, "q", "x")
	}
	got := make(chan error, n)
	for range n {
		go func() {
			resp, err := r.Poll(context.Background(), &kubemq.PollRequest{Channel: "q", MaxItems: 1})
			if err == nil && len(resp.Messages) != 1 {
				err = errors.New("empty")
			}
			if err == nil {
				err = resp.Messages[0].Ack()
			}
			got <- err
		}()
	}
	for range n {
		if err := next(t, "poll", got); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, b.queued("q"))
}

func TestCloseReceiverDuringPoll(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	failed := make(chan error, 1)
	go func() {
		_, err := r.Poll(context.Background(), &kubemq.PollRequest{Channel: "q", WaitTimeoutSeconds: 60})
		failed <- err
	}()
	eventually(t, "poll", func() bool { return get(b, func() bool { return len(b.requests) == 1 }) })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := next(t, "poll", failed); err == nil || errors.Is(err, kubemq.ErrClientClosed) {
		t.Fatalf("poll under way: got %v, want receiver closed", err)
	}
	if _, err := r.Poll(t.Context(), &kubemq.PollRequest{Channel: "q"}); err == nil {
		t.Fatal("poll after close must fail")
	}
	if err := r.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
}

func TestPollQueueAutoAcks(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	send(t, c, "q", "1", "2")
	resp, err := c.PollQueue(t.Context(), &kubemq.PollRequest{Channel: "q", MaxItems: 5, WaitTimeoutSeconds: 10, AutoAck: false})
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, ids(resp), "1", "2")
	if !get(b, func() bool { return b.requests[0].AutoAck }) {
		t.Error("AutoAck is not on the wire")
	}
	if err := resp.AckAll(); err != nil {
		t.Errorf("AckAll: %v", err)
	}
	if err := resp.Messages[0].Ack(); err != nil {
		t.Errorf("Ack: %v", err)
	}
	if err := resp.Messages[0].Nack(); !errors.Is(err, kubemq.ErrValidation) {
		t.Errorf("Nack: got %v, want ErrValidation", err)
	}
	if n := get(b, func() int { return len(b.requests) }); n != 1 {
		t.Errorf("requests on the wire: got %d, want 1", n)
	}
}
