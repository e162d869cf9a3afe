package broker_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"

	"orderd/broker"
)

// A disk that is full: sends are refused or fail, the broker ends, and all that
// it has answered is there when there is room again.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	p := startProcess(t, dir, processFileLimit+"=300000")
	c := pb.NewKubemqClient(dial(t, p.addr))
	var mu sync.Mutex
	var sent []string
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				body := fmt.Sprintf("%d.%d.%s", w, i, strings.Repeat("x", 1000))
				got, err := c.SendQueueMessage(context.Background(), message("q", body))
				if err != nil || got.IsError {
					return
				}
				mu.Lock()
				sent = append(sent, body)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := p.cmd.Wait(); err == nil {
		t.Error("the broker ended without an error")
	}
	if len(sent) < 100 {
		t.Fatalf("only %d were sent", len(sent))
	}
	r := start(t, broker.Options{DataDir: dir})
	there := make(map[string]bool)
	consumer := r.consumer()
	for a := consumer.get("q", 0, 1000); len(a.Messages) > 0; a = consumer.get("q", 0, 100) {
		for _, body := range bodies(a) {
			there[body] = true
		}
	}
	for _, body := range sent {
		if !there[body] {
			t.Errorf("%.10s was answered and is lost", body)
		}
	}
}

// A peer that vanishes without a word is found out, and what it held comes back.
func TestDeadPeer(t *testing.T) {
	if scaled(0, 1, 1) == 0 {
		t.Skip("takes half a minute: set ORDERD_TEST_SIZE=ci")
	}
	t.Parallel()
	r := start(t, broker.Options{})
	r.send("q", "x")
	between := startProxy(t, r.broker.Addr())
	gone := &running{KubemqClient: pb.NewKubemqClient(dial(t, between.addr)), t: t, broker: r.broker}
	c := gone.consumer()
	c.expect("q", 1, "[x] [1]")
	between.freeze()
	a, err := r.ReceiveQueueMessages(context.Background(), &pb.ReceiveQueueMessagesRequest{ClientID: "c", Channel: "q", MaxNumberOfMessages: 1, WaitTimeSeconds: 60})
	if err != nil || received(a) != "x:2" {
		t.Errorf("received %v, %v", a, err)
	}
}

// proxy forwards bytes until it is frozen: then both sides stay connected and
// hear nothing.
type proxy struct {
	addr   string
	frozen chan struct{}
}

func (p *proxy) freeze() { close(p.frozen) }

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), frozen: make(chan struct{})}
	var wg sync.WaitGroup
	var conns []net.Conn
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			conns = append(conns, in, out)
			wg.Go(func() { p.forward(in, out) })
			wg.Go(func() { p.forward(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		for _, c := range conns {
			_ = c.Close()
		}
		wg.Wait()
	})
	return p
}

func (p *proxy) forward(to io.Writer, from io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-p.frozen:
			continue
		default:
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// limitFiles keeps every file of this process below a size, as a full disk
// would.
func limitFiles(t *testing.T) {
	text := os.Getenv(processFileLimit)
	if text == "" {
		return
	}
	var limit uint64
	if _, err := fmt.Sscan(text, &limit); err != nil {
		t.Fatal(err)
	}
	setFileLimit(t, limit)
}
