package kubemq

import (
	"errors"
	"fmt"

	pb "github.com/kubemq-io/protobuf/go"
)

// QueueMessage is a message to or from a queue. The setters change the message
// and return it, so that they can be chained. Metadata or Body must not be
// empty.
type QueueMessage struct {
	ID         string // empty: SendQueueMessage and the like make one
	ClientID   string // empty: the client's
	Channel    string // empty: the client's default channel
	Metadata   string
	Body       []byte
	Tags       map[string]string
	Policy     *QueuePolicy            // nil: the broker's defaults
	Attributes *QueueMessageAttributes // set on messages received, ignored on those sent
}

// QueuePolicy says what a broker does with a message beyond delivering it. Zero
// values leave it to the broker.
type QueuePolicy struct {
	ExpirationSeconds int    // how long the message may wait, counted from the end of its delay
	DelaySeconds      int    // how long nobody sees it
	MaxReceiveCount   int    // deliveries after which it goes to MaxReceiveQueue, or is dropped without one
	MaxReceiveQueue   string // the dead-letter queue
}

// QueueMessageAttributes is what the broker says about a message received.
type QueueMessageAttributes struct {
	Timestamp         int64 // when it was stored, Unix nanoseconds
	Sequence          uint64
	MD5OfBody         string // brokers of release 2.4 leave it empty
	ReceiveCount      int    // deliveries, this one included
	ReRouted          bool   // it came from ReRoutedFromQueue
	ReRoutedFromQueue string
	ExpirationAt      int64 // Unix nanoseconds, 0 for never
	DelayedTo         int64 // Unix nanoseconds, 0 for not
}

// NewQueueMessage returns an empty message.
func NewQueueMessage() *QueueMessage { return &QueueMessage{} }

// NewQueueMessage returns an empty message with the client's id and default
// channel.
func (c *Client) NewQueueMessage() *QueueMessage {
	return &QueueMessage{ClientID: c.clientID, Channel: c.opts.defaultChannel}
}

// SetId sets ID.
func (m *QueueMessage) SetId(id string) *QueueMessage { m.ID = id; return m }

// SetClientId sets ClientID.
func (m *QueueMessage) SetClientId(clientId string) *QueueMessage { m.ClientID = clientId; return m }

// SetChannel sets Channel.
func (m *QueueMessage) SetChannel(channel string) *QueueMessage { m.Channel = channel; return m }

// SetMetadata sets Metadata.
func (m *QueueMessage) SetMetadata(metadata string) *QueueMessage { m.Metadata = metadata; return m }

// SetBody sets Body; the slice is kept, not copied.
func (m *QueueMessage) SetBody(body []byte) *QueueMessage { m.Body = body; return m }

// SetTags replaces the tags by a copy of tags.
func (m *QueueMessage) SetTags(tags map[string]string) *QueueMessage {
	m.Tags = copyTags(tags)
	return m
}

// AddTag adds or replaces one tag.
func (m *QueueMessage) AddTag(key, value string) *QueueMessage {
	m.Tags = addTag(m.Tags, key, value)
	return m
}

// SetPolicy replaces the policy; it is kept, not copied.
func (m *QueueMessage) SetPolicy(policy *QueuePolicy) *QueueMessage { m.Policy = policy; return m }

// SetExpirationSeconds sets QueuePolicy.ExpirationSeconds.
func (m *QueueMessage) SetExpirationSeconds(seconds int) *QueueMessage {
	m.policy().ExpirationSeconds = seconds
	return m
}

// SetDelaySeconds sets QueuePolicy.DelaySeconds.
func (m *QueueMessage) SetDelaySeconds(seconds int) *QueueMessage {
	m.policy().DelaySeconds = seconds
	return m
}

// SetMaxReceiveCount sets QueuePolicy.MaxReceiveCount.
func (m *QueueMessage) SetMaxReceiveCount(count int) *QueueMessage {
	m.policy().MaxReceiveCount = count
	return m
}

// SetMaxReceiveQueue sets QueuePolicy.MaxReceiveQueue.
func (m *QueueMessage) SetMaxReceiveQueue(queue string) *QueueMessage {
	m.policy().MaxReceiveQueue = queue
	return m
}

func (m *QueueMessage) policy() *QueuePolicy {
	if m.Policy == nil {
		m.Policy = &QueuePolicy{}
	}
	return m.Policy
}

