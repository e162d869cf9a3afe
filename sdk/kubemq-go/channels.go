package kubemq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/kubemq-io/kubemq-go/v2/types"
)

const (
	managementChannel = "kubemq.cluster.internal.requests"
	managementTimeout = 10 * time.Second
	// requestQuery is a request that is answered with a body.
	requestQuery = 2
	// notReady is part of the answer of a broker that cannot say yet.
	notReady = "cluster snapshot not ready"
)

// ChannelInfo is what a broker knows about one channel.
type ChannelInfo struct {
	Name         string        `json:"name"`
	Type         string        `json:"type"`
	LastActivity int64         `json:"lastActivity"`
	IsActive     bool          `json:"isActive"`
	Incoming     *ChannelStats `json:"incoming"`
	Outgoing     *ChannelStats `json:"outgoing"`
}

// ChannelStats counts what went into or out of a channel.
type ChannelStats struct {
	Messages  int64 `json:"messages"`
	Volume    int64 `json:"volume"` // bytes
	Responses int64 `json:"responses"`
	Waiting   int64 `json:"waiting"`
	Expired   int64 `json:"expired"`
	Delayed   int64 `json:"delayed"`
}

// CreateChannel creates a channel of one of the ChannelType values. Brokers also
// create channels when they are first used; community brokers of release 2.4
// know no channel management and let the call time out after 10 s.
func (c *Client) CreateChannel(ctx context.Context, channelName, channelType string) error {
	return c.changeChannel(ctx, "CreateChannel", "create-channel", channelName, channelType)
}

// DeleteChannel deletes a channel and what is in it.
func (c *Client) DeleteChannel(ctx context.Context, channelName, channelType string) error {
	return c.changeChannel(ctx, "DeleteChannel", "delete-channel", channelName, channelType)
}

func (c *Client) changeChannel(ctx context.Context, op, what, channelName, channelType string) error {
	if err := checkChannel(op, channelName, false); err != nil {
		return err
	}
	_, err := c.manage(ctx, op, what, channelName, map[string]string{"channel_type": channelType, "channel": channelName})
	return err
}

// ListChannels returns the channels of a type whose name contains search, all of
// them if it is empty.
func (c *Client) ListChannels(ctx context.Context, channelType, search string) ([]*ChannelInfo, error) {
	const op = "ListChannels"
	tags := map[string]string{"channel_type": channelType}
	if search != "" {
		tags["channel_search"] = search
	}
	body, err := c.manage(ctx, op, "list-channels", "", tags)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	var out []*ChannelInfo
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, types.NewError(ErrCodeFatal, op, "", "", fmt.Errorf("read list of channels: %w", err))
	}
	return out, nil
}

// manage asks the broker to do something with channels and returns the body of
// its answer. Doing it twice does no harm, so it is repeated as RetryPolicy says.
func (c *Client) manage(ctx context.Context, op, what, channel string, tags map[string]string) ([]byte, error) {
	switch tags["channel_type"] {
	case ChannelTypeCommands, ChannelTypeEvents, ChannelTypeEventsStore, ChannelTypeQueries, ChannelTypeQueues:
	default:
		return nil, invalid(op, channel, "channel type %q is unknown", tags["channel_type"])
	}
	tags["client_id"] = c.clientID
	// A little more than the broker's own limit, so that its answer wins.
	ctx, cancel := c.callContext(ctx, managementTimeout+time.Second)
	defer cancel()
	for try := 0; ; try++ {
		req := &pb.Request{
			RequestID:       newID(),
			RequestTypeData: requestQuery,
			ClientID:        c.clientID,
			Channel:         managementChannel,
			Metadata:        what,
			Timeout:         int32(managementTimeout.Milliseconds()),
			Tags:            tags,
		}
		k := call{op: op, channel: channel, requestID: req.RequestID, timeout: managementTimeout, repeatable: true}
		r, err := unary(ctx, c, k, req, c.rpc.SendRequest)
		if err != nil {
			return nil, err
		}
		if err = managementFault(op, channel, r); err == nil {
			return r.GetBody(), nil
		}
		if !c.again(ctx, try, err, true) {
			return nil, err
		}
	}
}

