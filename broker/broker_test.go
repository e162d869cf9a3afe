package broker_test

import (
	"context"
	"errors"

	"fmt"
	"os"
	"path/filepath"

	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"orderd/broker"
	"orderd/broker/store"
)

// patience bounds every wait for something that must happen.
const patience = 2 * time.Minute

// running is a broker that runs, and a client of it.
type running struct {
	pb.KubemqClient
	t      testing.TB
	dir    string
	broker *broker.Broker
	conn   *grpc.ClientConn
	stop   func()
}

// start runs a broker over the store in dir until the test ends or stop is
// called.
func start(t testing.TB, o broker.Options) *running {
	t.Helper()
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.DataDir == "" {
		o.DataDir = t.TempDir()
	}
	b, err := broker.Open(o, zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, dir: o.DataDir, broker: b}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	r.conn = dial(t, b.Addr())
	r.KubemqClient = pb.NewKubemqClient(r.conn)
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run returned %v", err)
			}
		case <-time.After(patience):
			t.Error("Run does not return")
		}
		_ = r.conn.Close()
		r.check()
	}
	t.Cleanup(r.stop)
	return r
}

// check verifies the store of a broker that has stopped.
func (r *running) check() {
	r.t.Helper()
	s, err := store.Open(filepath.Join(r.dir, "log"), store.Options{})
	if err == nil {
		err = errors.Join(s.Check(), s.Close())
	}
	if err != nil {
		r.t.Errorf("the store after the stop: %v", err)
	}
}

// restart stops the broker and runs another over the same store.
func (r *running) restart() *running {
	r.t.Helper()
	r.stop()
	return start(r.t, broker.Options{DataDir: r.dir})
}

// crash runs another broker over what is on disk at this moment, as after kill
// -9. The old one keeps running beside it.
func (r *running) crash() *running {
	r.t.Helper()
	dir := r.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		r.t.Fatal(err)
	}
	return start(r.t, broker.Options{DataDir: dir})
}

func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(100<<20), grpc.MaxCallSendMsgSize(110<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// within returns a context that ends with the test's patience.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until what is true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func message(queue, body string) *pb.QueueMessage {
	return &pb.QueueMessage{ClientID: "tester", Channel: queue, Body: []byte(body)}
}

// send puts bodies on a queue, in order.
func (r *running) send(queue string, bodies ...string) {
	r.t.Helper()
	batch := &pb.QueueMessagesBatchRequest{BatchID: "b"}
	for _, body := range bodies {
		batch.Messages = append(batch.Messages, message(queue, body))
	}
	r.sendBatch(batch)
}

func (r *running) sendBatch(batch *pb.QueueMessagesBatchRequest) []*pb.SendQueueMessageResult {
	r.t.Helper()
	answer, err := r.SendQueueMessagesBatch(within(r.t), batch)
	if err != nil {
		r.t.Fatal(err)
	}
	if answer.HaveErrors {
		r.t.Fatalf("batch refused: %v", answer)
	}
	return answer.Results
}

// consumer is a QueuesDownstream stream.
type consumer struct {
	t      testing.TB
	stream pb.Kubemq_QueuesDownstreamClient
	cancel func()
	n      int
}

func (r *running) consumer() *consumer {
	r.t.Helper()
	ctx, cancel := context.WithCancel(within(r.t))
	stream, err := r.QueuesDownstream(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(cancel)
	return &consumer{t: r.t, stream: stream, cancel: cancel}
}

func (c *consumer) request(r *pb.QueuesDownstreamRequest) {
	c.t.Helper()
	if r.ClientID == "" {
		r.ClientID = "consumer"
	}
	if r.RequestID == "" {
		c.n++
		r.RequestID = fmt.Sprint("r", c.n)
	}
	if err := c.stream.Send(r); err != nil {
		c.t.Fatal(err)
	}
}

func (c *consumer) answer() *pb.QueuesDownstreamResponse {
	c.t.Helper()
	a, err := c.stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *consumer) get(queue string, items, waitMs int32) *pb.QueuesDownstreamResponse {
	c.t.Helper()
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: 1, Channel: queue, MaxItems: items, WaitTimeout: waitMs})
	a := c.answer()
	if a.IsError || a.RequestTypeData != 1 {
		c.t.Fatalf("get answered %v", a)
	}
	return a
}

func (c *consumer) settle(kind pb.QueuesDownstreamRequestType, transaction string, seqs ...int64) {
	c.t.Helper()
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: kind, RefTransactionId: transaction, SequenceRange: seqs})
}

// refusal sends a request that must be refused and returns the text.
func (c *consumer) refusal(r *pb.QueuesDownstreamRequest) string {
	c.t.Helper()
	c.request(r)
	a := c.answer()
	if !a.IsError || a.RefRequestId != r.RequestID {
		c.t.Fatalf("%v answered %v, want a refusal", r, a)
	}
	return a.Error
}

// end breaks the stream and waits until that is over.
func (c *consumer) end() {
	c.cancel()
	for {
		if _, err := c.stream.Recv(); err != nil {
			return
		}
	}
}

func bodies(a *pb.QueuesDownstreamResponse) []string {
	var out []string
	for _, m := range a.Messages {
		out = append(out, string(m.Body))
	}
	return out
}

func TestBroker_EndToEnd(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "a", "b", "c")
	c := r.consumer()
	a := c.get("q", 2, 5000)
	if got := fmt.Sprint(bodies(a)); got != "[a b]" {
		t.Fatalf("got %s", got)
	}
	c.settle(2, a.TransactionId)
	if got := fmt.Sprint(bodies(c.get("q", 2, 5000))); got != "[c]" {
		t.Fatalf("got %s", got)
	}
	c.end()
	r = r.restart()
	a = r.consumer().get("q", 10, 5000)
	if got := fmt.Sprint(bodies(a)); got != "[c]" || a.Messages[0].Attributes.ReceiveCount != 2 {
		t.Fatalf("got %v", a)
	}
}
