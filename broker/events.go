package broker

import (
	"context"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"orderd/broker/store"
)

// publishing is an event on its way: to subscribers, or to disk.
type publishing struct {
	id     string
	err    error
	commit *store.Commit // nil for a plain event
	behind bool          // a subscriber has much to read
}

// result waits until the event is kept, if it is to be.
func (p publishing) result() *pb.Result {
	if p.err == nil && p.commit != nil {
		p.err = onDisk(p.commit)
	}
	if p.err != nil {
		return &pb.Result{EventID: p.id, Error: p.err.Error()}
	}
	return &pb.Result{EventID: p.id, Sent: true}
}

func (b *Broker) publish(ev *pb.Event) publishing {
	p := publishing{id: ev.GetEventID()}
	if p.id == "" {
		p.id = newID()
	}
	if p.err = checkEvent(ev); p.err != nil {
		return p
	}
	out := &pb.EventReceive{EventID: p.id, Channel: ev.GetChannel(), Metadata: ev.GetMetadata(), Body: ev.GetBody(), Tags: ev.GetTags()}
	if ev.GetStore() {
		p.commit, p.err = b.kept.add(out)
	} else {
		p.behind = b.hub.publish(out, proto.Size(out))
	}
	return p
}

func (s *service) SendEvent(_ context.Context, ev *pb.Event) (*pb.Result, error) {
	p := s.b.publish(ev)
	if r := p.result(); r.GetSent() {
		return r, nil
	} else {
		return nil, status.Error(codes.Internal, r.GetError())
	}
}

// eventsAhead is how many events of one stream may wait for the disk. More are
// not read from the connection.
const eventsAhead = 4_096

// A stream can bring events in faster than any subscriber takes them out. While
// one that reads is far behind, a stream has this pause every so many events:
// it still has some ten thousands a second.
const (
	paceEvents = 64
	pacePause  = time.Millisecond
)

// SendEventsStream answers kept events in order, each when it is on disk, and
// plain events only if they are refused.
func (s *service) SendEventsStream(stream pb.Kubemq_SendEventsStreamServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	events := make(chan publishing, eventsAhead)
	answered := make(chan error, 1)
	go func() {
		var err error
		for p := range events {
			r := p.result()
			if err == nil {
				err = stream.Send(r)
			}
		}
		answered <- err
	}()
	behind := 0
	err := receive(ctx, s.b, stream.Recv).each(s.b, func(ev *pb.Event) {
		p := s.b.publish(ev)
		if ev.GetStore() || p.err != nil {
			events <- p
		}
		if p.behind {
			if behind++; behind%paceEvents == 0 {
				time.Sleep(pacePause)
			}
		}
	})
	close(events)
	return firstError(<-answered, err)
}

// SubscribeToEvents sends its headers when the subscription stands.
func (s *service) SubscribeToEvents(r *pb.Subscribe, stream pb.Kubemq_SubscribeToEventsServer) error {
	if err := checkSubscribe(r); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if r.GetSubscribeTypeData() == subscribeEvents {
		sub := s.b.hub.subscribe(r)
		defer s.b.hub.unsubscribe(sub)
		if err := stream.SendHeader(metadata.MD{}); err != nil {
			return err
		}
		return s.b.hub.deliver(stream.Context(), s.b.stopping, sub, stream.Send)
	}
	reader, err := s.b.kept.subscribe(r)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	defer s.b.kept.unsubscribe(reader)
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	return reader.deliver(stream.Context(), stream.Send)
}
