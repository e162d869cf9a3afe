package broker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"orderd/broker"
)

func TestOpen_Locked(t *testing.T) {
	r := start(t, broker.Options{})
	if _, err := broker.Open(broker.Options{Addr: "127.0.0.1:0", DataDir: r.dir}, zerolog.Nop()); !errors.Is(err, broker.ErrLocked) {
		t.Errorf("second Open: %v, want ErrLocked", err)
	}
}

func TestOpen_AddressTaken(t *testing.T) {
	r := start(t, broker.Options{})
	dir := t.TempDir()
	_, err := broker.Open(broker.Options{Addr: r.broker.Addr(), DataDir: dir}, zerolog.Nop())
	var busy *net.OpError
	if !errors.As(err, &busy) {
		t.Errorf("Open on a taken address: %v, want an OpError", err)
	}
	start(t, broker.Options{DataDir: dir}) // and the store is free again
}

func TestClose_WithoutRun(t *testing.T) {
	dir := t.TempDir()
	b, err := broker.Open(broker.Options{Addr: "127.0.0.1:0", DataDir: dir}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	start(t, broker.Options{DataDir: dir})
}

func TestOpen_Fast(t *testing.T) {
	begin := time.Now()
	r := start(t, broker.Options{})
	if _, err := r.Ping(within(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("an empty broker answered after %v", took)
	}
}

func TestPing(t *testing.T) {
	r := start(t, broker.Options{Version: "v1.2.3-4-gabc dirty/+"})
	got, err := r.Ping(within(t), &pb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != "2.4.0+v1.2.3.4.gabc.dirty" {
		t.Errorf("version %q", got.Version)
	}
	if up := time.Now().Unix() - got.ServerStartTime; got.Host == "" || up < 0 || up > 60 || got.ServerUpTimeSeconds < 0 || got.ServerUpTimeSeconds > 60 {
		t.Errorf("ping %v", got)
	}
}

func TestAuth(t *testing.T) {
	r := start(t, broker.Options{AuthToken: "secret"})
	call := func(ctx context.Context) (unary, stream, reflection error) {
		_, unary = r.Ping(ctx, &pb.Empty{})
		down, err := r.QueuesDownstream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = down.CloseSend()
		_, stream = down.Recv()
		info, err := reflectionpb.NewServerReflectionClient(r.conn).ServerReflectionInfo(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = info.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
		_, reflection = info.Recv()
		return unary, stream, reflection
	}
	for _, ctx := range []context.Context{
		within(t), metadata.AppendToOutgoingContext(within(t), "authorization", "wrong"), metadata.AppendToOutgoingContext(within(t), "authorization", "secret2"),
		metadata.AppendToOutgoingContext(within(t), "authorization", ""), metadata.AppendToOutgoingContext(within(t), "authorization", "Bearer secret"),
	} {
		unary, stream, reflection := call(ctx)
		for _, err := range []error{unary, stream, reflection} {
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("got %v, want Unauthenticated", err)
			}
		}
	}
	unary, stream, reflection := call(metadata.AppendToOutgoingContext(within(t), "authorization", "secret"))
	if unary != nil || reflection != nil || status.Code(stream) == codes.Unauthenticated {
		t.Errorf("with the token: %v, %v, %v", unary, stream, reflection)
	}
}

func TestUnimplemented(t *testing.T) {
	r := start(t, broker.Options{})
	requests, err := r.SubscribeToRequests(within(t), &pb.Subscribe{SubscribeTypeData: 3, ClientID: "c", Channel: "r"})
	if err == nil {
		_, err = requests.Recv()
	}
	_, err2 := r.SendResponse(within(t), &pb.Response{})
	_, err3 := r.SendRequest(within(t), &pb.Request{RequestID: "r", RequestTypeData: 1, ClientID: "c", Channel: "r", Timeout: 1000, Body: []byte("x")})
	old, err4 := r.StreamQueueMessage(within(t))
	if err4 == nil {
		_, err4 = old.Recv()
	}
	for i, err := range []error{err, err2, err3, err4} {
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("call %d: %v, want Unimplemented", i, err)
		}
	}
}

// A connection on which nothing happens stays, though its client pings often.
func TestKeepalive_IdleConnection(t *testing.T) {
	if testing.Short() || scaled(0, 1, 1) == 0 {
		t.Skip("takes half a minute: set ORDERD_TEST_SIZE=ci")
	}
	r := start(t, broker.Options{})
	conn, err := grpc.NewClient(r.broker.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := pb.NewKubemqClient(conn)
	stream, err := c.SubscribeToEvents(context.Background(), &pb.Subscribe{SubscribeTypeData: 1, ClientID: "c", Channel: "e"})
	if err == nil {
		_, err = stream.Header()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := stream.Recv(); ended <- err }()
	select {
	case err := <-ended:
		t.Fatalf("the idle stream ended: %v", err)
	case <-time.After(45 * time.Second):
	}
	r.publish("e", false, "x")
	if err := <-ended; err != nil {
		t.Errorf("the event did not come: %v", err)
	}
}

// When the broker stops, streams and waiting calls end at once, streams not with
// Unavailable.
func TestStop_EndsStreams(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "x")
	holding := r.consumer()
	holding.get("q", 1, 5000)
	c := r.consumer()
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "q", MaxItems: 1, WaitTimeout: 60_000})
	up, err := r.QueuesUpstream(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Send(&pb.QueuesUpstreamRequest{RequestID: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, err := up.Recv(); err != nil {
		t.Fatal(err)
	}
	events, store := r.subscribe(&pb.Subscribe{Channel: "e"}), r.subscribe(kept("c", "", newOnly, 0))
	group, group2 := r.subscribe(kept("c", "g", newOnly, 0)), r.subscribe(kept("c", "g", newOnly, 0))
	var received error
	var wg sync.WaitGroup
	wg.Go(func() {
		_, received = r.ReceiveQueueMessages(within(t), &pb.ReceiveQueueMessagesRequest{ClientID: "c", Channel: "q", MaxNumberOfMessages: 1, WaitTimeSeconds: 60})
	})
	eventually(t, "the polls wait", func() bool { return r.broker.Stats().Polls == 2 })
	begin := time.Now()
	r.stop()
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("stopping took %v", took)
	}
	wg.Wait()
	if received != nil {
		t.Errorf("a waiting receive ended with %v, want an empty answer", received)
	}
	_, err1 := c.stream.Recv()
	if err1 == nil { // what the other consumer held may have come at the last moment
		_, err1 = c.stream.Recv()
	}
	_, err2 := holding.stream.Recv()
	_, err3 := up.Recv()
	errs := []error{err1, err2, err3}
	for _, s := range []*subscriber{events, store, group, group2} {
		_, err := s.stream.Recv()
		errs = append(errs, err)
	}
	for i, err := range errs {
		if status.Code(err) != codes.Aborted {
			t.Errorf("stream %d ended with %v, want Aborted", i, err)
		}
	}
}

// What is delayed, counted, dead or kept survives a restart and a crash.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, again := range []struct {
		name string
		run  func(*running) *running
	}{{"stop", (*running).restart}, {"crash", (*running).crash}} {
		t.Run(again.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, broker.Options{})
			delayed, last := message("later", "x"), message("q", "last time")
			delayed.Policy = &pb.QueueMessagePolicy{DelaySeconds: 1}
			last.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: 1, MaxReceiveQueue: "dead"}
			r.sendBatch(&pb.QueueMessagesBatchRequest{Messages: []*pb.QueueMessage{delayed, message("q", "1"), last, message("q", "2"), message("q", "3")}})
			c := r.consumer()
			c.settle(ackRange, c.expect("q", 3, "[1 last time 2] [1 1 1]").TransactionId, 3)
			eventually(t, "the acknowledgement is handled", func() bool { return r.broker.Stats().Unacked == 2 })
			r.send("unrelated", "waits for what was before it to be on disk")
			r = again.run(r)
			if s := r.broker.Stats(); s.Unacked != 0 {
				t.Errorf("stats %+v", s)
			}
			c = r.consumer()
			c.expect("q", 10, "[1 3] [2 1]")
			c.expect("dead", 10, "[last time] [1]")
			if a := c.expect("later", 1, "[x] [1]"); time.Now().UnixNano() < a.Messages[0].Attributes.DelayedTo {
				t.Error("the delay was cut short")
			}
			r.send("q", "4")
			if a := c.expect("q", 1, "[4] [1]"); a.Messages[0].Attributes.Sequence != 5 {
				t.Errorf("sequence %d, want 5", a.Messages[0].Attributes.Sequence)
			}
		})
	}
}

