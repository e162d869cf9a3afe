package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// flawed is a KubeMQ server with the measured habits of release 2.4: a poll is
// held until it is full or its wait is over; requests of one stream are done
// one after the other; a poll that was answered part-filled goes on swallowing
// messages; a vanished consumer's delivery is not counted; a dead-lettered
// message keeps its expiration; a client id has one subscription to kept
// events; and, as switches, messages are lost and subscriptions fall silent.
type flawed struct {
	pb.UnimplementedKubemqServer
	loseEvery  int // every n-th queue message is lost; 0: none
	muteAfter  int // events after which a subscription says nothing more; 0: never
	breakEvery int // polls after which a stream breaks off; 0: never

	mu      sync.Mutex // protects all below
	queues  map[string]*flawedQueue
	subs    map[chan *pb.EventReceive]*pb.Subscribe
	clients map[string]bool // with a subscription to kept events
	sent    int
	lost    int
	next    uint64
}

type flawedQueue struct {
	ready   []*pb.QueueMessage
	open    []*flawedTx // answered part-filled: they swallow
	changed chan struct{}
}

type flawedTx struct {
	id        string
	queue     *flawedQueue
	room      int
	held      map[int64]*pb.QueueMessage
	swallowed []*pb.QueueMessage
}

// startFlawed serves it on a free port.
func startFlawed(t *testing.T, f *flawed) string {
	t.Helper()
	f.queues, f.subs, f.clients = make(map[string]*flawedQueue), make(map[chan *pb.EventReceive]*pb.Subscribe), make(map[string]bool)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// No keepalive policy: a client that pings more often than every five minutes
	// is sent away, as by the real one.
	s := grpc.NewServer()
	pb.RegisterKubemqServer(s, f)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

func (f *flawed) queue(name string) *flawedQueue {
	q := f.queues[name]
	if q == nil {
		q = &flawedQueue{changed: make(chan struct{})}
		f.queues[name] = q
	}
	return q
}

func (q *flawedQueue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Ping is for clients that look whether they are connected.
func (f *flawed) Ping(context.Context, *pb.Empty) (*pb.PingResult, error) {
	return &pb.PingResult{Host: "flawed", Version: "2.4.0"}, nil
}

// SendQueueMessagesBatch puts messages on queues, or loses them.
func (f *flawed) SendQueueMessagesBatch(_ context.Context, req *pb.QueueMessagesBatchRequest) (*pb.QueueMessagesBatchResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := &pb.QueueMessagesBatchResponse{BatchID: req.GetBatchID()}
	for _, m := range req.GetMessages() {
		resp.Results = append(resp.Results, &pb.SendQueueMessageResult{MessageID: m.GetMessageID(), SentAt: time.Now().UnixNano()})
		if f.sent++; f.loseEvery > 0 && f.sent%f.loseEvery == 0 {
			f.lost++
			continue
		}
		f.next++
		m.Attributes = &pb.QueueMessageAttributes{Sequence: f.next, Timestamp: time.Now().UnixNano()}
		if s := m.GetPolicy().GetExpirationSeconds(); s > 0 {
			m.Attributes.ExpirationAt = time.Now().Add(time.Duration(s) * time.Second).UnixNano()
		}
		q := f.queue(m.GetChannel())
		if i := slices.IndexFunc(q.open, func(tx *flawedTx) bool { return tx.room > 0 }); i >= 0 {
			q.open[i].room--
			q.open[i].swallowed = append(q.open[i].swallowed, m)
			continue
		}
		q.ready = append(q.ready, m)
		q.wake()
	}
	return resp, nil
}

// QueuesDownstream does the requests of a stream one after the other: a
// settlement waits behind a waiting poll.
func (f *flawed) QueuesDownstream(stream pb.Kubemq_QueuesDownstreamServer) error {
	open := make(map[string]*flawedTx)
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, tx := range open {
			f.close(tx)
		}
	}()
	for polls := 0; ; {
		req, err := stream.Recv()
		if err != nil {
			return nil
		}
		switch int32(req.GetRequestTypeData()) {
		case 1:
			if polls++; f.breakEvery > 0 && polls > f.breakEvery {
				return status.Error(codes.Internal, "the stream breaks off")
			}
			tx := f.poll(stream.Context(), req)
			resp := &pb.QueuesDownstreamResponse{RefRequestId: req.GetRequestID(), RequestTypeData: req.GetRequestTypeData(), TransactionId: tx.id}
			f.mu.Lock()
			for _, m := range tx.held {
				resp.Messages = append(resp.Messages, m)
			}
			f.mu.Unlock()
			open[tx.id] = tx
			if err := stream.Send(resp); err != nil {
				return err
			}
		case 2, 3:
			f.ack(open[req.GetRefTransactionId()], req)
		case 10:
			f.mu.Lock()
			for id, tx := range open {
				f.close(tx)
				delete(open, id)
			}
			f.mu.Unlock()
		}
	}
}

// poll waits until MaxItems are there or the wait is over.
func (f *flawed) poll(ctx context.Context, req *pb.QueuesDownstreamRequest) *flawedTx {
	end := time.NewTimer(max(time.Second, time.Duration(req.GetWaitTimeout())*time.Millisecond))
	defer end.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	tx := &flawedTx{id: fmt.Sprint("tx", f.next), queue: f.queue(req.GetChannel()), room: int(req.GetMaxItems()), held: make(map[int64]*pb.QueueMessage)}
	for {
		for len(tx.queue.ready) > 0 && tx.room > 0 {
			m := tx.queue.ready[0]
			tx.queue.ready = tx.queue.ready[1:]
			if at := m.Attributes.ExpirationAt; at != 0 && at < time.Now().UnixNano() {
				continue // without a word
			}
			m.Attributes.ReceiveCount = 1
			tx.held[int64(m.Attributes.Sequence)] = m
			tx.room--
		}
		changed := tx.queue.changed
		f.mu.Unlock()
		over := tx.room == 0
		if !over {
			select {
			case <-changed:
			case <-end.C:
				over = true
			case <-ctx.Done():
				over = true
			}
		}
		f.mu.Lock()
		if over {
			if len(tx.held) > 0 && tx.room > 0 {
				tx.queue.open = append(tx.queue.open, tx)
			}
			return tx
		}
	}
}

func (f *flawed) ack(tx *flawedTx, req *pb.QueuesDownstreamRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if tx == nil {
		return
	}
	for _, seq := range req.GetSequenceRange() {
		delete(tx.held, seq)
	}
	if int32(req.GetRequestTypeData()) == 2 {
		clear(tx.held)
	}
	if len(tx.held) == 0 {
		f.close(tx)
	}
}

// close gives back what a transaction holds and has swallowed, uncounted.
func (f *flawed) close(tx *flawedTx) {
	q := tx.queue
	q.open = slices.DeleteFunc(q.open, func(x *flawedTx) bool { return x == tx })
	for _, m := range tx.held {
		q.ready = append(q.ready, m)
	}
	q.ready = append(q.ready, tx.swallowed...)
	clear(tx.held)
	tx.swallowed, tx.room = nil, 0
	q.wake()
}

// SendEvent publishes one event.
func (f *flawed) SendEvent(_ context.Context, e *pb.Event) (*pb.Result, error) {
	f.publish(e)
	return &pb.Result{EventID: e.GetEventID(), Sent: true}, nil
}

// SendEventsStream publishes; kept events are answered.
func (f *flawed) SendEventsStream(stream pb.Kubemq_SendEventsStreamServer) error {
	for {
		e, err := stream.Recv()
		if err != nil {
			return nil
		}
		f.publish(e)
		if e.GetStore() {
			if err := stream.Send(&pb.Result{EventID: e.GetEventID(), Sent: true}); err != nil {
				return err
			}
		}
	}
}

func (f *flawed) publish(e *pb.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	groups := make(map[string]bool)
	for c, sub := range f.subs {
		store := int32(sub.GetSubscribeTypeData()) == 2
		if sub.GetChannel() != e.GetChannel() || store != e.GetStore() || sub.GetGroup() != "" && groups[sub.GetGroup()] {
			continue
		}
		groups[sub.GetGroup()] = true
		select {
		case c <- &pb.EventReceive{EventID: e.GetEventID(), Channel: e.GetChannel(), Metadata: e.GetMetadata(), Body: e.GetBody(), Tags: e.GetTags(), Sequence: f.next}:
		default:
		}
	}
}

// SubscribeToEvents sends no header, and nothing any more after a while.
func (f *flawed) SubscribeToEvents(req *pb.Subscribe, stream pb.Kubemq_SubscribeToEventsServer) error {
	c := make(chan *pb.EventReceive, 250)
	f.mu.Lock()
	if kept := int32(req.GetSubscribeTypeData()) == 2; kept {
		if f.clients[req.GetClientID()] {
			f.mu.Unlock()
			return status.Error(codes.Internal, "stan: clientID already registered")
		}
		f.clients[req.GetClientID()] = true
		defer func() { f.mu.Lock(); delete(f.clients, req.GetClientID()); f.mu.Unlock() }()
	}
	f.subs[c] = req
	f.mu.Unlock()
	defer func() { f.mu.Lock(); delete(f.subs, c); f.mu.Unlock() }()
	for n := 0; ; n++ {
		select {
		case e := <-c:
			if f.muteAfter > 0 && n >= f.muteAfter {
				continue
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// orderd on a server that does all that: every order goes all the way, once.
func TestFlawedServer(t *testing.T) {
	for _, test := range []struct {
		name   string
		server *flawed
		n      int
	}{
		{"as measured", &flawed{}, size(60, 200, 2000)},
		{"streams break off", &flawed{breakEvery: 3}, size(40, 100, 500)},
		{"subscriptions fall silent", &flawed{muteAfter: 5}, size(40, 100, 500)},
		{"messages are lost", &flawed{loseEvery: 10}, size(30, 60, 200)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			gate := startGateway(t, func(key string, n int) int {
				if hash(key)%10 == 0 && n == 1 {
					return 503
				}
				return 200
			})
			push := new(pushes)
			p := startOrderd(t, t.TempDir(), "KUBEMQ_ADDRESS="+startFlawed(t, test.server), "PAYMENT_URL="+gate.url, "PUSH_URL="+listenHTTP(t, push),
				"RETRY_BASE=10ms", "RETRY_CAP=50ms", "WORKERS=8")
			ids := p.post("f", test.n)
			if len(ids) != test.n {
				t.Fatalf("%d of %d orders were accepted", len(ids), test.n)
			}
			p.done(slow(3 * time.Minute))
			p.settle(ids)
			p.audit(gate, ids)
			p.counts("confirmed", len(ids), "")
			eventually(t, slow(60*time.Second), func() error {
				for _, id := range ids {
					if got := strings.Join(push.of(id), " "); got != "created processing confirmed" {
						return fmt.Errorf("pushes of %s: %s", id, got)
					}
				}
				return nil
			})
			test.server.mu.Lock()
			defer test.server.mu.Unlock()
			if test.server.loseEvery > 0 && test.server.lost == 0 {
				t.Error("no message was lost")
			}
		})
	}
}

// Subscriptions that fell silent are found although nothing happens that they
// could miss; ones that work are left alone.
func TestFlawedServer_quiet(t *testing.T) {
	t.Parallel()
	deaf := startOrderd(t, t.TempDir(), "KUBEMQ_ADDRESS="+startFlawed(t, &flawed{muteAfter: 1}))
	fine := startOrderd(t, t.TempDir(), "KUBEMQ_ADDRESS="+startFlawed(t, &flawed{}))
	again := func(l logLine) bool { return l.Message == "own heartbeat is not heard, subscribing again" }
	eventually(t, 60*time.Second, func() error {
		for _, role := range []string{"email", "push", "analytics"} {
			if deaf.count(func(l logLine) bool { return again(l) && l.Role == role }) == 0 {
				return fmt.Errorf("%s has not noticed", role)
			}
		}
		return nil
	})
	if n := fine.count(again); n != 0 {
		t.Errorf("%d subscriptions that work were made again", n)
	}
}
