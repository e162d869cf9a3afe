package workers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"orderd/orders"
	"orderd/workers"
)

// A redrive that one process began is ended by the next, each order once.
func TestRedriver(t *testing.T) {
	t.Parallel()
	open := func(dir string) *orders.Store {
		t.Helper()
		s, err := orders.Open(t.Context(), orders.Options{DataDir: dir, Lease: 6 * time.Second, Expiration: 5 * time.Minute, MaxAttempts: 5,
			MaxDeaths: 3, IdempotencyTTL: time.Hour, EventRetention: time.Hour, BackorderMax: time.Hour, MaxRedrives: 10}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	dir := t.TempDir()
	store := open(dir)
	const n = 40
	for i := range n {
		body := fmt.Sprintf(`{"orderId":"o%d","customer":"c","items":1,"total":1}`, i)
		o, err := orders.Decode([]byte(body), true)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := store.Claim(t.Context(), []orders.Arrival{{MessageID: fmt.Sprint(i), Body: []byte(body), Order: o}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Finish(t.Context(), []orders.Outcome{{OrderID: o.ID, Token: claims[0].Token, Kind: orders.OutcomeFail, Class: "refused", Reason: "no"}}); err != nil {
			t.Fatal(err)
		}
	}
	job, err := store.StartRedrive(t.Context(), orders.DeadLetterFilter{}, orders.Rate{N: 50, Per: time.Second}, false, "eve")
	if err != nil {
		t.Fatal(err)
	}
	// run runs a Redriver until enough says so, and returns how far the redrive is.
	run := func(s *orders.Store, enough func(orders.Redrive) bool) orders.Redrive {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- workers.NewRedriver(s, zerolog.Nop()).Run(ctx) }()
		deadline := time.Now().Add(20 * time.Second)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var last orders.Redrive
		for last, err = s.GetRedrive(t.Context(), job.ID); err == nil && !enough(last); last, err = s.GetRedrive(t.Context(), job.ID) {
			if time.Now().After(deadline) {
				t.Errorf("redrive is at %+v", last)
				break
			}
			<-tick.C
		}
		stop()
		if runErr := <-ended; err != nil || runErr != nil {
			t.Fatal(err, runErr)
		}
		return last
	}
	if half := run(store, func(j orders.Redrive) bool { return j.Redriven > 0 }); half.Status != orders.RedriveRunning {
		t.Errorf("after the first process: %+v", half)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = open(dir)
	defer store.Close()
	done := run(store, func(j orders.Redrive) bool { return j.Status != orders.RedriveRunning })
	if done.Status != orders.RedriveDone || done.Redriven != n || done.Refused != 0 {
		t.Errorf("after the second process: %+v", done)
	}
	for i := range n {
		if o, err := store.Get(t.Context(), fmt.Sprintf("o%d", i)); err != nil || o.Round != 2 || o.Status != orders.StatusCreated {
			t.Errorf("order %d: %+v, %v", i, o, err)
		}
	}
}
