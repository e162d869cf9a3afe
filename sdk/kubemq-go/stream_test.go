package kubemq_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/kubemq-io/kubemq-go/v2"
)

func closedToValue(c <-chan struct{}) <-chan bool {
	out := make(chan bool, 1)
	go func() {
		<-c
		out <- true
	}()
	return out
}

func TestEventStreamErrors(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	s, err := c.SendEventStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(kubemq.NewEvent().SetId("1").SetChannel("e").SetMetadata("m").AddTag("refuse", "no")); err != nil {
		t.Fatal(err)
	}
	var e *kubemq.KubeMQError
	if err := next(t, "refusal", s.Errors); !errors.As(err, &e) || e.Message != "no" || e.RequestID != "1" {
		t.Fatalf("got %v", err)
	}
	b.stop()
	if err := next(t, "loss", s.Errors); !errors.As(err, &e) || e.Code != kubemq.ErrCodeTransient {
		t.Fatalf("got %v", err)
	}
	next(t, "end", closedToValue(s.Done))
}

func TestEventStoreStream(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	s, err := c.SendEventStoreStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		e := kubemq.NewEventStore().SetId(strconv.Itoa(i)).SetChannel("e").SetMetadata("m")
		if i == 50 {
			e.AddTag("refuse", "no")
		}
		if err := s.Send(e); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	got := map[string]bool{}
	for r := range s.Results { // answers come after Close too
		got[r.EventID] = r.Sent
		if r.Sent != (r.Error == "") {
			t.Errorf("result %+v", r)
		}
	}
	next(t, "end", closedToValue(s.Done))
	if len(got) != 100 || got["50"] || !got["0"] || !got["99"] {
		t.Errorf("got %d results, 50: %t", len(got), got["50"])
	}
}

func TestUpstream(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b)
	u, err := c.QueueUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	message := func(id string) *kubemq.QueueMessage {
		return kubemq.NewQueueMessage().SetId(id).SetChannel("q").SetMetadata("m")
	}
	if err := u.Send("r1", []*kubemq.QueueMessage{message("1"), message("2").AddTag("refuse", "no")}); err != nil {
		t.Fatal(err)
	}
	r := next(t, "result", u.Results)
	if r.RefRequestID != "r1" || r.IsError || len(r.Results) != 2 || r.Results[0].MessageID != "1" || !r.Results[1].IsError {
		t.Fatalf("got %+v", r)
	}
	if err := u.Send("r2", nil); !errors.Is(err, kubemq.ErrValidation) {
		t.Errorf("empty batch: got %v", err)
	}
	// A lost stream answers what was under way.
	b.set(func() { b.silent = true })
	for i := range 3 {
		if err := u.Send(fmt.Sprintf("lost%d", i), []*kubemq.QueueMessage{message("x")}); err != nil {
			t.Fatal(err)
		}
	}
	b.stop()
	var lost []string
	for r := range u.Results {
		if !r.IsError || r.Error == "" {
			t.Errorf("got %+v, want an error", r)
		}
		lost = append(lost, r.RefRequestID)
	}
	if !slices.Equal(lost, []string{"lost0", "lost1", "lost2"}) {
		t.Errorf("got %q", lost)
	}
	next(t, "end", closedToValue(u.Done))
	if err := u.Send("r3", []*kubemq.QueueMessage{message("y")}); err == nil {
		t.Error("send on a lost stream must fail")
	}
}

func TestUpstreamTooLarge(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	c := connect(t, b, kubemq.WithMaxSendMessageSize(1000))
	u, err := c.QueueUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	big := kubemq.NewQueueMessage().SetChannel("q").SetBody(make([]byte, 1001))
	if err := u.Send("big", []*kubemq.QueueMessage{big}); !errors.Is(err, kubemq.ErrValidation) {
		t.Fatalf("got %v", err)
	}
	if err := u.Send("small", []*kubemq.QueueMessage{big.SetBody([]byte("x"))}); err != nil {
		t.Fatal(err)
	}
	if r := next(t, "result", u.Results); r.RefRequestID != "small" || r.IsError {
		t.Fatalf("got %+v", r)
	}
}
