package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc"
)

// Client is a connection to one broker. It is made by NewClient and must be
// closed. It may be used from many goroutines at once.
type Client struct {
	opts     *Options
	conn     *grpc.ClientConn
	rpc      pb.KubemqClient
	token    *tokenSource // nil without authentication
	clientID string
	log      Logger

	ctx     context.Context // ends when Close breaks off what is under way
	cancel  context.CancelFunc
	closing chan struct{} // closed when Close begins
	done    chan struct{} // closed when Close has ended
	closeOK error         // what Close returned; set before done is closed

	state    atomic.Int32 // a ConnectionState
	attempts atomic.Int64 // dials since the connection was lost, if they are limited
	giveUp   sync.Once    // the limit was reached
	notices  *notices     // state callbacks
	waiting  atomic.Int64 // calls under way while the connection is down

	mu       sync.Mutex          // protects closed and children, and orders the Adds of the groups before Close
	closed   bool                // Close has begun
	children map[*child]struct{} // what Close ends gracefully
	calls    sync.WaitGroup      // unary calls under way
	routines sync.WaitGroup      // goroutines that end when ctx does
	handlers sync.WaitGroup      // goroutines that run the program's callbacks
}

// child is something that Close ends before it ends the client's context.
type child struct{ end func() }

// leastWait is how long Close waits at least for goroutines that only have to
// notice that they are at their end.
const leastWait = 500 * time.Millisecond

// ServerInfo is what a broker says about itself.
type ServerInfo struct {
	Host                string
	Version             string
	ServerStartTime     int64 // Unix seconds
	ServerUpTimeSeconds int64
}

// String returns all of it in one line.
func (s *ServerInfo) String() string {
	return fmt.Sprintf("host=%s version=%s start_time=%d up_time_seconds=%d", s.Host, s.Version, s.ServerStartTime, s.ServerUpTimeSeconds)
}

// NewClient connects to a broker and returns when the connection is up, or with
// an error when it was not within the connection timeout or before ctx ended. It
// keeps trying until then, so a broker may be started at the same time. ctx is
// not used after NewClient returned.
func NewClient(ctx context.Context, op ...Option) (*Client, error) {
	opts := GetDefaultOptions()
	for _, o := range op {
		if o != nil {
			o.apply(opts)
		}
	}
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.clientID == "" {
		opts.clientID = "kubemq-go-" + newID()
	}
	c, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	if err := c.connect(ctx); err != nil {
		if c.State() != StateReady {
			opts.states.OnClosed = nil // it was never open
		}
		_ = c.Close() // it reports only callbacks that hang, and the connection error says more
		return nil, err
	}
	return c, nil
}

// NewClientFromAddress is NewClient for a broker at address, host:port.
func NewClientFromAddress(address string, opts ...Option) (*Client, error) {
	at := optionFunc(func(o *Options) { o.address = address })
	return NewClient(context.Background(), append([]Option{at}, opts...)...)
}

func newClient(opts *Options) (*Client, error) {
	c := &Client{
		opts:     opts,
		clientID: opts.clientID,
		log:      opts.logger,
		closing:  make(chan struct{}),
		done:     make(chan struct{}),
		children: make(map[*child]struct{}),
		notices:  newNotices(opts.logger),
	}
	if opts.token != "" {
		c.token = newTokenSource(NewStaticTokenProvider(opts.token))
	} else if opts.credentials != nil {
		c.token = newTokenSource(opts.credentials)
	}
	conn, err := c.dial()
	if err != nil {
		return nil, fmt.Errorf("kubemq: connect to %s: %w", opts.target(), err)
	}
	c.conn, c.rpc = conn, pb.NewKubemqClient(conn)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.handlers.Go(c.notices.run)
	return c, nil
}

// Ping asks the broker what it is.
func (c *Client) Ping(ctx context.Context) (*ServerInfo, error) {
	r, err := unary(ctx, c, call{op: "Ping", timeout: DefaultRPCTimeout, repeatable: true}, &pb.Empty{}, c.rpc.Ping)
	if err != nil {
		return nil, err
	}
	return &ServerInfo{
		Host:                r.GetHost(),
		Version:             r.GetVersion(),
		ServerStartTime:     r.GetServerStartTime(),
		ServerUpTimeSeconds: r.GetServerUpTimeSeconds(),
	}, nil
}

// State returns what the connection is doing.
func (c *Client) State() ConnectionState { return ConnectionState(c.state.Load()) }

// Close ends the client: new calls fail with ErrClientClosed, those under way
// and callbacks have the drain timeout to end and are then broken off,
// receivers, streams and subscriptions are closed. It returns when every
// goroutine of the client has ended, or with an error if one of the program's
// callbacks still runs after the drain timeout. Calling it again waits for the
// same end and returns the same error.
//
// Close may be called from a callback only with `go client.Close()`, as it waits
// for callbacks.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.done
		return c.closeOK
	}
	c.closed = true
	children := make([]*child, 0, len(c.children))
	for ch := range c.children {
		children = append(children, ch)
	}
	c.mu.Unlock()
	close(c.closing)

	c.drain(children)
	c.cancel()
	c.state.Store(int32(StateClosed))
	err := c.conn.Close()
	c.routines.Wait()
	c.calls.Wait()
	c.notices.close(c.opts.states.OnClosed)
	if !waitFor(&c.handlers, max(c.opts.drainTimeout, leastWait)) {
		err = errors.Join(err, errors.New("kubemq: close: a callback still runs"))
	}
	c.closeOK = err
	close(c.done)
	return err
}

// drain ends the children and gives calls under way the drain timeout.
func (c *Client) drain(children []*child) {
	var ends sync.WaitGroup
	for _, ch := range children {
		ends.Go(ch.end)
	}
	deadline := time.Now().Add(c.opts.drainTimeout)
	if c.State() == StateReady { // otherwise they only wait for the connection
		waitFor(&c.calls, time.Until(deadline))
	}
	if !waitFor(&ends, time.Until(deadline)) {
		c.cancel()
		ends.Wait()
	}
}

// waitFor waits for g, at most d, and says whether g is done.
func waitFor(g *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	// Ends when g does; callers that give up on g see to it that g ends, or
	// report the callback that keeps it.
	go func() {
		g.Wait()
		close(done)
	}()
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// spawn runs f in a goroutine that Close waits for, unless Close has begun. f
// must end when the client's context does.
func (c *Client) spawn(f func()) bool { return c.start(&c.routines, f) }

// spawnHandler is spawn for an f that runs callbacks of the program.
func (c *Client) spawnHandler(f func()) bool { return c.start(&c.handlers, f) }

func (c *Client) start(g *sync.WaitGroup, f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	g.Go(f)
	return true
}

// beginCall counts a unary call, unless Close has begun.
func (c *Client) beginCall() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.calls.Add(1)
	return true
}

// adopt makes Close call end; the returned function undoes that. It is refused
// when Close has begun.
func (c *Client) adopt(end func()) (release func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	ch := &child{end: end}
	c.children[ch] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.children, ch)
	}, true
}

// channelOr returns channel, or the default one if it is empty.
func (c *Client) channelOr(channel string) string {
	if channel == "" {
		return c.opts.defaultChannel
	}
	return channel
}

// clientIDOr returns id, or the client's own if it is empty.
func (c *Client) clientIDOr(id string) string {
	if id == "" {
		return c.clientID
	}
	return id
}
