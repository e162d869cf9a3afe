package kubemq_test

import (
	"context"
	"slices"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
)

type fakeSub struct {
	n   int // order of coming
	req *pb.Subscribe
	ch  chan *pb.EventReceive
}

func (b *broker) publish(e *pb.Event) *pb.Result {
	if text := e.GetTags()["refuse"]; text != "" {
		return &pb.Result{EventID: e.EventID, Error: text}
	}
	b.set(func() {
		r := &pb.EventReceive{EventID: e.EventID, Channel: e.Channel, Metadata: e.Metadata, Body: e.Body, Tags: e.Tags}
		if e.Store {
			r.Sequence, r.Timestamp = uint64(len(b.log[e.Channel])+1), time.Now().UnixNano()
			b.log[e.Channel] = append(b.log[e.Channel], r)
		}
		groups := map[string][]*fakeSub{}
		for s := range b.subs {
			if s.req.Channel != e.Channel || e.Store != (s.req.SubscribeTypeData == pb.Subscribe_EventsStore) {
				continue
			}
			if s.req.Group == "" {
				s.ch <- r
				continue
			}
			groups[s.req.Group] = append(groups[s.req.Group], s)
		}
		for g, members := range groups {
			slices.SortFunc(members, func(x, y *fakeSub) int { return x.n - y.n })
			b.rr[g]++
			members[b.rr[g]%len(members)].ch <- r
		}
	})
	return &pb.Result{EventID: e.EventID, Sent: true}
}

func (b *broker) SendEvent(_ context.Context, e *pb.Event) (*pb.Result, error) {
	return b.publish(e), nil
}

func (b *broker) SendEventsStream(s grpc.BidiStreamingServer[pb.Event, pb.Result]) error {
	kick := get(b, func() chan error { return b.kick })
	in := make(chan *pb.Event)
	go receive(s.Context(), s.Recv, in)
	for {
		select {
		case <-kick:
			return get(b, func() error { return b.kickErr })
		case e, ok := <-in:
			if !ok {
				return nil
			}
			if get(b, func() bool { return b.silent }) {
				continue
			}
			if r := b.publish(e); e.Store || !r.Sent {
				if err := s.Send(r); err != nil {
					return err
				}
			}
		}
	}
}

func (b *broker) SubscribeToEvents(r *pb.Subscribe, s grpc.ServerStreamingServer[pb.EventReceive]) error {
	sub := &fakeSub{req: r, ch: make(chan *pb.EventReceive, 10_000)}
	var kick chan error
	var confirm bool
	b.set(func() {
		kick, confirm = b.kick, b.confirm
		for _, e := range b.log[r.Channel] {
			if r.SubscribeTypeData == pb.Subscribe_EventsStore && wants(r, e, len(b.log[r.Channel])) {
				sub.ch <- e
			}
		}
		b.subs[sub] = struct{}{}
		b.subscribed = append(b.subscribed, r)
		sub.n = len(b.subscribed)
	})
	defer b.set(func() { delete(b.subs, sub) })
	if confirm {
		if err := s.SendHeader(nil); err != nil {
			return err
		}
	}
	for {
		select {
		case <-kick:
			return get(b, func() error { return b.kickErr })
		case <-s.Context().Done():
			return s.Context().Err()
		case e := <-sub.ch:
			if err := s.Send(e); err != nil {
				return err
			}
		}
	}
}

func wants(r *pb.Subscribe, e *pb.EventReceive, newest int) bool {
	switch r.EventsStoreTypeData {
	case pb.Subscribe_StartFromFirst:
		return true
	case pb.Subscribe_StartFromLast:
		return e.Sequence == uint64(newest)
	case pb.Subscribe_StartAtSequence:
		return e.Sequence >= uint64(r.EventsStoreTypeValue)
	case pb.Subscribe_StartAtTime:
		return e.Timestamp >= r.EventsStoreTypeValue
	case pb.Subscribe_StartAtTimeDelta:
		return e.Timestamp >= time.Now().Add(-time.Duration(r.EventsStoreTypeValue)*time.Second).UnixNano()
	default:
		return false
	}
}

func (b *broker) subscribers() int { return get(b, func() int { return len(b.subs) }) }
