package queue_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kubemq-io/kubemq-go/v2"
	"github.com/rs/zerolog"

	"orderd/broker"
	"orderd/orders"
	"orderd/queue"
)

// running is a broker under test.
type running struct {
	addr string
	dir  string
	stop func()
}

func startBroker(t *testing.T, addr, dir string) *running {
	t.Helper()
	b, err := broker.Open(broker.Options{Addr: addr, DataDir: dir}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	var once sync.Once
	r := &running{addr: b.Addr(), dir: dir}
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("broker: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

var options = queue.Options{OrdersChannel: "orders", RetryChannel: "orders.retry", DLQChannel: "orders.dlq", PollMaxItems: 5, PollWait: time.Second, MaxReceiveCount: 5}

func mustQueue(t *testing.T, addr string, remote bool) *queue.Queue {
	t.Helper()
	dial, err := queue.NewDial(queue.Connection{Address: addr}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	q := queue.New(options, remote, dial, "test", zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel))
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return q
}

func dispatch(kind orders.DispatchKind, id string) orders.Dispatch {
	return orders.Dispatch{Kind: kind, OrderID: id, Customer: "alice@example.com", Round: 1, Left: time.Minute, ExpiresAt: 1,
		Body: fmt.Appendf(nil, `{"orderId":%q,"customer":"alice@example.com","items":1,"total":1.00,"createdAt":1}`, id)}
}

func mustSend(t *testing.T, q *queue.Queue, ds ...orders.Dispatch) {
	t.Helper()
	sent, unsent, err := q.Send(t.Context(), ds)
	if err != nil || len(sent) != len(ds) || len(unsent) != 0 {
		t.Fatalf("sent %d, unsent %d, %v", len(sent), len(unsent), err)
	}
}

// next polls until n messages have come.
func next(t *testing.T, r *queue.Receiver, n int) []*queue.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out []*queue.Message
	for len(out) < n {
		msgs, err := r.Poll(ctx, n-len(out))
		if err != nil {
			t.Fatalf("poll: %v after %d of %d messages", err, len(out), n)
		}
		out = append(out, msgs...)
	}
	return out
}

func ids(msgs []*queue.Message) []string {
	var out []string
	for _, m := range msgs {
		out = append(out, m.Order.ID)
	}
	return out
}

func mustReceiver(t *testing.T, q *queue.Queue, c queue.Channel) *queue.Receiver {
	t.Helper()
	r := q.NewReceiver(c)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close receiver: %v", err)
		}
	})
	return r
}

func TestQueue(t *testing.T) {
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprint("remote ", remote), func(t *testing.T) {
			t.Parallel()
			q := mustQueue(t, startBroker(t, "127.0.0.1:0", t.TempDir()).addr, remote)
			if got := q.State(); got != "connecting" {
				t.Errorf("state before use: %s", got)
			}
			dead := dispatch(orders.DispatchDeadLetter, "d")
			dead.Reason, dead.ExpiresAt, dead.Round = "card refused", 0, 2
			mustSend(t, q, dispatch(orders.DispatchOrder, "a"), dispatch(orders.DispatchRetry, "b"), dead, dispatch(orders.DispatchOrder, "c"))
			if got := q.State(); got != "ok" {
				t.Errorf("state: %s", got)
			}
			r := mustReceiver(t, q, queue.Orders)
			msgs := next(t, r, 2)
			if diff := cmp.Diff([]string{"a", "c"}, ids(msgs)); diff != "" {
				t.Error(diff)
			}
			m := msgs[0]
			if m.Retry || m.Origin != orders.Origin || m.Round != 1 || m.DecodeErr != nil || m.ExpiresAt == 0 || m.MessageID == "" {
				t.Errorf("message: %+v", m.Arrival)
			}
			if r.HoldsNothing() {
				t.Error("two messages are held")
			}
			for _, m := range msgs {
				if err := m.Ack(); err != nil {
					t.Error(err)
				}
			}
			if !r.HoldsNothing() {
				t.Error("acked messages are held")
			}
			if got := next(t, mustReceiver(t, q, queue.Retry), 1)[0]; !got.Retry || got.Order.ID != "b" {
				t.Errorf("retry: %+v", got.Arrival)
			}
			if got := next(t, mustReceiver(t, q, queue.DeadLetters), 1)[0]; got.Reason != "card refused" || got.ExpiresAt != 0 || got.Round != 2 {
				t.Errorf("dead letter: %+v", got.Arrival)
			}
			if msgs, err := r.Poll(t.Context(), 5); err != nil || len(msgs) != 0 || !r.Empty() {
				t.Errorf("empty: %v, %v, %v", msgs, err, r.Empty())
			}
		})
	}
}

