package kubemq_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/kubemq-io/kubemq-go/v2"
)

func send(tb testing.TB, c *kubemq.Client, channel string, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		r, err := c.SendQueueMessage(context.Background(), kubemq.NewQueueMessage().SetId(id).SetChannel(channel).SetBody([]byte(id)))
		if err != nil || r.IsError || r.MessageID != id {
			tb.Fatalf("send %s: got %+v, %v", id, r, err)
		}
	}
}

func newReceiver(tb testing.TB, c *kubemq.Client) *kubemq.QueueDownstreamReceiver {
	tb.Helper()
	r, err := c.NewQueueDownstreamReceiver(context.Background())
	if err != nil {
		tb.Fatalf("new receiver: %v", err)
	}
	return r
}

func poll(tb testing.TB, r *kubemq.QueueDownstreamReceiver, channel string, max int32) *kubemq.PollResponse {
	tb.Helper()
	resp, err := r.Poll(context.Background(), &kubemq.PollRequest{Channel: channel, MaxItems: max, WaitTimeoutSeconds: 1})
	if err != nil || resp.IsError {
		tb.Fatalf("poll: got %+v, %v", resp, err)
	}
	return resp
}

func ids(r *kubemq.PollResponse) []string {
	var out []string
	for _, m := range r.Messages {
		out = append(out, m.Message.ID)
	}
	return out
}

func wantIDs(tb testing.TB, got []string, want ...string) {
	tb.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		tb.Fatalf("got ids %q, want %q", got, want)
	}
}

