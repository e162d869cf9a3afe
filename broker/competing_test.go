package broker_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"

	"orderd/broker"
)

// Many consumers on a backlog: every message to exactly one of them, and each
// of them in order.
func TestCompetingConsumers(t *testing.T) {
	r := start(t, broker.Options{})
	total := scaled(2_000, 10_000, 50_000)
	var all []string
	for i := range total {
		all = append(all, fmt.Sprintf("%06d", i))
	}
	r.send("q", all...)
	var mu sync.Mutex
	got := make(map[string]int)
	var wg sync.WaitGroup
	for n := range 16 {
		c := r.consumer()
		wg.Go(func() {
			last := ""
			for {
				if err := c.stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: get, ClientID: "c", Channel: "q", MaxItems: int32(1 + n%5), WaitTimeout: 100}); err != nil {
					t.Error(err)
					return
				}
				a, err := c.stream.Recv()
				if err != nil || a.IsError {
					t.Error(a, err)
					return
				}
				if len(a.Messages) == 0 {
					return
				}
				for _, m := range a.Messages {
					body := string(m.Body)
					if cmp.Compare(body, last) <= 0 || m.Attributes.ReceiveCount != 1 {
						t.Errorf("%s follows %s, received %d times", body, last, m.Attributes.ReceiveCount)
					}
					last = body
					mu.Lock()
					got[body]++
					mu.Unlock()
				}
				if err := c.stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: ackAll, ClientID: "c", RefTransactionId: a.TransactionId}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(got) != total {
		t.Errorf("%d of %d messages were delivered", len(got), total)
	}
	for body, n := range got {
		if n != 1 {
			t.Errorf("%s was delivered %d times", body, n)
		}
	}
	r.settled()
	if s := r.broker.Stats(); s.Waiting != 0 {
		t.Errorf("stats %+v", s)
	}
}

func BenchmarkPollAck(b *testing.B) {
	for _, consumers := range []int{1, 16} {
		b.Run(fmt.Sprint(consumers), func(b *testing.B) {
			r := start(b, broker.Options{})
			for sent := 0; sent < b.N; sent += 1000 {
				r.send("q", slices.Repeat([]string{"x"}, min(1000, b.N-sent))...)
			}
			b.ResetTimer()
			var wg sync.WaitGroup
			for n := range consumers {
				stream, err := r.QueuesDownstream(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					for i := n; i < b.N; i += consumers {
						_ = stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: get, ClientID: "c", Channel: "q", MaxItems: 1, WaitTimeout: 1000})
						a, err := stream.Recv()
						if err != nil || len(a.Messages) != 1 {
							b.Error(a, err)
							return
						}
						_ = stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: ackAll, ClientID: "c", RefTransactionId: a.TransactionId})
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