// A stream that closes gives its messages back.
func TestReceiver_Close(t *testing.T) {
	t.Parallel()
	q := mustQueue(t, startBroker(t, "127.0.0.1:0", t.TempDir()).addr, false)
	mustSend(t, q, dispatch(orders.DispatchOrder, "a"), dispatch(orders.DispatchOrder, "b"))
	first := q.NewReceiver(queue.Orders)
	msgs := next(t, first, 2)
	if err := msgs[1].Ack(); err != nil {
		t.Fatal(err)
	}
	// A poll under way ends.
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := first.Poll(t.Context(), 1); err != nil {
				ended <- err
				return
			}
		}
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("poll of a closed receiver: no error")
	}
	if err := msgs[0].Ack(); err == nil {
		t.Error("ack on a closed receiver: no error")
	}
	if diff := cmp.Diff([]string{"a"}, ids(next(t, mustReceiver(t, q, queue.Orders), 1))); diff != "" {
		t.Error(diff)
	}
}

// The broker goes away and comes back: nobody has to be told.
func TestQueue_brokerRestarts(t *testing.T) {
	t.Parallel()
	b := startBroker(t, "127.0.0.1:0", t.TempDir())
	q := mustQueue(t, b.addr, false)
	r := mustReceiver(t, q, queue.Orders)
	mustSend(t, q, dispatch(orders.DispatchOrder, "a"))
	held := next(t, r, 1)[0]
	b.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if sent, unsent, err := q.Send(ctx, []orders.Dispatch{dispatch(orders.DispatchOrder, "b")}); err == nil || len(sent) != 0 || len(unsent) != 1 {
		t.Errorf("without a broker: sent %d, unsent %d, %v", len(sent), len(unsent), err)
	}
	startBroker(t, b.addr, b.dir)
	_ = held.Ack() // v2.0.4 of the SDK does not say that this came too late
	mustSend(t, q, dispatch(orders.DispatchOrder, "b"))
	if diff := cmp.Diff([]string{"a", "b"}, ids(next(t, r, 2))); diff != "" {
		t.Error(diff)
	}
}

func TestPoll_context(t *testing.T) {
	t.Parallel()
	q := mustQueue(t, startBroker(t, "127.0.0.1:0", t.TempDir()).addr, false)
	r := mustReceiver(t, q, queue.Orders)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for {
		if _, err := r.Poll(ctx, 1); err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			break
		}
	}
	// What is sent afterwards is not swallowed by the poll that was cut off.
	mustSend(t, q, dispatch(orders.DispatchOrder, "a"))
	if got := next(t, r, 1); got[0].Order.ID != "a" {
		t.Errorf("got %v", ids(got))
	}
}

func TestNewDial(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "host", "host:0", "host:70000", "host:x"} {
		if _, err := queue.NewDial(queue.Connection{Address: address}, zerolog.Nop()); err == nil {
			t.Errorf("%q: no error", address)
		}
	}
	// Nobody there: it tries until the context ends.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dial, err := queue.NewDial(queue.Connection{Address: address}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := dial(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	// A broker that starts later is found.
	found := make(chan *kubemq.Client, 1)
	go func() {
		c, err := dial(t.Context(), "y")
		if err != nil {
			t.Error(err)
		}
		found <- c
	}()
	startBroker(t, address, t.TempDir())
	select {
	case c := <-found:
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the broker was not found")
	}
}
