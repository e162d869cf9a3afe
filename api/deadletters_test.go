package api_test

import (
	"fmt"
	"testing"
	"time"

	"orderd/api"
)

type deadLetter struct {
	ID, OrderID, Status, Reason, ErrorClass, Step string
	Round, Redrives                               int
	FailedAt                                      int64
	Order                                         *order
}

type deadLetterPage struct {
	DeadLetters []deadLetter
	Next        *string
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	began := time.Now().Add(-time.Minute)
	for i := range 3 {
		id := fmt.Sprintf("D-%d", i)
		w.place(id)
		w.kill(id)
	}

	var page deadLetterPage
	w.must(200, "GET", "/dead-letters?status=open", "").into(t, &page)
	if len(page.DeadLetters) != 3 || page.Next == nil || *page.Next != "" {
		t.Fatalf("open dead letters = %+v", page)
	}
	first := page.DeadLetters[0]
	if first.OrderID != "D-2" || first.Status != "open" || first.Reason != "card refused" || first.ErrorClass != "payment_refused" ||
		first.Step != "payment" || first.Round != 1 || first.FailedAt < began.UnixMilli() || first.Order == nil || first.Order.Status != "failed" {
		t.Errorf("dead letter = %+v", first)
	}

	t.Run("Filters", func(t *testing.T) {
		for query, want := range map[string]int{
			"errorClass=payment_refused":                             3,
			"errorClass=other":                                       0,
			"customer=alice%40example.com":                           3,
			"customer=bob":                                           0,
			"status=discarded":                                       0,
			"limit=2":                                                2,
			fmt.Sprintf("before=%d", began.UnixMilli()):              0,
			"after=" + began.UTC().Format(time.RFC3339):              3,
			"after=" + began.Format("2006-01-02T15:04:05.000-07:00"): 3,
		} {
			var page deadLetterPage
			w.must(200, "GET", "/dead-letters?"+query, "").into(t, &page)
			if len(page.DeadLetters) != want {
				t.Errorf("%s: %d dead letters, want %d", query, len(page.DeadLetters), want)
			}
		}
	})
	t.Run("One", func(t *testing.T) {
		var d deadLetter
		w.must(200, "GET", "/dead-letters/"+first.ID, "").into(t, &d)
		if d.ID != first.ID || d.Order == nil || len(d.Order.Attempts) != 1 || d.Order.Attempts[0].Outcome != "reject" {
			t.Errorf("dead letter = %+v", d)
		}
	})
	t.Run("Redrive", func(t *testing.T) {
		a := w.must(202, "POST", "/dead-letters/"+first.ID+"/redrive", "")
		var o order
		a.into(t, &o)
		if o.OrderID != "D-2" || o.Status != "created" || a.header.Get("Location") != "/orders/D-2" {
			t.Errorf("redriven order = %+v, Location %q", o, a.header.Get("Location"))
		}
		w.must(409, "POST", "/dead-letters/"+first.ID+"/redrive", "").problem(t)
	})
	t.Run("RedriveOrder", func(t *testing.T) {
		var o order
		w.must(202, "POST", "/orders/D-1/redrive", "{}").into(t, &o)
		if o.Status != "created" {
			t.Errorf("redriven order = %+v", o)
		}
		w.must(409, "POST", "/orders/D-1/redrive", "{}").problem(t)
	})
	t.Run("Discard", func(t *testing.T) {
		id := page.DeadLetters[2].ID
		if p := w.must(422, "POST", "/dead-letters/"+id+"/discard", "{}").problem(t); p.Field != "reason" {
			t.Errorf("field = %q", p.Field)
		}
		var d deadLetter
		w.must(200, "POST", "/dead-letters/"+id+"/discard", `{"reason":"a test"}`).into(t, &d)
		if d.Status != "discarded" {
			t.Errorf("dead letter = %+v", d)
		}
		w.must(409, "POST", "/dead-letters/"+id+"/redrive", "").problem(t)
	})
	var left deadLetterPage
	w.must(200, "GET", "/dead-letters?status=open", "").into(t, &left)
	if len(left.DeadLetters) != 0 {
		t.Errorf("still open: %+v", left)
	}
}
