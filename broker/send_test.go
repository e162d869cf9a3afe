package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"orderd/broker"
)

func TestSendQueueMessage_Result(t *testing.T) {
	r := start(t, broker.Options{})
	before := time.Now().UnixNano()
	m := message("q", "x")
	m.Attributes = &pb.QueueMessageAttributes{ReceiveCount: 9, Sequence: 9}
	m.Policy = &pb.QueueMessagePolicy{ExpirationSeconds: 60, DelaySeconds: 30}
	got, err := r.SendQueueMessage(within(t), m)
	if err != nil || got.IsError {
		t.Fatal(got, err)
	}
	after := time.Now().UnixNano()
	if got.MessageID == "" {
		t.Error("no id was made")
	}
	if got.SentAt < before || got.SentAt > after {
		t.Errorf("sent at %d, want between %d and %d", got.SentAt, before, after)
	}
	if d := time.Duration(got.DelayedTo - got.SentAt); d != 30*time.Second {
		t.Errorf("delayed for %v", d)
	}
	if d := time.Duration(got.ExpirationAt - got.SentAt); d != 90*time.Second {
		t.Errorf("expires after %v", d)
	}
	m.MessageID = "mine"
	if got, err = r.SendQueueMessage(within(t), m); err != nil || got.MessageID != "mine" {
		t.Error(got, err)
	}
}

