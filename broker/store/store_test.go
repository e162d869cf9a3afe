package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orderd/broker/store"
)

func open(t testing.TB, dir string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.Err() == nil {
			check(t, s)
		}
		_ = s.Close()
	})
	return s
}

func check(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// do makes a transaction and waits for it.
func do(t testing.TB, s *store.Store, fn func(*store.Tx)) {
	t.Helper()
	tx := s.Begin()
	fn(tx)
	if err := tx.Commit(false).Wait(); err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, s *store.Store, queue, payload string) *store.Message {
	t.Helper()
	m := &store.Message{SentAt: 1}
	do(t, s, func(tx *store.Tx) { tx.Put(queue, m, []byte(payload)) })
	return m
}

func settle(t testing.TB, s *store.Store, m *store.Message) {
	t.Helper()
	do(t, s, func(tx *store.Tx) { tx.Settle(m) })
}

// contents describes everything in a store.
func contents(t testing.TB, s *store.Store) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, q := range s.Queues() {
		out["queue "+q] = ""
		for _, m := range s.Messages(q) {
			payload, err := s.Payload(m)
			if err != nil {
				t.Fatal(err)
			}
			out[fmt.Sprintf("%s/%d", q, m.Seq)] = fmt.Sprintf("%d %d %d received %d of %d, to %q from %q: %s",
				m.SentAt, m.ExpiresAt, m.DelayedTo, m.Received, m.MaxReceived, m.DeadLetterTo, m.From, payload)
		}
	}
	for _, c := range s.Channels() {
		first, last := s.Bounds(c)
		out["channel "+c] = fmt.Sprint(first, last)
		for after := first - 1; after < last; {
			events, _, _, err := s.EventsAfter(c, after, 100)
			if err != nil || len(events) == 0 {
				t.Fatalf("events of %s after %d: %v, %v", c, after, events, err)
			}
			for _, ev := range events {
				out[fmt.Sprintf("%s:%d", c, ev.Seq)] = string(ev.Payload)
				after = ev.Seq
			}
		}
	}
	return out
}

func find(t testing.TB, s *store.Store, queue string, seq uint64) *store.Message {
	t.Helper()
	for _, m := range s.Messages(queue) {
		if m.Seq == seq {
			return m
		}
	}
	t.Fatalf("queue %s has no message %d", queue, seq)
	return nil
}

func segments(t testing.TB, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func TestStore_Reopen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	p := store.Position{Client: "c", Channel: "e", Group: "g"}
	full := &store.Message{SentAt: 1, ExpiresAt: 2, DelayedTo: 3, MaxReceived: 4, DeadLetterTo: "dead", From: "before"}
	do(t, s, func(tx *store.Tx) {
		tx.Put("a", full, []byte("first"))
		tx.Put("a", &store.Message{}, nil)
		tx.Receive(full, 7)
		tx.Event("e", []byte("event"))
		if at := tx.Position(p, 5); at != 5 {
			t.Errorf("a new position is at %d, want 5", at)
		}
		tx.CreateQueue("empty")
	})
	s.SetPosition(p, 9)
	s.SetPosition(p, 8)
	settle(t, s, put(t, s, "b", "gone"))
	want := map[string]string{
		"queue a": "", "queue b": "", "queue empty": "",
		"a/1": `1 2 3 received 7 of 4, to "dead" from "before": first`, "a/2": `0 0 0 received 0 of 0, to "" from "": `,
		"channel e": "1 1", "e:1": "event",
	}
	for range 2 {
		if diff := cmp.Diff(want, contents(t, s)); diff != "" {
			t.Fatalf("contents (-want +got):\n%s", diff)
		}
		if at, ok := s.Position(p); !ok || at != 9 {
			t.Errorf("position = %d, %v, want 9", at, ok)
		}
		check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, store.Options{})
	}
	if m := put(t, s, "b", "next"); m.Seq != 2 {
		t.Errorf("the message after a settled one has sequence %d, want 2", m.Seq)
	}
}

func TestStore_Locked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("second Open: %v, want ErrLocked", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("second Close: %v", err)
	}
	open(t, dir, store.Options{})
}

func TestStore_ClosedRefuses(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	m := put(t, s, "q", "x")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tx := s.Begin()
	tx.Settle(m)
	if err := tx.Commit(true).Wait(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("commit after Close: %v, want ErrClosed", err)
	}
	if _, _, _, err := s.EventsAfter("e", 0, 1); !errors.Is(err, store.ErrClosed) {
		t.Errorf("read after Close: %v, want ErrClosed", err)
	}
}

// A lazy transaction gets to disk although nobody waits.
func TestStore_LazyIsWritten(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	tx := s.Begin()
	tx.Put("q", &store.Message{}, []byte("x"))
	select {
	case <-tx.Commit(true).Done():
	case <-time.After(10 * time.Second):
		t.Fatal("not written")
	}
}

