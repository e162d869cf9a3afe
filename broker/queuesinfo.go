package broker

import (
	"context"
	"slices"
	"strings"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"

	"orderd/broker/queuesinfo"
)

const queuesInfoMethod = "QueuesInfo"

// register registers the service with the call QueuesInfo, which the stubs may
// not have.
func register(server *grpc.Server, s *service) {
	desc := pb.Kubemq_ServiceDesc
	desc.Methods = slices.DeleteFunc(slices.Clone(desc.Methods), func(m grpc.MethodDesc) bool { return m.MethodName == queuesInfoMethod })
	desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: queuesInfoMethod, Handler: handleQueuesInfo})
	server.RegisterService(&desc, s)
}

func handleQueuesInfo(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	request := new(queuesinfo.Request)
	if err := decode(request); err != nil {
		return nil, err
	}
	s := srv.(*service)
	call := func(_ context.Context, r any) (any, error) { return s.queuesInfo(r.(*queuesinfo.Request)), nil }
	if intercept == nil {
		return call(ctx, request)
	}
	return intercept(ctx, request, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + pb.Kubemq_ServiceDesc.ServiceName + "/" + queuesInfoMethod}, call)
}

// queuesInfo tells of the queues that are named, or of all, under their true
// names. Waiting counts what is not settled, delivered or not.
func (s *service) queuesInfo(r *queuesinfo.Request) *queuesinfo.Response {
	var names []string
	if r.GetQueueName() != "" {
		names = strings.Split(r.GetQueueName(), ";")
	}
	info := new(queuesinfo.Queues)
	for _, q := range s.b.queues.describe() {
		if names != nil && !slices.Contains(names, q.name) {
			continue
		}
		info.TotalQueue++
		info.Sent += q.sent
		info.Delivered += q.taken
		info.Waiting += int64(q.messages)
		info.Queues = append(info.Queues, &queuesinfo.Queue{
			Name: q.name, Messages: int64(q.messages), Bytes: q.bytes, FirstSequence: int64(q.first), LastSequence: int64(q.last),
			Sent: q.sent, Delivered: q.taken, Waiting: int64(q.messages), Subscribers: int64(q.polls),
		})
	}
	return &queuesinfo.Response{RefRequestID: r.GetRequestID(), Info: info}
}
