package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the program under test, built once by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "orderd-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "orderd")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build orderd: %v\n%s", err, out)
		return 1
	}
	stop := startPostgres(dir)
	defer stop()
	return m.Run()
}

// size is the number for the tier that ORDERD_TEST_SIZE names.
func size(small, ci, full int) int {
	switch os.Getenv("ORDERD_TEST_SIZE") {
	case "ci":
		return ci
	case "full":
		return full
	}
	return small
}

// slow stretches a limit where the race detector makes everything slower.
func slow(d time.Duration) time.Duration {
	if raceEnabled {
		return 10 * d
	}
	return d
}

// logLine is one line that a process logged.
type logLine struct {
	Level, Message, Addr, Status, To, Role string
	OrderID                                string `json:"order_id"`
	text                                   string
}

// process is a running orderd.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	dir    string
	url    string // of its HTTP server, empty without one
	broker string // address of its embedded broker, empty without one
	begun  time.Time
	ready  time.Duration // from its start
	exited chan struct{}

	mu    sync.Mutex // protects lines and changed
	lines []logLine
	more  chan struct{} // closed when a line is added
}

// launch starts orderd in dir with these settings and does not wait for it.
func launch(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	p := &process{t: t, dir: dir, begun: time.Now(), exited: make(chan struct{}), more: make(chan struct{})}
	p.cmd = exec.Command(binary)
	p.cmd.Dir = dir
	// Only what the test says: the tester's own environment must not matter.
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "HTTP_ADDR=127.0.0.1:0", "BROKER_ADDR=127.0.0.1:0", "LOG_FORMAT=json"}, env...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() { defer close(read); p.read(stderr) }()
	go func() {
		defer close(p.exited)
		<-read
		_ = p.cmd.Wait() // the code is in ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			p.dump()
		}
	})
	return p
}

// startOrderd starts orderd in dir and waits until it is ready.
func startOrderd(t *testing.T, dir string, env ...string) *process {
	t.Helper()
	p := launch(t, dir, env...)
	p.wait("ready", func(l logLine) bool { return l.Message == "ready" })
	p.ready = time.Since(p.begun)
	if !hasEnv(env, "KUBEMQ_ADDRESS") {
		p.broker = p.wait("its broker's address", func(l logLine) bool { return l.Message == "broker listening" }).Addr
	}
	if !hasEnv(env, "API_ENABLED=false") {
		p.url = "http://" + p.wait("its address", func(l logLine) bool { return l.Message == "http listening" }).Addr
	}
	return p
}

func hasEnv(env []string, prefix string) bool {
	for _, e := range env {
		if strings.HasPrefix(e, prefix) {
			return true
		}
	}
	return false
}

func (p *process) read(r io.Reader) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var l logLine
		_ = json.Unmarshal(s.Bytes(), &l) // what is no JSON is kept as text
		l.text = s.Text()
		p.mu.Lock()
		p.lines = append(p.lines, l)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

// wait returns the first line that matches, which has to come within 20 s.
func (p *process) wait(what string, match func(logLine) bool) logLine {
	p.t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	seen := 0
	for {
		p.mu.Lock()
		lines, more := p.lines[seen:], p.more
		seen = len(p.lines)
		p.mu.Unlock()
		for _, l := range lines {
			if match(l) {
				return l
			}
		}
		select {
		case <-more:
		case <-p.exited:
			p.mu.Lock()
			last := seen == len(p.lines)
			p.mu.Unlock()
			if last {
				p.t.Fatalf("orderd ended before it logged %s", what)
			}
		case <-deadline.C:
			p.t.Fatalf("orderd did not log %s", what)
		}
	}
}

// count returns how many lines match.
func (p *process) count(match func(logLine) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, l := range p.lines {
		if match(l) {
			n++
		}
	}
	return n
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, l := range p.lines {
		b.WriteString(l.text + "\n")
	}
	return b.String()
}

func (p *process) dump() {
	lines := strings.Split(p.text(), "\n")
	if len(lines) > 60 {
		lines = lines[len(lines)-60:]
	}
	p.t.Logf("orderd %d logged last:\n%s", p.cmd.Process.Pid, strings.Join(lines, "\n"))
}

// kill is kill -9.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.exited
}

// stop sends a signal and returns the exit code and how long it took.
func (p *process) stop(sig syscall.Signal, limit time.Duration) (int, time.Duration) {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	return p.exit(limit), time.Since(began)
}

// exit waits for the process to end and returns its code.
func (p *process) exit(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(limit):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // prints its goroutines
		<-p.exited
		p.t.Fatalf("orderd did not end within %s", limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// noErrors fails the test if the process logged an error.
func (p *process) noErrors() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if l.Level == "error" || l.Level == "fatal" || strings.Contains(l.text, "DATA RACE") || strings.HasPrefix(l.text, "panic:") {
			p.t.Errorf("logged: %s", l.text)
		}
	}
}

// answer is what an HTTP request was answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("answer %d is no JSON: %v: %s", a.status, err, a.body)
	}
}

var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// do sends a request; headers are in pairs.
func (p *process) do(method, path, body string, headers ...string) (answer, error) {
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, b}, errors.Join(err, resp.Body.Close())
}

