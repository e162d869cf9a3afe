package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/kubemq-io/kubemq-go/v2"
	"github.com/rs/zerolog"

	"orderd/orders"
)

// Message is a message that came off a queue, decoded. Each has to be either
// acked or dropped.
type Message struct {
	orders.Arrival
	raw  *kubemq.QueueDownstreamMessage
	line *line
}

// Ack takes the message off the queue for good. An error means that it may come
// again, which changes nothing.
func (m *Message) Ack() error {
	defer m.line.settled()
	if err := m.raw.Ack(); err != nil {
		return fmt.Errorf("ack message %s: %w", m.MessageID, err)
	}
	return nil
}

// Drop leaves the message to the broker: it comes again when the receiver
// closes.
func (m *Message) Drop() { m.line.settled() }

// line is one life of a receiver's stream, with the messages of it that are
// not settled yet.
type line struct {
	client   *kubemq.Client
	receiver *kubemq.QueueDownstreamReceiver
	since    time.Time
	taken    int

	mu   sync.Mutex // protects held and idle
	held int
	idle chan struct{} // closed while held is 0
}

func newLine(client *kubemq.Client, receiver *kubemq.QueueDownstreamReceiver) *line {
	idle := make(chan struct{})
	close(idle)
	return &line{client: client, receiver: receiver, since: time.Now(), idle: idle}
}

func (l *line) took(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == 0 && n > 0 {
		l.idle = make(chan struct{})
	}
	l.held += n
	l.taken += n
}

func (l *line) settled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held--; l.held == 0 {
		close(l.idle)
	}
}

// drained is closed when nothing is held.
func (l *line) drained() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}

func (l *line) holdsNothing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held == 0
}

func (l *line) close() error { return errors.Join(l.receiver.Close(), l.client.Close()) }

// Receiver takes messages off one queue. There is one per queue and process:
// several on one queue of a real server slow each other down and lose messages.
// Poll must not be called concurrently; Close may be.
type Receiver struct {
	q       *Queue
	channel Channel
	log     zerolog.Logger

	mu     sync.Mutex // protects line and closed
	line   *line
	closed bool

	ask   int  // what to ask a real server for
	part  bool // the last poll came back part-filled
	up    bool
	empty bool // the last poll ran its full wait and found nothing
}

// NewReceiver makes a receiver of one queue.
func (q *Queue) NewReceiver(c Channel) *Receiver {
	return &Receiver{q: q, channel: c, ask: 1, log: q.log.With().Str("channel", q.channelName(c)).Logger()}
}

const (
	// remoteWait bounds a poll of a real server: a settle waits behind it.
	remoteWait = 2 * time.Second
	// slowSettle is how long a real server may hold back what comes after a
	// part-filled poll; then the receiver is replaced.
	slowSettle = time.Second
	// quiet is how much later than asked for a poll may end before its stream is
	// taken for dead.
	quiet = 5 * time.Second
	// A real server keeps what a stream has settled until the stream closes.
	recycleMessages = 10_000
	recycleAge      = 10 * time.Minute
	// early is how much before its wait an empty poll may end.
	early = 250 * time.Millisecond
)

// Poll returns up to max messages. It returns none and no error at the end of
// its wait, or after it had to rebuild the receiver: call again. The error is
// ctx's, or that the receiver is closed. When ctx ends, a poll under way is cut
// off and its messages go back to the queue.
func (r *Receiver) Poll(ctx context.Context, max int) ([]*Message, error) {
	r.empty = false
	l, err := r.open(ctx)
	if l == nil || err != nil {
		return nil, err
	}
	if ok, err := r.settleFirst(ctx, l); !ok || err != nil {
		return nil, err
	}
	wait := r.q.options.PollWait
	ask := min(max, r.q.options.PollMaxItems)
	if r.q.remote {
		wait = min(wait, remoteWait)
		ask = min(ask, r.ask)
	}
	seconds := int32((wait + time.Second - 1) / time.Second)
	start := time.Now()
	pollCtx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+quiet)
	defer cancel()
	resp, err := l.receiver.Poll(pollCtx, &kubemq.PollRequest{Channel: r.q.channelName(r.channel), MaxItems: int32(ask), WaitTimeoutSeconds: seconds})
	if err == nil && resp.IsError {
		err = errors.New(resp.Error)
	}
	if err != nil {
		return nil, r.failed(ctx, l, err)
	}
	r.works()
	took := time.Since(start)
	full := time.Duration(seconds) * time.Second
	if len(resp.Messages) == 0 && took < full-early {
		// On a real server, the open transaction would swallow what comes next.
		r.replace(l, "poll came back early and empty")
		return nil, nil
	}
	r.adapt(ask, len(resp.Messages), took)
	r.empty = len(resp.Messages) == 0
	l.took(len(resp.Messages))
	out := make([]*Message, len(resp.Messages))
	for i, m := range resp.Messages {
		out[i] = r.message(m, l)
	}
	return out, nil
}

