package kubemq_test

import (
	"errors"
	"testing"

	pb "github.com/kubemq-io/protobuf/go"

	"github.com/kubemq-io/kubemq-go/v2"
)

func TestChannelManagement(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithClientId("me"), kubemq.WithRetryPolicy(kubemq.RetryPolicy{MaxRetries: 3}))
	var requests []*pb.Request
	answers := []*pb.Response{
		{Executed: true},
		{Executed: true},
		{Error: "cluster snapshot not ready yet"},
		{Executed: true, Body: []byte(`[{"name":"orders","type":"queues","lastActivity":5,"isActive":true,"incoming":{"messages":3,"volume":9,"waiting":1},"outgoing":{"messages":2,"expired":1,"delayed":4,"responses":6}}]`)},
		{Executed: true, Body: []byte(`[]`)},
		{Error: "no such channel"},
	}
	b.set(func() {
		b.handle = func(r *pb.Request) (*pb.Response, error) {
			requests = append(requests, r)
			return answers[len(requests)-1], nil
		}
	})
	if err := c.CreateQueuesChannel(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteEventsStoreChannel(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	list, err := c.ListQueuesChannels(t.Context(), "ord")
	if err != nil || len(list) != 1 {
		t.Fatalf("list: got %v, %v", list, err)
	}
	i := list[0]
	if i.Name != "orders" || i.Type != "queues" || i.LastActivity != 5 || !i.IsActive ||
		*i.Incoming != (kubemq.ChannelStats{Messages: 3, Volume: 9, Waiting: 1}) ||
		*i.Outgoing != (kubemq.ChannelStats{Messages: 2, Expired: 1, Delayed: 4, Responses: 6}) {
		t.Errorf("got %+v in %+v out %+v", i, i.Incoming, i.Outgoing)
	}
	if list, err := c.ListEventsChannels(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("empty list: got %v, %v", list, err)
	}
	var e *kubemq.KubeMQError
	if err := c.DeleteQueriesChannel(t.Context(), "x"); !errors.As(err, &e) || e.Message != "no such channel" || e.Operation != "DeleteChannel" {
		t.Errorf("got %v", err)
	}
	for i, want := range []struct{ what, kind, channel, search string }{
		{"create-channel", "queues", "orders", ""},
		{"delete-channel", "events_store", "old", ""},
		{"list-channels", "queues", "", "ord"},
		{"list-channels", "queues", "", "ord"},
		{"list-channels", "events", "", ""},
		{"delete-channel", "queries", "x", ""},
	} {
		r := requests[i]
		if r.Channel != "kubemq.cluster.internal.requests" || r.RequestTypeData != pb.Request_Query || r.Timeout != 10000 || r.Metadata != want.what ||
			r.Tags["channel_type"] != want.kind || r.Tags["channel"] != want.channel || r.Tags["channel_search"] != want.search || r.Tags["client_id"] != "me" {
			t.Errorf("request %d on the wire: %v", i, r)
		}
	}
	if err := c.CreateChannel(t.Context(), "x", "nonsense"); !errors.Is(err, kubemq.ErrValidation) {
		t.Errorf("unknown type: got %v", err)
	}
}
