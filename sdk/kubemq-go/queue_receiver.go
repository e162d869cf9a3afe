package kubemq

import (
	"context"
	"math"
	"sync"
	"time"
)

// errorsKept is how many errors a receiver keeps for a reader of Errors.
const errorsKept = 64

// PollRequest says what to take from a queue.
type PollRequest struct {
	Channel            string // empty: the client's default channel
	MaxItems           int32  // below 1 means 1
	WaitTimeoutSeconds int32  // how long to wait for messages; below 1 means 1, the least that every broker knows
	AutoAck            bool   // settle on delivery: what is lost after that is lost
}

// QueueDownstreamReceiver takes messages from queues over one stream. When the
// stream is lost, the next Poll opens another one; messages of the old one can
// no longer be settled and are delivered again.
type QueueDownstreamReceiver struct {
	c       *Client
	ctx     context.Context // ends when Close begins
	cancel  context.CancelFunc
	release func()         // tells the client that the receiver is closed
	turn    chan struct{}  // capacity 1: whoever holds it may poll and use stream
	stream  *downstream    // nil before the first poll and after a lost stream
	retired sync.WaitGroup // streams being closed in the background

	once sync.Once
	done chan struct{}

	mu   sync.Mutex // protects errs from being closed while it is written to
	errs chan error
	over bool
}