// Empty says that the last Poll ran its full wait and found nothing.
func (r *Receiver) Empty() bool { return r.empty }

// settleFirst waits until this receiver may poll again, and says whether it may.
func (r *Receiver) settleFirst(ctx context.Context, l *line) (bool, error) {
	if !r.q.remote {
		return true, nil
	}
	recycle := l.taken >= recycleMessages || time.Since(l.since) > recycleAge
	if !r.part && !recycle {
		return true, nil
	}
	slow := time.NewTimer(slowSettle)
	defer slow.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-l.drained():
		if recycle {
			r.replace(l, "recycled")
			return false, nil
		}
	case <-slow.C:
		r.replace(l, "a step takes long")
		return false, nil
	}
	r.part = false
	return true, nil
}

// adapt decides what the next poll of a real server asks for: such a poll is
// held until it is full, so more than one only while there is a backlog.
func (r *Receiver) adapt(asked, got int, took time.Duration) {
	r.part = got > 0 && got < asked
	if got == asked && took < 20*time.Millisecond {
		r.ask = min(2*r.ask, r.q.options.PollMaxItems)
		return
	}
	r.ask = 1
}

func (r *Receiver) message(m *kubemq.QueueDownstreamMessage, l *line) *Message {
	out := &Message{raw: m, line: l}
	msg := m.Message
	out.MessageID, out.Body = msg.ID, msg.Body
	out.Retry = r.channel == Retry
	out.Origin, out.Reason = msg.Tags[tagOrigin], msg.Tags[tagReason]
	out.Round, _ = strconv.Atoi(msg.Tags[tagRound])
	if a := msg.Attributes; a != nil && a.ExpirationAt > 0 {
		out.ExpiresAt = orders.Millis(a.ExpirationAt / int64(time.Millisecond)) // KubeMQ's are nanoseconds
	}
	out.Order, out.DecodeErr = orders.Decode(msg.Body, false)
	return out
}

// open returns the stream, making it first if there is none. It returns neither
// stream nor error if that did not work now.
func (r *Receiver) open(ctx context.Context) (*line, error) {
	r.mu.Lock()
	l, closed := r.line, r.closed
	r.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if l != nil {
		return l, nil
	}
	client, err := r.q.dial(ctx, "orderd-"+r.q.channelName(r.channel)+"-"+r.q.name)
	if err != nil {
		return nil, err
	}
	// v2.0.4 ends a receiver with the context it was made with: it is to end with
	// Close only.
	receiver, err := client.NewQueueDownstreamReceiver(context.WithoutCancel(ctx))
	if err != nil {
		return nil, r.notOpened(ctx, errors.Join(err, client.Close()))
	}
	l = newLine(client, receiver)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.Join(errClosed, l.close())
	}
	r.line = l
	r.ask, r.part = 1, false
	r.works()
	return l, nil
}

var errClosed = errors.New("the receiver is closed")

const reopenWait = 200 * time.Millisecond

func (r *Receiver) notOpened(ctx context.Context, err error) error {
	r.down(err)
	if !pause(ctx, reopenWait) {
		return ctx.Err()
	}
	return nil
}

// failed gives the stream up after an error. It returns nil if polling can go
// on with a new one.
func (r *Receiver) failed(ctx context.Context, l *line, err error) error {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	switch {
	case closed:
		return errClosed
	case ctx.Err() != nil:
		// The server's poll may go on, and take what nobody waits for.
		r.replace(l, "poll cut off")
		return ctx.Err()
	}
	r.down(err)
	r.replace(l, "poll failed")
	if !pause(ctx, reopenWait) {
		return ctx.Err()
	}
	return nil
}

// replace closes a stream: what it holds goes back to the queue.
func (r *Receiver) replace(l *line, why string) {
	r.mu.Lock()
	mine := r.line == l
	if mine {
		r.line = nil
	}
	r.mu.Unlock()
	if !mine {
		return
	}
	r.log.Debug().Str("reason", why).Msg("receiver replaced")
	if err := l.close(); err != nil {
		r.log.Debug().Err(err).Msg("receiver closed with an error")
	}
}

func (r *Receiver) works() {
	if !r.up {
		r.up = true
		r.q.receiving.Add(1)
	}
}

func (r *Receiver) down(err error) {
	if r.up {
		r.up = false
		r.q.receiving.Add(-1)
		r.log.Warn().Err(err).Msg("receiving from the queue is interrupted")
	}
}

// HoldsNothing says that every message of the current stream is settled.
func (r *Receiver) HoldsNothing() bool {
	r.mu.Lock()
	l := r.line
	r.mu.Unlock()
	return l == nil || l.holdsNothing()
}

// Close ends the receiver and a Poll under way. Messages that are neither acked
// nor dropped go back to the queue.
func (r *Receiver) Close() error {
	r.mu.Lock()
	l := r.line
	r.line, r.closed = nil, true
	r.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.close()
}