func TestSendQueueMessage_Refusals(t *testing.T) {
	r := start(t, broker.Options{})
	policy := func(p *pb.QueueMessagePolicy) func(*pb.QueueMessage) {
		return func(m *pb.QueueMessage) { m.Policy = p }
	}
	channel := func(name string) func(*pb.QueueMessage) { return func(m *pb.QueueMessage) { m.Channel = name } }
	for _, c := range []struct {
		name   string
		change func(*pb.QueueMessage)
		text   string
	}{
		{"no client", func(m *pb.QueueMessage) { m.ClientID = "" }, "Error 101"},
		{"tags alone", func(m *pb.QueueMessage) { m.Body, m.Tags = nil, map[string]string{"a": "b"} }, "Error 110"},
		{"no channel", channel(""), "Error 120"},
		{"star", channel("a.*"), "Error 120"},
		{"greater", channel("a.>"), "Error 120"},
		{"space", channel("a b"), "Error 120"},
		{"tab", channel("a\tb"), "Error 120"},
		{"newline", channel("a\n"), "Error 120"},
		{"zero byte", channel("a\x00"), "Error 120"},
		{"slash", channel("a/b"), "Error 120"},
		{"parent", channel("a/../b"), "Error 120"},
		{"leading dot", channel(".a"), "Error 120"},
		{"double dot", channel("a..b"), "Error 120"},
		{"trailing dot", channel("a."), "Error 120"},
		{"201 characters", channel(strings.Repeat("é", 201)), "Error 120"},
		{"expiration", policy(&pb.QueueMessagePolicy{ExpirationSeconds: 43_201}), "Error 133"},
		{"negative expiration", policy(&pb.QueueMessagePolicy{ExpirationSeconds: -1}), "Error 133"},
		{"receive count", policy(&pb.QueueMessagePolicy{MaxReceiveCount: 1_025}), "Error 134"},
		{"negative receive count", policy(&pb.QueueMessagePolicy{MaxReceiveCount: -1}), "Error 134"},
		{"delay", policy(&pb.QueueMessagePolicy{DelaySeconds: 43_201}), "Error 135"},
		{"dead letter queue", policy(&pb.QueueMessagePolicy{MaxReceiveCount: 1, MaxReceiveQueue: "a/b"}), "Error 120"},
	} {
		m := message("q", "x")
		c.change(m)
		got, err := r.SendQueueMessage(within(t), m)
		if err != nil || !got.IsError || !strings.HasPrefix(got.Error, c.text+":") {
			t.Errorf("%s: %v, %v, want %s", c.name, got, err, c.text)
		}
	}
	for _, name := range []string{strings.Repeat("é", 200), "a:b;c", "bestellungen.größe", "A-b_c.1"} {
		if got, err := r.SendQueueMessage(within(t), message(name, "x")); err != nil || got.IsError {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestSendQueueMessagesBatch_Mixed(t *testing.T) {
	r := start(t, broker.Options{})
	got, err := r.SendQueueMessagesBatch(within(t), &pb.QueueMessagesBatchRequest{BatchID: "b", Messages: []*pb.QueueMessage{
		message("q", "1"), message("bad/name", "x"), message("q", "2"),
	}})
	if err != nil || got.BatchID != "b" || !got.HaveErrors || len(got.Results) != 3 || got.Results[0].IsError || !got.Results[1].IsError || got.Results[2].IsError {
		t.Fatal(got, err)
	}
	if got := fmt.Sprint(bodies(r.consumer().get("q", 10, 5000))); got != "[1 2]" {
		t.Errorf("got %s", got)
	}
	if _, err := r.SendQueueMessagesBatch(within(t), &pb.QueueMessagesBatchRequest{}); status.Code(err) != codes.Unknown || status.Convert(err).Message() != "empty messages batch" {
		t.Errorf("empty batch: %v", err)
	}
}

// Batches on one stream are answered in their order and do not mix.
func TestQueuesUpstream_Order(t *testing.T) {
	r := start(t, broker.Options{})
	stream, err := r.QueuesUpstream(within(t))
	if err != nil {
		t.Fatal(err)
	}
	const batches, each = 200, 5
	var wg sync.WaitGroup
	wg.Go(func() {
		for b := range batches {
			request := &pb.QueuesUpstreamRequest{RequestID: fmt.Sprint(b)}
			for i := range each {
				request.Messages = append(request.Messages, message("q", fmt.Sprint(b*each+i)))
			}
			if err := stream.Send(request); err != nil {
				t.Error(err)
				return
			}
		}
		if err := stream.Send(&pb.QueuesUpstreamRequest{RequestID: "empty"}); err != nil {
			t.Error(err)
		}
		if err := stream.CloseSend(); err != nil {
			t.Error(err)
		}
	})
	for b := range batches {
		a, err := stream.Recv()
		if err != nil || a.RefRequestID != fmt.Sprint(b) || a.IsError || len(a.Results) != each {
			t.Fatalf("answer %d: %v, %v", b, a, err)
		}
	}
	if a, err := stream.Recv(); err != nil || a.RefRequestID != "empty" || !a.IsError || a.Error != "no messages to send" {
		t.Errorf("empty request: %v, %v", a, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after closing: %v, want EOF", err)
	}
	wg.Wait()
	got := bodies(r.consumer().get("q", batches*each, 5000))
	for i, body := range got {
		if body != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, body)
		}
	}
	if len(got) != batches*each {
		t.Errorf("%d messages, want %d", len(got), batches*each)
	}
}

func TestSend_LargeMessages(t *testing.T) {
	r := start(t, broker.Options{})
	big := strings.Repeat("x", 5<<20)
	r.send("q", big, "small")
	c := r.consumer()
	if got := bodies(c.get("q", 10, 5000)); len(got) != 1 || got[0] != big {
		t.Errorf("got %d messages, want the large one alone", len(got))
	}
	if got := bodies(c.get("q", 10, 5000)); fmt.Sprint(got) != "[small]" {
		t.Error("the small message does not follow")
	}
	_, err := r.SendQueueMessage(within(t), message("q", strings.Repeat("x", 100<<20)))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("over 100 MiB: %v, want ResourceExhausted", err)
	}
}

func BenchmarkSendQueueMessage(b *testing.B) {
	for _, senders := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(senders), func(b *testing.B) {
			r := start(b, broker.Options{})
			body := strings.Repeat("x", 256)
			var wg sync.WaitGroup
			for s := range senders {
				wg.Go(func() {
					for i := s; i < b.N; i += senders {
						if got, err := r.SendQueueMessage(context.Background(), message("q", body)); err != nil || got.IsError {
							b.Error(got, err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
