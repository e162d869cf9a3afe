package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"orderd/api"
	"orderd/orders"
)

func TestInventory(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	type stock struct {
		SKU       string
		OnHand    int64
		UpdatedAt int64
	}
	var s stock
	w.must(200, "PUT", "/inventory/tea-1", `{"onHand":12}`).into(t, &s)
	if s.SKU != "tea-1" || s.OnHand != 12 || s.UpdatedAt == 0 {
		t.Errorf("stock = %+v", s)
	}
	w.must(200, "PUT", "/inventory/cup", `{"onHand":0}`)
	w.must(200, "GET", "/inventory/tea-1", "").into(t, &s)
	if s.OnHand != 12 {
		t.Errorf("on hand = %d", s.OnHand)
	}
	var page struct {
		Inventory []stock
		Next      string
	}
	w.must(200, "GET", "/inventory?limit=1", "").into(t, &page)
	if len(page.Inventory) != 1 || page.Inventory[0].SKU != "cup" || page.Next == "" {
		t.Errorf("first page = %+v", page)
	}
	w.must(200, "GET", "/inventory?cursor="+page.Next, "").into(t, &page)
	if len(page.Inventory) != 1 || page.Inventory[0].SKU != "tea-1" || page.Next != "" {
		t.Errorf("second page = %+v", page)
	}
	for _, body := range []string{`{}`, `{"onHand":null}`, `{"onHand":-1}`, `{"onHand":1.5}`, `{"onHand":"1"}`, `{"onHand":9007199254740992}`, `{"onHand":99999999999999999999}`, `{"onHand":1,"x":2}`} {
		w.must(422, "PUT", "/inventory/tea-1", body).problem(t)
	}
	w.must(404, "PUT", "/inventory/tea%201", `{"onHand":1}`).problem(t)
	w.must(415, "PUT", "/inventory/tea-1", "").problem(t)
	w.must(200, "GET", "/inventory/tea-1", "").into(t, &s)
	if s.OnHand != 12 {
		t.Errorf("on hand = %d after bad requests", s.OnHand)
	}
}

func TestBooks(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	for _, id := range []string{"a", "b", "c", "d"} {
		w.place(id)
	}
	w.confirm("a")
	w.kill("b")
	w.must(200, "POST", "/orders/c/cancel", "")
	got := w.must(200, "GET", "/books", "").body
	want := `{"accepted":4,"underWay":1,"confirmed":1,"shipped":0,"delivered":0,"failed":1,"expired":0,"cancelled":1,"balanced":true}`
	if got != want {
		t.Errorf("books:\n%s\nwant\n%s", got, want)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	w.place("a")
	w.place("b")
	events := w.number()
	if _, err := w.store.Handle(context.Background(), orders.SubscriberAnalytics, events, make([]orders.Effect, len(events))); err != nil {
		t.Fatal(err)
	}
	var out struct {
		From, To, StepMs int64
		Stats            []struct {
			From             int64
			Status, Currency string
			Orders, Redrives int64
			Revenue          float64
		}
	}
	a := w.must(200, "GET", "/stats", "")
	a.into(t, &out)
	if len(out.Stats) != 1 || out.Stats[0].Status != "created" || out.Stats[0].Orders != 2 || out.Stats[0].Revenue != 299.94 || out.Stats[0].Currency != "USD" {
		t.Errorf("stats = %s", a.body)
	}
	if span := out.To - out.From; span != (24 * time.Hour).Milliseconds() {
		t.Errorf("default span = %d ms", span)
	}
	now := time.Now()
	w.must(200, "GET", fmt.Sprintf("/stats?step=5m&from=%d&to=%s", now.Add(-time.Hour).UnixMilli(), now.Add(time.Hour).UTC().Format(time.RFC3339)), "").into(t, &out)
	if len(out.Stats) != 1 || out.StepMs != 300_000 || out.Stats[0].From%300_000 != 0 {
		t.Errorf("stats in steps = %+v", out)
	}
	for query, field := range map[string]string{
		"from=yesterday": "from", "to=-1": "to", "from=10&to=10": "from", "from=20&to=10": "from", "step=1s": "step",
		"step=90s": "step", "step=-1m": "step", "step=x": "step", "step=1m&from=0": "step", "to=2024-13-01T00:00:00Z": "to",
	} {
		if p := w.must(422, "GET", "/stats?"+query, "").problem(t); p.Field != field {
			t.Errorf("%s: field %q, want %q", query, p.Field, field)
		}
	}
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	w.place("a")
	w.place("b")
	events := w.number()
	effects := []orders.Effect{{Deliver: true, To: "alice@example.com"}, {Skip: "not wanted", To: "x"}}
	if _, err := w.store.Handle(context.Background(), "email", events, effects); err != nil {
		t.Fatal(err)
	}
	type page struct {
		Deliveries []struct {
			ID, Subscriber, OrderID, Event, Status, To, LastAnswer string
			EventNumber, CreatedAt                                 int64
		}
		Next string
	}
	var p page
	a := w.must(200, "GET", "/deliveries?orderId=a&subscriber=email&status=pending", "")
	a.into(t, &p)
	if len(p.Deliveries) != 1 {
		t.Fatalf("deliveries = %s", a.body)
	}
	if d := p.Deliveries[0]; d.OrderID != "a" || d.Subscriber != "email" || d.Event != "order.created" || d.To != "alice@example.com" || d.CreatedAt == 0 {
		t.Errorf("delivery = %s", a.body)
	}
	p = page{}
	w.must(200, "GET", "/deliveries?status=skipped", "").into(t, &p)
	if len(p.Deliveries) != 1 || p.Deliveries[0].LastAnswer != "not wanted" {
		t.Errorf("skipped = %+v", p)
	}
	w.must(422, "GET", "/deliveries?status=open", "").problem(t)
	w.must(422, "GET", "/deliveries?orderId=a%20b", "").problem(t)
}
