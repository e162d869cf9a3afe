package broker

import (
	"crypto/rand"
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/protobuf/proto"

	"orderd/broker/store"
)

// newID returns an id for a message, event or transaction that came without.
func newID() string { return rand.Text() }

// newMessage returns what the store has to know of a message sent now.
func newMessage(now int64, p *pb.QueueMessagePolicy) *store.Message {
	m := &store.Message{MaxReceived: p.GetMaxReceiveCount(), DeadLetterTo: p.GetMaxReceiveQueue()}
	if m.MaxReceived == 0 {
		m.MaxReceived = maxReceiveCount
	}
	if delay := p.GetDelaySeconds(); delay > 0 {
		m.DelayedTo = now + int64(delay)*int64(time.Second)
	}
	if seconds := p.GetExpirationSeconds(); seconds > 0 {
		m.ExpiresAt = max(now, m.DelayedTo) + int64(seconds)*int64(time.Second)
	}
	return m
}

// encodeMessage returns the payload to store. What the broker itself knows is
// not part of it.
func encodeMessage(m *pb.QueueMessage, id string) ([]byte, error) {
	policy := &pb.QueueMessagePolicy{MaxReceiveCount: maxReceiveCount}
	if p := m.GetPolicy(); p != nil {
		policy = &pb.QueueMessagePolicy{ExpirationSeconds: p.GetExpirationSeconds(), DelaySeconds: p.GetDelaySeconds(),
			MaxReceiveCount: p.GetMaxReceiveCount(), MaxReceiveQueue: p.GetMaxReceiveQueue()}
		if policy.MaxReceiveCount == 0 {
			policy.MaxReceiveCount = maxReceiveCount
		}
	}
	b, err := proto.Marshal(&pb.QueueMessage{MessageID: id, ClientID: m.GetClientID(), Metadata: m.GetMetadata(),
		Body: m.GetBody(), Tags: m.GetTags(), Policy: policy})
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return b, nil
}

// sending is a batch on its way to disk.
type sending struct {
	results []*pb.SendQueueMessageResult
	refused bool // one of the results is a refusal
	commit  *store.Commit
}

// wait returns the results when they hold. A batch that cannot be written is
// refused as a whole.
func (s sending) wait() (results []*pb.SendQueueMessageResult, haveErrors bool) {
	err := onDisk(s.commit)
	if err == nil {
		return s.results, s.refused
	}
	for _, r := range s.results {
		if !r.IsError {
			r.Reset()
			r.IsError, r.Error = true, err.Error()
		}
	}
	return s.results, true
}

// send puts messages on their queues, those that are valid, in order.
func (qs *queues) send(messages []*pb.QueueMessage) sending {
	s := sending{results: make([]*pb.SendQueueMessageResult, len(messages))}
	payloads := make([][]byte, len(messages))
	for i, m := range messages {
		id := m.GetMessageID()
		if id == "" {
			id = newID()
		}
		s.results[i] = &pb.SendQueueMessageResult{MessageID: id}
		err := checkQueueMessage(m)
		if err == nil {
			payloads[i], err = encodeMessage(m, id)
		}
		if err != nil {
			s.results[i].IsError, s.results[i].Error, s.refused = true, err.Error(), true
		}
	}
	s.commit = qs.change(false, func(c *change) {
		for i, r := range s.results {
			if r.IsError {
				continue
			}
			m := newMessage(c.now, messages[i].GetPolicy())
			c.put(messages[i].GetChannel(), m, payloads[i])
			r.SentAt, r.ExpirationAt, r.DelayedTo = m.SentAt, m.ExpiresAt, m.DelayedTo
		}
	})
	return s
}
