package broker_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"orderd/broker"
)

// The request types, as numbers of the contract.
const (
	get               = 1
	ackAll            = 2
	ackRange          = 3
	nackAll           = 4
	nackRange         = 5
	requeueAll        = 6
	requeueRange      = 7
	activeOffsets     = 8
	transactionStatus = 9
	closeByClient     = 10
	closeByServer     = 11
)

func counts(a *pb.QueuesDownstreamResponse) []int32 {
	var out []int32
	for _, m := range a.Messages {
		out = append(out, m.Attributes.ReceiveCount)
	}
	return out
}

// expect polls and compares bodies and receive counts.
func (c *consumer) expect(queue string, items int32, want string) *pb.QueuesDownstreamResponse {
	c.t.Helper()
	a := c.get(queue, items, 5000)
	if got := fmt.Sprint(bodies(a), counts(a)); got != want {
		c.t.Fatalf("got %s, want %s", got, want)
	}
	return a
}

// expectNone polls and wants nothing to come.
func (c *consumer) expectNone(queue string) {
	c.t.Helper()
	if a := c.get(queue, 10, 50); len(a.Messages) > 0 {
		c.t.Fatalf("got %v, want nothing", bodies(a))
	}
}

// settled waits until nobody holds a message: settlements are silent.
func (r *running) settled() {
	r.t.Helper()
	eventually(r.t, "no message is held", func() bool { return r.broker.Stats().Unacked == 0 })
}

func TestGet_Message(t *testing.T) {
	r := start(t, broker.Options{})
	sent := &pb.QueueMessage{MessageID: "id", ClientID: "me", Channel: "q", Metadata: "meta", Body: []byte("body"), Tags: map[string]string{"k": "v"},
		Policy: &pb.QueueMessagePolicy{ExpirationSeconds: 60, MaxReceiveQueue: "dead"}}
	result, err := r.SendQueueMessage(within(t), sent)
	if err != nil {
		t.Fatal(err)
	}
	c := r.consumer()
	c.request(&pb.QueuesDownstreamRequest{RequestID: "mine", RequestTypeData: get, Channel: "q", MaxItems: 1, WaitTimeout: 1000})
	a := c.answer()
	if a.RefRequestId != "mine" || a.TransactionId == "" || a.TransactionComplete || len(a.Messages) != 1 {
		t.Fatalf("answer %v", a)
	}
	m, at := a.Messages[0], a.Messages[0].Attributes
	if m.MessageID != "id" || m.ClientID != "me" || m.Channel != "q" || m.Metadata != "meta" || string(m.Body) != "body" || m.Tags["k"] != "v" {
		t.Errorf("message %v", m)
	}
	if at.Timestamp != result.SentAt || at.ExpirationAt != result.ExpirationAt || at.Sequence != 1 || at.ReceiveCount != 1 || at.ReRouted || at.DelayedTo != 0 {
		t.Errorf("attributes %v of a message sent as %v", at, result)
	}
	if p := m.Policy; p.MaxReceiveCount != 1024 || p.MaxReceiveQueue != "dead" || p.ExpirationSeconds != 60 {
		t.Errorf("policy %v", p)
	}
}

func TestGet_Waits(t *testing.T) {
	t.Parallel()
	r := start(t, broker.Options{})
	c := r.consumer()
	for _, w := range []struct {
		timeout  int32
		min, max time.Duration
	}{{50, 50 * time.Millisecond, 900 * time.Millisecond}, {0, time.Second, 10 * time.Second}, {-5, time.Second, 10 * time.Second}} {
		begin := time.Now()
		a := c.get("q", 1, w.timeout)
		if took := time.Since(begin); took < w.min || took > w.max {
			t.Errorf("a wait of %d ms took %v", w.timeout, took)
		}
		if len(a.Messages) > 0 || a.TransactionId == "" {
			t.Errorf("empty answer: %v", a)
		}
	}
}

// A poll is answered with the first message, not when it is full.
func TestGet_AnswersAtOnce(t *testing.T) {
	r := start(t, broker.Options{})
	c := r.consumer()
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "q", MaxItems: 10, WaitTimeout: 60_000})
	eventually(t, "the poll waits", func() bool { return r.broker.Stats().Polls == 1 })
	r.send("q", "1")
	if got := fmt.Sprint(bodies(c.answer())); got != "[1]" {
		t.Errorf("got %s", got)
	}
	// And it takes nothing after that.
	r.send("q", "2", "3")
	r.consumer().expect("q", 10, "[2 3] [1 1]")
}

