package broker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "github.com/kubemq-io/protobuf/go"

	"orderd/broker"
	"orderd/broker/queuesinfo"
)

// manage sends a query that manages channels.
func (r *running) manage(what, kind, channel string) *pb.Response {
	r.t.Helper()
	tags := map[string]string{"channel_type": kind, "client_id": "c"}
	if what == "list-channels" {
		tags["channel_search"] = channel
	} else {
		tags["channel"] = channel
	}
	got, err := r.SendRequest(within(r.t), &pb.Request{RequestID: "r", RequestTypeData: 2, ClientID: "c", Channel: "kubemq.cluster.internal.requests",
		Metadata: what, Tags: tags, Timeout: 10_000})
	if err != nil || got.RequestID != "r" || got.Executed != (got.Error == "") {
		r.t.Fatal(got, err)
	}
	return got
}

// list returns the names of channels.
func (r *running) list(kind, search string) []string {
	r.t.Helper()
	var items []map[string]any
	if err := json.Unmarshal(r.manage("list-channels", kind, search).Body, &items); err != nil || items == nil {
		r.t.Fatalf("list of %s: %v, %v", kind, items, err)
	}
	names := []string{}
	for _, item := range items {
		names = append(names, item["name"].(string))
		for _, side := range []string{"incoming", "outgoing"} {
			for _, field := range []string{"messages", "volume", "responses", "waiting", "expired", "delayed"} {
				if _, ok := item[side].(map[string]any)[field].(float64); !ok {
					r.t.Errorf("%v lacks %s.%s", item, side, field)
				}
			}
		}
		if _, ok := item["isActive"].(bool); !ok || item["type"] != kind {
			r.t.Errorf("item %v", item)
		}
		if _, ok := item["lastActivity"].(float64); !ok {
			r.t.Errorf("item %v", item)
		}
	}
	return names
}

