package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kubemq-io/kubemq-go/v2"
)

// connect makes a client as any KubeMQ user would.
func (p *process) connect() *kubemq.Client {
	p.t.Helper()
	host, port, err := net.SplitHostPort(p.broker)
	if err != nil {
		p.t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := kubemq.NewClient(p.t.Context(), kubemq.WithAddress(host, n))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			p.t.Errorf("close client: %v", err)
		}
	})
	return c
}

// heard collects the status events of a subscription by order.
type heard struct {
	mu     sync.Mutex // protects events
	events map[string][]string
}

func (h *heard) on(e *kubemq.Event) {
	var body struct{ OrderID, Status string }
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.events == nil {
		h.events = make(map[string][]string)
	}
	h.events[body.OrderID] = append(h.events[body.OrderID], body.Status)
}

func (h *heard) of(id string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.events[id]...)
}

// A program that knows KubeMQ and nothing of orderd: it puts an order on the
// queue and hears what becomes of it.
func TestSeeds_otherPrograms(t *testing.T) {
	t.Parallel()
	p := startOrderd(t, t.TempDir())
	c := p.connect()
	var all, one, two heard
	for group, to := range map[string]*heard{"": &all} {
		if _, err := c.SubscribeToEvents(t.Context(), "order-notifications", group, kubemq.WithOnEvent(to.on)); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []*heard{&one, &two} {
		if _, err := p.connect().SubscribeToEvents(t.Context(), "order-notifications", "analytics", kubemq.WithOnEvent(to.on)); err != nil {
			t.Fatal(err)
		}
	}
	const n = 12
	for i := range n {
		body := fmt.Sprintf(`{"orderId":"ORD-%d","customer":"alice@example.com","items":3,"total":149.97,"createdAt":1700000000000}`, i)
		res, err := c.SendQueueMessage(t.Context(), kubemq.NewQueueMessage().SetChannel("orders").SetBody([]byte(body)).SetMetadata("order.created").
			SetTags(map[string]string{"customer": "alice@example.com"}).SetMaxReceiveCount(5).SetMaxReceiveQueue("orders.dlq").SetExpirationSeconds(300))
		if err != nil || res.IsError {
			t.Fatalf("send: %+v, %v", res, err)
		}
	}
	for i := range n {
		p.reachSoon(fmt.Sprint("ORD-", i), "confirmed")
	}
	want := []string{"created", "processing", "confirmed"}
	eventually(t, 10*time.Second, func() error {
		for i := range n {
			id := fmt.Sprint("ORD-", i)
			if got := all.of(id); fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("the subscriber without a group heard %v of %s", got, id)
			}
			if a, b := one.of(id), two.of(id); len(a)+len(b) != len(want) {
				return fmt.Errorf("the group heard %v and %v of %s", a, b, id)
			}
		}
		if len(one.events) == 0 || len(two.events) == 0 {
			return fmt.Errorf("the group did not share: %d and %d orders", len(one.events), len(two.events))
		}
		return nil
	})

	// What is no order is a dead letter and stops nobody.
	if _, err := c.SendQueueMessage(t.Context(), kubemq.NewQueueMessage().SetChannel("orders").SetBody([]byte("no order"))); err != nil {
		t.Fatal(err)
	}
	if d := p.deadLetter(""); string(d.Raw) != "no order" || d.Status != "open" || d.Round != 0 {
		t.Errorf("dead letter: %+v", d)
	}
}

// reachSoon is reach for an order that may not be known yet.
func (p *process) reachSoon(id, status string) {
	p.t.Helper()
	p.reach(id, status, slow(10*time.Second))
}

// The seeds' programs, as they are in sdk/kubemq-go/examples.
func TestSeeds_examples(t *testing.T) {
	t.Parallel()
	p := startOrderd(t, t.TempDir())
	host, port, err := net.SplitHostPort(p.broker)
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "KUBEMQ_HOST="+host, "KUBEMQ_PORT="+port)
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/kubemq-io/kubemq-go/v2/examples/...").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	listeners := make(map[string]*program)
	for _, name := range []string{"emailservice", "pushservice", "analytics"} {
		listeners[name] = runExample(t, env, filepath.Join(bin, name))
	}
	said := map[string]string{"emailservice": "alice@example.com", "pushservice": "alice@example.com", "analytics": "order.shipped"}
	// They may not stand yet: events are sent until each has heard of one.
	publish := func() {
		out, err := command(env, filepath.Join(bin, "statuspublisher")).CombinedOutput()
		if err != nil {
			t.Fatalf("statuspublisher: %v: %s", err, out)
		}
	}
	eventually(t, slow(30*time.Second), func() error {
		publish()
		for name, l := range listeners {
			if !strings.Contains(l.output(), said[name]) {
				return fmt.Errorf("%s printed %q", name, l.output())
			}
		}
		return nil
	})
	if out, err := command(env, filepath.Join(bin, "submitorder")).CombinedOutput(); err != nil || !strings.Contains(string(out), "ORD-2001") {
		t.Fatalf("submitorder: %v: %s", err, out)
	}
	p.reachSoon("ORD-2001", "confirmed")
	eventually(t, 10*time.Second, func() error {
		if got := listeners["analytics"].output(); !strings.Contains(got, "order.processing") {
			return fmt.Errorf("analytics has not heard of our order: %q", got)
		}
		return nil
	})
	for name, l := range listeners {
		if err := l.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		if err := l.cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v: %s", name, err, l.output())
		}
	}
}

func command(env []string, name string) *exec.Cmd {
	cmd := exec.Command(name)
	cmd.Env = env
	return cmd
}

// program is a program under way.
type program struct {
	cmd *exec.Cmd

	mu  sync.Mutex // protects out
	out bytes.Buffer
}

// Write takes what the program prints.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func runExample(t *testing.T, env []string, name string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{cmd: exec.CommandContext(ctx, name)}
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return p
}
