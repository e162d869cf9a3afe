package kubemq

import (
	"context"

	pb "github.com/kubemq-io/protobuf/go"
)

// QueueSendResult is the broker's answer for one message. With IsError the
// message was refused and is on no queue.
type QueueSendResult struct {
	MessageID    string
	SentAt       int64 // Unix nanoseconds
	ExpirationAt int64 // Unix nanoseconds, 0 for never
	DelayedTo    int64 // Unix nanoseconds, 0 for not
	IsError      bool
	Error        string
}

func sendResult(r *pb.SendQueueMessageResult) *QueueSendResult {
	return &QueueSendResult{
		MessageID:    r.GetMessageID(),
		SentAt:       r.GetSentAt(),
		ExpirationAt: r.GetExpirationAt(),
		DelayedTo:    r.GetDelayedTo(),
		IsError:      r.GetIsError(),
		Error:        r.GetError(),
	}
}

func sendResults(rs []*pb.SendQueueMessageResult) []*QueueSendResult {
	out := make([]*QueueSendResult, len(rs))
	for i, r := range rs {
		out[i] = sendResult(r)
	}
	return out
}

// SendQueueMessage puts msg on its queue and returns the broker's answer, which
// may be a refusal (IsError). With an error the message may or may not have been
// stored, unless the error is an ErrValidation. The default timeout is 5 s.
func (c *Client) SendQueueMessage(ctx context.Context, msg *QueueMessage) (*QueueSendResult, error) {
	const op = "SendQueueMessage"
	m, err := msg.wire(c, op)
	if err != nil {
		return nil, err
	}
	r, err := unary(ctx, c, call{op: op, channel: m.Channel, requestID: m.MessageID, timeout: DefaultSendTimeout}, m, c.rpc.SendQueueMessage)
	if err != nil {
		return nil, err
	}
	return sendResult(r), nil
}

// SendQueueMessages puts msgs on their queues in one request and returns the
// answer for each, in their order. The broker may refuse some and store others.
// If one is invalid, none is sent. Errors are as for SendQueueMessage.
func (c *Client) SendQueueMessages(ctx context.Context, msgs []*QueueMessage) ([]*QueueSendResult, error) {
	const op = "SendQueueMessages"
	batch, err := wireBatch(c, op, msgs)
	if err != nil {
		return nil, err
	}
	req := &pb.QueueMessagesBatchRequest{BatchID: newID(), Messages: batch}
	r, err := unary(ctx, c, call{op: op, channel: batch[0].Channel, requestID: req.BatchID, timeout: DefaultSendTimeout}, req, c.rpc.SendQueueMessagesBatch)
	if err != nil {
		return nil, err
	}
	return sendResults(r.GetResults()), nil
}

func wireBatch(c *Client, op string, msgs []*QueueMessage) ([]*pb.QueueMessage, error) {
	if len(msgs) == 0 {
		return nil, invalid(op, "", "there must be at least one message")
	}
	out := make([]*pb.QueueMessage, len(msgs))
	for i, m := range msgs {
		w, err := m.wire(c, op)
		if err != nil {
			return nil, invalid(op, "", "message %d: %v", i, err)
		}
		out[i] = w
	}
	return out, nil
}

// QueueSendOption sets something on the message of SendQueueMessageSimple.
type QueueSendOption interface{ applyQueueSend(m *QueueMessage) }

type queueSendFunc func(*QueueMessage)

func (f queueSendFunc) applyQueueSend(m *QueueMessage) { f(m) }

// WithExpiration sets QueuePolicy.ExpirationSeconds.
func WithExpiration(seconds int) QueueSendOption {
	return queueSendFunc(func(m *QueueMessage) { m.SetExpirationSeconds(seconds) })
}

// WithDelay sets QueuePolicy.DelaySeconds.
func WithDelay(seconds int) QueueSendOption {
	return queueSendFunc(func(m *QueueMessage) { m.SetDelaySeconds(seconds) })
}

// WithMaxReceive sets QueuePolicy.MaxReceiveCount and MaxReceiveQueue.
func WithMaxReceive(count int, deadLetterQueue string) QueueSendOption {
	return queueSendFunc(func(m *QueueMessage) { m.SetMaxReceiveCount(count).SetMaxReceiveQueue(deadLetterQueue) })
}

// SendQueueMessageSimple is SendQueueMessage with a message made of body.
func (c *Client) SendQueueMessageSimple(ctx context.Context, channel string, body []byte, opts ...QueueSendOption) (*QueueSendResult, error) {
	m := NewQueueMessage().SetChannel(channel).SetBody(body)
	for _, o := range opts {
		if o != nil {
			o.applyQueueSend(m)
		}
	}
	return c.SendQueueMessage(ctx, m)
}

// AckAllQueueMessagesRequest asks to remove every waiting message of a queue.
type AckAllQueueMessagesRequest struct {
	RequestID       string // empty: one is made
	ClientID        string // empty: the client's
	Channel         string // empty: the client's default channel
	WaitTimeSeconds int32  // how long the broker looks for messages; brokers of release 2.4 always take that long, 0 means 1
}

// AckAllQueueMessagesResponse is the broker's answer.
type AckAllQueueMessagesResponse struct {
	RequestID        string
	AffectedMessages uint64 // messages removed
	IsError          bool
	Error            string
}

// AckAllQueueMessages removes every waiting message of a queue. The answer may
// be a refusal (IsError). The default timeout is the request's wait and 10 s.
func (c *Client) AckAllQueueMessages(ctx context.Context, req *AckAllQueueMessagesRequest) (*AckAllQueueMessagesResponse, error) {
	const op = "AckAllQueueMessages"
	if req == nil {
		return nil, invalid(op, "", "request must not be nil")
	}
	channel := c.channelOr(req.Channel)
	if err := checkChannel(op, channel, false); err != nil {
		return nil, err
	}
	if err := checkCount(op, channel, "wait time seconds", int(req.WaitTimeSeconds)); err != nil {
		return nil, err
	}
	w := &pb.AckAllQueueMessagesRequest{
		RequestID:       req.RequestID,
		ClientID:        c.clientIDOr(req.ClientID),
		Channel:         channel,
		WaitTimeSeconds: req.WaitTimeSeconds,
	}
	if w.RequestID == "" {
		w.RequestID = newID()
	}
	timeout := seconds(req.WaitTimeSeconds) + DefaultQueueRecvTimeout
	r, err := unary(ctx, c, call{op: op, channel: channel, requestID: w.RequestID, timeout: timeout}, w, c.rpc.AckAllQueueMessages)
	if err != nil {
		return nil, err
	}
	return &AckAllQueueMessagesResponse{
		RequestID:        r.GetRequestID(),
		AffectedMessages: r.GetAffectedMessages(),
		IsError:          r.GetIsError(),
		Error:            r.GetError(),
	}, nil
}
