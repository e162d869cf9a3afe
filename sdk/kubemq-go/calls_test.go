package kubemq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubemq-io/kubemq-go/v2"
)

func TestCallsWaitForTheConnection(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	b.stop()
	eventually(t, "loss", func() bool { return c.State() == kubemq.StateReconnecting })
	got := make(chan error, 1)
	go func() {
		_, err := c.SendQueueMessageSimple(context.Background(), "q", []byte("x"))
		got <- err
	}()
	b.start()
	if err := next(t, "send", got); err != nil {
		t.Fatal(err)
	}
	if n := len(b.queued("q")); n != 1 {
		t.Errorf("%d messages on the queue", n)
	}
}

func TestCallsThatMayNotWait(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithReconnectPolicy(kubemq.ReconnectPolicy{BufferSize: 2, InitialDelay: time.Millisecond}))
	b.stop()
	eventually(t, "loss", func() bool { return c.State() == kubemq.StateReconnecting })
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := c.Ping(ctx)
			got <- err
		}()
	}
	var full *kubemq.BufferFullError
	err := next(t, "call too many", got)
	var e *kubemq.KubeMQError
	if !errors.As(err, &full) || full.BufferSize != 2 || full.QueuedCount != 2 || !errors.As(err, &e) || e.Code != kubemq.ErrCodeBackpressure {
		t.Errorf("got %v", err)
	}
	cancel()
	for range 2 {
		if err := next(t, "call", got); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	retry := kubemq.WithRetryPolicy(kubemq.RetryPolicy{MaxRetries: 1000, InitialBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond})
	t.Run("seen", func(t *testing.T) {
		t.Parallel()
		b := newBroker(t)
		c := connect(t, b, retry)
		b.set(func() {
			b.fail = func(string) error { return status.Error(codes.Unavailable, "not ready") }
		})
		_, err := c.SendQueueMessageSimple(t.Context(), "q", []byte("x"))
		var e *kubemq.KubeMQError
		if !errors.As(err, &e) || e.Code != kubemq.ErrCodeTransient || !e.IsRetryable {
			t.Fatalf("got %v", err)
		}
		if n := b.count("SendQueueMessage"); n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
	t.Run("not seen", func(t *testing.T) {
		t.Parallel()
		b := newBroker(t)
		c := connect(t, b, retry, kubemq.WithWaitForReady(false))
		b.stop()
		eventually(t, "loss", func() bool { return c.State() == kubemq.StateReconnecting })
		got := make(chan error, 1)
		go func() {
			_, err := c.SendQueueMessageSimple(context.Background(), "q", []byte("x"))
			got <- err
		}()
		b.start()
		if err := next(t, "send", got); err != nil {
			t.Fatal(err)
		}
		if n := b.count("SendQueueMessage"); n != 1 {
			t.Errorf("sent %d times", n)
		}
	})
	t.Run("harmless", func(t *testing.T) {
		t.Parallel()
		b := newBroker(t)
		c := connect(t, b, retry)
		var n atomic.Int32
		b.set(func() {
			b.fail = func(string) error {
				if n.Add(1) <= 3 {
					return status.Error(codes.Unavailable, "not ready")
				}
				return nil
			}
		})
		if _, err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := b.count("Ping"); n != 4 {
			t.Errorf("pinged %d times, want 4", n)
		}
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		b := newBroker(t)
		c := connect(t, b, kubemq.WithRetryPolicy(kubemq.RetryPolicy{}))
		b.set(func() {
			b.fail = func(string) error { return status.Error(codes.Unavailable, "not ready") }
		})
		if _, err := c.Ping(t.Context()); err == nil {
			t.Fatal("no error")
		}
		if n := b.count("Ping"); n != 1 {
			t.Errorf("pinged %d times, want 1", n)
		}
	})
}

func TestAuthToken(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithAuthToken("secret"), kubemq.WithCheckConnection(true))
	poll(t, newReceiver(t, c), "q", 1)
	subscribe(t, c, "e", "")
	got := get(b, func() []string { return slices.Clone(b.tokens) })
	if !slices.Equal(got, []string{"secret", "secret", "secret"}) {
		t.Errorf("authorization of ping, downstream and subscription: got %q", got)
	}
}

type tokens struct {
	n        atomic.Int32
	lifetime time.Duration
	err      error
}

func (p *tokens) GetToken(context.Context) (string, time.Time, error) {
	if p.err != nil {
		return "", time.Time{}, p.err
	}
	var expires time.Time
	if p.lifetime > 0 {
		expires = time.Now().Add(p.lifetime)
	}
	return fmt.Sprintf("t%d", p.n.Add(1)), expires, nil
}

func TestCredentialProvider(t *testing.T) {
	t.Parallel()
	pings := func(b *broker, p *tokens, n int) []string {
		c := connect(t, b, kubemq.WithCredentialProvider(p))
		for range n {
			_, _ = c.Ping(t.Context()) // the tokens are what matters
		}
		return get(b, func() []string { return slices.Clone(b.tokens) })
	}
	if got := pings(newBroker(t), &tokens{}, 3); !slices.Equal(got, []string{"t1", "t1", "t1"}) {
		t.Errorf("without end: got %q", got)
	}
	if got := pings(newBroker(t), &tokens{lifetime: time.Hour}, 3); !slices.Equal(got, []string{"t1", "t1", "t1"}) {
		t.Errorf("an hour: got %q", got)
	}
	if got := pings(newBroker(t), &tokens{lifetime: time.Second}, 3); !slices.Equal(got, []string{"t1", "t2", "t3"}) {
		t.Errorf("ending soon: got %q", got)
	}
	b := newBroker(t)
	b.fail = func(string) error {
		if get(b, func() string { return b.tokens[len(b.tokens)-1] }) == "t1" {
			return status.Error(codes.Unauthenticated, "old")
		}
		return nil
	}
	if got := pings(b, &tokens{}, 3); !slices.Equal(got, []string{"t1", "t2", "t2"}) {
		t.Errorf("refused: got %q", got)
	}
	c := connect(t, newBroker(t), kubemq.WithCredentialProvider(&tokens{err: errors.New("vault is shut")}))
	var e *kubemq.KubeMQError
	if _, err := c.Ping(t.Context()); !errors.As(err, &e) || e.Code != kubemq.ErrCodeAuthentication || !strings.Contains(e.Message, "vault is shut") {
		t.Errorf("got %v", err)
	}
}

func TestLargeMessages(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	for range 2 {
		if _, err := c.SendQueueMessageSimple(t.Context(), "q", make([]byte, 3<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if resp := poll(t, newReceiver(t, c), "q", 2); len(resp.Messages) != 2 || len(resp.Messages[1].Message.Body) != 3<<20 {
		t.Fatalf("got %d messages", len(resp.Messages))
	}
	small := connect(t, b, kubemq.WithMaxSendMessageSize(1000))
	_, err := small.SendQueueMessageSimple(t.Context(), "q", make([]byte, 2000))
	var e *kubemq.KubeMQError
	if !errors.As(err, &e) || e.Code != kubemq.ErrCodeValidation || e.IsRetryable {
		t.Errorf("too large: got %v", err)
	}
}

func TestClassification(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]kubemq.ErrorCode{
		codes.Unavailable: kubemq.ErrCodeTransient, codes.Aborted: kubemq.ErrCodeTransient, codes.DeadlineExceeded: kubemq.ErrCodeTimeout,
		codes.ResourceExhausted: kubemq.ErrCodeThrottling, codes.Unauthenticated: kubemq.ErrCodeAuthentication,
		codes.PermissionDenied: kubemq.ErrCodeAuthorization, codes.InvalidArgument: kubemq.ErrCodeValidation, codes.NotFound: kubemq.ErrCodeNotFound,
		codes.Unimplemented: kubemq.ErrCodeFatal, codes.Internal: kubemq.ErrCodeFatal, codes.Canceled: kubemq.ErrCodeCancellation,
	} {
		cat, got := kubemq.ClassifyGRPCCode(code)
		if got != want {
			t.Errorf("%s: got %s, want %s", code, got, want)
		}
		retryable := want == kubemq.ErrCodeTransient || want == kubemq.ErrCodeTimeout || want == kubemq.ErrCodeThrottling
		if kubemq.IsRetryableCategory(cat) != retryable {
			t.Errorf("%s: retryable is %t", code, !retryable)
		}
	}
	timeout := &kubemq.KubeMQError{Code: kubemq.ErrCodeTimeout}
	if !errors.Is(fmt.Errorf("wrapped: %w", &kubemq.KubeMQError{Code: kubemq.ErrCodeTimeout, Message: "x"}), timeout) ||
		errors.Is(&kubemq.KubeMQError{Code: kubemq.ErrCodeFatal}, timeout) {
		t.Error("errors.Is does not go by code")
	}
}

func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	var log bytes.Buffer
	c := connect(t, b, kubemq.WithAuthToken("secret"), kubemq.WithLogger(kubemq.NewSlogAdapter(slog.New(slog.NewTextHandler(&log, nil)))))
	b.stop()
	eventually(t, "loss", func() bool { return c.State() == kubemq.StateReconnecting })
	b.start()
	eventually(t, "reconnection", func() bool { return c.State() == kubemq.StateReady })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"connected", "connection lost", "reconnected", b.addr} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the token is in the log:\n%s", log.String())
	}
}