// NewQueueDownstreamReceiver returns a receiver with its stream open. ctx is not
// used after it returned.
func (c *Client) NewQueueDownstreamReceiver(ctx context.Context) (*QueueDownstreamReceiver, error) {
	const op = "NewQueueDownstreamReceiver"
	r := &QueueDownstreamReceiver{
		c:    c,
		turn: make(chan struct{}, 1),
		done: make(chan struct{}),
		errs: make(chan error, errorsKept),
	}
	r.ctx, r.cancel = context.WithCancel(c.ctx)
	release, ok := c.adopt(func() { _ = r.Close() })
	if !ok {
		return nil, closedError(op, "", ErrClientClosed)
	}
	r.release = release
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(r.ctx, stop)()
	r.turn <- struct{}{}
	stream, err := c.openDownstream(ctx, op, "", r.report)
	r.stream = stream
	<-r.turn
	if err != nil {
		err = r.fault(ctx, op, "", err)
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// Poll takes up to MaxItems messages; brokers may wait for all of them until the
// wait is over. Without messages it returns an empty answer. If the broker
// refuses the request, the answer says so (IsError) and the error is nil.
//
// After an error the stream is closed: the broker gives every unsettled message
// of this receiver back to its queue, and the next Poll opens a new stream. That
// also goes for a Poll whose ctx ends, since its messages could arrive after
// that; better choose a short wait than a ctx with a deadline. Several Polls at
// once take turns.
func (r *QueueDownstreamReceiver) Poll(ctx context.Context, req *PollRequest) (*PollResponse, error) {
	p, err := r.c.newPoll("Poll", req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, r.fault(ctx, p.op, p.channel, ctx.Err())
	}
	defer func() { <-r.turn }()
	if err := r.revive(ctx, p); err != nil {
		return nil, r.fault(ctx, p.op, p.channel, err)
	}
	resp, err := r.stream.get(ctx, p)
	if err != nil {
		r.retire(p)
		return nil, r.fault(ctx, p.op, p.channel, err)
	}
	return resp, nil
}

// newPoll checks req and fills in what it leaves open.
func (c *Client) newPoll(op string, req *PollRequest) (poll, error) {
	if req == nil {
		return poll{}, invalid(op, "", "request must not be nil")
	}
	p := poll{
		op:       op,
		channel:  c.channelOr(req.Channel),
		maxItems: max(req.MaxItems, 1),
		wait:     seconds(max(req.WaitTimeoutSeconds, 1)),
		autoAck:  req.AutoAck,
	}
	if p.wait.Milliseconds() > math.MaxInt32 {
		return poll{}, invalid(op, p.channel, "wait of %d s is too long", req.WaitTimeoutSeconds)
	}
	return p, checkChannel(op, p.channel, false)
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// fault returns the error of a Poll, which is another one if the receiver was
// closed meanwhile.
func (r *QueueDownstreamReceiver) fault(ctx context.Context, op, channel string, err error) error {
	switch {
	case r.c.ctx.Err() != nil || isClosed(r.c.closing):
		return closedError(op, channel, ErrClientClosed)
	case r.ctx.Err() != nil:
		return closedError(op, channel, errReceiverClosed)
	default:
		return callError(ctx, op, channel, "", err)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// revive makes sure that there is a stream; with the turn held.
func (r *QueueDownstreamReceiver) revive(ctx context.Context, p poll) error {
	if r.ctx.Err() != nil {
		return errReceiverClosed
	}
	if r.stream != nil && r.stream.alive() {
		return nil
	}
	r.stream = nil
	stream, err := r.c.openDownstream(ctx, p.op, p.channel, r.report)
	r.stream = stream
	return err
}

// pollGrace is how long a stream with a poll under way may take to end when it
// is given up: long enough for settlements on their way, short since the broker
// may still give messages to that poll.
const pollGrace = 100 * time.Millisecond

// retire gives up the stream after a failed poll, without waiting for its end;
// with the turn held.
func (r *QueueDownstreamReceiver) retire(p poll) {
	stream := r.stream
	r.stream = nil
	stream.retire()
	if p.autoAck {
		// What the broker would give to this poll would be lost: worse than a
		// settlement that is, after which a message comes twice.
		stream.cancel()
	}
	r.retired.Go(func() { stream.shutdown(min(pollGrace, r.c.grace())) })
}

// Errors returns what cannot be returned elsewhere: settlements that the broker
// refused, as a KubeMQError whose RequestID is the transaction's id and the
// message's sequence, and messages that were unsettled when a stream was lost,
// as a StreamBrokenError. If nobody reads, the oldest 64 are kept. The channel
// is closed by Close.
func (r *QueueDownstreamReceiver) Errors() <-chan error { return r.errs }

// report keeps err for Errors; it never blocks.
func (r *QueueDownstreamReceiver) report(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	select {
	case r.errs <- err:
	default:
		r.c.log.Warn("receiver error dropped, nobody reads them", "error", err)
	}
}

// Close ends the receiver: a Poll under way returns an error, settlements made
// before are delivered, and the broker gives every unsettled message back to its
// queue. It waits up to 1 s, 100 ms after a Poll under way, for the broker to end
// the stream before it breaks it off. Calling it again waits for the same end. It always returns nil.
func (r *QueueDownstreamReceiver) Close() error {
	r.once.Do(func() {
		r.cancel()
		r.turn <- struct{}{} // kept: nobody polls any more
		if r.stream != nil {
			r.stream.shutdown(r.c.grace())
		}
		r.retired.Wait()
		r.mu.Lock()
		r.over = true
		close(r.errs)
		r.mu.Unlock()
		r.release()
		close(r.done)
	})
	<-r.done
	return nil
}

// PollQueue is one Poll on a stream of its own that always settles on delivery,
// whatever AutoAck says: a worker that dies afterwards loses the messages.
// AckAll of the answer does nothing. Work that matters needs a
// QueueDownstreamReceiver.
func (c *Client) PollQueue(ctx context.Context, req *PollRequest) (*PollResponse, error) {
	p, err := c.newPoll("PollQueue", req)
	if err != nil {
		return nil, err
	}
	p.autoAck = true
	stream, err := c.openDownstream(ctx, p.op, p.channel, func(err error) { c.log.Warn("queue stream", "error", err) })
	if err != nil {
		return nil, err
	}
	end := func() { stream.shutdown(c.grace()) }
	release, ok := c.adopt(end)
	if !ok {
		end()
		return nil, closedError(p.op, p.channel, ErrClientClosed)
	}
	defer release()
	defer c.spawn(end) // in the background; if refused, Close ends the stream
	resp, err := stream.get(ctx, p)
	if err == nil {
		return resp, nil
	}
	stream.cancel() // at once: what the broker gives to this poll now is lost
	if isClosed(c.closing) {
		return nil, closedError(p.op, p.channel, ErrClientClosed)
	}
	return nil, err
}
