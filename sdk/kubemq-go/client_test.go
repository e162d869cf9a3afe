package kubemq_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubemq-io/kubemq-go/v2"
)

// Leaked goroutines fail the package.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "leaked goroutines:\n%s\n", buf[:runtime.Stack(buf, true)])
			code = max(code, 1)
			break
		}
	}
	os.Exit(code)
}

func TestPing(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	host, port, _ := net.SplitHostPort(b.addr)
	c, err := kubemq.NewClient(t.Context(), kubemq.WithAddress(host, atoi(t, port)), kubemq.WithCheckConnection(true))
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Ping(t.Context())
	if err != nil || *info != (kubemq.ServerInfo{Host: "fake", Version: "v2.4.0", ServerStartTime: 1700000000, ServerUpTimeSeconds: 7}) {
		t.Fatalf("got %v, %v", info, err)
	}
	if s := c.State(); s != kubemq.StateReady {
		t.Errorf("state: got %s", s)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if s := c.State(); s != kubemq.StateClosed {
		t.Errorf("state: got %s", s)
	}
}

func atoi(tb testing.TB, s string) int {
	tb.Helper()
	var n int
	if _, err := fmt.Sscan(s, &n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.stop()
	begun := time.Now()
	called := atomic.Bool{}
	c, err := kubemq.NewClientFromAddress(b.addr, fast(), kubemq.WithConnectionTimeout(200*time.Millisecond), kubemq.WithOnClosed(func() { called.Store(true) }))
	var e *kubemq.KubeMQError
	if c != nil || !errors.As(err, &e) || e.Code != kubemq.ErrCodeTimeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, %v", c, err)
	}
	if !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), b.addr) {
		t.Errorf("the error does not say why and where: %v", err)
	}
	if took := time.Since(begun); took < 200*time.Millisecond || took > 5*time.Second {
		t.Errorf("took %s, timeout is 200 ms", took)
	}
	if called.Load() {
		t.Error("OnClosed of a client that never was")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kubemq.NewClient(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestBrokerStartsLate(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.stop()
	got := make(chan error, 1)
	go func() {
		c, err := kubemq.NewClientFromAddress(b.addr, fast())
		if err == nil {
			err = c.Close()
		}
		got <- err
	}()
	b.start()
	if err := next(t, "connection", got); err != nil {
		t.Fatal(err)
	}
}

func TestCheckConnection(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.set(func() {
		b.fail = func(string) error { return status.Error(codes.Unauthenticated, "who are you") }
	})
	_, err := kubemq.NewClientFromAddress(b.addr, kubemq.WithCheckConnection(true))
	var e *kubemq.KubeMQError
	if !errors.As(err, &e) || e.Code != kubemq.ErrCodeAuthentication || e.IsRetryable {
		t.Fatalf("got %v", err)
	}
}

func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	_, err := kubemq.NewClient(t.Context(), kubemq.WithAddress("", 70000), kubemq.WithConnectionTimeout(0), kubemq.WithMaxConcurrentCallbacks(0),
		kubemq.WithTLSConfig(&kubemq.TLSConfig{CertPEM: []byte("x")}))
	if !errors.Is(err, kubemq.ErrValidation) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"host", "70000", "connection timeout", "max concurrent callbacks", "certificate and key"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not all faults named, %q is missing: %v", want, err)
		}
	}
	for _, address := range []string{"nonsense", "host:0", ":50000", "host:port", "host:99999"} {
		if _, err := kubemq.NewClientFromAddress(address); !errors.Is(err, kubemq.ErrValidation) {
			t.Errorf("%s: got %v", address, err)
		}
	}
	if err := kubemq.GetDefaultOptions().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

// Ensure that a client that makes no call dials a lost connection again, and
// that its callbacks are told in order.
func TestIdleClientReconnects(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	told := make(chan string, 100)
	tell := func(what string) func() { return func() { told <- what } }
	c := connect(t, b,
		kubemq.WithOnConnected(tell("connected")), kubemq.WithOnDisconnected(tell("disconnected")),
		kubemq.WithOnReconnecting(tell("reconnecting")), kubemq.WithOnReconnected(tell("reconnected")), kubemq.WithOnClosed(tell("closed")))
	want := []string{"connected"}
	for range 3 {
		b.stop()
		eventually(t, "loss", func() bool { return c.State() == kubemq.StateReconnecting })
		b.start()
		eventually(t, "reconnection", func() bool { return c.State() == kubemq.StateReady })
		want = append(want, "disconnected", "reconnecting", "reconnected")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	want = append(want, "closed")
	var got []string
	for range want {
		got = append(got, next(t, "callback", told))
	}
	if !slices.Equal(got, want) || len(told) != 0 {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Ensure that a state callback that hangs holds up neither calls nor
// reconnecting.
func TestStateCallbacksAreOffTheWay(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	hang := make(chan struct{})
	c := connect(t, b, kubemq.WithOnConnected(func() { <-hang }), kubemq.WithOnReconnected(func() { panic("for a test") }))
	b.stop()
	eventually(t, "loss", func() bool { return c.State() == kubemq.StateReconnecting })
	b.start()
	if _, err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(hang)
}

func TestGivesUpAfterMaxAttempts(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	closed := make(chan bool, 1)
	c := connect(t, b, kubemq.WithReconnectPolicy(kubemq.ReconnectPolicy{MaxAttempts: 2, InitialDelay: time.Millisecond}),
		kubemq.WithOnClosed(func() { closed <- true }))
	b.stop()
	next(t, "OnClosed", closed)
	if _, err := c.Ping(t.Context()); !errors.Is(err, kubemq.ErrClientClosed) {
		t.Errorf("got %v", err)
	}
}

// Ensure that a send that the broker may have seen is not repeated, while one
// that surely was not and a call that does no harm are.
// tokens gives t1, t2 and so on.
// Ensure that closing at any moment neither races nor hangs.