func TestSendAndReceive(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithClientId("me"))
	m := kubemq.NewQueueMessage().SetChannel("q").SetMetadata("meta").SetBody([]byte("body")).
		SetTags(map[string]string{"a": "1"}).AddTag("b", "2").
		SetExpirationSeconds(300).SetMaxReceiveCount(5).SetMaxReceiveQueue("q.dlq")
	res, err := c.SendQueueMessage(t.Context(), m)
	if err != nil || res.IsError || res.MessageID == "" || res.SentAt == 0 || res.ExpirationAt-res.SentAt != int64(300*time.Second) {
		t.Fatalf("send: got %+v, %v", res, err)
	}
	r := newReceiver(t, c)
	resp := poll(t, r, "q", 10)
	if len(resp.Messages) != 1 || resp.TransactionID == "" {
		t.Fatalf("poll: got %+v", resp)
	}
	got := resp.Messages[0]
	if got.Message.ID != res.MessageID || got.Message.ClientID != "me" || got.Message.Metadata != "meta" || string(got.Message.Body) != "body" ||
		got.Message.Tags["a"] != "1" || got.Message.Tags["b"] != "2" || got.Sequence != 1 || got.Message.Attributes.ReceiveCount != 1 ||
		*got.Message.Policy != (kubemq.QueuePolicy{ExpirationSeconds: 300, MaxReceiveCount: 5, MaxReceiveQueue: "q.dlq"}) {
		t.Fatalf("received %v, policy %+v, attributes %+v", got.Message, got.Message.Policy, got.Message.Attributes)
	}
	if err := got.Ack(); err != nil {
		t.Fatalf("ack: %v", err)
	}
	if err := got.Ack(); !errors.Is(err, kubemq.ErrValidation) {
		t.Fatalf("second ack: got %v, want ErrValidation", err)
	}
	if resp := poll(t, r, "q", 10); len(resp.Messages) != 0 {
		t.Fatalf("after ack: got %q", ids(resp))
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	send(t, c, "q", "1", "2", "3", "4")
	resp := poll(t, r, "q", 4)
	wantIDs(t, ids(resp), "1", "2", "3", "4")
	for i, settle := range []func() error{
		resp.Messages[0].Ack, resp.Messages[1].Nack,
		func() error { return resp.Messages[2].ReQueue("other") },
	} {
		if err := settle(); err != nil {
			t.Fatalf("settle %d: %v", i, err)
		}
	}
	if err := resp.Messages[3].ReQueue(""); !errors.Is(err, kubemq.ErrValidation) {
		t.Fatalf("requeue to nowhere: got %v", err)
	}
	back := poll(t, r, "q", 4)
	wantIDs(t, ids(back), "2")
	if n := back.Messages[0].Message.Attributes.ReceiveCount; n != 2 {
		t.Errorf("receive count after nack: got %d, want 2", n)
	}
	wantIDs(t, ids(poll(t, r, "other", 4)), "3")
	if err := resp.ReQueueAll("third"); err != nil {
		t.Fatal(err)
	}
	rest := poll(t, r, "third", 4)
	wantIDs(t, ids(rest), "4")
	if err := rest.NackAll(); err != nil {
		t.Fatal(err)
	}
	again := poll(t, r, "third", 4)
	wantIDs(t, ids(again), "4")
	if err := again.AckAll(); err != nil {
		t.Fatal(err)
	}
	if err := again.NackAll(); err != nil { // nothing is left to settle
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	// What was settled stays so, what was not comes back with the stream's end.
	wantIDs(t, b.queued("q"), "2")
	wantIDs(t, b.queued("other"), "3")
	wantIDs(t, b.queued("third"))
	if err, open := <-r.Errors(); open {
		t.Fatalf("unexpected error: %v", err)
	}
}

// Ensure that what is settled just before Close reaches the broker.
func TestCloseDeliversSettlements(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	for range 20 {
		send(t, c, "q", "1", "2", "3")
		r := newReceiver(t, c)
		resp := poll(t, r, "q", 3)
		for _, m := range resp.Messages {
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		wantIDs(t, b.queued("q"))
	}
}

func TestEmptyPollIsNormal(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	begun := time.Now()
	resp, err := r.Poll(t.Context(), &kubemq.PollRequest{Channel: "q"}) // zero values mean 1 and 1 s
	if err != nil || resp.IsError || len(resp.Messages) != 0 {
		t.Fatalf("got %+v, %v", resp, err)
	}
	if took := time.Since(begun); took < 900*time.Millisecond {
		t.Errorf("answer after %s, want 1 s", took)
	}
	req := get(b, func() *pb.QueuesDownstreamRequest { return b.requests[0] })
	if req.MaxItems != 1 || req.WaitTimeout != 1000 || req.AutoAck {
		t.Errorf("request on the wire: %v", req)
	}
	if resp.AckAll() != nil {
		t.Error("AckAll of nothing must do nothing")
	}
}

// Ensure that a transaction that a broker left open after an early empty answer
// is closed.
func TestEarlyEmptyAnswerIsReleased(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.set(func() { b.earlyNone = true })
	c := connect(t, b)
	poll(t, newReceiver(t, c), "q", 1)
	eventually(t, "CloseByClient", func() bool {
		return get(b, func() bool {
			last := b.requests[len(b.requests)-1]
			return last.RequestTypeData == pb.QueuesDownstreamRequestType_CloseByClient && last.RefTransactionId == "empty"
		})
	})
}

func TestRefusedPoll(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r := newReceiver(t, c)
	resp, err := r.Poll(t.Context(), &kubemq.PollRequest{Channel: "refused"})
	if err != nil || !resp.IsError || resp.Error != "Error 121: cannot subscribe to a queue" {
		t.Fatalf("got %+v, %v", resp, err)
	}
	send(t, c, "q", "1")
	wantIDs(t, ids(poll(t, r, "q", 1)), "1")
	if n := b.count("QueuesDownstream"); n != 1 {
		t.Errorf("streams: got %d, want the same one", n)
	}
}

// Ensure that nobody is held up when refusals are not read.
// Ensure that a Poll whose context ends leaves nothing behind that could take a
// message, whether or not the broker notices that the client has gone.
func TestSendBatch(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	msgs := c.NewQueueMessages().
		Add(c.NewQueueMessage().SetChannel("q").SetId("1").SetMetadata("x")).
		Add(c.NewQueueMessage().SetChannel("q").SetId("2").SetMetadata("x").AddTag("refuse", "not this")).
		Add(c.NewQueueMessage().SetChannel("q").SetId("3").SetMetadata("x"))
	rs, err := c.SendQueueMessages(t.Context(), msgs.Messages)
	if err != nil || len(rs) != 3 || rs[0].IsError || !rs[1].IsError || rs[1].Error != "not this" || rs[2].IsError {
		t.Fatalf("got %+v, %v", rs, err)
	}
	wantIDs(t, b.queued("q"), "1", "3")
	if _, err := c.SendQueueMessages(t.Context(), nil); !errors.Is(err, kubemq.ErrValidation) {
		t.Errorf("empty batch: got %v", err)
	}
	ack, err := c.AckAllQueueMessages(t.Context(), &kubemq.AckAllQueueMessagesRequest{Channel: "q", WaitTimeSeconds: 1})
	if err != nil || ack.AffectedMessages != 2 || ack.IsError {
		t.Fatalf("ack all: got %+v, %v", ack, err)
	}
}

func TestSendSimple(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	r, err := c.SendQueueMessageSimple(t.Context(), "q", []byte("x"), kubemq.WithDelay(3), kubemq.WithExpiration(60), kubemq.WithMaxReceive(4, "dead"))
	if err != nil || r.DelayedTo-r.SentAt != int64(3*time.Second) {
		t.Fatalf("got %+v, %v", r, err)
	}
	p := get(b, func() *pb.QueueMessagePolicy { return b.queues["q"][0].Policy })
	if p.DelaySeconds != 3 || p.ExpirationSeconds != 60 || p.MaxReceiveCount != 4 || p.MaxReceiveQueue != "dead" {
		t.Errorf("policy on the wire: %v", p)
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	ok := func() *kubemq.QueueMessage { return kubemq.NewQueueMessage().SetChannel("q").SetMetadata("m") }
	for name, m := range map[string]*kubemq.QueueMessage{
		"nil":            nil,
		"no channel":     ok().SetChannel(""),
		"wildcard":       ok().SetChannel("a.*"),
		"white space":    ok().SetChannel("a\tb"),
		"ends with dot":  ok().SetChannel("a."),
		"empty":          ok().SetMetadata(""),
		"delay":          ok().SetDelaySeconds(-1),
		"expiration":     ok().SetExpirationSeconds(1 << 40),
		"receive count":  ok().SetMaxReceiveCount(-1),
		"bad dead queue": ok().SetMaxReceiveQueue("a b"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.SendQueueMessage(t.Context(), m)
			var e *kubemq.KubeMQError
			if !errors.Is(err, kubemq.ErrValidation) || !errors.As(err, &e) || e.Code != kubemq.ErrCodeValidation || e.IsRetryable {
				t.Fatalf("got %v, want ErrValidation", err)
			}
		})
	}
	if n := b.count("SendQueueMessage"); n != 0 {
		t.Errorf("%d invalid messages reached the broker", n)
	}
}

func TestDefaultChannel(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithDefaultChannel("home"))
	if _, err := c.SendQueueMessage(t.Context(), kubemq.NewQueueMessage().SetId("1").SetBody([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, ids(poll(t, newReceiver(t, c), "", 1)), "1")
}
