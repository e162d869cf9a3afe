package kubemq

import (
	"context"
	"sync"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/protobuf/proto"

	"github.com/kubemq-io/kubemq-go/v2/types"
)

// QueueUpstreamHandle sends batches over one stream without waiting for the
// answer to one before the next. It ends with its stream: after a lost
// connection a new handle is needed. Its functions may be called from several
// goroutines.
type QueueUpstreamHandle struct {
	// Send writes a batch; the answer comes as a result with requestID, which
	// must be different for each batch under way (empty: one is made). A nil
	// error means handed to the connection. With an error other than an
	// ErrValidation the broker may have stored any of msgs.
	Send func(requestID string, msgs []*QueueMessage) error
	// Results are the answers, in the broker's order, which need not be that of
	// the batches. When the stream is lost, each batch without an answer gets
	// one with IsError: it may be stored or not. Closed before Done. A handle
	// whose results are not read comes to a halt.
	Results <-chan *QueueUpstreamResult
	// Done is closed when the stream has ended.
	Done <-chan struct{}
	// Close says that no batch follows. Answers still come until Done, for as
	// long as the drain timeout.
	Close func()
}

// QueueUpstreamResult is the answer to one batch.
type QueueUpstreamResult struct {
	RefRequestID string
	Results      []*QueueSendResult // in the order of the batch
	IsError      bool               // the whole batch was refused, or the stream was lost
	Error        string
}

// EventStreamHandle sends events over one stream. It ends with its stream.
type EventStreamHandle struct {
	// Send writes an event. A nil error means handed to the connection.
	Send func(event *Event) error
	// Errors are refusals of events and, at last, the loss of the stream. If
	// nobody reads, the oldest are kept. Closed before Done.
	Errors <-chan error
	// Done is closed when the stream has ended.
	Done <-chan struct{}
	// Close says that no event follows; Done follows soon.
	Close func()
}

// EventStoreStreamHandle sends events to keep over one stream. It ends with its
// stream.
type EventStoreStreamHandle struct {
	// Send writes an event; the answer comes as a result with its Id. A nil
	// error means handed to the connection.
	Send func(event *EventStore) error
	// Results are the answers. When the stream is lost, each event without an
	// answer gets one without Sent: it may be stored or not. Closed before Done.
	// A handle whose results are not read comes to a halt.
	Results <-chan *EventStreamResult
	// Done is closed when the stream has ended.
	Done <-chan struct{}
	// Close says that no event follows. Answers still come until Done, for as
	// long as the drain timeout.
	Close func()
}

// EventStreamResult is the answer to one stored event.
type EventStreamResult struct {
	EventID string
	Sent    bool
	Error   string // why it was not sent
}

// pending are ids of requests without an answer, oldest first.
type pending struct {
	mu    sync.Mutex // protects both
	order []string
	count map[string]int // an id can be under way more than once
}

func (p *pending) add(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == nil {
		p.count = make(map[string]int)
	}
	p.count[id]++
	p.order = append(p.order, id)
	if len(p.order) > 64 && len(p.order) > 4*len(p.count) {
		p.order = p.left()
	}
}

func (p *pending) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count[id]--; p.count[id] <= 0 {
		delete(p.count, id)
	}
}

