package kubemq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/kubemq-io/kubemq-go/v2/types"
)

// downstream is one stream to take messages from queues. One poll at a time may
// use it; settlements come from any goroutine meanwhile.
type downstream struct {
	c      *Client
	report func(error) // takes refusals of settlements and lost messages; must not block
	*duplex[pb.QueuesDownstreamRequest, pb.QueuesDownstreamResponse]

	mu     sync.Mutex                        // protects the fields below
	asked  string                            // id of the request that answer is for
	answer chan *pb.QueuesDownstreamResponse // capacity 1; nil when no poll waits
	open   map[*transaction]struct{}         // what is not wholly settled
}

// poll is a request for messages, checked and complete.
type poll struct {
	op       string
	channel  string
	maxItems int32
	wait     time.Duration
	autoAck  bool
}

func (c *Client) openDownstream(ctx context.Context, op, channel string, report func(error)) (*downstream, error) {
	inner, err := openDuplex(ctx, c, op, channel, c.rpc.QueuesDownstream)
	if err != nil {
		return nil, err
	}
	d := &downstream{c: c, report: report, duplex: inner, open: make(map[*transaction]struct{})}
	if err := d.start(reader[pb.QueuesDownstreamResponse]{take: d.take, end: d.ended}); err != nil {
		return nil, err
	}
	return d, nil
}

// take sorts what the broker sends: the answer of the poll under way, refusals
// of settlements, and the end of the stream.
func (d *downstream) take(r *pb.QueuesDownstreamResponse) error {
	if d.deliver(r) {
		return nil
	}
	if int32(r.GetRequestTypeData()) == QueueDownstreamCloseByServer {
		return errServerClosed
	}
	if r.GetIsError() {
		d.report(refusal(r))
	}
	return nil
}

func (d *downstream) deliver(r *pb.QueuesDownstreamResponse) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.answer == nil || r.GetRefRequestId() != d.asked {
		return false
	}
	d.answer <- r // has room: it is given up with the first answer
	d.answer, d.asked = nil, ""
	return true
}

// refusal is the error for a settlement that the broker did not take.
func refusal(r *pb.QueuesDownstreamResponse) error {
	e := types.NewError(ErrCodeValidation, settleName(int32(r.GetRequestTypeData())), "", r.GetRefRequestId(), errors.New(r.GetError()))
	e.IsRetryable = false
	return e
}

// ended reports the messages that went back to the broker with the stream.
func (d *downstream) ended(err error) {
	d.mu.Lock()
	var ids []string
	for tx := range d.open {
		ids = append(ids, tx.unsettled()...)
	}
	clear(d.open)
	d.mu.Unlock()
	if err == nil {
		return
	}
	d.c.log.Warn("queue stream ended", "error", err, "unsettled", len(ids))
	if len(ids) > 0 {
		d.report(streamBroken("Poll", "", ids, err))
	}
}

// streamBroken is the error about what was open on a stream that ended with
// cause.
func streamBroken(op, channel string, ids []string, cause error) error {
	broken := &StreamBrokenError{UnacknowledgedIDs: ids}
	e := types.NewError(ErrCodeTransient, op, channel, "", fmt.Errorf("%w: %w", broken, cause))
	e.IsRetryable = false // on this stream nothing can be repeated
	return e
}

// get asks for messages and waits for the answer. When it returns an error the
// stream must not be used for another poll.
func (d *downstream) get(ctx context.Context, p poll) (*PollResponse, error) {
	id, answer := d.await()
	req := &pb.QueuesDownstreamRequest{
		RequestID:       id,
		ClientID:        d.c.clientID,
		RequestTypeData: QueueDownstreamGet,
		Channel:         p.channel,
		MaxItems:        p.maxItems,
		WaitTimeout:     int32(p.wait.Milliseconds()),
		AutoAck:         p.autoAck,
	}
	asked := time.Now()
	// A broker that does not read lets a write wait for ever, whatever ctx says.
	stop := context.AfterFunc(ctx, d.cancel)
	err := d.send(ctx, req)
	stop()
	if err != nil {
		return nil, callError(ctx, p.op, p.channel, id, err)
	}
	limit := time.NewTimer(p.wait + DefaultQueuePollTimeout)
	defer limit.Stop()
	var r *pb.QueuesDownstreamResponse
	select {
	case r = <-answer:
	case <-d.done:
		err = d.reason()
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = fmt.Errorf("no answer in %s: %w", p.wait+DefaultQueuePollTimeout, context.DeadlineExceeded)
	}
	if err != nil {
		select {
		case r = <-answer: // it came at the same time
		default:
			return nil, callError(ctx, p.op, p.channel, id, err)
		}
	}
	d.release(r, time.Since(asked) < p.wait)
	return d.response(p, r), nil
}

// await prepares for the answer of a request.
func (d *downstream) await() (string, <-chan *pb.QueuesDownstreamResponse) {
	id, answer := newID(), make(chan *pb.QueuesDownstreamResponse, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked, d.answer = id, answer
	return id, answer
}

// release gives up an early answer without messages. Brokers of release 2.4
// give one when all that was there had expired, and then keep the transaction
// open and put the next message into it, where nobody would find it.
func (d *downstream) release(r *pb.QueuesDownstreamResponse, early bool) {
	if !early || r.GetIsError() || len(r.GetMessages()) > 0 || r.GetTransactionId() == "" {
		return
	}
	// If this fails the stream ended, and the transaction with it.
	_ = d.send(d.c.ctx, &pb.QueuesDownstreamRequest{
		RequestID:        newID(),
		ClientID:         d.c.clientID,
		RequestTypeData:  QueueDownstreamCloseByClient,
		RefTransactionId: r.GetTransactionId(),
	})
}

func (d *downstream) response(p poll, r *pb.QueuesDownstreamResponse) *PollResponse {
	tx := &transaction{d: d, id: r.GetTransactionId(), channel: p.channel, auto: p.autoAck}
	out := &PollResponse{TransactionID: tx.id, IsError: r.GetIsError(), Error: r.GetError(), tx: tx}
	for i, m := range r.GetMessages() {
		tx.ids = append(tx.ids, m.GetMessageID())
		out.Messages = append(out.Messages, &QueueDownstreamMessage{
			Message:       received(m),
			Sequence:      m.GetAttributes().GetSequence(),
			TransactionID: tx.id,
			tx:            tx,
			slot:          i,
		})
	}
	tx.settled, tx.left = make([]bool, len(tx.ids)), len(tx.ids)
	if !tx.auto && tx.left > 0 {
		d.mu.Lock()
		d.open[tx] = struct{}{}
		d.mu.Unlock()
	}
	return out
}
