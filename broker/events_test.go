package broker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"orderd/broker"
)

// The subscription types, as numbers of the contract.
const (
	plain           = 1
	stored          = 2
	newOnly         = 1
	fromFirst       = 2
	fromLast        = 3
	fromSequence    = 4
	fromTime        = 5
	fromTimeDelta   = 6
	eventMarkerBody = "end"
)

type subscriber struct {
	t      testing.TB
	stream pb.Kubemq_SubscribeToEventsClient
	cancel func()
}

// subscribe returns when the subscription stands.
func (r *running) subscribe(s *pb.Subscribe) *subscriber {
	r.t.Helper()
	if s.ClientID == "" {
		s.ClientID = "subscriber"
	}
	if s.SubscribeTypeData == 0 {
		s.SubscribeTypeData = plain
	}
	ctx, cancel := context.WithCancel(within(r.t))
	r.t.Cleanup(cancel)
	stream, err := r.SubscribeToEvents(ctx, s)
	if err == nil {
		_, err = stream.Header()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return &subscriber{t: r.t, stream: stream, cancel: cancel}
}

func (s *subscriber) next() *pb.EventReceive {
	s.t.Helper()
	ev, err := s.stream.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	return ev
}

// until returns the bodies that come before one.
func (s *subscriber) until(body string) []string {
	s.t.Helper()
	var got []string
	for {
		b := string(s.next().Body)
		if b == body {
			return got
		}
		got = append(got, b)
	}
}

func (s *subscriber) end() {
	s.cancel()
	for {
		if _, err := s.stream.Recv(); err != nil {
			return
		}
	}
}

func (r *running) publish(channel string, store bool, bodies ...string) {
	r.t.Helper()
	for _, body := range bodies {
		got, err := r.SendEvent(within(r.t), &pb.Event{ClientID: "publisher", Channel: channel, Body: []byte(body), Store: store})
		if err != nil || !got.Sent || got.EventID == "" {
			r.t.Fatal(got, err)
		}
	}
}

func TestEvents_Fields(t *testing.T) {
	r := start(t, broker.Options{})
	s, other := r.subscribe(&pb.Subscribe{Channel: "e"}), r.subscribe(&pb.Subscribe{Channel: "e"})
	if _, err := r.SendEvent(within(t), &pb.Event{EventID: "id", ClientID: "p", Channel: "e", Metadata: "m", Body: []byte("b"), Tags: map[string]string{"k": "v"}}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*subscriber{s, other} {
		ev := s.next()
		if ev.EventID != "id" || ev.Channel != "e" || ev.Metadata != "m" || string(ev.Body) != "b" || ev.Tags["k"] != "v" || ev.Timestamp != 0 || ev.Sequence != 0 {
			t.Errorf("event %v", ev)
		}
	}
}

func TestEvents_Wildcards(t *testing.T) {
	r := start(t, broker.Options{})
	subscribers := map[string]*subscriber{
		"a":     r.subscribe(&pb.Subscribe{Channel: "*"}),
		"a.b":   r.subscribe(&pb.Subscribe{Channel: "a.*"}),
		"a.b.c": r.subscribe(&pb.Subscribe{Channel: "a.*.>"}),
	}
	r.publish("b.a", false, "nobody's")
	for channel := range subscribers {
		r.publish(channel, false, channel)
	}
	for channel, s := range subscribers {
		if got := string(s.next().Body); got != channel {
			t.Errorf("got %s, want %s", got, channel)
		}
	}
}

func TestEvents_Groups(t *testing.T) {
	r := start(t, broker.Options{})
	all := r.subscribe(&pb.Subscribe{Channel: "e.x"})
	members := []*subscriber{r.subscribe(&pb.Subscribe{Channel: "e.x", Group: "g"}), r.subscribe(&pb.Subscribe{Channel: "e.*", Group: "g"})}
	single := r.subscribe(&pb.Subscribe{Channel: "e.x", Group: "other"})
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprint(i))
	}
	r.publish("e.x", false, want...)
	r.publish("e.x", false, eventMarkerBody, eventMarkerBody) // one for each member
	for _, s := range []*subscriber{all, single} {
		if got := s.until(eventMarkerBody); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
	}
	var shared []string
	for _, s := range members {
		got := s.until(eventMarkerBody)
		if len(got) != 50 {
			t.Errorf("a member got %d of 100", len(got))
		}
		shared = append(shared, got...)
	}
	slices.Sort(shared)
	slices.Sort(want)
	if !slices.Equal(shared, want) {
		t.Errorf("the group got %v", shared)
	}
}