// Requests of a stream are handled while a poll of it waits.
func TestGet_SettlesMeanwhile(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "1")
	c := r.consumer()
	a := c.get("q", 1, 5000)
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "other", MaxItems: 1, WaitTimeout: 60_000})
	c.settle(nackAll, a.TransactionId)
	r.consumer().expect("q", 1, "[1] [2]")
}

func TestGet_ManyWaiting(t *testing.T) {
	r := start(t, broker.Options{})
	c := r.consumer()
	const polls = 500
	for range polls {
		c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "q", MaxItems: 1, WaitTimeout: 60_000})
	}
	eventually(t, "all polls wait", func() bool { return r.broker.Stats().Polls == polls })
	other := r.consumer()
	r.send("another", "x")
	other.expect("another", 1, "[x] [1]")
	for i := range polls {
		r.send("q", fmt.Sprint(i))
	}
	var got []string
	for range polls {
		got = append(got, bodies(c.answer())...)
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != polls {
		t.Errorf("%d messages, want %d", len(got), polls)
	}
}

func TestGet_ClientGone(t *testing.T) {
	r := start(t, broker.Options{})
	for _, auto := range []bool{false, true} {
		c := r.consumer()
		c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "q", MaxItems: 10, WaitTimeout: 60_000, AutoAck: auto})
		eventually(t, "the poll waits", func() bool { return r.broker.Stats().Polls == 1 })
		c.end()
		eventually(t, "the poll ends", func() bool { return r.broker.Stats().Polls == 0 })
		r.send("q", "x")
		c = r.consumer()
		c.settle(ackAll, c.expect("q", 1, "[x] [1]").TransactionId)
		r.settled()
	}
}

// A client that has closed its half of the stream could not settle a message.
func TestGet_HalfClosed(t *testing.T) {
	r := start(t, broker.Options{})
	c := r.consumer()
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "q", MaxItems: 1, WaitTimeout: 60_000})
	eventually(t, "the poll waits", func() bool { return r.broker.Stats().Polls == 1 })
	if err := c.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if a, err := c.stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, %v, want the end of the stream", a, err)
	}
	r.send("q", "x")
	r.consumer().expect("q", 1, "[x] [1]")
}

// Whenever the client goes, a message is delivered or still there.
func TestGet_ClientGoesAnytime(t *testing.T) {
	r := start(t, broker.Options{})
	for i := range scaled(30, 200, 1000) {
		queue := fmt.Sprint("q", i)
		c := r.consumer()
		c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: queue, MaxItems: 10, WaitTimeout: 60_000})
		eventually(t, "the poll waits", func() bool { return r.broker.Stats().Polls == 1 })
		var wg sync.WaitGroup
		wg.Go(func() { r.send(queue, "x") })
		c.end()
		wg.Wait()
		a := r.consumer().get(queue, 1, 5000)
		if len(a.Messages) != 1 {
			t.Fatalf("round %d: the message is gone", i)
		}
	}
}

func scaled(small, ci, full int) int {
	switch os.Getenv("ORDERD_TEST_SIZE") {
	case "ci":
		return ci
	case "full":
		return full
	}
	return small
}

func TestAutoAck(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "1", "2")
	c := r.consumer()
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "q", MaxItems: 1, WaitTimeout: 5000, AutoAck: true})
	if got := fmt.Sprint(bodies(c.answer())); got != "[1]" {
		t.Fatalf("got %s", got)
	}
	r = r.crash()
	c = r.consumer()
	c.expect("q", 10, "[2] [1]")
	// A client that has said all it has to say still gets its answer.
	r.send("other", "x")
	c = r.consumer()
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "other", MaxItems: 1, WaitTimeout: 5000, AutoAck: true})
	if err := c.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(bodies(c.answer())); got != "[x]" {
		t.Errorf("got %s", got)
	}
}

func TestSettle_Range(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "1", "2", "3", "4", "5", "6")
	c := r.consumer()
	id := c.expect("q", 6, "[1 2 3 4 5 6] [1 1 1 1 1 1]").TransactionId
	c.settle(ackRange, id, 2, 5)
	c.settle(activeOffsets, id)
	if a := c.answer(); a.RequestTypeData != activeOffsets || !slices.Equal(a.ActiveOffsets, []int64{1, 3, 4, 6}) {
		t.Errorf("active offsets: %v", a)
	}
	c.settle(nackRange, id, 4, 1)
	other := r.consumer()
	other.expect("q", 10, "[1 4] [2 2]")
	if text := c.refusal(&pb.QueuesDownstreamRequest{RequestTypeData: ackRange, RefTransactionId: id, SequenceRange: []int64{3, 99, 6}}); text != "invalid ack sequence id 99" {
		t.Errorf("unknown sequence: %q", text)
	}
	c.settle(activeOffsets, id)
	if a := c.answer(); !slices.Equal(a.ActiveOffsets, []int64{6}) {
		t.Errorf("after an unknown sequence %v are open, want 6", a.ActiveOffsets)
	}
	if text := c.refusal(&pb.QueuesDownstreamRequest{RequestTypeData: requeueRange, RefTransactionId: id, SequenceRange: []int64{6}}); text != "cannot requeue messages with empty channel destination " {
		t.Errorf("requeue to nowhere: %q", text)
	}
}

