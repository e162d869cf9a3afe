package kubemq

import (
	"context"
	"errors"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/kubemq-io/kubemq-go/v2/types"
)

// errNotSent stands for a refusal without a text.
var errNotSent = errors.New("event was not sent")

// refused returns the broker's refusal of an event, nil if it took it.
func refused(op, channel string, r *pb.Result) error {
	if r.GetSent() && r.GetError() == "" {
		return nil
	}
	cause := errNotSent
	if r.GetError() != "" {
		cause = errors.New(r.GetError())
	}
	return types.NewError(ErrCodeFatal, op, channel, r.GetEventID(), cause)
}

// SendEvent gives event to the broker, which passes it to the subscribers that
// are there. The default timeout is 5 s.
func (c *Client) SendEvent(ctx context.Context, event *Event) error {
	const op = "SendEvent"
	e, err := event.wire(c, op, false)
	if err != nil {
		return err
	}
	r, err := c.sendEvent(ctx, op, e)
	if err != nil {
		return err
	}
	return refused(op, e.Channel, r)
}

func (c *Client) sendEvent(ctx context.Context, op string, e *pb.Event) (*pb.Result, error) {
	k := call{op: op, channel: e.GetChannel(), requestID: e.GetEventID(), timeout: DefaultSendTimeout}
	return unary(ctx, c, k, e, c.rpc.SendEvent)
}

// SendEventStore gives event to the broker to keep and returns its answer, which
// may be a refusal (Sent false, Err set). With an error it is not known whether
// the event is stored, unless the error is an ErrValidation. The default timeout
// is 5 s.
func (c *Client) SendEventStore(ctx context.Context, event *EventStore) (*EventStoreResult, error) {
	const op = "SendEventStore"
	e, err := event.wire(c, op)
	if err != nil {
		return nil, err
	}
	r, err := c.sendEvent(ctx, op, e)
	if err != nil {
		return nil, err
	}
	return &EventStoreResult{Id: r.GetEventID(), Sent: r.GetSent(), Err: refused(op, e.Channel, r)}, nil
}

// PublishOption sets something on the event of PublishEvent or
// PublishEventStore.
type PublishOption interface {
	applyPublish(e *Event)
	applyPublishStore(es *EventStore)
}

type publishFunc func(*Event)

func (f publishFunc) applyPublish(e *Event)            { f(e) }
func (f publishFunc) applyPublishStore(es *EventStore) { f((*Event)(es)) }

// WithID sets the event's id.
func WithID(id string) PublishOption { return publishFunc(func(e *Event) { e.SetId(id) }) }

// WithMetadata sets the event's metadata.
func WithMetadata(metadata string) PublishOption {
	return publishFunc(func(e *Event) { e.SetMetadata(metadata) })
}

// WithTags replaces the event's tags.
func WithTags(tags map[string]string) PublishOption {
	return publishFunc(func(e *Event) { e.SetTags(tags) })
}

// PublishEvent is SendEvent with an event made of body.
func (c *Client) PublishEvent(ctx context.Context, channel string, body []byte, opts ...PublishOption) error {
	e := NewEvent().SetChannel(channel).SetBody(body)
	for _, o := range opts {
		if o != nil {
			o.applyPublish(e)
		}
	}
	return c.SendEvent(ctx, e)
}

// PublishEventStore is SendEventStore with an event made of body.
func (c *Client) PublishEventStore(ctx context.Context, channel string, body []byte, opts ...PublishOption) (*EventStoreResult, error) {
	es := NewEventStore().SetChannel(channel).SetBody(body)
	for _, o := range opts {
		if o != nil {
			o.applyPublishStore(es)
		}
	}
	return c.SendEventStore(ctx, es)
}