func TestChannels(t *testing.T) {
	r := start(t, broker.Options{})
	for _, kind := range []string{"queues", "events", "events_store", "commands", "queries"} {
		if names := r.list(kind, ""); len(names) > 0 {
			t.Errorf("%s of an empty broker: %v", kind, names)
		}
	}
	for _, kind := range []string{"queues", "events_store", "commands"} {
		if got := r.manage("create-channel", kind, "made"); got.Error != "" {
			t.Error(got)
		}
	}
	r.send("used", "x")
	r.publish("used.too", true, "x")
	r.subscribe(&pb.Subscribe{Channel: "listened"})
	r.subscribe(&pb.Subscribe{Channel: "listened.*"})
	want := map[string][]string{"queues": {"made", "used"}, "events_store": {"made", "used.too"}, "events": {"listened", "listened.*"}, "commands": {}}
	for kind, names := range want {
		if diff := cmp.Diff(names, r.list(kind, "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
	if names := r.list("queues", "ad"); fmt.Sprint(names) != "[made]" {
		t.Errorf("searching for ad found %v", names)
	}
	r = r.restart()
	if names := append(r.list("queues", ""), r.list("events_store", "")...); fmt.Sprint(names) != "[made used made used.too]" {
		t.Errorf("after a restart: %v", names)
	}
	for _, c := range [][3]string{{"create-channel", "queues", "a/b"}, {"create-channel", "events_store", "a.*"}, {"delete-channel", "queues", ""}, {"list-channels", "nonsense", ""}, {"nonsense", "queues", "q"}} {
		if got := r.manage(c[0], c[1], c[2]); got.Error == "" {
			t.Errorf("%v was not refused", c)
		}
	}
}

func TestChannels_DeleteQueue(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("q", "held", "ready")
	late := message("q", "late")
	late.Policy = &pb.QueueMessagePolicy{DelaySeconds: 1000}
	r.sendBatch(&pb.QueueMessagesBatchRequest{Messages: []*pb.QueueMessage{late}})
	c := r.consumer()
	id := c.expect("q", 1, "[held] [1]").TransactionId
	if got := r.manage("delete-channel", "queues", "q"); got.Error != "" {
		t.Fatal(got)
	}
	if names := r.list("queues", ""); len(names) > 0 {
		t.Errorf("queues %v", names)
	}
	c.settle(nackAll, id)
	c.expectNone("q")
	// A poll that waits outlives a queue.
	c.request(&pb.QueuesDownstreamRequest{RequestTypeData: get, Channel: "q", MaxItems: 1, WaitTimeout: 60_000})
	eventually(t, "the poll waits", func() bool { return r.broker.Stats().Polls == 1 })
	r.send("other", "x")
	for range 2 { // also one that is not there
		if got := r.manage("delete-channel", "queues", "q"); got.Error != "" {
			t.Fatal(got)
		}
	}
	r.send("q", "new")
	if a := c.answer(); fmt.Sprint(bodies(a)) != "[new]" || a.Messages[0].Attributes.Sequence != 1 {
		t.Errorf("answer %v", a)
	}
	if s := r.broker.Stats(); s.Delayed != 0 || s.Waiting != 1 || s.Unacked != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestChannels_DeleteEventsStore(t *testing.T) {
	r := start(t, broker.Options{})
	s := r.subscribe(kept("me", "", newOnly, 0))
	r.publish("e", true, "1")
	s.next()
	if got := r.manage("delete-channel", "events_store", "e"); got.Error != "" {
		t.Fatal(got)
	}
	if ev, err := s.stream.Recv(); err == nil {
		t.Errorf("the subscription goes on: %v", ev)
	}
	if names := r.list("events_store", ""); len(names) > 0 {
		t.Errorf("channels %v", names)
	}
	r.publish("e", true, "2")
	if ev := r.subscribe(kept("me", "", fromFirst, 0)).next(); string(ev.Body) != "2" || ev.Sequence != 1 {
		t.Errorf("event %v", ev)
	}
}

func (r *running) info(names string) string {
	r.t.Helper()
	got := new(queuesinfo.Response)
	if err := r.conn.Invoke(within(r.t), "/kubemq.kubemq/QueuesInfo", &queuesinfo.Request{RequestID: "r", QueueName: names}, got); err != nil || got.RefRequestID != "r" {
		r.t.Fatal(got, err)
	}
	var out []string
	for _, q := range got.Info.Queues {
		out = append(out, fmt.Sprintf("%s messages %d bytes>0 %v from %d to %d sent %d delivered %d", q.Name, q.Messages, q.Bytes > 0, q.FirstSequence, q.LastSequence, q.Sent, q.Delivered))
	}
	return fmt.Sprintf("%d waiting %d: %s", got.Info.TotalQueue, got.Info.Waiting, strings.Join(out, "; "))
}

func TestQueuesInfo(t *testing.T) {
	r := start(t, broker.Options{})
	r.send("QUEUE", "1", "2", "3") // a name that KubeMQ servers mangle
	r.send("_S.E_", "1")
	c := r.consumer()
	c.settle(ackRange, c.expect("QUEUE", 2, "[1 2] [1 1]").TransactionId, 1)
	eventually(t, "the acknowledgement is handled", func() bool { return r.broker.Stats().Unacked == 1 })
	queue, other := "QUEUE messages 2 bytes>0 true from 2 to 3 sent 3 delivered 2", "_S.E_ messages 1 bytes>0 true from 1 to 1 sent 1 delivered 0"
	for names, want := range map[string]string{
		"": "2 waiting 3: " + queue + "; " + other, "QUEUE": "1 waiting 2: " + queue, "_S.E_;QUEUE": "2 waiting 3: " + queue + "; " + other, "QUEU": "0 waiting 0: ",
	} {
		if got := r.info(names); got != want {
			t.Errorf("info of %q:\n got %s\nwant %s", names, got, want)
		}
	}
}
