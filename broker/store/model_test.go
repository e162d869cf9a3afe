package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"orderd/broker/store"
)

// The store against a map, over random histories with restarts, crashes and
// cleaning.
func TestStore_Model(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := store.Options{
			SegmentBytes: rapid.Int64Range(50, 2_000).Draw(rt, "segment"), CleanBytes: rapid.Int64Range(50, 4_000).Draw(rt, "clean"),
			MemoryBytes: rapid.Int64Range(1, 500).Draw(rt, "memory"),
		}
		m := &model{t: t, dir: t.TempDir(), o: o, want: make(map[string]string), live: make(map[string]*store.Message), last: make(map[string]uint64)}
		m.open(rt)
		defer func() { _ = m.s.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"put": m.put, "receive": m.receive, "settle": m.settle, "move": m.move, "event": m.event, "position": m.position,
			"restart": m.restart, "crash": m.crash, "": m.same,
		})
		if err := m.s.Check(); err != nil {
			rt.Fatal(err)
		}
	})
}

type model struct {
	t    *testing.T
	dir  string
	o    store.Options
	s    *store.Store
	want map[string]string         // as contents describes it
	live map[string]*store.Message // by its key there
	last map[string]uint64
	at   uint64
}

var positionKey = store.Position{Client: "c", Channel: "e"}

func (m *model) open(rt *rapid.T) {
	s, err := store.Open(m.dir, m.o)
	if err != nil {
		rt.Fatal(err)
	}
	m.s = s
	for key := range m.live {
		var q string
		var seq uint64
		if _, err := fmt.Sscanf(key, "%1s/%d", &q, &seq); err != nil {
			rt.Fatal(err)
		}
		m.live[key] = find(m.t, s, q, seq)
	}
}

func (m *model) commit(rt *rapid.T, fn func(*store.Tx)) {
	tx := m.s.Begin()
	fn(tx)
	if err := tx.Commit(false).Wait(); err != nil {
		rt.Fatal(err)
	}
}

func describe(m *store.Message, payload []byte) string {
	return fmt.Sprintf("%d %d %d received %d of %d, to %q from %q: %s",
		m.SentAt, m.ExpiresAt, m.DelayedTo, m.Received, m.MaxReceived, m.DeadLetterTo, m.From, payload)
}

func (m *model) added(rt *rapid.T, q string, msg *store.Message, payload []byte) {
	m.last[q]++
	if msg.Seq != m.last[q] {
		rt.Fatalf("sequence %d in %s, want %d", msg.Seq, q, m.last[q])
	}
	key := fmt.Sprintf("%s/%d", q, msg.Seq)
	m.live[key] = msg
	m.want[key], m.want["queue "+q] = describe(msg, payload), ""
}

func (m *model) put(rt *rapid.T) {
	q := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "queue")
	payload := rapid.SliceOfN(rapid.ByteRange('a', 'z'), 0, 300).Draw(rt, "payload")
	msg := &store.Message{SentAt: int64(m.last[q]), MaxReceived: 3, DeadLetterTo: "c"}
	m.commit(rt, func(tx *store.Tx) { tx.Put(q, msg, payload) })
	m.added(rt, q, msg, payload)
}

// pick chooses a live message.
func (m *model) pick(rt *rapid.T) (string, *store.Message, []byte) {
	if len(m.live) == 0 {
		rt.Skip("no messages")
	}
	var keys []string
	for key := range m.live {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	key := rapid.SampledFrom(keys).Draw(rt, "message")
	payload, err := m.s.Payload(m.live[key])
	if err != nil {
		rt.Fatal(err)
	}
	return key, m.live[key], payload
}

func (m *model) receive(rt *rapid.T) {
	key, msg, payload := m.pick(rt)
	m.commit(rt, func(tx *store.Tx) { tx.Receive(msg, msg.Received+1) })
	m.want[key] = describe(msg, payload)
}

func (m *model) settle(rt *rapid.T) {
	key, msg, _ := m.pick(rt)
	m.commit(rt, func(tx *store.Tx) { tx.Settle(msg) })
	delete(m.live, key)
	delete(m.want, key)
}

func (m *model) move(rt *rapid.T) {
	key, msg, payload := m.pick(rt)
	to := &store.Message{From: msg.Queue()}
	m.commit(rt, func(tx *store.Tx) { tx.Settle(msg); tx.Put("c", to, payload) })
	delete(m.live, key)
	delete(m.want, key)
	m.added(rt, "c", to, payload)
}

func (m *model) event(rt *rapid.T) {
	payload := rapid.SliceOfN(rapid.ByteRange('a', 'z'), 0, 100).Draw(rt, "payload")
	var seq uint64
	m.commit(rt, func(tx *store.Tx) { seq = tx.Event("e", payload) })
	m.want[fmt.Sprintf("e:%d", seq)] = string(payload)
	m.want["channel e"] = fmt.Sprint(1, seq)
}

func (m *model) position(rt *rapid.T) {
	m.commit(rt, func(tx *store.Tx) { tx.Position(positionKey, 0) })
	if m.want["channel e"] == "" {
		m.want["channel e"] = fmt.Sprint(1, 0)
	}
	m.at = rapid.Uint64Range(m.at, m.at+10).Draw(rt, "position")
	m.s.SetPosition(positionKey, m.at)
}

func (m *model) restart(rt *rapid.T) {
	if err := m.s.Close(); err != nil {
		rt.Fatal(err)
	}
	m.open(rt)
	if at, _ := m.s.Position(positionKey); at != m.at {
		rt.Fatalf("position %d after a restart, want %d", at, m.at)
	}
}

// crash goes on with what is on disk at this moment. Files may be removed while
// they are copied, as no crash does it, so the cleaner must be at rest.
func (m *model) crash(rt *rapid.T) {
	if err := m.s.Check(); err != nil {
		rt.Fatal(err)
	}
	old := m.s
	m.dir = copyAtRest(m.t, m.dir)
	if err := old.Close(); err != nil {
		rt.Fatal(err)
	}
	m.open(rt)
	if at, _ := m.s.Position(positionKey); at > m.at {
		rt.Fatalf("position %d after a crash, was %d", at, m.at)
	}
	m.s.SetPosition(positionKey, m.at)
}

// copyAtRest copies a folder so that the copy is what was there at one moment.
func copyAtRest(t *testing.T, dir string) string {
	for {
		before := segments(t, dir)
		if to, ok := tryCopy(t, dir); ok && slices.Equal(before, segments(t, dir)) {
			return to
		}
	}
}

func (m *model) same(rt *rapid.T) {
	if diff := cmp.Diff(m.want, contents(m.t, m.s)); diff != "" {
		rt.Fatalf("contents (-want +got):\n%s", diff)
	}
}
