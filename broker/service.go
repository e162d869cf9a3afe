package broker

import (
	"context"
	"errors"
	"strings"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// service is what clients call. Queues answer with gRPC OK and their own errors
// in the body, events with Internal and the text, as KubeMQ servers do.
type service struct {
	pb.UnimplementedKubemqServer
	b *Broker
}

// kubemqVersion is the release whose protocol this is: clients check it.
const kubemqVersion = "2.4.0"

// version returns our version as one that clients can parse: a release, and
// behind it what semantic versions call build metadata, and Python's a local
// version.
func version(of string) string {
	words := strings.FieldsFunc(of, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if len(words) == 0 {
		return kubemqVersion
	}
	return kubemqVersion + "+" + strings.Join(words, ".")
}

func (s *service) Ping(context.Context, *pb.Empty) (*pb.PingResult, error) {
	return &pb.PingResult{Host: s.b.host, Version: version(s.b.options.Version),
		ServerStartTime: s.b.started.Unix(), ServerUpTimeSeconds: int64(time.Since(s.b.started).Seconds())}, nil
}

func (s *service) SendQueueMessage(_ context.Context, m *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
	results, _ := s.b.queues.send([]*pb.QueueMessage{m}).wait()
	return results[0], nil
}

func (s *service) SendQueueMessagesBatch(_ context.Context, r *pb.QueueMessagesBatchRequest) (*pb.QueueMessagesBatchResponse, error) {
	if len(r.GetMessages()) == 0 {
		return nil, status.Error(codes.Unknown, errEmptyBatch.Error())
	}
	results, haveErrors := s.b.queues.send(r.GetMessages()).wait()
	return &pb.QueueMessagesBatchResponse{BatchID: r.GetBatchID(), Results: results, HaveErrors: haveErrors}, nil
}

func (s *service) ReceiveQueueMessages(ctx context.Context, r *pb.ReceiveQueueMessagesRequest) (*pb.ReceiveQueueMessagesResponse, error) {
	answer := &pb.ReceiveQueueMessagesResponse{RequestID: r.GetRequestID(), IsPeak: r.GetIsPeak()}
	err := checkReceive(r)
	if err == nil {
		expired := s.b.queues.expiredIn(r.GetChannel())
		answer.Messages, err = s.receive(ctx, r)
		answer.MessagesExpired = int32(s.b.queues.expiredIn(r.GetChannel()) - expired)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		answer.IsError, answer.Error = true, err.Error()
	}
	answer.MessagesReceived = int32(len(answer.Messages))
	return answer, nil
}

func (s *service) receive(ctx context.Context, r *pb.ReceiveQueueMessagesRequest) ([]*pb.QueueMessage, error) {
	wait := time.Duration(max(1, r.GetWaitTimeSeconds())) * time.Second
	if r.GetIsPeak() {
		return s.b.queues.peek(ctx, s.b.stopping, r.GetChannel(), int(r.GetMaxNumberOfMessages()), wait)
	}
	granted, err := s.b.queues.poll(ctx, s.b.stopping, r.GetChannel(), int(r.GetMaxNumberOfMessages()), wait)
	if errors.Is(err, errStopping) {
		return nil, nil
	}
	if err != nil || len(granted.entries) == 0 {
		return nil, err
	}
	return s.b.queues.hand(ctx, granted)
}

func (s *service) AckAllQueueMessages(_ context.Context, r *pb.AckAllQueueMessagesRequest) (*pb.AckAllQueueMessagesResponse, error) {
	answer := &pb.AckAllQueueMessagesResponse{RequestID: r.GetRequestID()}
	err := firstError(checkQueue(r.GetClientID(), r.GetChannel()), checkWaitSeconds(r.GetWaitTimeSeconds()))
	if err == nil {
		var n int
		n, err = s.b.queues.ackAll(r.GetChannel())
		answer.AffectedMessages = uint64(n)
	}
	if err != nil {
		answer.IsError, answer.Error, answer.AffectedMessages = true, err.Error(), 0
	}
	return answer, nil
}

// stoppingStatus ends streams when the broker stops. Unavailable would tell
// clients to wait for the connection to come back.
func stoppingStatus() error { return status.Error(codes.Aborted, errStopping.Error()) }
