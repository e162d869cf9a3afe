package kubemq_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubemq-io/kubemq-go/v2"
)

// size scales the tests of this file.
func size() int {
	switch os.Getenv("ORDERD_TEST_SIZE") {
	case "full":
		return 50
	case "ci":
		return 5
	default:
		return 1
	}
}

// ruin breaks streams, and now and then the broker, until ctx ends.
func ruin(ctx context.Context, b *broker) (ended <-chan bool) {
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			if i%5 == 4 {
				b.stop()
				b.start()
			} else {
				b.breakStreams(status.Error(codes.Internal, "broken for a test"))
			}
			time.Sleep(time.Duration(1+rand.IntN(10)) * time.Millisecond) // give work a chance
		}
	}()
	return done
}

// Ensure that a stored event is neither lost nor repeated while streams and the
// broker break at any moment.
func TestStoreOverFailures(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	_, in := subscribeStore(t, c, "e", kubemq.StartFromNewEvents())
	b.publish(&pb.Event{EventID: "first", Channel: "e", Metadata: "m", Store: true})
	in.want(t, "first") // before there is one, events may come twice
	ctx, stop := context.WithCancel(t.Context())
	ended := ruin(ctx, b)
	n := 300 * size()
	for i := range n {
		b.publish(&pb.Event{EventID: strconv.Itoa(i), Channel: "e", Metadata: "m", Store: true})
		in.want(t, strconv.Itoa(i))
	}
	stop()
	<-ended
	if len(in.events) != 0 {
		t.Errorf("%d events too many", len(in.events))
	}
	if got := get(b, func() int { return len(b.subscribed) }); got < 3 {
		t.Errorf("only %d streams, the test shows nothing", got)
	}
}

// Ensure that every message is processed and none stays behind while streams
// and the broker break at any moment.
func TestQueueOverFailures(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	n := 300 * size()
	for i := range n {
		b.put(&pb.QueueMessage{MessageID: strconv.Itoa(i), Channel: "q", Metadata: "m"})
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := ruin(ctx, b)
	got := make(chan string, 100)
	for range 3 {
		r := newReceiver(t, c)
		go work(ctx, r, got)
	}
	seen := map[string]bool{}
	for len(seen) < n {
		seen[next(t, "message", got)] = true
	}
	stop()
	<-ended
	// What was acknowledged when its stream broke may be there once more.
	r := newReceiver(t, c)
	eventually(t, "empty queue", func() bool {
		resp, err := r.Poll(t.Context(), &kubemq.PollRequest{Channel: "q", MaxItems: 1000})
		if err != nil {
			return false
		}
		for _, id := range ids(resp) {
			if !seen[id] {
				t.Errorf("message %s out of nothing", id)
			}
		}
		return resp.AckAll() == nil && len(resp.Messages) == 0
	})
	wantIDs(t, b.queued("q"))
}

// work takes messages and tells their ids until ctx ends.
func work(ctx context.Context, r *kubemq.QueueDownstreamReceiver, got chan<- string) {
	defer func() { _ = r.Close() }() // always nil
	for ctx.Err() == nil {
		resp, err := r.Poll(ctx, &kubemq.PollRequest{Channel: "q", MaxItems: 5})
		if err != nil {
			continue
		}
		for i, m := range resp.Messages {
			if i == 3 {
				_ = m.Nack() // if the stream is gone it comes back as well
				continue
			}
			if m.Ack() != nil {
				continue
			}
			select {
			case got <- m.Message.ID:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Ensure that a Poll does not wait for a lost connection longer than its
// context, and works again afterwards.
func TestPollWhileDown(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	b.stop()
	eventually(t, "loss", func() bool { return c.State() == kubemq.StateReconnecting })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := r.Poll(ctx, &kubemq.PollRequest{Channel: "q"}); err == nil {
		t.Fatal("no error")
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	b.start()
	send(t, c, "q", "1")
	wantIDs(t, ids(poll(t, r, "q", 1)), "1")
}