func TestSettle_Refusals(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "1", "2")
	c := r.consumer()
	open := c.get("q", 1, 5000).TransactionId
	closed := c.get("q", 1, 5000).TransactionId
	c.settle(ackAll, closed)
	const unknown = "transaction is completed or transaction id not found"
	for _, k := range []struct {
		kind        pb.QueuesDownstreamRequestType
		transaction string
		channel     string
		want        string
	}{
		{ackAll, "nonsense", "", unknown}, {nackRange, "nonsense", "", unknown}, {requeueAll, "nonsense", "q", unknown}, {activeOffsets, "", "", unknown}, {closeByClient, "nonsense", "", unknown},
		{ackAll, closed, "", "cannot ack messages with closed response "}, {nackAll, closed, "", "cannot nack messages with closed response "},
		{requeueAll, closed, "q", "cannot requeue messages with closed response "}, {activeOffsets, closed, "", "cannot get active offsets with closed response "},
		{ackRange, open, "", "cannot ack empty list of of offsets"},
		{requeueAll, open, "", "cannot requeue messages with empty channel destination "},
		{requeueAll, open, "a/b", "Error 120: invalid queue name value, cannot be empty, contains wildcards ,white spaces and end with dot"},
		{0, "", "", "request unknown"}, {transactionStatus, open, "", "request unknown"}, {closeByServer, open, "", "request unknown"},
	} {
		if text := c.refusal(&pb.QueuesDownstreamRequest{RequestTypeData: k.kind, RefTransactionId: k.transaction, ReQueueChannel: k.channel}); text != k.want {
			t.Errorf("%d of %q: %q, want %q", k.kind, k.transaction, text, k.want)
		}
	}
	// Another stream's transaction is none of this one.
	if text := r.consumer().refusal(&pb.QueuesDownstreamRequest{RequestTypeData: ackAll, RefTransactionId: open}); text != unknown {
		t.Errorf("another stream's transaction: %q", text)
	}
	for _, k := range []struct{ client, queue, want string }{{" ", "a/b", "Error 120"}, {" ", "", "Error 120"}, {" ", "a\t", "Error 120"}, {" ", strings.Repeat("x", 201), "Error 120"}} {
		if text := c.refusal(&pb.QueuesDownstreamRequest{RequestTypeData: get, ClientID: k.client, Channel: k.queue}); !strings.HasPrefix(text, k.want+":") {
			t.Errorf("get from %q: %q, want %s", k.queue, text, k.want)
		}
	}
	if err := c.stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "q"}); err != nil {
		t.Fatal(err)
	}
	if a := c.answer(); !a.IsError || a.RequestTypeData != get || !strings.HasPrefix(a.Error, "Error 101:") {
		t.Errorf("get without a client id: %v", a)
	}
	c.settle(ackAll, open)
	r.settled()
}

func TestNAck_KeepsOrder(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "1", "2", "3", "4")
	c := r.consumer()
	c.settle(nackAll, c.expect("q", 3, "[1 2 3] [1 1 1]").TransactionId)
	c.expect("q", 10, "[1 2 3 4] [2 2 2 1]")
}

func TestRequeue(t *testing.T) {
	r := start(t, broker.Options{})
	first := message("q", "1")
	first.Policy = &pb.QueueMessagePolicy{ExpirationSeconds: 60}
	sent := r.sendBatch(&pb.QueueMessagesBatchRequest{Messages: []*pb.QueueMessage{first, message("q", "2")}})
	c := r.consumer()
	c.settle(nackAll, c.expect("q", 2, "[1 2] [1 1]").TransactionId)
	id := c.expect("q", 2, "[1 2] [2 2]").TransactionId
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: requeueAll, RefTransactionId: id, ReQueueChannel: "other"})
	a := c.expect("other", 2, "[1 2] [1 1]")
	at := a.Messages[0].Attributes
	if at.ReRouted || at.ExpirationAt <= sent[0].ExpirationAt || a.Messages[1].Attributes.ExpirationAt != 0 {
		t.Errorf("attributes %v of a message sent as %v", at, sent[0])
	}
	c.expectNone("q")
}