// String describes the message without its body.
func (m *QueueMessage) String() string {
	return fmt.Sprintf("id=%s channel=%s client_id=%s metadata=%s body_bytes=%d tags=%v", m.ID, m.Channel, m.ClientID, m.Metadata, len(m.Body), m.Tags)
}

// Validate returns every fault that a broker would refuse in any setup, each an
// ErrValidation, or nil. Limits that depend on the broker's settings are left to
// the broker.
func (m *QueueMessage) Validate() error { return m.check("SendQueueMessage", m.Channel) }

func (m *QueueMessage) check(op, channel string) error {
	faults := []error{checkChannel(op, channel, false), checkContent(op, channel, m.Metadata, m.Body)}
	if p := m.Policy; p != nil {
		faults = append(faults,
			checkCount(op, channel, "expiration seconds", p.ExpirationSeconds),
			checkCount(op, channel, "delay seconds", p.DelaySeconds),
			checkCount(op, channel, "max receive count", p.MaxReceiveCount))
		if p.MaxReceiveQueue != "" {
			faults = append(faults, checkChannel(op, p.MaxReceiveQueue, false))
		}
	}
	return errors.Join(faults...)
}

// wire returns the message as it is sent, with what it leaves to the client.
func (m *QueueMessage) wire(c *Client, op string) (*pb.QueueMessage, error) {
	if m == nil {
		return nil, invalid(op, "", "message must not be nil")
	}
	channel := c.channelOr(m.Channel)
	if err := m.check(op, channel); err != nil {
		return nil, err
	}
	out := &pb.QueueMessage{
		MessageID: m.ID,
		ClientID:  c.clientIDOr(m.ClientID),
		Channel:   channel,
		Metadata:  m.Metadata,
		Body:      m.Body,
		Tags:      m.Tags,
	}
	if out.MessageID == "" {
		out.MessageID = newID()
	}
	if p := m.Policy; p != nil {
		out.Policy = &pb.QueueMessagePolicy{
			ExpirationSeconds: int32(p.ExpirationSeconds),
			DelaySeconds:      int32(p.DelaySeconds),
			MaxReceiveCount:   int32(p.MaxReceiveCount),
			MaxReceiveQueue:   p.MaxReceiveQueue,
		}
	}
	return out, nil
}

// received turns a message from the wire into one for the program. Attributes
// and Policy are never nil.
func received(m *pb.QueueMessage) *QueueMessage {
	a, p := m.GetAttributes(), m.GetPolicy()
	return &QueueMessage{
		ID:       m.GetMessageID(),
		ClientID: m.GetClientID(),
		Channel:  m.GetChannel(),
		Metadata: m.GetMetadata(),
		Body:     m.GetBody(),
		Tags:     m.GetTags(),
		Policy: &QueuePolicy{
			ExpirationSeconds: int(p.GetExpirationSeconds()),
			DelaySeconds:      int(p.GetDelaySeconds()),
			MaxReceiveCount:   int(p.GetMaxReceiveCount()),
			MaxReceiveQueue:   p.GetMaxReceiveQueue(),
		},
		Attributes: &QueueMessageAttributes{
			Timestamp:         a.GetTimestamp(),
			Sequence:          a.GetSequence(),
			MD5OfBody:         a.GetMD5OfBody(),
			ReceiveCount:      int(a.GetReceiveCount()),
			ReRouted:          a.GetReRouted(),
			ReRoutedFromQueue: a.GetReRoutedFromQueue(),
			ExpirationAt:      a.GetExpirationAt(),
			DelayedTo:         a.GetDelayedTo(),
		},
	}
}

// QueueMessages is a batch being built for SendQueueMessages.
type QueueMessages struct{ Messages []*QueueMessage }

// NewQueueMessages returns an empty batch.
func (c *Client) NewQueueMessages() *QueueMessages { return &QueueMessages{} }

// Add appends msg.
func (q *QueueMessages) Add(msg *QueueMessage) *QueueMessages {
	q.Messages = append(q.Messages, msg)
	return q
}

func copyTags(tags map[string]string) map[string]string {
	out := make(map[string]string, len(tags))
	for k, v := range tags {
		out[k] = v
	}
	return out
}

func addTag(tags map[string]string, key, value string) map[string]string {
	if tags == nil {
		tags = make(map[string]string)
	}
	tags[key] = value
	return tags
}
