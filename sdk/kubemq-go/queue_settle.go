package kubemq

import (
	"strconv"
	"sync"

	pb "github.com/kubemq-io/protobuf/go"
)

// QueueDownstreamMessage is a message received, to be settled by one of Ack,
// Nack and ReQueue unless the poll was with AutoAck. One that is never settled
// stays with its receiver and goes back to the queue when the receiver's stream
// ends.
type QueueDownstreamMessage struct {
	Message       *QueueMessage // its Attributes and Policy are never nil
	Sequence      uint64        // place in its queue
	TransactionID string        // the poll's

	tx   *transaction
	slot int
}

// PollResponse is the answer to a poll. An answer without messages is normal:
// none came within the wait. With IsError the broker refused the poll and there
// are none either.
type PollResponse struct {
	TransactionID string
	Messages      []*QueueDownstreamMessage
	IsError       bool
	Error         string

	tx *transaction
}

// transaction is what one poll took from a queue.
type transaction struct {
	d       *downstream
	id      string
	channel string
	auto    bool     // acknowledged by the broker already
	ids     []string // of the messages

	mu      sync.Mutex // protects settled and left
	settled []bool     // by slot
	left    int        // how many are false
}

// Ack says that the message is done with; the broker forgets it. The error says
// that it could not be told: the stream is closed, and the message will be
// delivered again, or the message was settled before. After AutoAck it does
// nothing. A nil error is no answer of the broker: a refusal comes through
// QueueDownstreamReceiver.Errors.
func (m *QueueDownstreamMessage) Ack() error { return m.settle(QueueDownstreamAckRange, "") }

// Nack gives the message back to its queue, to be delivered again with a higher
// receive count, or to its dead-letter queue if that count has reached its
// limit. Errors are as for Ack; after AutoAck it is always an error.
func (m *QueueDownstreamMessage) Nack() error { return m.settle(QueueDownstreamNAckRange, "") }

// ReQueue moves the message to the queue channel. Errors are as for Nack.
func (m *QueueDownstreamMessage) ReQueue(channel string) error {
	return m.settle(QueueDownstreamReQueueRange, channel)
}

// AckAll is Ack for every message that is not settled yet.
func (r *PollResponse) AckAll() error { return r.settle(QueueDownstreamAckAll, "") }

// NackAll is Nack for every message that is not settled yet.
func (r *PollResponse) NackAll() error { return r.settle(QueueDownstreamNAckAll, "") }

// ReQueueAll is ReQueue for every message that is not settled yet.
func (r *PollResponse) ReQueueAll(channel string) error {
	return r.settle(QueueDownstreamReQueueAll, channel)
}

// settleName names a settlement in errors.
func settleName(kind int32) string {
	switch kind {
	case QueueDownstreamAckRange:
		return "Ack"
	case QueueDownstreamNAckRange:
		return "Nack"
	case QueueDownstreamReQueueRange:
		return "ReQueue"
	case QueueDownstreamAckAll:
		return "AckAll"
	case QueueDownstreamNAckAll:
		return "NackAll"
	case QueueDownstreamReQueueAll:
		return "ReQueueAll"
	default:
		return "QueuesDownstream"
	}
}

func isAck(kind int32) bool {
	return kind == QueueDownstreamAckRange || kind == QueueDownstreamAckAll
}

func isReQueue(kind int32) bool {
	return kind == QueueDownstreamReQueueRange || kind == QueueDownstreamReQueueAll
}

func (m *QueueDownstreamMessage) settle(kind int32, to string) error {
	op := settleName(kind)
	if m.tx == nil {
		return invalid(op, "", "message was not received from a queue")
	}
	if done, err := m.tx.precheck(kind, to); done || err != nil {
		return err
	}
	if !m.tx.mark(m.slot) {
		return invalid(op, m.tx.channel, "message %s is settled already", m.tx.ids[m.slot])
	}
	return m.tx.send(kind, to, m.tx.ids[m.slot:m.slot+1], m.Sequence)
}

func (r *PollResponse) settle(kind int32, to string) error {
	if len(r.Messages) == 0 || r.tx == nil {
		return nil
	}
	if done, err := r.tx.precheck(kind, to); done || err != nil {
		return err
	}
	rest := r.tx.markAll()
	if len(rest) == 0 {
		return nil
	}
	return r.tx.send(kind, to, rest)
}

// precheck says that nothing is to be done, or why it cannot be.
func (t *transaction) precheck(kind int32, to string) (done bool, err error) {
	op := settleName(kind)
	switch {
	case t.auto && isAck(kind):
		return true, nil
	case t.auto:
		return true, invalid(op, t.channel, "messages were acknowledged on delivery")
	case isReQueue(kind):
		return false, checkChannel(op, to, false)
	default:
		return false, nil
	}
}

// mark settles one message; false if it was before.
func (t *transaction) mark(slot int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settled[slot] {
		return false
	}
	t.settled[slot] = true
	t.left--
	return true
}

// markAll settles what was not and returns the ids of that.
func (t *transaction) markAll() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := t.rest()
	for i := range t.settled {
		t.settled[i] = true
	}
	t.left = 0
	return rest
}

// rest returns the ids of what is not settled; with mu held.
func (t *transaction) rest() []string {
	var ids []string
	for i, done := range t.settled {
		if !done {
			ids = append(ids, t.ids[i])
		}
	}
	return ids
}

func (t *transaction) unsettled() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rest()
}

func (t *transaction) complete() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left == 0
}

// send tells the broker of a settlement of messages ids.
func (t *transaction) send(kind int32, to string, ids []string, sequences ...uint64) error {
	req := &pb.QueuesDownstreamRequest{
		// The broker's refusal carries it, so it says what was refused.
		RequestID:        t.id + "/all",
		ClientID:         t.d.c.clientID,
		RequestTypeData:  pb.QueuesDownstreamRequestType(kind),
		Channel:          t.channel,
		ReQueueChannel:   to,
		RefTransactionId: t.id,
	}
	for _, s := range sequences {
		req.RequestID = t.id + "/" + strconv.FormatUint(s, 10)
		req.SequenceRange = append(req.SequenceRange, int64(s))
	}
	if err := t.d.send(t.d.c.ctx, req); err != nil {
		return streamBroken(settleName(kind), t.channel, ids, err)
	}
	if t.complete() {
		t.d.forget(t)
	}
	return nil
}

// forget drops a transaction that is wholly settled.
func (d *downstream) forget(t *transaction) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, t)
}