// must sends a request that has to be answered with status.
func (p *process) must(status int, method, path, body string, headers ...string) answer {
	p.t.Helper()
	a, err := p.do(method, path, body, headers...)
	if err != nil {
		p.t.Fatal(err)
	}
	if a.status != status {
		p.t.Fatalf("%s %s: got %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

// order is an order as the API shows it.
type order struct {
	OrderID, Customer, Status, Carrier, TrackingNumber string
	Items, CreatedAt, UpdatedAt, ExpiresAt             int64
	Total                                              json.Number
	CancelRequested                                    bool
	History                                            []struct{ Status, By, Reason string }
	Attempts                                           []struct {
		Step, Outcome, ErrorClass, Error, Worker string
		Round, Attempt                           int
	}
}

func (o order) statuses() []string {
	var out []string
	for _, h := range o.History {
		out = append(out, h.Status)
	}
	return out
}

func (p *process) get(id string) (order, error) {
	a, err := p.do(http.MethodGet, "/orders/"+id, "")
	if err != nil {
		return order{}, err
	}
	if a.status != http.StatusOK {
		return order{}, fmt.Errorf("order %s: %d: %s", id, a.status, a.body)
	}
	var o order
	return o, json.Unmarshal(a.body, &o)
}

// reach waits until an order has a status.
func (p *process) reach(id, status string, within time.Duration) order {
	p.t.Helper()
	var o order
	eventually(p.t, within, func() (err error) {
		if o, err = p.get(id); err == nil && o.Status != status {
			err = fmt.Errorf("order %s is %s, want %s", id, o.Status, status)
		}
		return err
	})
	return o
}

type books struct {
	Accepted, UnderWay, Confirmed, Shipped, Delivered, Failed, Expired, Cancelled int
	Balanced                                                                      bool
}

func (p *process) books() books {
	p.t.Helper()
	var b books
	p.must(200, http.MethodGet, "/books", "").decode(p.t, &b)
	return b
}

// eventually tries until there is no error.
func eventually(t *testing.T, within time.Duration, try func() error) {
	t.Helper()
	end := time.Now().Add(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s: %v", within, err)
		}
		<-tick.C
	}
}

// gateway is a payment gateway over a socket.
type gateway struct {
	url string

	mu     sync.Mutex // protects all below
	decide func(key string, n int) int
	asked  map[string]int    // authorisations by key
	states map[string]string // what an enquiry tells
	voided []string
	bodies []map[string]string
	hold   chan struct{} // if not nil, authorisations wait until it is closed
}

// hang is a decision of a gateway not to answer.
const hang = -1

// startGateway answers what decide says to the n-th authorisation of a key.
func startGateway(t *testing.T, decide func(key string, n int) int) *gateway {
	t.Helper()
	g := &gateway{decide: decide, asked: make(map[string]int), states: make(map[string]string)}
	g.url = listenHTTP(t, g) + "/pay"
	return g
}

// listenHTTP serves handler on a free port until the test ends.
func listenHTTP(t *testing.T, handler http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		<-done
	})
	return "http://" + l.Addr().String()
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	key, isVoid := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/pay/"), "/void")
	switch {
	case r.Method == http.MethodPost && isVoid:
		g.voided = append(g.voided, key)
		g.states[key] = "voided"
		g.mu.Unlock()
	case r.Method == http.MethodGet:
		state, ok := g.states[key]
		g.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"status":%q}`, state)
	default:
		key = r.Header.Get("Idempotency-Key")
		g.asked[key]++
		status := g.decide(key, g.asked[key])
		var b map[string]string
		_ = json.Unmarshal(body, &b)
		g.bodies = append(g.bodies, b)
		hold := g.hold
		g.mu.Unlock()
		if status == hang {
			<-r.Context().Done()
			return
		}
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
		}
		g.mu.Lock()
		if status < 300 {
			g.states[key] = "authorised"
		} else if status < 500 {
			g.states[key] = "refused"
		}
		g.mu.Unlock()
		w.WriteHeader(status)
	}
}

func (g *gateway) snapshot() (asked map[string]int, voided []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked = make(map[string]int)
	for k, n := range g.asked {
		asked[k] = n
	}
	return asked, append([]string(nil), g.voided...)
}

// pushes is a push endpoint.
type pushes struct {
	mu     sync.Mutex // protects bodies and keys
	bodies []map[string]any
	keys   []string
}

func (p *pushes) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var b map[string]any
	_ = json.NewDecoder(r.Body).Decode(&b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bodies = append(p.bodies, b)
	p.keys = append(p.keys, r.Header.Get("Idempotency-Key"))
}

func (p *pushes) of(orderID string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, b := range p.bodies {
		if b["orderId"] == orderID {
			out = append(out, fmt.Sprint(b["status"]))
		}
	}
	return out
}

// events reads server-sent events until n have come.
func (p *process) events(n int, path string, headers ...string) []sse {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
		p.t.Fatalf("content type of events: %s", got)
	}
	var out []sse
	var e sse
	s := bufio.NewScanner(resp.Body)
	for len(out) < n && s.Scan() {
		field, value, _ := strings.Cut(s.Text(), ": ")
		switch field {
		case "id":
			_, _ = fmt.Sscan(value, &e.id)
		case "event":
			e.kind = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.data); err != nil {
				p.t.Errorf("data of event %d: %v", e.id, err)
			}
		case "":
			if e.id != 0 {
				out = append(out, e)
			}
			e = sse{}
		}
	}
	if len(out) < n {
		p.t.Fatalf("got %d of %d events: %v", len(out), n, s.Err())
	}
	return out
}

type sse struct {
	id   int64
	kind string
	data map[string]any
}

// runProgram runs the binary to its end and returns what it printed and its
// exit code.
func runProgram(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
