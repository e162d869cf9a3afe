package kubemq

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// closeGrace is how long a stream may take to end after we said that nothing
// more comes. Breaking it off at once would lose what was written last.
const closeGrace = time.Second

// duplex is a stream in both directions: writes from any goroutine, one
// goroutine that reads. It never comes back once it ended.
type duplex[Req, Resp any] struct {
	c      *Client
	op     string
	stream grpc.BidiStreamingClient[Req, Resp]
	cancel context.CancelFunc
	turn   chan struct{} // capacity 1: whoever holds it may write
	done   chan struct{} // closed when the reading goroutine has ended
	err    error         // why the stream ended, nil if we closed it; set before done is closed
	once   sync.Once
	ending chan struct{} // closed when shutdown begins
}

type opener[Req, Resp any] func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Req, Resp], error)

// reader takes what a duplex receives, always from the same goroutine.
type reader[Resp any] struct {
	take func(*Resp) error // an error ends the stream
	end  func(error)       // called last, before done is closed; nil error if we closed the stream
}

// openDuplex opens a stream, waiting for the connection until ctx ends or for
// 10 s if it has no deadline. The stream itself outlives ctx. It must be started.
func openDuplex[Req, Resp any](ctx context.Context, c *Client, op, channel string, open opener[Req, Resp]) (*duplex[Req, Resp], error) {
	leave, err := c.enter(op, channel)
	if err != nil {
		return nil, err
	}
	defer leave()
	opening, stop := c.callContext(ctx, DefaultSubscribeTimeout)
	defer stop()
	streamCtx, cancel := context.WithCancel(c.ctx)
	abort := context.AfterFunc(opening, cancel)
	stream, err := open(streamCtx)
	if !abort() && err == nil {
		err = opening.Err()
	}
	if err != nil {
		cancel()
		if c.ctx.Err() != nil {
			return nil, closedError(op, channel, ErrClientClosed)
		}
		return nil, callError(opening, op, channel, "", err)
	}
	return &duplex[Req, Resp]{
		c:      c,
		op:     op,
		stream: stream,
		cancel: cancel,
		turn:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		ending: make(chan struct{}),
	}, nil
}

// start lets r have what comes. It fails, and breaks the stream off, if the
// client is being closed.
func (d *duplex[Req, Resp]) start(r reader[Resp]) error {
	if d.c.spawn(func() { d.read(r) }) {
		return nil
	}
	d.cancel()
	return closedError(d.op, "", ErrClientClosed)
}

func (d *duplex[Req, Resp]) read(r reader[Resp]) {
	defer close(d.done)
	defer d.cancel()
	var err error
	for err == nil {
		var resp *Resp
		if resp, err = d.stream.Recv(); err == nil {
			err = r.take(resp)
		}
	}
	if errors.Is(err, io.EOF) {
		err = errServerClosed
	}
	if d.isEnding() {
		err = nil
	}
	d.err = err
	r.end(err)
}

func (d *duplex[Req, Resp]) isEnding() bool {
	select {
	case <-d.ending:
		return true
	default:
		return false
	}
}

// alive says whether the stream can still be written to.
func (d *duplex[Req, Resp]) alive() bool {
	select {
	case <-d.done:
		return false
	default:
		return !d.isEnding()
	}
}

// reason returns why a stream that is not alive ended.
func (d *duplex[Req, Resp]) reason() error {
	select {
	case <-d.done:
		if d.err != nil {
			return d.err
		}
	default:
	}
	return errors.New("stream closed")
}

// send writes req. It returns when the connection took it, which takes long
// only if the broker does not read, and at the latest when the stream ends.
func (d *duplex[Req, Resp]) send(ctx context.Context, req *Req) error {
	select {
	case d.turn <- struct{}{}:
	case <-d.done:
		return d.reason()
	case <-d.ending:
		return d.reason()
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.turn }()
	if !d.alive() {
		return d.reason()
	}
	err := d.stream.Send(req)
	if errors.Is(err, io.EOF) { // the reason comes out at the other side
		<-d.done
		return d.reason()
	}
	return err
}

// retire lets nothing more be written; shutdown must follow.
func (d *duplex[Req, Resp]) retire() { d.once.Do(func() { close(d.ending) }) }

// shutdown says to the broker that nothing more comes, lets it end the stream
// within the grace, then breaks the stream off. It returns when the reading
// goroutine has ended.
func (d *duplex[Req, Resp]) shutdown(grace time.Duration) {
	d.retire()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case d.turn <- struct{}{}: // kept: nobody writes any more
		_ = d.stream.CloseSend() // fails only on a stream that ended
	case <-d.done:
	case <-t.C:
		d.cancel()
	}
	select {
	case <-d.done:
	case <-t.C:
	}
	d.cancel()
	<-d.done
}

// grace returns how long a stream may take to end when it is closed.
func (c *Client) grace() time.Duration { return min(closeGrace, c.opts.drainTimeout) }
