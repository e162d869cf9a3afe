package broker_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"orderd/broker"
)

func (r *running) receive(queue string, n, wait int32, peek bool) *pb.ReceiveQueueMessagesResponse {
	r.t.Helper()
	a, err := r.ReceiveQueueMessages(within(r.t), &pb.ReceiveQueueMessagesRequest{RequestID: "r", ClientID: "c", Channel: queue, MaxNumberOfMessages: n, WaitTimeSeconds: wait, IsPeak: peek})
	if err != nil || a.IsError || a.RequestID != "r" || a.IsPeak != peek || int(a.MessagesReceived) != len(a.Messages) {
		r.t.Fatal(a, err)
	}
	return a
}

func received(a *pb.ReceiveQueueMessagesResponse) string {
	var out []string
	for _, m := range a.Messages {
		out = append(out, fmt.Sprint(string(m.Body), ":", m.Attributes.ReceiveCount))
	}
	return strings.Join(out, " ")
}

func TestReceiveQueueMessages(t *testing.T) {
	t.Parallel()
	r := start(t, broker.Options{})
	r.send("q", "1", "2", "3")
	for range 2 {
		if got := received(r.receive("q", 2, 5, true)); got != "1:1 2:1" {
			t.Errorf("peeked %s", got)
		}
	}
	begin := time.Now()
	if got := received(r.receive("q", 2, 5, false)); got != "1:1 2:1" {
		t.Errorf("received %s", got)
	}
	if got := received(r.receive("q", 5, 5, false)); got != "3:1" {
		t.Errorf("received %s", got)
	}
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("a receive that is not full took %v", took)
	}
	r = r.crash() // what was received is settled
	for _, peek := range []bool{true, false} {
		begin = time.Now()
		if got := received(r.receive("q", 1, 0, peek)); got != "" {
			t.Errorf("received %s again", got)
		}
		if took := time.Since(begin); took < time.Second {
			t.Errorf("an empty receive took %v, want 1 s", took)
		}
	}
}

// Receives that wait do not wait for each other, and a peek waits too.
func TestReceiveQueueMessages_Concurrent(t *testing.T) {
	r := start(t, broker.Options{})
	var wg sync.WaitGroup
	got := make(chan string, 5)
	wg.Go(func() { got <- "peeked " + received(r.receive("q", 1, 15, true)) })
	for range 4 {
		wg.Go(func() { got <- received(r.receive("q", 1, 15, false)) })
	}
	eventually(t, "all wait", func() bool { return r.broker.Stats().Polls == 4 })
	r.send("other", "x")
	if a := received(r.receive("other", 1, 15, false)); a != "x:1" {
		t.Errorf("received %s", a)
	}
	r.send("q", "a", "b", "c", "d", "e")
	wg.Wait()
	close(got)
	seen := make(map[string]int)
	for s := range got {
		seen[s]++
	}
	for _, want := range []string{"a:1", "b:1", "c:1", "d:1", "peeked e:1"} {
		if seen[want] != 1 {
			t.Errorf("%v, want %s once", seen, want)
		}
	}
}

func TestReceiveQueueMessages_Refusals(t *testing.T) {
	r := start(t, broker.Options{})
	for _, c := range []struct {
		request *pb.ReceiveQueueMessagesRequest
		text    string
	}{
		{&pb.ReceiveQueueMessagesRequest{Channel: "q", MaxNumberOfMessages: 1}, "Error 101"},
		{&pb.ReceiveQueueMessagesRequest{ClientID: "c", Channel: "q.*", MaxNumberOfMessages: 1}, "Error 120"},
		{&pb.ReceiveQueueMessagesRequest{ClientID: "c", Channel: "q"}, "Error 122"},
		{&pb.ReceiveQueueMessagesRequest{ClientID: "c", Channel: "q", MaxNumberOfMessages: 1025}, "Error 122"},
		{&pb.ReceiveQueueMessagesRequest{ClientID: "c", Channel: "q", MaxNumberOfMessages: 1, WaitTimeSeconds: 3601}, "Error 136"},
		{&pb.ReceiveQueueMessagesRequest{ClientID: "c", Channel: "q", MaxNumberOfMessages: 1, WaitTimeSeconds: -1}, "Error 136"},
	} {
		a, err := r.ReceiveQueueMessages(within(t), c.request)
		if err != nil || !a.IsError || !strings.HasPrefix(a.Error, c.text+":") {
			t.Errorf("%v: %v, %v, want %s", c.request, a, err, c.text)
		}
	}
	for _, c := range []struct {
		request *pb.AckAllQueueMessagesRequest
		text    string
	}{
		{&pb.AckAllQueueMessagesRequest{Channel: "q"}, "Error 101"}, {&pb.AckAllQueueMessagesRequest{ClientID: "c"}, "Error 120"},
		{&pb.AckAllQueueMessagesRequest{ClientID: "c", Channel: "q", WaitTimeSeconds: 3601}, "Error 136"},
	} {
		a, err := r.AckAllQueueMessages(within(t), c.request)
		if err != nil || !a.IsError || !strings.HasPrefix(a.Error, c.text+":") {
			t.Errorf("%v: %v, %v, want %s", c.request, a, err, c.text)
		}
	}
}

func TestAckAllQueueMessages(t *testing.T) {
	t.Parallel()
	r := start(t, broker.Options{})
	later := message("q", "later")
	later.Policy = &pb.QueueMessagePolicy{DelaySeconds: 1}
	r.sendBatch(&pb.QueueMessagesBatchRequest{Messages: []*pb.QueueMessage{message("q", "held"), message("q", "1"), message("q", "2"), later}})
	c := r.consumer()
	id := c.expect("q", 1, "[held] [1]").TransactionId
	begin := time.Now()
	a, err := r.AckAllQueueMessages(within(t), &pb.AckAllQueueMessagesRequest{RequestID: "r", ClientID: "c", Channel: "q", WaitTimeSeconds: 10})
	if err != nil || a.IsError || a.RequestID != "r" || a.AffectedMessages != 2 {
		t.Errorf("answer %v, %v", a, err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	c.settle(nackAll, id)
	c.expect("q", 10, "[held] [2]")
	c.expect("q", 10, "[later] [1]")
	if a, err := r.AckAllQueueMessages(within(t), &pb.AckAllQueueMessagesRequest{ClientID: "c", Channel: "unknown"}); err != nil || a.IsError || a.AffectedMessages != 0 {
		t.Errorf("of an unknown queue: %v, %v", a, err)
	}
}

func TestReceiveQueueMessages_CountsExpired(t *testing.T) {
	t.Parallel()
	r := start(t, broker.Options{})
	m := message("q", "x")
	m.Policy = &pb.QueueMessagePolicy{ExpirationSeconds: 1, DelaySeconds: 0}
	r.sendBatch(&pb.QueueMessagesBatchRequest{Messages: []*pb.QueueMessage{m}})
	var wg sync.WaitGroup
	c := r.consumer()
	c.expect("q", 1, "[x] [1]") // holds it until it is overdue
	wg.Go(func() {
		if a := r.receive("q", 1, 2, false); a.MessagesExpired != 1 || len(a.Messages) != 0 {
			t.Errorf("answer %v, want one expired", a)
		}
	})
	eventually(t, "the receive waits", func() bool { return r.broker.Stats().Polls == 1 })
	overdue := time.NewTimer(1100 * time.Millisecond)
	<-overdue.C
	c.end()
	wg.Wait()
}
