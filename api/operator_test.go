package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"orderd/api"
	"orderd/orders"
)

type redrive struct {
	ID, Status, By, Rate       string
	Force                      bool
	Matched, Redriven, Refused int
	CreatedAt, DoneAt          int64
	Filter                     map[string]any
}

// kills makes n dead letters.
func (w *world) kills(prefix string, n int) {
	w.t.Helper()
	for i := range n {
		id := fmt.Sprintf("%s-%d", prefix, i)
		w.place(id)
		w.kill(id)
	}
}

// redriven steps until the redrive of that id is done.
func (w *world) redriven(id string) redrive {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		var j redrive
		w.must(200, "GET", "/redrives/"+id, "").into(w.t, &j)
		if j.Status != "running" {
			return j
		}
		if _, err := w.store.RedriveStep(ctx); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestRedrives(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	w.kills("R", 12)

	var dry redrive
	w.must(200, "POST", "/dead-letters/redrive?dryRun=true&errorClass=payment_refused&rate=5/m", "").into(t, &dry)
	if dry.ID != "" || dry.Status != "dry run" || dry.Matched != 12 || dry.Rate != "5/m" || dry.Filter["errorClass"] != "payment_refused" {
		t.Errorf("dry run = %+v", dry)
	}
	var none redrive
	w.must(200, "POST", "/dead-letters/redrive?dryRun=true&customer=bob", "").into(t, &none)
	if none.Matched != 0 {
		t.Errorf("dry run of nobody = %+v", none)
	}
	a := w.must(202, "POST", "/dead-letters/redrive?rate=1000/s&status=open", "{}")
	var j redrive
	a.into(t, &j)
	if j.Status != "running" || j.Matched != 12 || j.By != "api" || a.header.Get("Location") != "/redrives/"+j.ID {
		t.Fatalf("started = %+v, Location %q", j, a.header.Get("Location"))
	}
	if j = w.redriven(j.ID); j.Status != "done" || j.Redriven != 12 || j.Refused != 0 || j.DoneAt < j.CreatedAt {
		t.Errorf("done = %+v", j)
	}
	w.must(409, "POST", "/redrives/"+j.ID+"/cancel", "").problem(t)
	w.must(404, "GET", "/redrives/none", "").problem(t)
	w.must(404, "POST", "/redrives/none/cancel", "").problem(t)

	var second redrive
	w.must(202, "POST", "/dead-letters/redrive?rate=1/h", "").into(t, &second)
	var cancelled redrive
	w.must(200, "POST", "/redrives/"+second.ID+"/cancel", "").into(t, &cancelled)
	if cancelled.Status != "cancelled" || cancelled.DoneAt == 0 {
		t.Errorf("cancelled = %+v", cancelled)
	}
	var list struct {
		Redrives []redrive
		Next     *string
	}
	w.must(200, "GET", "/redrives?limit=1", "").into(t, &list)
	if len(list.Redrives) != 1 || list.Redrives[0].ID != second.ID || list.Next == nil || *list.Next == "" {
		t.Errorf("list = %+v", list)
	}

	for query, field := range map[string]string{
		"rate=fast": "rate", "rate=0/s": "rate", "rate=": "rate", "status=discarded": "status", "dryRun=1": "dryRun", "force=yes": "force", "before=x": "before", "limit=1": "limit",
	} {
		if p := w.must(422, "POST", "/dead-letters/redrive?"+query, "").problem(t); p.Field != field {
			t.Errorf("%s: field %q", query, p.Field)
		}
	}
}

func TestRedrive_Limit(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	w.place("L")
	for range 10 { // the store of these tests lets an order be redriven three times
		w.kill("L")
		var page deadLetterPage
		w.must(200, "GET", "/dead-letters?status=open", "").into(t, &page)
		d := page.DeadLetters[0]
		if d.Redrives < 3 {
			w.must(202, "POST", "/dead-letters/"+d.ID+"/redrive", "")
			continue
		}
		p := w.must(409, "POST", "/dead-letters/"+d.ID+"/redrive?force=false", "").problem(t)
		if !strings.Contains(p.Detail, "3 times") || !strings.Contains(p.Detail, "force=true") {
			t.Errorf("detail = %q", p.Detail)
		}
		w.must(409, "POST", "/orders/L/redrive", "").problem(t)
		var dry redrive
		w.must(200, "POST", "/dead-letters/redrive?dryRun=true", "").into(t, &dry)
		if dry.Matched != 1 || dry.Refused != 1 {
			t.Errorf("dry run = %+v", dry)
		}
		w.must(202, "POST", "/orders/L/redrive?force=true", "")
		w.kill("L")
		w.must(200, "GET", "/dead-letters?status=open", "").into(t, &page)
		var one struct {
			Order struct {
				Attempts []struct {
					Round, Attempt, StartedAt int64
					Step, Error, Worker       string
				}
			}
		}
		w.must(200, "GET", "/dead-letters/"+page.DeadLetters[0].ID, "").into(t, &one)
		if n := len(one.Order.Attempts); n != 5 {
			t.Fatalf("%d attempts, want one for each of 5 rounds", n)
		}
		for i, a := range one.Order.Attempts {
			if a.Round != int64(i+1) || a.Attempt != 1 || a.StartedAt == 0 || a.Step != "payment" || a.Error == "" || a.Worker == "" {
				t.Errorf("attempt %d = %+v", i, a)
			}
		}
		return
	}
	t.Fatal("no redrive was refused")
}

func TestDeadLetterSummary(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	w.kills("S", 2)
	w.must(202, "POST", "/orders", `{"orderId":"yen","customer":"bob","items":1,"total":500,"currency":"JPY"}`)
	w.kill("yen")
	type class struct {
		ErrorClass          string
		Count               int
		FirstSeen, LastSeen int64
		AtStake             map[string]float64
	}
	var got struct {
		Status  string
		Count   int
		Classes []class
	}
	a := w.must(200, "GET", "/dead-letters/summary", "")
	a.into(t, &got)
	if got.Status != "open" || got.Count != 3 || len(got.Classes) != 1 {
		t.Fatalf("summary = %s", a.body)
	}
	if c := got.Classes[0]; c.ErrorClass != "payment_refused" || c.Count != 3 || c.FirstSeen == 0 || c.LastSeen < c.FirstSeen ||
		!cmp.Equal(c.AtStake, map[string]float64{"JPY": 500, "USD": 299.94}) {
		t.Errorf("class = %+v", c)
	}
	if !strings.Contains(a.body, `"USD":299.94`) {
		t.Errorf("the sum is not exact: %s", a.body)
	}
	w.must(200, "GET", "/dead-letters/summary?customer=bob", "").into(t, &got)
	if got.Count != 1 {
		t.Errorf("summary of bob = %+v", got)
	}
	w.must(422, "GET", "/dead-letters/summary?status=lost", "").problem(t)
}

func TestEditDeadLetter(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{APIKeys: []string{"secret"}}, nil)
	key := []string{"Authorization", "Bearer secret"}
	w.must(202, "POST", "/orders", `{"orderId":"E","customer":"alice@example.com","items":3,"total":149.97}`, key...)
	w.kill("E")
	var page deadLetterPage
	w.must(200, "GET", "/dead-letters", "", key...).into(t, &page)
	path := "/dead-letters/" + page.DeadLetters[0].ID + "/order"

	var o order
	w.must(200, "PATCH", path, `{"total":99.90,"customer":"bob@example.com"}`, key...).into(t, &o)
	if o.OrderID != "E" || o.Customer != "bob@example.com" || o.Total != "99.90" || o.Items != 3 || o.Status != "failed" {
		t.Errorf("edited = %+v", o)
	}
	for body, field := range map[string]string{`{"total":1.234}`: "total", `{"status":"confirmed"}`: "status", `{"orderId":"F"}`: "orderId", `{"customer":null}`: "customer"} {
		if p := w.must(422, "PATCH", path, body, key...).problem(t); p.Field != field {
			t.Errorf("%s: field %q", body, p.Field)
		}
	}
	w.must(400, "PATCH", path, `{`, key...).problem(t)
	w.must(415, "PATCH", path, `{}`, "Authorization", "Bearer secret", "Content-Type", "text/plain").problem(t)
	w.must(404, "PATCH", "/dead-letters/none/order", `{}`, key...).problem(t)
	w.must(401, "PATCH", path, `{}`).problem(t)
	if got := w.must(405, "PUT", path, `{}`, key...).header.Get("Allow"); got != "PATCH" {
		t.Errorf("Allow = %q", got)
	}

	w.must(202, "POST", strings.TrimSuffix(path, "/order")+"/redrive", "", key...)
	w.must(409, "PATCH", path, `{"items":1}`, key...).problem(t)

	var log struct {
		Audit []struct {
			ID, By, Action, Target, Detail string
			At                             int64
		}
		Next string
	}
	w.must(200, "GET", "/audit?target=E", "", key...).into(t, &log)
	if len(log.Audit) != 2 || log.Audit[0].Action != "redrive" || log.Audit[1].Action != "edit" ||
		log.Audit[1].Detail != "total: 149.97 USD -> 99.90 USD; customer: alice@example.com -> bob@example.com" {
		t.Fatalf("audit = %+v", log)
	}
	for _, a := range log.Audit {
		if !strings.HasPrefix(a.By, "api:") || a.At == 0 || a.ID == "" {
			t.Errorf("entry = %+v", a)
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	w.must(200, "PUT", "/inventory/x", `{"onHand":1}`)
	w.place("A")
	w.confirm("A")
	w.must(200, "POST", "/orders/A/ship", `{"carrier":"ups"}`)
	w.must(200, "POST", "/orders/A/deliver", "")
	w.place("B")
	w.must(200, "POST", "/orders/B/cancel", `{"reason":"changed my mind"}`)
	w.kills("C", 2)
	var page deadLetterPage
	w.must(200, "GET", "/dead-letters", "").into(t, &page)
	w.must(202, "POST", "/dead-letters/"+page.DeadLetters[0].ID+"/redrive", "")
	w.must(200, "POST", "/dead-letters/"+page.DeadLetters[1].ID+"/discard", `{"reason":"a test"}`)
	var job redrive
	w.must(202, "POST", "/dead-letters/redrive", "").into(t, &job)
	w.must(200, "POST", "/redrives/"+job.ID+"/cancel", "")

	type entry struct{ Action, Target, Detail string }
	want := []entry{
		{"cancel redrive", job.ID, "0 of 0 redriven"}, {"start redrive", job.ID, "0 dead letters at 20/s"},
		{"discard", page.DeadLetters[1].ID, "a test"}, {"redrive", "C-1", ""}, {"cancel", "B", "changed my mind"},
		{"delivered", "A", ""}, {"shipped", "A", ""}, {"set stock", "x", "1"},
	}
	var got []entry
	for cursor := ""; ; {
		var page struct {
			Audit []entry
			Next  string
		}
		w.must(200, "GET", "/audit?limit=3&cursor="+cursor, "").into(t, &page)
		got = append(got, page.Audit...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	var filtered struct{ Audit []entry }
	w.must(200, "GET", "/audit?action=discard&by=api&before=2999-01-01T00:00:00Z&after=0", "").into(t, &filtered)
	if len(filtered.Audit) != 1 {
		t.Errorf("filtered = %+v", filtered)
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} { // nothing changes it
		w.must(405, method, "/audit", "").problem(t)
	}
	w.must(422, "GET", "/audit?cursor=nonsense", "").problem(t)
}

type batchAnswer struct {
	Accepted, Refused int
	Results           []struct {
		Index, Status int
		Replayed      bool
		Order         *order
		Problem       *problem
	}
}

// statuses of the items, one after the other.
func (b *batchAnswer) statuses(t *testing.T) []int {
	t.Helper()
	var out []int
	for i, r := range b.Results {
		if r.Index != i || (r.Status == 202) != (r.Order != nil) || (r.Status == 202) != (r.Problem == nil) || r.Problem != nil && r.Problem.Status != r.Status {
			t.Errorf("item %d = %+v", i, r)
		}
		out = append(out, r.Status)
	}
	return out
}

func TestBatch(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{MaxBody: 200_000}, nil)
	w.place("taken")
	items := []string{
		`{"orderId":"b1","customer":"c","items":1,"total":149.90}`,
		`{"orderId":"b2","customer":"c","items":0,"total":1}`,
		`{"customer":"c","items":1,"total":1}`,
		`{"orderId":"b1","customer":"c","items":1,"total":149.9}`,
		`{"orderId":"taken","customer":"mallory","items":3,"total":149.97}`,
		`{"orderId":"b3","customer":"c","items":1,"items":1,"total":1}`,
		`7`,
	}
	want := []int{202, 422, 202, 202, 409, 422, 422}
	check := func(t *testing.T, a answer, replayed bool) {
		t.Helper()
		var got batchAnswer
		a.into(t, &got)
		if diff := cmp.Diff(want, got.statuses(t)); diff != "" {
			t.Fatalf("statuses (-want +got):\n%s\n%s", diff, a.body)
		}
		if got.Accepted != 3 || got.Refused != 4 {
			t.Errorf("accepted %d, refused %d", got.Accepted, got.Refused)
		}
		if got.Results[0].Order.OrderID != "b1" || got.Results[0].Order.Total != "149.90" || got.Results[0].Replayed != replayed || !got.Results[3].Replayed {
			t.Errorf("results = %+v", got.Results)
		}
		if p := got.Results[1].Problem; p.Field != "items" || p.Instance != a.header.Get("X-Request-Id") {
			t.Errorf("problem = %+v", p)
		}
		if p := got.Results[4].Problem; p.Field != "orderId" || !strings.Contains(p.Detail, "taken") {
			t.Errorf("problem = %+v", p)
		}
	}
	check(t, w.must(200, "POST", "/orders/batch", "[\n"+strings.Join(items, ",")+" ]\n"), false)
	check(t, w.must(200, "POST", "/orders/batch", strings.Join(items, "\n\r\n")+"\n", "Content-Type", "application/x-ndjson"), true)
	if n := w.accepted(); n != 4 { // taken, b1, and one without an id of each batch
		t.Errorf("%d orders, want 4", n)
	}

	t.Run("Refused", func(t *testing.T) {
		before := w.accepted()
		big := "[" + strings.Repeat(items[2]+",", 1000) + items[2] + "]"
		for _, test := range []struct {
			name, body, typ string
			code            int
		}{
			{"1,001 orders", big, "application/json", 413},
			{"1,001 lines", strings.Repeat(items[2]+"\n", 1001), "application/x-ndjson", 413},
			{"too many bytes", "[" + strings.Repeat(" ", 200_000) + "]", "application/json", 413},
			{"no array", items[0], "application/json", 422},
			{"no order", "[]", "application/json", 422},
			{"no line", "\n\n", "application/x-ndjson", 422},
			{"half an array", "[" + items[2] + ",", "application/json", 400},
			{"no JSON", "[" + items[2] + ",nonsense]", "application/json", 400},
			{"more after it", "[" + items[2] + "]]", "application/json", 400},
			{"no body", "", "application/json", 400},
			{"other type", "[]", "text/csv", 415},
		} {
			a := w.must(test.code, "POST", "/orders/batch", test.body, "Content-Type", test.typ)
			a.problem(t)
		}
		if n := w.accepted(); n != before {
			t.Errorf("%d orders more", n-before)
		}
	})
	t.Run("Key", func(t *testing.T) {
		body := "[" + items[2] + "," + items[2] + "]"
		var first, again batchAnswer
		w.must(200, "POST", "/orders/batch", body, "Idempotency-Key", "k").into(t, &first)
		w.must(200, "POST", "/orders/batch", body, "Idempotency-Key", "k").into(t, &again)
		for i := range again.Results {
			if a, b := again.Results[i], first.Results[i]; !a.Replayed || b.Replayed || a.Order.OrderID != b.Order.OrderID {
				t.Errorf("item %d: %+v, first %+v", i, a, b)
			}
		}
	})
	t.Run("Full", func(t *testing.T) {
		before := w.accepted()
		var got batchAnswer
		w.must(200, "POST", "/orders/batch", strings.Repeat(items[2]+"\n", orders.MaxBatch), "Content-Type", "application/x-ndjson").into(t, &got)
		if got.Accepted != orders.MaxBatch || w.accepted() != before+orders.MaxBatch {
			t.Errorf("accepted %d, %d orders more", got.Accepted, w.accepted()-before)
		}
	})
}
