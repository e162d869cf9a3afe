package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// The request types of QueuesDownstream.
const (
	downGet           = 1
	downAckAll        = 2
	downAckRange      = 3
	downNAckAll       = 4
	downNAckRange     = 5
	downReQueueAll    = 6
	downReQueueRange  = 7
	downActiveOffsets = 8
	downCloseByClient = 10
)

const (
	pollsPerStream = 1_000
	defaultWait    = time.Second // of a poll that names none
	// completedKept is how many ids of finished transactions a stream
	// remembers, to tell a late settlement from one that never was.
	completedKept = 1_000
)

// session is one QueuesDownstream stream. Settlements are handled one after the
// other as they come, polls beside them.
type session struct {
	b      *Broker
	ctx    context.Context
	closed context.Context // ends with ctx, or when the client has closed its half: then it can settle nothing more
	stream pb.Kubemq_QueuesDownstreamServer
	polls  sync.WaitGroup

	sendMu sync.Mutex // held while sending: a stream has one sender at a time

	mu        sync.Mutex // protects all below
	polling   int
	open      map[string]*transaction
	completed map[string]bool
	oldest    []string // ids in completed, in order
}

// transaction is what one poll returned and is not settled.
type transaction struct {
	id      string
	pending []*entry // in order of delivery
}

func (s *service) QueuesDownstream(stream pb.Kubemq_QueuesDownstreamServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	closed, closeHalf := context.WithCancel(ctx)
	defer closeHalf()
	down := &session{b: s.b, ctx: ctx, closed: closed, stream: stream, open: make(map[string]*transaction), completed: make(map[string]bool)}
	err := receive(ctx, s.b, stream.Recv).each(s.b, down.handle)
	closeHalf()
	if err != nil {
		cancel()
	}
	down.polls.Wait() // a client that has closed its half still gets what it need not settle
	down.giveBackAll()
	return err
}

// giveBackAll returns what the client has not settled, counted as received.
func (d *session) giveBackAll() {
	d.mu.Lock()
	var list []*entry
	for _, t := range d.open {
		list = append(list, t.pending...)
	}
	clear(d.open)
	d.mu.Unlock()
	// Those that become dead letters do so in the order in which they came.
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.m.Seq, b.m.Seq)) })
	if err := d.b.queues.giveBack(list, true); err != nil {
		d.b.log.Error().Err(err).Msg("messages of an ended stream not returned to their queue")
	}
}

func (d *session) handle(r *pb.QueuesDownstreamRequest) {
	var err error
	switch r.GetRequestTypeData() {
	case downGet:
		err = d.get(r)
	case downAckAll, downAckRange:
		err = d.settle(r, "ack", r.GetRequestTypeData() == downAckAll, func(list []*entry) error {
			d.b.queues.ack(list, true)
			return nil
		})
	case downNAckAll, downNAckRange:
		err = d.settle(r, "nack", r.GetRequestTypeData() == downNAckAll, func(list []*entry) error {
			return d.b.queues.giveBack(list, true)
		})
	case downReQueueAll, downReQueueRange:
		err = d.requeue(r)
	case downActiveOffsets:
		err = d.activeOffsets(r)
	case downCloseByClient:
		err = d.closeByClient(r)
	default:
		d.send(&pb.QueuesDownstreamResponse{TransactionId: r.GetRefTransactionId(), RefRequestId: r.GetRequestID(), IsError: true, Error: errUnknownRequest.Error()})
		return
	}
	if err != nil {
		d.refuse(r, err)
	}
}

func (d *session) refuse(r *pb.QueuesDownstreamRequest, err error) {
	d.send(&pb.QueuesDownstreamResponse{TransactionId: r.GetRefTransactionId(), RefRequestId: r.GetRequestID(),
		RequestTypeData: r.GetRequestTypeData(), IsError: true, Error: err.Error()})
}

// send says whether the answer is on its way; if not, the stream is at its end.
func (d *session) send(answer *pb.QueuesDownstreamResponse) bool {
	d.sendMu.Lock()
	defer d.sendMu.Unlock()
	return d.stream.Send(answer) == nil
}

// get answers a poll, when there is something, beside the stream's other
// requests.
func (d *session) get(r *pb.QueuesDownstreamRequest) error {
	if err := checkQueue(r.GetClientID(), r.GetChannel()); err != nil {
		return err
	}
	d.mu.Lock()
	tooMany := d.polling >= pollsPerStream
	if !tooMany {
		d.polling++
	}
	d.mu.Unlock()
	if tooMany {
		return errTooManyPolls
	}
	d.polls.Go(func() {
		if err := d.poll(r); err != nil {
			d.refuse(r, err)
		}
		d.mu.Lock()
		d.polling--
		d.mu.Unlock()
	})
	return nil
}