// left returns the ids still in count; with mu held.
func (p *pending) left() []string {
	var out []string
	seen := make(map[string]int, len(p.count))
	for i := len(p.order) - 1; i >= 0; i-- { // the newest are those not answered
		id := p.order[i]
		if seen[id]++; seen[id] <= p.count[id] {
			out = append(out, id)
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

func (p *pending) rest() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left()
}

// sender is a duplex whose writes are answered by values of type R, each for an
// id, on a channel for the program.
type sender[Req, Resp, R any] struct {
	*duplex[Req, Resp]
	c       *Client
	pending pending
	results chan R
	convert func(*Resp) (id string, r R)
	lost    func(id, why string) R // the result for what was never answered
	done    chan struct{}          // closed after results
	release func()
}

func openSender[Req, Resp, R any](ctx context.Context, c *Client, op string, open opener[Req, Resp], s *sender[Req, Resp, R]) error {
	inner, err := openDuplex(ctx, c, op, "", open)
	if err != nil {
		return err
	}
	s.duplex, s.c, s.results, s.done = inner, c, make(chan R, c.opts.receiveBuffer), make(chan struct{})
	release, ok := c.adopt(s.end)
	if !ok {
		s.cancel()
		return closedError(op, "", ErrClientClosed)
	}
	s.release = release
	if err := s.start(reader[Resp]{take: s.take, end: s.finish}); err != nil {
		close(inner.done) // for Close, which may be ending it
		return err
	}
	return nil
}

func (s *sender[Req, Resp, R]) take(r *Resp) error {
	id, result := s.convert(r)
	s.pending.remove(id)
	select {
	case s.results <- result:
		return nil
	case <-s.stream.Context().Done():
		return s.stream.Context().Err()
	}
}

// finish gives a result to what has none, as far as there is room or a reader
// within the grace, and closes the channels.
func (s *sender[Req, Resp, R]) finish(err error) {
	defer close(s.done)
	defer close(s.results)
	s.release()
	why := "stream closed"
	if err != nil {
		why = err.Error()
		s.c.log.Warn("stream ended", "operation", s.op, "error", err)
	}
	ctx, cancel := context.WithTimeout(s.c.ctx, s.c.grace())
	defer cancel()
	for _, id := range s.pending.rest() {
		select {
		case s.results <- s.lost(id, why):
		case <-ctx.Done():
			return
		}
	}
}

// write sends req, whose answer will be for id.
func (s *sender[Req, Resp, R]) write(channel, id string, req *Req) error {
	s.pending.add(id)
	if err := s.send(s.c.ctx, req); err != nil {
		s.pending.remove(id)
		return callError(s.c.ctx, s.op, channel, id, err)
	}
	return nil
}

// end closes the stream when all is answered or the drain timeout is over.
func (s *sender[Req, Resp, R]) end() { s.shutdown(s.c.opts.drainTimeout) }

// close is end in the background.
func (s *sender[Req, Resp, R]) close() {
	if !s.c.spawn(s.end) {
		s.cancel() // the client is closing, which ends everything
	}
}

// QueueUpstream opens a stream to send batches. ctx is only for opening it; the
// default timeout is 10 s.
func (c *Client) QueueUpstream(ctx context.Context) (*QueueUpstreamHandle, error) {
	const op = "QueueUpstream"
	s := &sender[pb.QueuesUpstreamRequest, pb.QueuesUpstreamResponse, *QueueUpstreamResult]{
		convert: func(r *pb.QueuesUpstreamResponse) (string, *QueueUpstreamResult) {
			return r.GetRefRequestID(), &QueueUpstreamResult{
				RefRequestID: r.GetRefRequestID(),
				Results:      sendResults(r.GetResults()),
				IsError:      r.GetIsError(),
				Error:        r.GetError(),
			}
		},
		lost: func(id, why string) *QueueUpstreamResult {
			return &QueueUpstreamResult{RefRequestID: id, IsError: true, Error: why}
		},
	}
	if err := openSender(ctx, c, op, c.rpc.QueuesUpstream, s); err != nil {
		return nil, err
	}
	send := func(requestID string, msgs []*QueueMessage) error {
		batch, err := wireBatch(c, op, msgs)
		if err != nil {
			return err
		}
		if requestID == "" {
			requestID = newID()
		}
		req := &pb.QueuesUpstreamRequest{RequestID: requestID, Messages: batch}
		// One that is too large would end the stream and lose what is under way.
		if size := proto.Size(req); size > c.opts.maxSend {
			return invalid(op, batch[0].GetChannel(), "batch of %d bytes is larger than max send message size %d", size, c.opts.maxSend)
		}
		return s.write(batch[0].GetChannel(), requestID, req)
	}
	return &QueueUpstreamHandle{Send: send, Results: s.results, Done: s.done, Close: s.close}, nil
}

// SendEventStoreStream opens a stream to send events to keep. ctx is only for
// opening it; the default timeout is 10 s.
func (c *Client) SendEventStoreStream(ctx context.Context) (*EventStoreStreamHandle, error) {
	const op = "SendEventStoreStream"
	s := &sender[pb.Event, pb.Result, *EventStreamResult]{
		convert: func(r *pb.Result) (string, *EventStreamResult) {
			return r.GetEventID(), &EventStreamResult{EventID: r.GetEventID(), Sent: r.GetSent(), Error: r.GetError()}
		},
		lost: func(id, why string) *EventStreamResult { return &EventStreamResult{EventID: id, Error: why} },
	}
	if err := openSender(ctx, c, op, c.rpc.SendEventsStream, s); err != nil {
		return nil, err
	}
	send := func(event *EventStore) error {
		e, err := event.wire(c, op)
		if err != nil {
			return err
		}
		if err := c.checkEventSize(op, e); err != nil {
			return err
		}
		return s.write(e.GetChannel(), e.GetEventID(), e)
	}
	return &EventStoreStreamHandle{Send: send, Results: s.results, Done: s.done, Close: s.close}, nil
}

func (c *Client) checkEventSize(op string, e *pb.Event) error {
	if size := proto.Size(e); size > c.opts.maxSend {
		return invalid(op, e.GetChannel(), "event of %d bytes is larger than max send message size %d", size, c.opts.maxSend)
	}
	return nil
}

// SendEventStream opens a stream to send events. ctx is only for opening it; the
// default timeout is 10 s.
func (c *Client) SendEventStream(ctx context.Context) (*EventStreamHandle, error) {
	const op = "SendEventStream"
	errs, done := make(chan error, errorsKept), make(chan struct{})
	report := func(err error) {
		select {
		case errs <- err:
		default:
			c.log.Warn("stream error dropped, nobody reads them", "operation", op, "error", err)
		}
	}
	d, err := openDuplex(ctx, c, op, "", c.rpc.SendEventsStream)
	if err != nil {
		return nil, err
	}
	err = d.start(reader[pb.Result]{
		take: func(r *pb.Result) error {
			if err := refused(op, "", r); err != nil {
				report(err)
			}
			return nil
		},
		end: func(err error) {
			if err != nil {
				report(types.NewError(ErrCodeTransient, op, "", "", &TransportError{Op: op, Cause: err}))
			}
			close(errs)
			close(done)
		},
	})
	if err != nil {
		return nil, err
	}
	end := func() { d.shutdown(c.grace()) }
	release, ok := c.adopt(end)
	if !ok {
		end()
		return nil, closedError(op, "", ErrClientClosed)
	}
	if !c.spawn(func() { <-done; release() }) {
		release()
	}
	send := func(event *Event) error {
		e, err := event.wire(c, op, false)
		if err != nil {
			return err
		}
		if err := c.checkEventSize(op, e); err != nil {
			return err
		}
		if err := d.send(c.ctx, e); err != nil {
			return callError(c.ctx, op, e.GetChannel(), e.GetEventID(), err)
		}
		return nil
	}
	closeStream := func() {
		if !c.spawn(end) {
			d.cancel()
		}
	}
	return &EventStreamHandle{Send: send, Errors: errs, Done: done, Close: closeStream}, nil
}
