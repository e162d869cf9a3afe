package kubemq_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"
)

// program is an example that runs.
type program struct {
	tb    testing.TB
	cmd   *exec.Cmd
	lines chan string // of both outputs; closed at its end
}

// run starts an example against b.
func run(tb testing.TB, b *broker, binary string, args ...string) *program {
	tb.Helper()
	host, port, err := net.SplitHostPort(b.addr)
	if err != nil {
		tb.Fatal(err)
	}
	p := &program{tb: tb, cmd: exec.Command(binary, args...), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), "KUBEMQ_HOST="+host, "KUBEMQ_PORT="+port)
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	w.Close()
	go func() {
		defer close(p.lines)
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	tb.Cleanup(func() { _ = p.cmd.Process.Kill() }) // fails if it ended, which is right
	return p
}

// says waits for a line that contains text.
func (p *program) says(text string) {
	p.tb.Helper()
	for {
		if strings.Contains(next(p.tb, p.cmd.Path+" to say "+text, p.lines), text) {
			return
		}
	}
}

// interrupt ends it as Ctrl-C does; it must end well.
func (p *program) interrupt() {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.tb.Fatal(err)
	}
	p.ends()
}

func (p *program) ends() {
	p.tb.Helper()
	for range p.lines {
	}
	if err := p.cmd.Wait(); err != nil {
		p.tb.Errorf("%s: %v", p.cmd.Path, err)
	}
}

// Ensure that the programs in examples do what they say, as programs.
func TestExamples(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command in PATH to build the examples")
	}
	dir := t.TempDir() + string(filepath.Separator)
	if out, err := exec.Command("go", "build", "-o", dir, "./examples/...").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	b := newBroker(t)

	run(t, b, dir+"submitorder", "ORD-1").ends()
	m := get(b, func() *pb.QueueMessage { return b.queues["orders"][0] })
	if m.Metadata != "order.created" || m.Tags["customer"] != "alice@example.com" || m.Policy.MaxReceiveCount != 5 ||
		m.Policy.MaxReceiveQueue != "orders.dlq" || m.Policy.ExpirationSeconds != 300 || !strings.Contains(string(m.Body), `"orderId":"ORD-1"`) {
		t.Errorf("order on the queue: %v", m)
	}
	worker := run(t, b, dir+"worker", "w")
	worker.says("[w] Order ORD-1 completed")
	worker.interrupt()

	email, push, analytics := run(t, b, dir+"emailservice"), run(t, b, dir+"pushservice"), run(t, b, dir+"analytics")
	eventually(t, "4 subscribers", func() bool { return b.subscribers() == 4 })
	publisher := run(t, b, dir+"statuspublisher")
	push.says("order is created")
	publisher.interrupt()
	for _, status := range []string{"shipped", "delivered"} {
		b.publish(&pb.Event{EventID: status, Channel: "order-notifications", Metadata: "order." + status, Tags: map[string]string{"status": status, "customer": "bob"}})
		push.says("Notifying bob: order is " + status)
	}
	email.says("Sending shipping confirmation to bob")
	seen := map[bool]bool{}
	for range 3 {
		for line := ""; !strings.Contains(line, "[Analytics] Recording metric: order."); {
			line = next(t, "metric", analytics.lines)
			seen[strings.HasSuffix(line, "(worker 1)")] = true
		}
	}
	if !seen[true] || !seen[false] {
		t.Error("one worker recorded everything")
	}
	for _, p := range []*program{email, push, analytics} {
		p.interrupt()
	}
}
