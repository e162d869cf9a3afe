package kubemq_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/kubemq-io/kubemq-go/v2"
)

// broker is a small KubeMQ in memory that can be made to fail. What it holds
// survives stop and start.
type broker struct {
	pb.UnimplementedKubemqServer
	tb   testing.TB
	addr string
	opts []grpc.ServerOption

	mu      sync.Mutex // protects all below
	server  *grpc.Server
	serving sync.WaitGroup
	kick    chan error // closed streams read their error from kickErr
	kickErr error
	changed chan struct{} // closed and replaced whenever something changes

	queues map[string][]*pb.QueueMessage
	log    map[string][]*pb.EventReceive // stored events by channel
	subs   map[*fakeSub]struct{}
	rr     map[string]int // round robin by group

	seen       []string // method names, in order
	requests   []*pb.QueuesDownstreamRequest
	subscribed []*pb.Subscribe
	tokens     []string
	settled    int // messages acknowledged

	refuse    string                                  // settlements are refused with this
	silent    bool                                    // Gets are never answered
	confirm   bool                                    // subscriptions send a header at once
	fail      func(method string) error               // calls and streams that fail at once
	handle    func(*pb.Request) (*pb.Response, error) // SendRequest
	deaf      bool                                    // downstreams do not read the end of a client
	earlyNone bool                                    // Gets without messages are answered at once
}

func newBroker(tb testing.TB, opts ...grpc.ServerOption) *broker {
	tb.Helper()
	b := &broker{
		tb:      tb,
		opts:    opts,
		changed: make(chan struct{}),
		queues:  make(map[string][]*pb.QueueMessage),
		log:     make(map[string][]*pb.EventReceive),
		subs:    make(map[*fakeSub]struct{}),
		rr:      make(map[string]int),
		confirm: true,
		addr:    "127.0.0.1:0",
	}
	b.start()
	tb.Cleanup(b.stop)
	return b
}

func (b *broker) start() {
	b.tb.Helper()
	var l net.Listener
	eventually(b.tb, "listen again on "+b.addr, func() bool {
		var err error
		l, err = net.Listen("tcp", b.addr)
		return err == nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server == nil && strings.HasSuffix(b.addr, ":0") {
		b.addr = l.Addr().String() // stays the same from now on
	}
	b.kick, b.kickErr = make(chan error), nil
	opts := append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(100 << 20), grpc.MaxSendMsgSize(100 << 20),
		// The rule of a broker of release 2.4.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Minute}),
		grpc.UnaryInterceptor(b.unary), grpc.StreamInterceptor(b.stream),
	}, b.opts...)
	server := grpc.NewServer(opts...)
	pb.RegisterKubemqServer(server, b)
	b.server = server
	b.serving.Go(func() { _ = server.Serve(l) })
}

// stop cuts every connection, as a crash does, and waits for the handlers.
func (b *broker) stop() {
	b.mu.Lock()
	server := b.server
	b.server = nil
	b.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	b.serving.Wait()
}

// breakStreams ends every stream with err; the connections stay.
func (b *broker) breakStreams(err error) {
	b.set(func() {
		b.kickErr = err
		close(b.kick)
		b.kick = make(chan error)
	})
}

// set changes something and wakes those who wait.
func (b *broker) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

// get reads something.
func get[T any](b *broker, f func() T) T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return f()
}

func (b *broker) arrives(ctx context.Context, method string) error {
	var fail func(string) error
	b.set(func() {
		b.seen = append(b.seen, method)
		md, _ := metadata.FromIncomingContext(ctx)
		b.tokens = append(b.tokens, md.Get("authorization")...)
		fail = b.fail
	})
	if fail == nil {
		return nil
	}
	return fail(method)
}

func shortName(full string) string { return full[len("/kubemq.kubemq/"):] }

func (b *broker) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := b.arrives(ctx, shortName(info.FullMethod)); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (b *broker) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := b.arrives(s.Context(), shortName(info.FullMethod)); err != nil {
		return err
	}
	return next(srv, s)
}

// count returns how often method was called.
func (b *broker) count(method string) int {
	return get(b, func() int {
		n := 0
		for _, m := range b.seen {
			if m == method {
				n++
			}
		}
		return n
	})
}

func (b *broker) Ping(context.Context, *pb.Empty) (*pb.PingResult, error) {
	return &pb.PingResult{Host: "fake", Version: "v2.4.0", ServerStartTime: 1700000000, ServerUpTimeSeconds: 7}, nil
}

func (b *broker) SendRequest(_ context.Context, r *pb.Request) (*pb.Response, error) {
	f := get(b, func() func(*pb.Request) (*pb.Response, error) { return b.handle })
	if f == nil {
		return nil, status.Error(codes.Internal, "Error 301: timeout for request message")
	}
	return f(r)
}

