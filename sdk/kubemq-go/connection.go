package kubemq

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
)

// dial makes the connection's object; nothing is dialled yet.
func (c *Client) dial() (*grpc.ClientConn, error) {
	o := c.opts
	creds, err := o.transportCredentials()
	if err != nil {
		return nil, err
	}
	dialOpts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcBackoff(o.reconnect),
			MinConnectTimeout: o.connectionTimeout,
		}),
		// Nothing may close the connection because it is quiet: it would be
		// dialled again only by the next call, and a subscriber makes none.
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(o.maxReceive),
			grpc.MaxCallSendMsgSize(o.maxSend),
			grpc.WaitForReady(o.waitForReady),
		),
		grpc.WithUserAgent("kubemq-go/" + Version),
	}
	if o.keepaliveTime > 0 {
		dialOpts = append(dialOpts, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time:                o.keepaliveTime,
			Timeout:             cmp.Or(o.keepaliveTimeout, defaultKeepaliveTimeout),
			PermitWithoutStream: o.permitKeepalive,
		}))
	}
	if o.reconnect.MaxAttempts > 0 {
		dialOpts = append(dialOpts, grpc.WithContextDialer(c.dialCounted))
	}
	if c.token != nil {
		dialOpts = append(dialOpts,
			grpc.WithUnaryInterceptor(c.token.unary),
			grpc.WithStreamInterceptor(c.token.stream))
	}
	// passthrough: the name is looked up at each attempt, so a broker that moved
	// is found.
	return grpc.NewClient("passthrough:///"+o.target(), dialOpts...)
}

// grpcBackoff translates p. gRPC's jitter lies around the computed delay, which
// comes close enough to the modes.
func grpcBackoff(p ReconnectPolicy) backoff.Config {
	p = filled(p)
	b := backoff.Config{BaseDelay: p.InitialDelay, MaxDelay: p.MaxDelay, Multiplier: p.Multiplier}
	switch p.JitterMode {
	case JitterFull:
		b.Jitter = 1
	case JitterEqual:
		b.Jitter = 0.5
	}
	return b
}

// filled puts the documented values in place of zeros.
func filled(p ReconnectPolicy) ReconnectPolicy {
	d := DefaultReconnectPolicy()
	if p.InitialDelay <= 0 {
		p.InitialDelay = d.InitialDelay
	}
	if p.MaxDelay <= 0 {
		p.MaxDelay = d.MaxDelay
	}
	if p.Multiplier < 1 {
		p.Multiplier = d.Multiplier
	}
	return p
}

// delay returns the wait before repetition n, counted from 0.
func delay(n int, initial, longest time.Duration, multiplier float64, jitter JitterMode) time.Duration {
	d := float64(initial)
	for range n {
		d *= max(multiplier, 1)
		if longest > 0 && d >= float64(longest) {
			d = float64(longest)
			break
		}
	}
	if longest > 0 {
		d = min(d, float64(longest))
	}
	d = min(d, float64(time.Hour)) // a policy without a longest wait must not overflow
	switch jitter {
	case JitterFull:
		d *= rand.Float64()
	case JitterEqual:
		d = d/2 + d/2*rand.Float64()
	}
	return time.Duration(d)
}

// pause waits for d and says whether it did: not if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// connect waits until the connection is up and leaves a goroutine that keeps it
// up.
func (c *Client) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.connectionTimeout)
	defer cancel()
	c.state.Store(int32(StateConnecting))
	if err := c.waitReady(ctx); err != nil {
		return callError(ctx, "NewClient", "", "", fmt.Errorf("connect to %s: %w", c.opts.target(), err))
	}
	c.state.Store(int32(StateReady))
	c.notices.add(c.opts.states.OnConnected)
	c.log.Info("connected", "address", c.opts.target())
	c.spawn(c.watch)
	if !c.opts.checkConnection {
		return nil
	}
	if _, err := c.Ping(ctx); err != nil {
		return fmt.Errorf("kubemq: check connection to %s: %w", c.opts.target(), err)
	}
	return nil
}

func (c *Client) waitReady(ctx context.Context) error {
	for {
		s := c.conn.GetState()
		if s == connectivity.Ready {
			return nil
		}
		if s == connectivity.Idle {
			c.conn.Connect()
		}
		if !c.conn.WaitForStateChange(ctx, s) {
			return c.connectFault(ctx.Err())
		}
	}
}

// connectFault returns why the connection is not up. gRPC tells only calls that
// do not wait for it.
func (c *Client) connectFault(end error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := c.rpc.Ping(ctx, &pb.Empty{}, grpc.WaitForReady(false))
	if err == nil || ctx.Err() != nil {
		return end
	}
	return fmt.Errorf("%w: %w", end, err)
}

// watch follows the connection until the client is closed: it dials again when
// nothing else would and tells the state callbacks.
func (c *Client) watch() {
	was := connectivity.Ready
	for {
		now := c.conn.GetState()
		if now != was {
			c.changed(was, now)
		}
		if now == connectivity.Idle {
			c.conn.Connect()
		}
		was = now
		if !c.conn.WaitForStateChange(c.ctx, now) {
			return
		}
	}
}

func (c *Client) changed(was, now connectivity.State) {
	select {
	case <-c.closing:
		return // only OnClosed follows
	default:
	}
	switch {
	case now == connectivity.Ready:
		c.attempts.Store(0)
		c.state.Store(int32(StateReady))
		c.log.Info("reconnected", "address", c.opts.target())
		c.notices.add(c.opts.states.OnReconnected)
	case was == connectivity.Ready:
		c.state.Store(int32(StateReconnecting))
		c.log.Warn("connection lost", "address", c.opts.target())
		c.notices.add(c.opts.states.OnDisconnected)
		c.notices.add(c.opts.states.OnReconnecting)
	}
}

// dialCounted dials address, unless the limit of attempts is used up, which
// ends the client. The connection's states do not tell one failed attempt from
// the next, so attempts are counted here.
func (c *Client) dialCounted(ctx context.Context, address string) (net.Conn, error) {
	if c.State() == StateReconnecting && c.attempts.Add(1) > int64(c.opts.reconnect.MaxAttempts) {
		c.giveUp.Do(func() {
			c.log.Error("connection given up", "address", address, "attempts", c.opts.reconnect.MaxAttempts)
			// Close waits for the connection, which waits for this dial. Whoever
			// calls Close later waits for this one.
			go c.Close()
		})
		return nil, errGivenUp
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
