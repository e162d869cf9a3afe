package orders_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderd/orders"
)

// batchOf reads the orders of a batch, faults included.
func batchOf(bodies ...string) []orders.BatchItem {
	items := make([]orders.BatchItem, len(bodies))
	for i, body := range bodies {
		items[i].In, items[i].Err = orders.Decode([]byte(body), true)
	}
	return items
}

// outcomes says of each item: taken, replayed or the kind of its error.
func outcomes(items []orders.BatchItem) []string {
	out := make([]string, len(items))
	for i, item := range items {
		switch {
		case item.Err != nil:
			out[i] = orders.KindOf(item.Err).String()
		case item.Out.Replayed:
			out[i] = "replayed"
		default:
			out[i] = "taken"
		}
	}
	return out
}

func TestStore_AcceptBatch(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		mustAccept(t, s, seedOrder)
		items := batchOf(
			`{"orderId":"a","customer":"c","items":1,"total":1}`,
			`{"orderId":"b","customer":"c","items":1,"total":-1}`,
			`{"customer":"c","items":1,"total":1}`,
			`{"orderId":"a","customer":"c","items":1,"total":1.00}`, // the first again
			`{"orderId":"a","customer":"c","items":2,"total":1}`,    // another of its id
			seedOrder,
			strings.Replace(seedOrder, "alice", "bob", 1),
			`nonsense`,
		)
		if err := s.AcceptBatch(t.Context(), items, ""); err != nil {
			t.Fatal(err)
		}
		want := []string{"taken", "invalid", "taken", "replayed", "conflict", "replayed", "conflict", "bad request"}
		if diff := cmp.Diff(want, outcomes(items)); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		for _, i := range []int{0, 2, 3, 5} {
			id := items[i].Out.Order.ID
			if got := mustGet(t, s, id); got.Status != orders.StatusCreated || len(got.History) != 1 {
				t.Errorf("item %d: %+v", i, got)
			}
		}
		if b, err := s.Books(t.Context()); err != nil || b.Accepted != 3 {
			t.Errorf("books: %+v, %v", b, err)
		}
		if err := s.AcceptBatch(t.Context(), make([]orders.BatchItem, orders.MaxBatch+1), ""); orders.KindOf(err) != orders.KindTooLarge {
			t.Errorf("a batch that is too large: %v", err)
		}
		mustConfirm(t, s, items[0].In)
	})
}

func TestStore_AcceptBatch_key(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		bodies := []string{`{"customer":"c","items":1,"total":1}`, `{"customer":"c","items":1,"total":1}`}
		first := batchOf(bodies...)
		if err := s.AcceptBatch(t.Context(), first, "k"); err != nil {
			t.Fatal(err)
		}
		again := batchOf(bodies...)
		if err := s.AcceptBatch(t.Context(), again, "k"); err != nil {
			t.Fatal(err)
		}
		for i := range again {
			if !again[i].Out.Replayed || string(again[i].Out.Body) != string(first[i].Out.Body) {
				t.Errorf("item %d: %s, first %s", i, again[i].Out.Body, first[i].Out.Body)
			}
		}
		if first[0].Out.Order.ID == first[1].Out.Order.ID {
			t.Error("two equal orders without ids are one")
		}
		other := batchOf(bodies[0], `{"customer":"c","items":1,"total":2}`, bodies[0])
		if err := s.AcceptBatch(t.Context(), other, "k"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"replayed", "invalid", "taken"}, outcomes(other)); diff != "" {
			t.Errorf("another batch of the key (-want +got):\n%s", diff)
		}
		if a, err := s.Accept(t.Context(), mustDecode(t, bodies[0]), "k"); err != nil || a.Replayed {
			t.Errorf("the key of a batch for one order: %+v, %v", a, err)
		}
	})
}

// A full batch and others at the same time: each order is there once.
func TestStore_AcceptBatch_full(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s, other := mustOpen(t, o), mustOpen(t, o)
		n := orders.MaxBatch
		if os.Getenv("ORDERD_TEST_SIZE") == "ci" { // with the race detector, SQLite takes seconds for a full one
			n /= 5
		}
		bodies := make([]string, n)
		for i := range bodies {
			bodies[i] = fmt.Sprintf(`{"orderId":"o-%d","customer":"c","items":1,"total":%d}`, i, i)
		}
		var all sync.WaitGroup
		var mu sync.Mutex // protects taken
		taken := 0
		for _, store := range []*orders.Store{s, other} {
			for range 2 {
				all.Go(func() {
					items := batchOf(bodies...)
					if err := store.AcceptBatch(t.Context(), items, ""); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					for _, got := range outcomes(items) {
						switch got {
						case "taken":
							taken++
						case "replayed":
						default:
							t.Errorf("an item is %s", got)
						}
					}
				})
			}
		}
		all.Wait()
		if taken != n {
			t.Errorf("%d orders were taken, want %d", taken, n)
		}
		if b, err := s.Books(t.Context()); err != nil || b.Accepted != int64(n) {
			t.Errorf("books: %+v, %v", b, err)
		}
	})
}

// Two processes get the same request with a key at the same time: one takes
// it, the other answers the same or that it is under way.
func TestStore_Accept_keyInTwoProcesses(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s, other := mustOpen(t, o), mustOpen(t, o)
		for i := range 20 {
			var both sync.WaitGroup
			ids := make([]string, 2)
			key := fmt.Sprintf("k%d", i)
			for n, store := range []*orders.Store{s, other} {
				both.Go(func() {
					a, err := store.Accept(t.Context(), mustDecode(t, `{"customer":"c","items":1,"total":1}`), key)
					var e *orders.Error
					switch {
					case err == nil:
						ids[n] = string(a.Body)
					case errors.As(err, &e) && e.Kind == orders.KindConflict:
					default:
						t.Error(err)
					}
				})
			}
			both.Wait()
			if ids[0] != "" && ids[1] != "" && ids[0] != ids[1] {
				t.Errorf("one key, two answers: %s and %s", ids[0], ids[1])
			}
		}
		if b, err := s.Books(t.Context()); err != nil || b.Accepted != 20 {
			t.Errorf("books: %+v, %v", b, err)
		}
	})
}
