package orders_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orderd/orders"
)

// mustKill makes an order that is under way a dead letter of class.
func mustKill(t *testing.T, s *orders.Store, o orders.Order, class string) {
	t.Helper()
	c := mustClaim(t, s, o)
	if c.Verdict != orders.Claimed {
		t.Fatalf("claim %s: verdict %d, %s", o.ID, c.Verdict, c.Reason)
	}
	run := orders.StepRun{Step: orders.StepPayment, StartedAt: c.Order.UpdatedAt, TookMs: 3, Outcome: orders.AttemptReject, ErrorClass: class, Error: "no"}
	got := mustFinish(t, s, orders.Outcome{OrderID: o.ID, Token: c.Token, Kind: orders.OutcomeFail, Step: orders.StepPayment, Class: class,
		Reason: "said no", Payment: orders.PaymentRefused, Runs: []orders.StepRun{run}})
	if got.Result != orders.ResultApplied {
		t.Fatalf("fail %s: result %d", o.ID, got.Result)
	}
}

// mustKillMany makes n dead letters of class, their orders named by prefix.
func mustKillMany(t *testing.T, s *orders.Store, prefix, class string, n int) {
	t.Helper()
	in := make([]orders.Arrival, n)
	for i := range in {
		body := fmt.Sprintf(`{"orderId":"%s-%d","customer":"%s@example.com","items":1,"total":%d.50}`, prefix, i, prefix, i)
		in[i] = orders.Arrival{MessageID: fmt.Sprint(i), Body: []byte(body), Order: mustDecode(t, body)}
	}
	claims, err := s.Claim(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := make([]orders.Outcome, n)
	for i, c := range claims {
		outcomes[i] = orders.Outcome{OrderID: c.Order.ID, Token: c.Token, Kind: orders.OutcomeFail, Class: class, Reason: "said no", Payment: orders.PaymentRefused}
	}
	if _, err := s.Finish(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
}

func mustLetters(t *testing.T, s *orders.Store, f orders.DeadLetterFilter) []orders.DeadLetter {
	t.Helper()
	var all []orders.DeadLetter
	for {
		page, next, err := s.DeadLetters(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if f.Cursor = next; next == "" {
			return all
		}
	}
}

func TestStore_Redrive_limit(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.MaxRedrives = 2
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		for range 2 {
			mustKill(t, s, order, "refused")
			open := mustLetters(t, s, orders.DeadLetterFilter{Status: orders.DeadLetterOpen})
			if len(open) != 1 {
				t.Fatalf("open dead letters: %+v", open)
			}
			if _, err := s.Redrive(t.Context(), open[0].ID, "eve", false); err != nil {
				t.Fatal(err)
			}
		}
		mustKill(t, s, order, "refused")
		open := mustLetters(t, s, orders.DeadLetterFilter{Status: orders.DeadLetterOpen})[0]
		_, err := s.Redrive(t.Context(), open.ID, "eve", false)
		wantKind(t, err, orders.KindConflict)
		_, err = s.RedriveOrder(t.Context(), order.ID, "eve", false)
		wantKind(t, err, orders.KindConflict)

		// The dead letter shows what was tried in all of the rounds.
		d, err := s.DeadLetter(t.Context(), open.ID)
		if err != nil || d.Order == nil || d.Redrives != 2 || d.Round != 3 {
			t.Fatalf("dead letter: %+v, %v", d, err)
		}
		var rounds []int
		for _, a := range d.Order.Tries {
			if a.Error != "no" || a.Worker != s.Worker() || a.StartedAt == 0 || a.Attempt != 1 {
				t.Errorf("attempt: %+v", a)
			}
			rounds = append(rounds, a.Round)
		}
		if diff := cmp.Diff([]int{1, 2, 3}, rounds); diff != "" {
			t.Errorf("rounds of the attempts (-want +got):\n%s", diff)
		}

		if got, err := s.Redrive(t.Context(), open.ID, "eve", true); err != nil || got.Round != 4 {
			t.Fatalf("forced redrive: %+v, %v", got, err)
		}
		if got, err := s.DeadLetter(t.Context(), open.ID); err != nil || got.Status != orders.DeadLetterRedriven || got.DoneAt == 0 {
			t.Errorf("after the redrive: %+v, %v", got, err)
		}
		mustConfirm(t, s, order)
	})
}

// mustStep steps until the redrive is not running any more.
func mustStep(t *testing.T, s *orders.Store, id string) orders.Redrive {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		j, err := s.GetRedrive(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if j.Status != orders.RedriveRunning {
			return j
		}
		if _, err := s.RedriveStep(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStore_Redrives(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		o.MaxRedrives = 1
		s := mustOpen(t, o)
		mustKillMany(t, s, "a", "refused", 150)
		mustKillMany(t, s, "b", "timeout", 30)
		if err := s.KeepDeadLetter(t.Context(), []orders.Arrival{{MessageID: "x", Body: []byte("nonsense"), DecodeErr: context.Canceled}}); err != nil {
			t.Fatal(err)
		}
		// One of them was redriven before and has failed again.
		if _, err := s.RedriveOrder(t.Context(), "a-7", "eve", false); err != nil {
			t.Fatal(err)
		}
		mustKill(t, s, mustGet(t, s, "a-7"), "refused")

		f := orders.DeadLetterFilter{Class: "refused"}
		matched, refused, err := s.CountRedrive(t.Context(), f, false)
		if err != nil || matched != 150 || refused != 1 {
			t.Fatalf("count: %d, %d, %v", matched, refused, err)
		}
		if matched, refused, err = s.CountRedrive(t.Context(), orders.DeadLetterFilter{}, true); err != nil || matched != 180 || refused != 0 {
			t.Errorf("count of all, forced: %d, %d, %v", matched, refused, err)
		}
		j, err := s.StartRedrive(t.Context(), f, orders.Rate{N: 1000, Per: time.Second}, false, "eve")
		if err != nil || j.Matched != 150 || j.Status != orders.RedriveRunning {
			t.Fatalf("start: %+v, %v", j, err)
		}
		if _, err := s.RedriveStep(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Another process goes on with it; what fails again is not redriven again.
		other := mustOpen(t, o)
		mustKillMany(t, s, "late", "refused", 5)
		j = mustStep(t, other, j.ID)
		if j.Status != orders.RedriveDone || j.Redriven != 149 || j.Refused != 1 || j.DoneAt < j.CreatedAt {
			t.Errorf("done: %+v", j)
		}
		left := mustLetters(t, s, orders.DeadLetterFilter{Status: orders.DeadLetterOpen, Class: "refused", Limit: 500})
		if len(left) != 6 || left[5].OrderID != "a-7" {
			t.Errorf("left: %d dead letters, the oldest of %s", len(left), left[len(left)-1].OrderID)
		}
		if n := len(mustLetters(t, s, orders.DeadLetterFilter{Status: orders.DeadLetterOpen, Class: "timeout"})); n != 30 {
			t.Errorf("dead letters of the other class: %d", n)
		}
		if got := mustGet(t, s, "a-3"); got.Status != orders.StatusCreated || got.Round != 2 || got.History[len(got.History)-1].By != "eve" {
			t.Errorf("redriven order: %+v", got)
		}
		_, err = s.CancelRedrive(t.Context(), j.ID, "eve")
		wantKind(t, err, orders.KindConflict)
		_, err = s.GetRedrive(t.Context(), "none")
		wantKind(t, err, orders.KindNotFound)

		forced, err := s.StartRedrive(t.Context(), f, orders.Rate{}, true, "eve")
		if err != nil || forced.Rate != orders.DefaultRate || forced.Matched != 6 {
			t.Fatalf("forced: %+v, %v", forced, err)
		}
		if got, err := s.CancelRedrive(t.Context(), forced.ID, "bob"); err != nil || got.Status != orders.RedriveCancelled {
			t.Errorf("cancel: %+v, %v", got, err)
		}
		if _, err := s.RedriveStep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(mustLetters(t, s, orders.DeadLetterFilter{Status: orders.DeadLetterOpen, Class: "refused"})); n != 6 {
			t.Errorf("after a cancelled redrive %d dead letters are left", n)
		}
		list, next, err := s.Redrives(t.Context(), "", 1)
		if err != nil || len(list) != 1 || list[0].ID != forced.ID || next == "" {
			t.Errorf("list: %+v, %q, %v", list, next, err)
		}
		if list, next, err = s.Redrives(t.Context(), next, 1); err != nil || len(list) != 1 || list[0].ID != j.ID || next != "" {
			t.Errorf("second page: %+v, %q, %v", list, next, err)
		}
		mustAudited(t, s, "cancel redrive", "start redrive", "start redrive")
	})
}

// mustAudited checks what of redrives as a whole is in the audit, newest first.
func mustAudited(t *testing.T, s *orders.Store, want ...string) {
	t.Helper()
	var got []string
	f := orders.AuditFilter{Limit: 100}
	for {
		page, next, err := s.Audit(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page {
			if a.Action != "redrive" {
				got = append(got, a.Action)
			}
		}
		if f.Cursor = next; next == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// Two processes step as fast as they can: the rate holds, and each order is
// redriven once.
func TestStore_Redrives_rate(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s, other := mustOpen(t, o), mustOpen(t, o)
		mustKillMany(t, s, "a", "refused", 60)
		j, err := s.StartRedrive(t.Context(), orders.DeadLetterFilter{}, orders.Rate{N: 100, Per: time.Second}, false, "eve")
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for _, store := range []*orders.Store{s, other} {
			both.Go(func() {
				for ctx := t.Context(); ctx.Err() == nil; {
					now, err := store.GetRedrive(ctx, j.ID)
					if err != nil || now.Status == orders.RedriveDone {
						return
					}
					if _, err := store.RedriveStep(ctx); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		both.Wait()
		done, err := s.GetRedrive(t.Context(), j.ID)
		if err != nil || done.Redriven != 60 || done.Refused != 0 {
			t.Fatalf("done: %+v, %v", done, err)
		}
		// The last of 60 is due 59 gaps of 10 ms after the first.
		if took := time.Duration(done.DoneAt-done.CreatedAt) * time.Millisecond; took < 590*time.Millisecond {
			t.Errorf("60 at 100/s took %s", took)
		}
		for i := range 60 {
			if got := mustGet(t, s, fmt.Sprintf("a-%d", i)); got.Round != 2 {
				t.Errorf("order %d is in round %d", i, got.Round)
			}
		}
	})
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]orders.Rate{"20/s": {N: 20, Per: time.Second}, "1000/m": {N: 1000, Per: time.Minute}, "1/h": {N: 1, Per: time.Hour}} {
		got, err := orders.ParseRate(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "20", "0/s", "-1/s", "1001/s", "20/d", "20/", "/s", "1.5/s", "20/s/s"} {
		_, err := orders.ParseRate(text)
		wantKind(t, err, orders.KindInvalid)
	}
}

func TestStore_DeadLetterSummary(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		for i, body := range []string{
			`{"orderId":"1","customer":"a","items":1,"total":92233720368547758.07}`,
			`{"orderId":"2","customer":"a","items":1,"total":92233720368547758.07}`,
			`{"orderId":"3","customer":"b","items":1,"total":7,"currency":"JPY"}`,
			`{"orderId":"4","customer":"b","items":1,"total":0.05}`,
		} {
			class := "refused"
			if i == 3 {
				class = "timeout"
			}
			mustKill(t, s, mustAccept(t, s, body), class)
		}
		if err := s.KeepDeadLetter(t.Context(), []orders.Arrival{{MessageID: "x", Body: []byte("nonsense"), DecodeErr: context.Canceled}}); err != nil {
			t.Fatal(err)
		}
		got, err := s.DeadLetterSummary(t.Context(), orders.DeadLetterFilter{Status: orders.DeadLetterOpen})
		if err != nil {
			t.Fatal(err)
		}
		type line struct {
			Class   string
			Count   int64
			AtStake []string
		}
		var lines []line
		for _, c := range got {
			l := line{Class: c.Class, Count: c.Count}
			for _, a := range c.AtStake {
				l.AtStake = append(l.AtStake, a.String()+" "+string(a.Currency))
			}
			lines = append(lines, l)
			if c.FirstSeen == 0 || c.LastSeen < c.FirstSeen {
				t.Errorf("%s: seen from %d to %d", c.Class, c.FirstSeen, c.LastSeen)
			}
		}
		want := []line{
			{"refused", 3, []string{"7 JPY", "184467440737095516.14 USD"}},
			{"invalid_message", 1, nil},
			{"timeout", 1, []string{"0.05 USD"}},
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("summary (-want +got):\n%s", diff)
		}
		if got, err = s.DeadLetterSummary(t.Context(), orders.DeadLetterFilter{Customer: "nobody"}); err != nil || len(got) != 0 {
			t.Errorf("summary of nobody: %+v, %v", got, err)
		}
	})
}

// Very many dead letters: all of them are listed, paged, counted and redriven
// at a rate, and none is trimmed.
func TestStore_DeadLetters_many(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		n := 750
		if os.Getenv("ORDERD_TEST_SIZE") == "full" {
			n = 10_050
		}
		for i := 0; i < n; i += 350 {
			mustKillMany(t, s, fmt.Sprintf("batch%d", i), "refused", min(350, n-i))
		}
		f := orders.DeadLetterFilter{Status: orders.DeadLetterOpen, Limit: 500}
		seen := make(map[string]bool)
		for _, d := range mustLetters(t, s, f) {
			if seen[d.OrderID] || d.Order == nil {
				t.Errorf("dead letter %+v", d)
			}
			seen[d.OrderID] = true
		}
		if len(seen) != n {
			t.Errorf("%d of %d are listed", len(seen), n)
		}
		sum, err := s.DeadLetterSummary(t.Context(), f)
		if err != nil || len(sum) != 1 || sum[0].Count != int64(n) {
			t.Errorf("summary: %+v, %v", sum, err)
		}
		j, err := s.StartRedrive(t.Context(), f, orders.Rate{N: orders.MaxRate, Per: time.Second}, false, "eve")
		if err != nil || j.Matched != int64(n) {
			t.Fatalf("start: %+v, %v", j, err)
		}
		j = mustStep(t, s, j.ID)
		if j.Status != orders.RedriveDone || j.Redriven != int64(n) || j.Refused != 0 {
			t.Errorf("done: %+v", j)
		}
		// The last is due n-1 gaps of a millisecond after the first.
		if took := int64(j.DoneAt - j.CreatedAt); took < int64(n-1) {
			t.Errorf("%d at %s took %d ms", n, j.Rate, took)
		}
		b, err := s.Books(t.Context())
		if err != nil || b.UnderWay != int64(n) || b.Failed != 0 || !b.Balanced {
			t.Errorf("books: %+v, %v", b, err)
		}
		redriven := mustLetters(t, s, orders.DeadLetterFilter{Status: orders.DeadLetterRedriven, Limit: 500})
		if len(redriven) != n {
			t.Errorf("%d of %d are kept as redriven", len(redriven), n)
		}
	})
}