func TestDeadLetter(t *testing.T) {
	r := start(t, broker.Options{})
	lost, kept := message("q", "lost"), message("q", "kept")
	lost.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 2}
	kept.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 2, MaxReceiveQueue: "dead", ExpirationSeconds: 600}
	r.sendBatch(&pb.QueueMessagesBatchRequest{Messages: []*pb.QueueMessage{lost, kept}})
	c := r.consumer()
	c.settle(nackAll, c.expect("q", 2, "[lost kept] [1 1]").TransactionId)
	c.expect("q", 2, "[lost kept] [2 2]")
	c.end() // a consumer that vanishes counts like one that refuses
	c = r.consumer()
	a := c.expect("dead", 10, "[kept] [1]")
	at := a.Messages[0].Attributes
	if !at.ReRouted || at.ReRoutedFromQueue != "q" || at.ExpirationAt != 0 {
		t.Errorf("attributes of a dead letter: %v", at)
	}
	c.expectNone("q")
	// It stays however often it is looked at.
	for range 5 {
		c.settle(nackAll, a.TransactionId)
		a = c.get("dead", 1, 5000)
	}
	if len(a.Messages) != 1 || a.Messages[0].Attributes.ReceiveCount != 6 {
		t.Errorf("after 5 nacks: %v", a)
	}
	// Back on its queue it is what it was.
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: requeueAll, RefTransactionId: a.TransactionId, ReQueueChannel: "q"})
	m := c.expect("q", 1, "[kept] [1]").Messages[0]
	if m.Attributes.ReRouted || m.Attributes.ExpirationAt == 0 || m.Policy.MaxReceiveCount != 2 || m.Policy.MaxReceiveQueue != "dead" {
		t.Errorf("redriven message %v", m)
	}
}

func TestCloseByClient(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "1", "2")
	c := r.consumer()
	c.settle(closeByClient, c.expect("q", 1, "[1] [1]").TransactionId)
	a, b := c.expect("q", 1, "[1] [1]"), c.expect("q", 1, "[2] [1]")
	if a.TransactionId == b.TransactionId {
		t.Error("two polls, one transaction")
	}
	c.settle(closeByClient, "") // all of them
	c.expect("q", 2, "[1 2] [1 1]")
}

// Unsettled messages of a stream that ends come back, before what came later,
// and the delivery counts.
func TestStreamEnds(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "1", "2", "3")
	c := r.consumer()
	c.settle(ackRange, c.expect("q", 2, "[1 2] [1 1]").TransactionId, 1)
	eventually(t, "the acknowledgement is handled", func() bool { return r.broker.Stats().Unacked == 1 })
	c.end()
	r.settled()
	r.consumer().expect("q", 10, "[2 3] [2 1]")
}

func TestDelay(t *testing.T) {
	t.Parallel()
	r := start(t, broker.Options{})
	batch := &pb.QueueMessagesBatchRequest{}
	for range 2_000 { // a KubeMQ server looks at the first 1,024 only
		m := message("q", "late")
		m.MessageID, m.Policy = "same", &pb.QueueMessagePolicy{DelaySeconds: 3600}
		batch.Messages = append(batch.Messages, m)
	}
	r.sendBatch(batch)
	soon := message("q", "soon")
	soon.Policy = &pb.QueueMessagePolicy{DelaySeconds: 1}
	sent := r.sendBatch(&pb.QueueMessagesBatchRequest{Messages: []*pb.QueueMessage{soon}})[0]
	c := r.consumer()
	a := c.expect("q", 10, "[soon] [1]")
	if late := time.Now().UnixNano() - sent.DelayedTo; late < 0 || late > int64(200*time.Millisecond) {
		t.Errorf("received %v after it was due", time.Duration(late))
	}
	if at := a.Messages[0].Attributes.DelayedTo; at != sent.DelayedTo {
		t.Errorf("delayed to %d, want %d", at, sent.DelayedTo)
	}
	if s := r.broker.Stats(); s.Delayed != 2_000 || s.Waiting != 0 || s.Unacked != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestExpiration(t *testing.T) {
	t.Parallel()
	r := start(t, broker.Options{})
	var batch pb.QueueMessagesBatchRequest
	for _, body := range []string{"held", "waits", "stays"} {
		m := message("q", body)
		if body != "stays" {
			m.Policy = &pb.QueueMessagePolicy{ExpirationSeconds: 1}
		}
		batch.Messages = append(batch.Messages, m)
	}
	r.sendBatch(&batch)
	c := r.consumer()
	id := c.expect("q", 1, "[held] [1]").TransactionId
	eventually(t, "the waiting message expires", func() bool { return r.broker.Stats().Waiting == 1 })
	c.settle(nackAll, id) // it is overdue and does not come back
	c.expect("q", 10, "[stays] [1]")
}
