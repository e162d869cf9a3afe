package kubemq

import (
	"errors"
	"fmt"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
)

// Event is a message to every subscriber that is there, or, on a subscription,
// one received. The setters change the event and return it. Metadata or Body
// must not be empty when it is sent.
type Event struct {
	Id       string // empty: the client makes one
	Channel  string // empty: the client's default channel
	Metadata string
	Body     []byte
	ClientId string // empty: the client's; not set on events received
	Tags     map[string]string
}

// NewEvent returns an empty event.
func NewEvent() *Event { return &Event{} }

// NewEvent returns an empty event with the client's id and default channel.
func (c *Client) NewEvent() *Event {
	return &Event{ClientId: c.clientID, Channel: c.opts.defaultChannel}
}

// SetId sets Id.
func (e *Event) SetId(id string) *Event { e.Id = id; return e }

// SetClientId sets ClientId.
func (e *Event) SetClientId(clientId string) *Event { e.ClientId = clientId; return e }

// SetChannel sets Channel.
func (e *Event) SetChannel(channel string) *Event { e.Channel = channel; return e }

// SetMetadata sets Metadata.
func (e *Event) SetMetadata(metadata string) *Event { e.Metadata = metadata; return e }

// SetBody sets Body; the slice is kept, not copied.
func (e *Event) SetBody(body []byte) *Event { e.Body = body; return e }

// SetTags replaces the tags by a copy of tags.
func (e *Event) SetTags(tags map[string]string) *Event { e.Tags = copyTags(tags); return e }

// AddTag adds or replaces one tag.
func (e *Event) AddTag(key, value string) *Event { e.Tags = addTag(e.Tags, key, value); return e }

// String describes the event without its body.
func (e *Event) String() string {
	return fmt.Sprintf("id=%s channel=%s client_id=%s metadata=%s body_bytes=%d tags=%v", e.Id, e.Channel, e.ClientId, e.Metadata, len(e.Body), e.Tags)
}

// Validate returns every fault that a broker would refuse, each an
// ErrValidation, or nil.
func (e *Event) Validate() error {
	return checkEvent("SendEvent", e.Channel, e.Metadata, e.Body)
}

func checkEvent(op, channel, metadata string, body []byte) error {
	return errors.Join(checkChannel(op, channel, false), checkContent(op, channel, metadata, body))
}

// EventStore is an event that the broker keeps for later subscribers. Its
// fields are those of Event.
type EventStore struct {
	Id       string
	Channel  string
	Metadata string
	Body     []byte
	ClientId string
	Tags     map[string]string
}

// NewEventStore returns an empty event.
func NewEventStore() *EventStore { return &EventStore{} }

// NewEventStore returns an empty event with the client's id and default channel.
func (c *Client) NewEventStore() *EventStore {
	return &EventStore{ClientId: c.clientID, Channel: c.opts.defaultChannel}
}

// SetId sets Id.
func (es *EventStore) SetId(id string) *EventStore { es.Id = id; return es }

// SetClientId sets ClientId.
func (es *EventStore) SetClientId(clientId string) *EventStore { es.ClientId = clientId; return es }

// SetChannel sets Channel.
func (es *EventStore) SetChannel(channel string) *EventStore { es.Channel = channel; return es }

// SetMetadata sets Metadata.
func (es *EventStore) SetMetadata(metadata string) *EventStore { es.Metadata = metadata; return es }

// SetBody sets Body; the slice is kept, not copied.
func (es *EventStore) SetBody(body []byte) *EventStore { es.Body = body; return es }

// SetTags replaces the tags by a copy of tags.
func (es *EventStore) SetTags(tags map[string]string) *EventStore {
	es.Tags = copyTags(tags)
	return es
}

// AddTag adds or replaces one tag.
func (es *EventStore) AddTag(key, value string) *EventStore {
	es.Tags = addTag(es.Tags, key, value)
	return es
}

// Validate is as for Event.
func (es *EventStore) Validate() error {
	return checkEvent("SendEventStore", es.Channel, es.Metadata, es.Body)
}

// EventStoreReceive is a stored event that a subscription received.
type EventStoreReceive struct {
	Id        string
	Sequence  uint64    // place in its channel, from 1
	Timestamp time.Time // when the broker stored it
	Channel   string
	Metadata  string
	Body      []byte
	ClientId  string // brokers do not tell it
	Tags      map[string]string
}

// String describes the event without its body.
func (e *EventStoreReceive) String() string {
	return fmt.Sprintf("id=%s channel=%s sequence=%d timestamp=%s metadata=%s body_bytes=%d tags=%v",
		e.Id, e.Channel, e.Sequence, e.Timestamp.Format(time.RFC3339Nano), e.Metadata, len(e.Body), e.Tags)
}

// EventStoreResult is the broker's answer for one stored event. Without Sent it
// is not stored, and Err says why.
type EventStoreResult struct {
	Id   string
	Sent bool
	Err  error
}

// wire returns the event as it is sent, with what it leaves to the client.
func (e *Event) wire(c *Client, op string, store bool) (*pb.Event, error) {
	if e == nil {
		return nil, invalid(op, "", "event must not be nil")
	}
	channel := c.channelOr(e.Channel)
	if err := checkEvent(op, channel, e.Metadata, e.Body); err != nil {
		return nil, err
	}
	out := &pb.Event{
		EventID:  e.Id,
		ClientID: c.clientIDOr(e.ClientId),
		Channel:  channel,
		Metadata: e.Metadata,
		Body:     e.Body,
		Store:    store,
		Tags:     e.Tags,
	}
	if out.EventID == "" {
		out.EventID = newID()
	}
	return out, nil
}

func (es *EventStore) wire(c *Client, op string) (*pb.Event, error) {
	if es == nil {
		return nil, invalid(op, "", "event must not be nil")
	}
	return (*Event)(es).wire(c, op, true)
}

func eventReceived(r *pb.EventReceive) *Event {
	return &Event{
		Id:       r.GetEventID(),
		Channel:  r.GetChannel(),
		Metadata: r.GetMetadata(),
		Body:     r.GetBody(),
		Tags:     r.GetTags(),
	}
}

func storedReceived(r *pb.EventReceive) *EventStoreReceive {
	return &EventStoreReceive{
		Id:        r.GetEventID(),
		Sequence:  r.GetSequence(),
		Timestamp: time.Unix(0, r.GetTimestamp()),
		Channel:   r.GetChannel(),
		Metadata:  r.GetMetadata(),
		Body:      r.GetBody(),
		Tags:      r.GetTags(),
	}
}