func (d *session) poll(r *pb.QueuesDownstreamRequest) error {
	limit, wait := int(r.GetMaxItems()), time.Duration(r.GetWaitTimeout())*time.Millisecond
	if limit <= 0 {
		limit = maxItems
	}
	if wait <= 0 {
		wait = defaultWait
	}
	answer := &pb.QueuesDownstreamResponse{TransactionId: newID(), RefRequestId: r.GetRequestID(), RequestTypeData: downGet}
	stop := d.closed.Done()
	if r.GetAutoAck() {
		stop = d.b.stopping
	}
	granted, err := d.b.queues.poll(d.ctx, stop, r.GetChannel(), limit, wait)
	switch {
	case err != nil && d.ctx.Err() != nil, errors.Is(err, errStopping):
		return nil // the stream ends with a status that says so
	case err != nil:
		return err
	case len(granted.entries) == 0:
		d.send(answer)
		return nil
	case r.GetAutoAck():
		if answer.Messages, err = d.b.queues.hand(d.ctx, granted); err == nil {
			d.send(answer)
		}
		return err
	}
	if answer.Messages, err = d.b.queues.confirm(d.ctx, granted); err != nil {
		return err
	}
	d.mu.Lock()
	d.open[answer.TransactionId] = &transaction{id: answer.TransactionId, pending: granted.entries}
	d.mu.Unlock()
	if !d.send(answer) {
		// It was never on its way, so it does not count.
		return d.closeTransactions([]string{answer.TransactionId})
	}
	return nil
}

const maxItems = 200_000 // of a poll that names no limit

// transaction returns an open one.
func (d *session) transaction(id, verb string) (*transaction, error) {
	if t := d.open[id]; t != nil {
		return t, nil
	}
	if d.completed[id] {
		return nil, fmt.Errorf("cannot %s with closed response ", verb)
	}
	return nil, errNoTransaction
}

// take removes from a transaction all messages, or those with the sequences, up
// to the first that it does not have: for that one there is an error.
func (d *session) take(r *pb.QueuesDownstreamRequest, verb string, all bool) ([]*entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, err := d.transaction(r.GetRefTransactionId(), verb+" messages")
	if err != nil {
		return nil, err
	}
	if all {
		d.complete(t)
		return t.pending, nil
	}
	if len(r.GetSequenceRange()) == 0 {
		return nil, fmt.Errorf("cannot %s empty list of of offsets", verb)
	}
	at := make(map[int64]int, len(t.pending))
	for i, e := range t.pending {
		at[int64(e.m.Seq)] = i
	}
	var taken []*entry
	for _, seq := range r.GetSequenceRange() {
		i, ok := at[seq]
		if !ok {
			err = fmt.Errorf("invalid %s sequence id %d", verb, seq)
			break
		}
		delete(at, seq)
		taken = append(taken, t.pending[i])
	}
	left := t.pending[:0]
	for _, e := range t.pending {
		if _, ok := at[int64(e.m.Seq)]; ok {
			left = append(left, e)
		}
	}
	if t.pending = left; len(left) == 0 {
		d.complete(t)
	}
	return taken, err
}

// complete forgets a transaction but for its id.
func (d *session) complete(t *transaction) {
	delete(d.open, t.id)
	if len(d.oldest) >= completedKept {
		delete(d.completed, d.oldest[0])
		d.oldest = d.oldest[1:]
	}
	d.completed[t.id] = true
	d.oldest = append(d.oldest, t.id)
}

func (d *session) settle(r *pb.QueuesDownstreamRequest, verb string, all bool, fn func([]*entry) error) error {
	list, err := d.take(r, verb, all)
	if len(list) > 0 {
		return firstError(fn(list), err)
	}
	return err
}

func (d *session) requeue(r *pb.QueuesDownstreamRequest) error {
	target := r.GetReQueueChannel()
	if target == "" {
		return errNoRequeueTarget
	}
	if !storableName(target) {
		return errQueueName
	}
	return d.settle(r, "requeue", r.GetRequestTypeData() == downReQueueAll, func(list []*entry) error {
		return d.b.queues.requeue(list, target)
	})
}

func (d *session) activeOffsets(r *pb.QueuesDownstreamRequest) error {
	d.mu.Lock()
	t, err := d.transaction(r.GetRefTransactionId(), "get active offsets")
	answer := &pb.QueuesDownstreamResponse{TransactionId: r.GetRefTransactionId(), RefRequestId: r.GetRequestID(), RequestTypeData: downActiveOffsets}
	if err == nil {
		for _, e := range t.pending {
			answer.ActiveOffsets = append(answer.ActiveOffsets, int64(e.m.Seq))
		}
	}
	d.mu.Unlock()
	if err == nil {
		d.send(answer)
	}
	return err
}

// closeByClient gives messages back as if they had not been received. Without
// an id it means all that the stream has.
func (d *session) closeByClient(r *pb.QueuesDownstreamRequest) error {
	d.mu.Lock()
	var ids []string
	if id := r.GetRefTransactionId(); id != "" {
		if _, err := d.transaction(id, "close messages"); err != nil {
			d.mu.Unlock()
			return errNoTransaction
		}
		ids = append(ids, id)
	} else {
		for id := range d.open {
			ids = append(ids, id)
		}
	}
	d.mu.Unlock()
	return d.closeTransactions(ids)
}

func (d *session) closeTransactions(ids []string) error {
	d.mu.Lock()
	var list []*entry
	for _, id := range ids {
		if t := d.open[id]; t != nil {
			list = append(list, t.pending...)
			d.complete(t)
		}
	}
	d.mu.Unlock()
	return d.b.queues.giveBack(list, false)
}