func managementFault(op, channel string, r *pb.Response) error {
	text := r.GetError()
	if text == "" {
		return nil
	}
	code := ErrCodeFatal
	if strings.Contains(text, notReady) {
		code = ErrCodeTransient
	}
	return types.NewError(code, op, channel, r.GetRequestID(), errors.New(text))
}

// CreateCommandsChannel is CreateChannel for commands.
func (c *Client) CreateCommandsChannel(ctx context.Context, name string) error {
	return c.CreateChannel(ctx, name, ChannelTypeCommands)
}

// CreateEventsChannel is CreateChannel for events.
func (c *Client) CreateEventsChannel(ctx context.Context, name string) error {
	return c.CreateChannel(ctx, name, ChannelTypeEvents)
}

// CreateEventsStoreChannel is CreateChannel for stored events.
func (c *Client) CreateEventsStoreChannel(ctx context.Context, name string) error {
	return c.CreateChannel(ctx, name, ChannelTypeEventsStore)
}

// CreateQueriesChannel is CreateChannel for queries.
func (c *Client) CreateQueriesChannel(ctx context.Context, name string) error {
	return c.CreateChannel(ctx, name, ChannelTypeQueries)
}

// CreateQueuesChannel is CreateChannel for queues.
func (c *Client) CreateQueuesChannel(ctx context.Context, name string) error {
	return c.CreateChannel(ctx, name, ChannelTypeQueues)
}

// DeleteCommandsChannel is DeleteChannel for commands.
func (c *Client) DeleteCommandsChannel(ctx context.Context, name string) error {
	return c.DeleteChannel(ctx, name, ChannelTypeCommands)
}

// DeleteEventsChannel is DeleteChannel for events.
func (c *Client) DeleteEventsChannel(ctx context.Context, name string) error {
	return c.DeleteChannel(ctx, name, ChannelTypeEvents)
}

// DeleteEventsStoreChannel is DeleteChannel for stored events.
func (c *Client) DeleteEventsStoreChannel(ctx context.Context, name string) error {
	return c.DeleteChannel(ctx, name, ChannelTypeEventsStore)
}

// DeleteQueriesChannel is DeleteChannel for queries.
func (c *Client) DeleteQueriesChannel(ctx context.Context, name string) error {
	return c.DeleteChannel(ctx, name, ChannelTypeQueries)
}

// DeleteQueuesChannel is DeleteChannel for queues.
func (c *Client) DeleteQueuesChannel(ctx context.Context, name string) error {
	return c.DeleteChannel(ctx, name, ChannelTypeQueues)
}

// ListCommandsChannels is ListChannels for commands.
func (c *Client) ListCommandsChannels(ctx context.Context, search string) ([]*ChannelInfo, error) {
	return c.ListChannels(ctx, ChannelTypeCommands, search)
}

// ListEventsChannels is ListChannels for events.
func (c *Client) ListEventsChannels(ctx context.Context, search string) ([]*ChannelInfo, error) {
	return c.ListChannels(ctx, ChannelTypeEvents, search)
}

// ListEventsStoreChannels is ListChannels for stored events.
func (c *Client) ListEventsStoreChannels(ctx context.Context, search string) ([]*ChannelInfo, error) {
	return c.ListChannels(ctx, ChannelTypeEventsStore, search)
}

// ListQueriesChannels is ListChannels for queries.
func (c *Client) ListQueriesChannels(ctx context.Context, search string) ([]*ChannelInfo, error) {
	return c.ListChannels(ctx, ChannelTypeQueries, search)
}

// ListQueuesChannels is ListChannels for queues.
func (c *Client) ListQueuesChannels(ctx context.Context, search string) ([]*ChannelInfo, error) {
	return c.ListChannels(ctx, ChannelTypeQueues, search)
}
