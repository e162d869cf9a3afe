package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderd/broker/store"
)

// Writers, readers and the cleaner at once, with payloads on disk only and
// segments so small that everything moves all the time.
func TestStore_Concurrent(t *testing.T) {
	dir := t.TempDir()
	o := store.Options{SegmentBytes: 4 << 10, CleanBytes: 8 << 10, MemoryBytes: 1, EventsPerChannel: 50}
	s := open(t, dir, o)
	const events = 500
	var wg sync.WaitGroup
	for w := range 8 {
		queue := fmt.Sprint("q", w)
		wg.Go(func() {
			var kept []*store.Message
			body := func(m *store.Message) string { return strings.Repeat(fmt.Sprintf("%d.%d ", w, m.Seq), 20) }
			for i := range 200 {
				m := &store.Message{}
				tx := s.Begin()
				tx.Put(queue, m, []byte(strings.Repeat(fmt.Sprintf("%d.%d ", w, i+1), 20)))
				if err := tx.Commit(false).Wait(); err != nil {
					t.Error(err)
					return
				}
				if kept = append(kept, m); len(kept) < 5 {
					continue
				}
				old := kept[i%5]
				if payload, err := s.Payload(old); err != nil || string(payload) != body(old) {
					t.Errorf("message %d: %q, %v", old.Seq, payload, err)
				}
				tx = s.Begin()
				tx.Receive(old, old.Received+1)
				tx.Settle(old)
				tx.Commit(i%2 == 0)
				kept = append(kept[:i%5], kept[i%5+1:]...)
			}
		})
	}
	wg.Go(func() {
		for i := range events {
			tx := s.Begin()
			tx.Event("e", fmt.Append(nil, i+1))
			if err := tx.Commit(false).Wait(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		for after := uint64(0); after < events; {
			got, skipped, more, err := s.EventsAfter("e", after, 10)
			if err != nil {
				t.Error(err)
				return
			}
			if len(got) == 0 {
				<-more
			}
			after += skipped
			for _, ev := range got {
				if after++; ev.Seq != after || string(ev.Payload) != fmt.Sprint(after) {
					t.Errorf("event %d is %d, %q", after, ev.Seq, ev.Payload)
				}
			}
		}
	})
	wg.Wait()
	check(t, s)
	want := contents(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, o)
	if diff := cmp.Diff(want, contents(t, s)); diff != "" {
		t.Errorf("contents after reopening (-want +got):\n%s", diff)
	}
}