// Somebody who does not read delays nobody, and loses the newest.
func TestEvents_SlowSubscriber(t *testing.T) {
	r := start(t, broker.Options{})
	slow, quick := r.subscribe(&pb.Subscribe{Channel: "e"}), r.subscribe(&pb.Subscribe{Channel: "e"})
	stream, err := r.SendEventsStream(within(t))
	if err != nil {
		t.Fatal(err)
	}
	send := func(metadata string) {
		t.Helper()
		if err := stream.Send(&pb.Event{ClientID: "p", Channel: "e", Metadata: metadata, Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	const n, atOnce = 90_000, 1_000
	for i := range n {
		send(fmt.Sprint(i))
		for j := i + 1 - atOnce; (i+1)%atOnce == 0 && j <= i; j++ {
			if got := quick.next().Metadata; got != fmt.Sprint(j) {
				t.Fatalf("the quick subscriber got %s, want %d", got, j)
			}
		}
	}
	const backlog = 65_536
	for i := range backlog {
		if got := slow.next().Metadata; got != fmt.Sprint(i) {
			t.Fatalf("the slow subscriber got %s, want %d", got, i)
		}
	}
	send("end") // there is room again
	got := backlog
	for slow.next().Metadata != "end" {
		got++
	}
	if got == n {
		t.Error("the slow subscriber lost nothing: it was not slow enough to show anything")
	}
}

func TestEvents_Refusals(t *testing.T) {
	r := start(t, broker.Options{})
	for _, c := range []struct {
		ev   *pb.Event
		text string
	}{
		{&pb.Event{Channel: "e", Body: []byte("x")}, "Error 101"}, {&pb.Event{ClientID: "c", Body: []byte("x")}, "Error 102"},
		{&pb.Event{ClientID: "c", Channel: "e.*", Body: []byte("x")}, "Error 107"}, {&pb.Event{ClientID: "c", Channel: "e x", Body: []byte("x")}, "Error 108"},
		{&pb.Event{ClientID: "c", Channel: "e\n", Body: []byte("x")}, "Error 108"}, {&pb.Event{ClientID: "c", Channel: "e.", Body: []byte("x")}, "Error 119"},
		{&pb.Event{ClientID: "c", Channel: "e"}, "Error 110"}, {&pb.Event{ClientID: "c", Channel: "e/x", Store: true, Body: []byte("x")}, "Error 120"},
		{&pb.Event{ClientID: "c", Channel: "e..x", Store: true, Body: []byte("x")}, "Error 120"},
		{&pb.Event{ClientID: "c", Channel: strings.Repeat("x", 201), Body: []byte("x")}, "Error 120"},
	} {
		_, err := r.SendEvent(within(t), c.ev)
		if status.Code(err) != codes.Internal || !strings.HasPrefix(status.Convert(err).Message(), c.text+":") {
			t.Errorf("%v: %v, want Internal and %s", c.ev, err, c.text)
		}
	}
	for _, c := range []struct {
		s    *pb.Subscribe
		text string
	}{
		{&pb.Subscribe{SubscribeTypeData: 1, Channel: "e"}, "Error 101"}, {&pb.Subscribe{SubscribeTypeData: 1, ClientID: "c"}, "Error 102"},
		{&pb.Subscribe{ClientID: "c", Channel: "e"}, "Error 207"}, {&pb.Subscribe{SubscribeTypeData: 3, ClientID: "c", Channel: "e"}, "Error 207"},
		{&pb.Subscribe{SubscribeTypeData: 1, ClientID: "c", Channel: "e", EventsStoreTypeData: 1}, "Error 118"},
		{&pb.Subscribe{SubscribeTypeData: 2, ClientID: "c", Channel: "e"}, "Error 111"},
		{&pb.Subscribe{SubscribeTypeData: 2, ClientID: "c", Channel: "e.*", EventsStoreTypeData: 1}, "Error 107"},
		{&pb.Subscribe{SubscribeTypeData: 2, ClientID: "c", Channel: "e", EventsStoreTypeData: 4}, "Error 112"},
		{&pb.Subscribe{SubscribeTypeData: 2, ClientID: "c", Channel: "e", EventsStoreTypeData: 5}, "Error 113"},
		{&pb.Subscribe{SubscribeTypeData: 2, ClientID: "c", Channel: "e", EventsStoreTypeData: 6, EventsStoreTypeValue: -1}, "Error 114"},
	} {
		stream, err := r.SubscribeToEvents(within(t), c.s)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Internal || !strings.HasPrefix(status.Convert(err).Message(), c.text+":") {
			t.Errorf("%v: %v, want Internal and %s", c.s, err, c.text)
		}
	}
}

// A stream of events has an answer for each kept one, in order, and for plain
// ones only when they are refused.
func TestSendEventsStream_Results(t *testing.T) {
	r := start(t, broker.Options{})
	stream, err := r.SendEventsStream(within(t))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	send := func(id, channel string, store, answered, sent bool) {
		t.Helper()
		if err := stream.Send(&pb.Event{EventID: id, ClientID: "p", Channel: channel, Body: []byte("x"), Store: store}); err != nil {
			t.Fatal(err)
		}
		if answered {
			want = append(want, fmt.Sprint(id, " ", sent))
		}
	}
	for i := range 100 {
		send(fmt.Sprint("kept", i), "e", true, true, true)
		send(fmt.Sprint("plain", i), "e", false, false, false)
		send(fmt.Sprint("refused", i), "e.*", i%2 == 0, true, false)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range want {
		a, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if a.Sent == (a.Error != "") {
			t.Errorf("result %v", a)
		}
		got = append(got, fmt.Sprint(a.EventID, " ", a.Sent))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if a, err := stream.Recv(); err == nil {
		t.Errorf("one result too many: %v", a)
	}
}

func kept(client, group string, kind pb.Subscribe_EventsStoreType, value int64) *pb.Subscribe {
	return &pb.Subscribe{SubscribeTypeData: stored, ClientID: client, Channel: "e", Group: group, EventsStoreTypeData: kind, EventsStoreTypeValue: value}
}

func TestEventsStore_StartTypes(t *testing.T) {
	r := start(t, broker.Options{})
	r.publish("e", true, "1", "2")
	all := r.subscribe(kept("times", "", fromFirst, 0))
	second := []*pb.EventReceive{all.next(), all.next()}[1]
	if second.Sequence != 2 || time.Since(time.Unix(0, second.Timestamp)) > patience || second.Channel != "e" || second.EventID == "" {
		t.Errorf("event %v", second)
	}
	for i, c := range []struct {
		kind  pb.Subscribe_EventsStoreType
		value int64
		want  string
	}{
		{newOnly, 0, "3 4"}, {fromFirst, 0, "1 2 3 4"}, {fromLast, 0, "2 3 4"}, {fromSequence, 2, "2 3 4"}, {fromSequence, 4, "4"},
		{fromTime, second.Timestamp, "2 3 4"}, {fromTime, second.Timestamp + 1, "3 4"}, {fromTimeDelta, 3600, "1 2 3 4"},
	} {
		s := r.subscribe(&pb.Subscribe{SubscribeTypeData: stored, ClientID: fmt.Sprint("c", i), Channel: "e", EventsStoreTypeData: c.kind, EventsStoreTypeValue: c.value})
		t.Cleanup(func() {
			if got := strings.Join(s.until(eventMarkerBody), " "); got != c.want {
				t.Errorf("start type %d, value %d: got %s, want %s", c.kind, c.value, got, c.want)
			}
		})
	}
	r.publish("e", true, "3", "4", eventMarkerBody)
	// Kept and plain events of a channel have nothing to do with each other.
	p := r.subscribe(&pb.Subscribe{Channel: "e"})
	r.publish("e", true, "kept")
	r.publish("e", false, "plain")
	if got := string(p.next().Body); got != "plain" {
		t.Errorf("a plain subscriber got %s", got)
	}
}

func TestEventsStore_Position(t *testing.T) {
	r := start(t, broker.Options{})
	s := r.subscribe(kept("me", "", newOnly, 0))
	other := r.subscribe(kept("other", "", newOnly, 0))
	r.publish("e", true, "1", "2")
	s.until("2")
	s.end()
	eventually(t, "the subscription ends", func() bool { return r.broker.Stats().Subscriptions == 1 })
	r.publish("e", true, "3")
	s = r.subscribe(kept("me", "", fromFirst, 0)) // where to start is known already
	if got := string(s.next().Body); got != "3" {
		t.Errorf("got %s after coming back, want 3", got)
	}
	s.end()
	other.until("3")
	r = r.restart()
	r.publish("e", true, "4")
	for _, client := range []string{"me", "other"} {
		if ev := r.subscribe(kept(client, "", newOnly, 0)).next(); string(ev.Body) != "4" || ev.Sequence != 4 {
			t.Errorf("%s got %v after a restart, want 4", client, ev)
		}
	}
}

// One client id may subscribe more than once.
func TestEventsStore_SameClient(t *testing.T) {
	r := start(t, broker.Options{})
	a, b := r.subscribe(kept("me", "", newOnly, 0)), r.subscribe(kept("me", "", newOnly, 0))
	r.publish("e", true, "1", "2")
	for _, s := range []*subscriber{a, b} {
		if got := s.until("2"); fmt.Sprint(got) != "[1]" {
			t.Errorf("got %v", got)
		}
	}
}

func TestEventsStore_Groups(t *testing.T) {
	r := start(t, broker.Options{})
	members := []*subscriber{r.subscribe(kept("a", "g", newOnly, 0)), r.subscribe(kept("b", "g", newOnly, 0))}
	alone := r.subscribe(kept("c", "", newOnly, 0))
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("%02d", i))
	}
	r.publish("e", true, want...)
	r.publish("e", true, eventMarkerBody, eventMarkerBody)
	if got := alone.until(eventMarkerBody); !slices.Equal(got, want) {
		t.Errorf("alone got %v", got)
	}
	var shared []string
	for _, s := range members {
		got := s.until(eventMarkerBody)
		if len(got) < 30 {
			t.Errorf("a member got %d of 100", len(got))
		}
		shared = append(shared, got...)
		s.end()
	}
	slices.Sort(shared)
	if !slices.Equal(shared, want) {
		t.Errorf("the group got %v", shared)
	}
	eventually(t, "the members have left", func() bool { return r.broker.Stats().Subscriptions == 1 })
	r.publish("e", true, "later")
	if got := string(r.subscribe(kept("new member", "g", fromFirst, 0)).next().Body); got != "later" {
		t.Errorf("a new member got %s, want what the group has not read", got)
	}
}

// After a crash all events that were answered are there, and a subscriber may
// see some again, but misses none.
func TestEventsStore_Crash(t *testing.T) {
	r := start(t, broker.Options{})
	s := r.subscribe(kept("me", "", newOnly, 0))
	member := r.subscribe(kept("a", "g", newOnly, 0))
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("%02d", i))
	}
	r.publish("e", true, want...)
	for _, s := range []*subscriber{s, member} {
		if got := s.until("60"); !slices.Equal(got, want[:60]) {
			t.Errorf("got %v", got)
		}
	}
	r = r.crash()
	r.publish("e", true, "end")
	if got := r.subscribe(kept("new", "", fromFirst, 0)).until("end"); !slices.Equal(got, want) {
		t.Errorf("after the crash there is %v", got)
	}
	for _, s := range []*subscriber{r.subscribe(kept("me", "", newOnly, 0)), r.subscribe(kept("b", "g", newOnly, 0))} {
		// What was sent to a client counts as read, received or not.
		if got := s.until("end"); !slices.Equal(got, want[len(want)-len(got):]) {
			t.Errorf("a subscriber that comes back got %v", got)
		}
	}
}

// Who does not read is behind, but loses nothing.
func TestEventsStore_SlowSubscriber(t *testing.T) {
	r := start(t, broker.Options{})
	slow := r.subscribe(kept("slow", "", newOnly, 0))
	stream, err := r.SendEventsStream(within(t))
	if err != nil {
		t.Fatal(err)
	}
	n := scaled(20_000, 50_000, 400_000)
	go func() {
		body := []byte(strings.Repeat("x", 1000))
		for range n {
			if err := stream.Send(&pb.Event{ClientID: "p", Channel: "e", Body: body, Store: true}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range n {
		if a, err := stream.Recv(); err != nil || !a.Sent {
			t.Fatalf("result %d: %v, %v", i, a, err)
		}
	}
	for i := range n {
		if ev := slow.next(); ev.Sequence != uint64(i+1) {
			t.Fatalf("event %d has sequence %d", i+1, ev.Sequence)
		}
	}
}