func (b *broker) put(m *pb.QueueMessage) *pb.SendQueueMessageResult {
	if m.GetTags()["refuse"] != "" {
		return &pb.SendQueueMessageResult{MessageID: m.GetMessageID(), IsError: true, Error: m.GetTags()["refuse"]}
	}
	m = proto.CloneOf(m)
	now := time.Now().UnixNano()
	m.Attributes = &pb.QueueMessageAttributes{Timestamp: now}
	if m.Policy == nil {
		m.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 1024}
	}
	b.set(func() {
		b.rr["seq "+m.Channel]++
		m.Attributes.Sequence = uint64(b.rr["seq "+m.Channel])
		b.queues[m.Channel] = append(b.queues[m.Channel], m)
	})
	r := &pb.SendQueueMessageResult{MessageID: m.MessageID, SentAt: now}
	if d := m.Policy.DelaySeconds; d > 0 {
		r.DelayedTo = now + int64(d)*int64(time.Second)
	}
	if e := m.Policy.ExpirationSeconds; e > 0 {
		r.ExpirationAt = now + int64(e+m.Policy.DelaySeconds)*int64(time.Second)
	}
	return r
}

func (b *broker) SendQueueMessage(_ context.Context, m *pb.QueueMessage) (*pb.SendQueueMessageResult, error) {
	return b.put(m), nil
}

func (b *broker) SendQueueMessagesBatch(_ context.Context, r *pb.QueueMessagesBatchRequest) (*pb.QueueMessagesBatchResponse, error) {
	out := &pb.QueueMessagesBatchResponse{BatchID: r.BatchID}
	for _, m := range r.Messages {
		out.Results = append(out.Results, b.put(m))
	}
	return out, nil
}

func (b *broker) AckAllQueueMessages(_ context.Context, r *pb.AckAllQueueMessagesRequest) (*pb.AckAllQueueMessagesResponse, error) {
	out := &pb.AckAllQueueMessagesResponse{RequestID: r.RequestID}
	b.set(func() {
		out.AffectedMessages = uint64(len(b.queues[r.Channel]))
		delete(b.queues, r.Channel)
	})
	return out, nil
}

func (b *broker) QueuesUpstream(s grpc.BidiStreamingServer[pb.QueuesUpstreamRequest, pb.QueuesUpstreamResponse]) error {
	kick := get(b, func() chan error { return b.kick })
	in := make(chan *pb.QueuesUpstreamRequest)
	go receive(s.Context(), s.Recv, in)
	for {
		select {
		case <-kick:
			return get(b, func() error { return b.kickErr })
		case r, ok := <-in:
			if !ok {
				return nil
			}
			if get(b, func() bool { return b.silent }) {
				continue
			}
			out := &pb.QueuesUpstreamResponse{RefRequestID: r.RequestID}
			for _, m := range r.Messages {
				out.Results = append(out.Results, b.put(m))
			}
			if err := s.Send(out); err != nil {
				return err
			}
		}
	}
}

// receive moves what recv returns to out until it fails.
func receive[T any](ctx context.Context, recv func() (T, error), out chan<- T) {
	defer close(out)
	for {
		v, err := recv()
		if err != nil {
			return
		}
		select {
		case out <- v:
		case <-ctx.Done():
			return
		}
	}
}

// fakeTx are the unsettled messages of one transaction by sequence.
type fakeTx map[int64]*pb.QueueMessage

func (b *broker) QueuesDownstream(s grpc.BidiStreamingServer[pb.QueuesDownstreamRequest, pb.QueuesDownstreamResponse]) error {
	kick := get(b, func() chan error { return b.kick })
	in := make(chan *pb.QueuesDownstreamRequest)
	go receive(s.Context(), s.Recv, in)
	open := map[string]fakeTx{}
	defer func() {
		for _, tx := range open {
			b.giveBack(tx)
		}
	}()
	var waiting *pb.QueuesDownstreamRequest
	var deadline <-chan time.Time
	for {
		changed := get(b, func() chan struct{} { return b.changed })
		if waiting != nil {
			if r := b.take(waiting, open); r != nil {
				waiting, deadline = nil, nil
				if err := s.Send(r); err != nil {
					return err
				}
				continue
			}
		}
		select {
		case <-kick:
			return get(b, func() error { return b.kickErr })
		case <-s.Context().Done():
			return s.Context().Err()
		case <-changed:
		case <-deadline:
			r := &pb.QueuesDownstreamResponse{TransactionId: "empty", RefRequestId: waiting.RequestID, RequestTypeData: pb.QueuesDownstreamRequestType_Get}
			waiting, deadline = nil, nil
			if err := s.Send(r); err != nil {
				return err
			}
		case r, ok := <-in:
			if !ok {
				if get(b, func() bool { return b.deaf }) {
					in = nil
					continue
				}
				return nil
			}
			b.set(func() { b.requests = append(b.requests, r) })
			if r.RequestTypeData != pb.QueuesDownstreamRequestType_Get {
				if answer := b.settle(r, open); answer != nil {
					if err := s.Send(answer); err != nil {
						return err
					}
				}
				continue
			}
			wait := time.Duration(r.WaitTimeout) * time.Millisecond
			if get(b, func() bool { return b.earlyNone }) {
				wait = 0
			}
			waiting, deadline = r, time.After(wait)
			if r.Channel == "refused" {
				waiting, deadline = nil, nil
				err := s.Send(&pb.QueuesDownstreamResponse{RefRequestId: r.RequestID, RequestTypeData: r.RequestTypeData, IsError: true, Error: "Error 121: cannot subscribe to a queue"})
				if err != nil {
					return err
				}
			}
		}
	}
}

