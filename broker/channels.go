package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Channels are managed by queries to a channel of this name: what to do is in
// the metadata, to what is in the tags.
const managementChannel = "kubemq.cluster.internal.requests"

const (
	typeQueues      = "queues"
	typeEvents      = "events"
	typeEventsStore = "events_store"
	typeCommands    = "commands"
	typeQueries     = "queries"
)

// SendRequest serves the queries that manage channels, and no others.
func (s *service) SendRequest(_ context.Context, r *pb.Request) (*pb.Response, error) {
	if r.GetChannel() != managementChannel {
		return nil, status.Error(codes.Unimplemented, "commands and queries are not served by the embedded broker")
	}
	answer := &pb.Response{ClientID: r.GetClientID(), RequestID: r.GetRequestID(), ReplyChannel: r.GetReplyChannel(), Timestamp: time.Now().UnixNano(), Executed: true}
	body, err := s.b.manage(r.GetMetadata(), r.GetTags())
	if err != nil {
		answer.Executed, answer.Error = false, err.Error()
	}
	answer.Body = body
	return answer, nil
}

func (b *Broker) manage(what string, tags map[string]string) ([]byte, error) {
	kind, name := tags["channel_type"], tags["channel"]
	switch kind {
	case typeQueues, typeEvents, typeEventsStore, typeCommands, typeQueries:
	default:
		return nil, fmt.Errorf("invalid channel type %q", kind)
	}
	switch what {
	case "list-channels":
		return json.Marshal(b.listChannels(kind, tags["channel_search"]))
	case "create-channel":
		return nil, firstError(checkManaged(kind, name), b.createChannel(kind, name))
	case "delete-channel":
		return nil, firstError(checkManaged(kind, name), b.deleteChannel(kind, name))
	}
	return nil, fmt.Errorf("invalid request %q", what)
}

func checkManaged(kind, name string) error {
	if kind == typeQueues {
		return checkQueue("any", name)
	}
	return checkChannel(name, kind == typeEventsStore, false)
}

// createChannel makes what is stored under the name. Other channels need no
// making: they are there when somebody uses them.
func (b *Broker) createChannel(kind, name string) error {
	switch kind {
	case typeQueues:
		return b.queues.create(name)
	case typeEventsStore:
		t := b.store.Begin()
		t.CreateChannel(name)
		return onDisk(t.Commit(false))
	}
	return nil
}

// deleteChannel removes what is stored under the name, if there is something.
func (b *Broker) deleteChannel(kind, name string) error {
	switch kind {
	case typeQueues:
		return b.queues.delete(name)
	case typeEventsStore:
		return b.kept.delete(name)
	}
	return nil
}

// channelItem is a channel as clients expect it in a list; some of them need
// every field.
type channelItem struct {
	Name         string       `json:"name"`
	Type         string       `json:"type"`
	LastActivity int64        `json:"lastActivity"` // Unix milliseconds, 0: not known
	IsActive     bool         `json:"isActive"`     // somebody polls or is subscribed
	Incoming     channelCount `json:"incoming"`
	Outgoing     channelCount `json:"outgoing"`
}

type channelCount struct {
	Messages  int64 `json:"messages"`
	Volume    int64 `json:"volume"`
	Responses int64 `json:"responses"`
	Waiting   int64 `json:"waiting"`
	Expired   int64 `json:"expired"`
	Delayed   int64 `json:"delayed"`
}

// listChannels lists the channels of a kind whose names contain search. Plain
// events have the channels that somebody is subscribed to; commands and queries
// have none.
func (b *Broker) listChannels(kind, search string) []channelItem {
	items := []channelItem{} // never null
	add := func(i channelItem) {
		if strings.Contains(i.Name, search) {
			i.Type = kind
			items = append(items, i)
		}
	}
	switch kind {
	case typeQueues:
		for _, q := range b.queues.describe() {
			add(channelItem{
				Name: q.name, LastActivity: q.lastAt / int64(time.Millisecond), IsActive: q.polls > 0 || q.held > 0,
				Incoming: channelCount{Messages: q.sent, Volume: q.bytes, Waiting: int64(q.messages), Expired: int64(q.expired), Delayed: int64(q.delayed)},
				Outgoing: channelCount{Messages: q.taken, Waiting: int64(q.held)},
			})
		}
	case typeEventsStore:
		live := b.kept.subscribed()
		for _, name := range b.store.Channels() {
			_, last := b.store.Bounds(name)
			add(channelItem{Name: name, IsActive: live[name], Incoming: channelCount{Messages: int64(last)}})
		}
	case typeEvents:
		for _, name := range b.hub.patterns() {
			add(channelItem{Name: name, IsActive: true})
		}
	}
	slices.SortFunc(items, func(a, b channelItem) int { return cmp.Compare(a.Name, b.Name) })
	return items
}
