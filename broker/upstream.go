package broker

import (
	"context"

	pb "github.com/kubemq-io/protobuf/go"
)

// upstreamAhead is how many batches of one stream may wait for the disk. More
// are not read from the connection, which slows the sender down.
const upstreamAhead = 256

// QueuesUpstream takes batches in order and answers them in order, each when it
// is on disk.
func (s *service) QueuesUpstream(stream pb.Kubemq_QueuesUpstreamServer) error {
	type pending struct {
		id    string
		batch sending
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	batches := make(chan pending, upstreamAhead)
	answered := make(chan error, 1)
	go func() {
		var err error
		for p := range batches {
			answer := upstreamAnswer(p.id, p.batch)
			if err == nil {
				err = stream.Send(answer)
			}
		}
		answered <- err
	}()
	err := receive(ctx, s.b, stream.Recv).each(s.b, func(r *pb.QueuesUpstreamRequest) {
		p := pending{id: r.GetRequestID()}
		if len(r.GetMessages()) > 0 {
			p.batch = s.b.queues.send(r.GetMessages())
		}
		batches <- p
	})
	close(batches)
	return firstError(<-answered, err)
}

func upstreamAnswer(id string, batch sending) *pb.QueuesUpstreamResponse {
	if batch.commit == nil {
		return &pb.QueuesUpstreamResponse{RefRequestID: id, IsError: true, Error: errNoMessages.Error()}
	}
	results, _ := batch.wait()
	return &pb.QueuesUpstreamResponse{RefRequestID: id, Results: results}
}