// A killed broker process has everything that it answered, and nothing twice
// that was settled well before.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	seen := make(map[string]bool)
	var sent []string
	for round := range scaled(3, 10, 50) {
		p := startProcess(t, dir)
		c := pb.NewKubemqClient(dial(t, p.addr))
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := 0; ; i++ {
					body := fmt.Sprintf("%d.%d.%d", round, w, i)
					got, err := c.SendQueueMessage(context.Background(), message("q", body))
					if err != nil {
						return // killed
					}
					mu.Lock()
					if sent = append(sent, body); got.IsError {
						t.Errorf("%s: %v", body, got)
					}
					mu.Unlock()
				}
			})
		}
		wg.Go(func() { // takes some, acknowledges half of them
			stream, err := c.QueuesDownstream(context.Background())
			for n := 0; err == nil; n++ {
				_ = stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: get, ClientID: "c", Channel: "q", MaxItems: 1, WaitTimeout: 1000})
				var a *pb.QueuesDownstreamResponse
				if a, err = stream.Recv(); err == nil && len(a.Messages) > 0 && n%2 == 0 {
					mu.Lock()
					seen[string(a.Messages[0].Body)] = true
					mu.Unlock()
					_ = stream.Send(&pb.QueuesDownstreamRequest{RequestTypeData: ackAll, ClientID: "c", RefTransactionId: a.TransactionId})
				}
			}
		})
		eventually(t, "some were sent", func() bool { mu.Lock(); defer mu.Unlock(); return len(sent) > 200*(round+1) })
		p.kill()
		wg.Wait()
	}
	r := start(t, broker.Options{DataDir: dir})
	c := r.consumer()
	for {
		a := c.get("q", 0, 100)
		if len(a.Messages) == 0 {
			break
		}
		for _, m := range a.Messages {
			seen[string(m.Body)] = true
		}
	}
	for _, body := range sent {
		if !seen[body] {
			t.Errorf("%s was answered and is lost", body)
		}
	}
}

// process is a broker in a process of its own.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
}

const (
	processDir       = "ORDERD_TEST_BROKER_DIR"
	processFileLimit = "ORDERD_TEST_BROKER_FILE_LIMIT"
)

func startProcess(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestProcess$")
	cmd.Env = append(append(os.Environ(), processDir+"="+dir), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening ")
	if err != nil || !ok {
		t.Fatalf("the broker process said %q, %v", line, err)
	}
	p.addr = addr
	return p
}

func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// TestProcess is the broker in startProcess's process.
func TestProcess(t *testing.T) {
	dir := os.Getenv(processDir)
	if dir == "" {
		t.Skip("is the broker of other tests")
	}
	limitFiles(t)
	b, err := broker.Open(broker.Options{Addr: "127.0.0.1:0", DataDir: dir}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("listening", b.Addr())
	if err := b.Run(context.Background()); err != nil {
		t.Fatal(err) // the test that started this knows
	}
}