// Everything that is committed while the disk is busy shares a frame.
func TestStore_GroupCommit(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	const writers, each = 50, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				tx := s.Begin()
				tx.Put(fmt.Sprint("q", w), &store.Message{}, fmt.Append(nil, i))
				if err := tx.Commit(false).Wait(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(segments(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	frames := bytes.Count(b, []byte("oKq1"))
	if frames == 0 || frames > writers*each/2 {
		t.Errorf("%d transactions of %d writers took %d frames", writers*each, writers, frames)
	}
}

func TestStore_CleansFront(t *testing.T) {
	dir := t.TempDir()
	o := store.Options{SegmentBytes: 4 << 10, CleanBytes: 16 << 10}
	s := open(t, dir, o)
	stays := put(t, s, "q", "stays")
	var event uint64
	do(t, s, func(tx *store.Tx) {
		tx.Receive(stays, 3)
		event = tx.Event("e", []byte("stays too"))
	})
	for i := range 300 {
		settle(t, s, put(t, s, "busy", strings.Repeat("x", 500+i)))
	}
	eventually(t, "the log is short", func() bool { log, _ := s.Bytes(); return log <= o.CleanBytes+2*o.SegmentBytes })
	check(t, s)
	if n := len(segments(t, dir)); n > 7 {
		t.Errorf("%d segments are left", n)
	}
	want := contents(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, o)
	if diff := cmp.Diff(want, contents(t, s)); diff != "" {
		t.Errorf("contents after reopening (-want +got):\n%s", diff)
	}
	if m := find(t, s, "q", 1); m.Received != 3 {
		t.Errorf("received %d times, want 3", m.Received)
	}
	if events, _, _, err := s.EventsAfter("e", event-1, 1); err != nil || len(events) != 1 || string(events[0].Payload) != "stays too" {
		t.Errorf("event = %v, %v", events, err)
	}
	if m := put(t, s, "busy", "next"); m.Seq != 301 {
		t.Errorf("next sequence of an emptied queue is %d, want 301", m.Seq)
	}
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestStore_PagesOut(t *testing.T) {
	dir := t.TempDir()
	o := store.Options{MemoryBytes: 1000}
	s := open(t, dir, o)
	want := make(map[uint64]string)
	for i := range 20 {
		body := strings.Repeat(fmt.Sprint(i%10), 100)
		want[put(t, s, "q", body).Seq] = body
	}
	for range 2 {
		got := make(map[uint64]string)
		for _, m := range s.Messages("q") {
			payload, err := s.Payload(m)
			if err != nil {
				t.Fatal(err)
			}
			got[m.Seq] = string(payload)
		}
		if !maps.Equal(got, want) {
			t.Errorf("payloads = %v", got)
		}
		check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, o)
	}
}

func TestStore_EventRetention(t *testing.T) {
	dir := t.TempDir()
	o := store.Options{EventsPerChannel: 10, EventBytes: 60, SegmentBytes: 300, CleanBytes: 600}
	s := open(t, dir, o)
	for i := range 100 {
		do(t, s, func(tx *store.Tx) {
			tx.Event("short", fmt.Appendf(nil, "%02d", i))
			tx.Event("long", fmt.Appendf(nil, "%020d", i))
		})
	}
	for range 2 {
		if first, last := s.Bounds("short"); first != 91 || last != 100 {
			t.Errorf("short events are %d to %d, want 91 to 100", first, last)
		}
		if first, last := s.Bounds("long"); first != 98 || last != 100 {
			t.Errorf("long events are %d to %d, want 98 to 100", first, last)
		}
		events, skipped, _, err := s.EventsAfter("short", 80, 100)
		if err != nil || skipped != 10 || len(events) != 10 || string(events[0].Payload) != "90" {
			t.Errorf("events after 80: %v, %d skipped, %v", events, skipped, err)
		}
		check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, o)
	}
}

func TestStore_Delete(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	put(t, s, "q", "x")
	p := store.Position{Client: "c", Channel: "e"}
	do(t, s, func(tx *store.Tx) { tx.Event("e", []byte("x")); tx.Position(p, 1) })
	do(t, s, func(tx *store.Tx) { tx.DeleteQueue("q"); tx.DeleteChannel("e"); tx.DeleteQueue("never was") })
	put(t, s, "q", "again")
	want := map[string]string{"queue q": "", "q/1": `1 0 0 received 0 of 0, to "" from "": again`}
	for range 2 {
		if diff := cmp.Diff(want, contents(t, s)); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
		if _, ok := s.Position(p); ok {
			t.Error("the position is still there")
		}
		check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, store.Options{})
	}
}

func BenchmarkStore_Put(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			s := open(b, b.TempDir(), store.Options{})
			payload := bytes.Repeat([]byte("x"), 256)
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := w; i < b.N; i += writers {
						m := &store.Message{}
						tx := s.Begin()
						tx.Put("q", m, payload)
						if err := tx.Commit(false).Wait(); err != nil {
							b.Error(err)
						}
						tx = s.Begin()
						tx.Settle(m)
						tx.Commit(true)
					}
				})
			}
			wg.Wait()
		})
	}
}