// take answers a Get if there is something, nil if not.
func (b *broker) take(r *pb.QueuesDownstreamRequest, open map[string]fakeTx) *pb.QueuesDownstreamResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[r.Channel]
	if len(q) == 0 || b.silent {
		return nil
	}
	n := min(len(q), int(r.MaxItems))
	out := &pb.QueuesDownstreamResponse{TransactionId: "tx-" + r.RequestID, RefRequestId: r.RequestID, RequestTypeData: r.RequestTypeData}
	tx := fakeTx{}
	for _, m := range q[:n] {
		m.Attributes.ReceiveCount++
		tx[int64(m.Attributes.Sequence)] = m
		out.Messages = append(out.Messages, proto.CloneOf(m))
	}
	b.queues[r.Channel] = q[n:]
	if !r.AutoAck {
		open[out.TransactionId] = tx
	}
	return out
}

func (b *broker) giveBack(tx fakeTx) {
	b.set(func() {
		for _, m := range tx {
			b.queues[m.Channel] = append(b.queues[m.Channel], m)
		}
	})
}

// settle does what r says; the answer is a refusal or nil.
func (b *broker) settle(r *pb.QueuesDownstreamRequest, open map[string]fakeTx) *pb.QueuesDownstreamResponse {
	refusal := func(text string) *pb.QueuesDownstreamResponse {
		return &pb.QueuesDownstreamResponse{TransactionId: r.RefTransactionId, RefRequestId: r.RequestID, RequestTypeData: r.RequestTypeData, IsError: true, Error: text}
	}
	if text := get(b, func() string { return b.refuse }); text != "" {
		return refusal(text)
	}
	if r.RequestTypeData == pb.QueuesDownstreamRequestType_CloseByClient {
		return nil
	}
	tx, ok := open[r.RefTransactionId]
	if !ok {
		return refusal("transaction is completed or transaction id not found")
	}
	some := fakeTx{}
	for seq, m := range tx {
		some[seq] = m
	}
	switch r.RequestTypeData {
	case pb.QueuesDownstreamRequestType_AckRange, pb.QueuesDownstreamRequestType_NAckRange, pb.QueuesDownstreamRequestType_ReQueueRange:
		some = fakeTx{}
		for _, seq := range r.SequenceRange {
			if tx[seq] == nil {
				return refusal("invalid ack sequence id")
			}
			some[seq] = tx[seq]
		}
	}
	for seq, m := range some {
		delete(tx, seq)
		if r.ReQueueChannel != "" {
			m.Channel = r.ReQueueChannel
		}
	}
	if len(tx) == 0 {
		delete(open, r.RefTransactionId)
	}
	switch r.RequestTypeData {
	case pb.QueuesDownstreamRequestType_AckRange, pb.QueuesDownstreamRequestType_AckAll:
		b.set(func() { b.settled += len(some) })
	default:
		b.giveBack(some)
	}
	return nil
}

// queued returns the ids waiting on a queue.
func (b *broker) queued(channel string) []string {
	return get(b, func() []string {
		var ids []string
		for _, m := range b.queues[channel] {
			ids = append(ids, m.MessageID)
		}
		return ids
	})
}

// wants says whether a new subscription gets a stored event.
// fast makes reconnecting quick.
func fast() kubemq.Option {
	return kubemq.WithReconnectPolicy(kubemq.ReconnectPolicy{InitialDelay: 5 * time.Millisecond, MaxDelay: 20 * time.Millisecond, Multiplier: 1.5})
}

// connect returns a client of b that is closed at the end.
func connect(tb testing.TB, b *broker, opts ...kubemq.Option) *kubemq.Client {
	tb.Helper()
	c, err := kubemq.NewClientFromAddress(b.addr, append([]kubemq.Option{fast()}, opts...)...)
	if err != nil {
		tb.Fatalf("connect: %v", err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return c
}

func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited 10 s for: %s", what)
		}
	}
}

// next reads one value from c.
func next[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	select {
	case v, ok := <-c:
		if !ok {
			tb.Fatalf("%s: channel is closed", what)
		}
		return v
	case <-time.After(10 * time.Second):
		tb.Fatalf("waited 10 s for: %s", what)
		panic("unreachable")
	}
}
