package kubemq

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/kubemq-io/kubemq-go/v2/types"
)

// call is what unary needs to know about a call.
type call struct {
	op         string
	channel    string
	requestID  string
	timeout    time.Duration // if the context has no deadline
	repeatable bool          // the broker may get it twice
}

// unary makes one call of the broker: it waits for the connection, repeats as
// RetryPolicy says and turns errors into those of this package.
func unary[Req, Resp any](ctx context.Context, c *Client, k call, req Req, do func(context.Context, Req, ...grpc.CallOption) (Resp, error)) (Resp, error) {
	var none Resp
	if !c.beginCall() {
		return none, closedError(k.op, k.channel, ErrClientClosed)
	}
	defer c.calls.Done()
	ctx, cancel := c.callContext(ctx, k.timeout)
	defer cancel()
	done, err := c.enter(k.op, k.channel)
	if err != nil {
		return none, err
	}
	defer done()
	for try := 0; ; try++ {
		var to peer.Peer
		resp, err := do(ctx, req, grpc.Peer(&to))
		if err == nil {
			return resp, nil
		}
		err = callError(ctx, k.op, k.channel, k.requestID, err)
		// gRPC names a peer once the request was given to a connection. Without
		// one the broker cannot have seen it.
		unseen := to.Addr == nil
		if !c.again(ctx, try, err, k.repeatable || unseen) {
			if c.ctx.Err() != nil {
				return none, closedError(k.op, k.channel, errors.Join(ErrClientClosed, err))
			}
			return none, err
		}
	}
}

// callContext returns a context for a call: the caller's, with a deadline, ended
// also by Close.
func (c *Client) callContext(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if _, has := ctx.Deadline(); has {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// enter counts a call that begins while the connection is down, and refuses it
// if too many wait already.
func (c *Client) enter(op, channel string) (done func(), err error) {
	limit := c.opts.reconnect.BufferSize
	if limit == 0 || c.State() == StateReady {
		return func() {}, nil
	}
	if n := c.waiting.Add(1); n > int64(limit) {
		c.waiting.Add(-1)
		return nil, types.NewError(ErrCodeBackpressure, op, channel, "", &BufferFullError{BufferSize: limit, QueuedCount: int(n - 1)})
	}
	return func() { c.waiting.Add(-1) }, nil
}

// again says whether to repeat a call that failed with err, after waiting for
// as long as the policy wants.
func (c *Client) again(ctx context.Context, try int, err error, safe bool) bool {
	p := c.opts.retry
	var e *KubeMQError
	if !safe || try >= p.MaxRetries || ctx.Err() != nil || !errors.As(err, &e) || !e.IsRetryable {
		return false
	}
	return pause(ctx, delay(try, p.InitialBackoff, p.MaxBackoff, p.Multiplier, p.JitterMode))
}

// newID returns a random id in the form of a UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails: it ends the process instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[:8], b[:4])
	s[8] = '-'
	hex.Encode(s[9:13], b[4:6])
	s[13] = '-'
	hex.Encode(s[14:18], b[6:8])
	s[18] = '-'
	hex.Encode(s[19:23], b[8:10])
	s[23] = '-'
	hex.Encode(s[24:], b[10:])
	return string(s[:])
}
