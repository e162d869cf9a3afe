package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"orderd/api"
)

const goodOrder = `{"orderId":"ORD-2001","customer":"alice@example.com","items":3,"total":149.97,"createdAt":1700000000000}`

func TestCreateOrder(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)

	t.Run("OK", func(t *testing.T) {
		a := w.must(202, "POST", "/orders", goodOrder)
		if got := a.header.Get("Location"); got != "/orders/ORD-2001" {
			t.Errorf("Location = %q", got)
		}
		if a.header.Get("Idempotency-Replayed") != "" {
			t.Error("a new order is said to be a replay")
		}
		var o order
		a.into(t, &o)
		if o.OrderID != "ORD-2001" || o.Customer != "alice@example.com" || o.Items != 3 || o.Total != "149.97" ||
			o.CreatedAt != 1700000000000 || o.Status != "created" || o.ExpiresAt <= o.UpdatedAt {
			t.Errorf("order = %+v", o)
		}
	})
	t.Run("SameIDSameOrder", func(t *testing.T) {
		a := w.must(202, "POST", "/orders", `{"total":149.970e0,"items":3,"customer":"alice@example.com","currency":"USD","orderId":"ORD-2001"}`)
		if a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("Idempotency-Replayed = %q", a.header.Get("Idempotency-Replayed"))
		}
	})
	t.Run("SameIDOtherOrder", func(t *testing.T) {
		before := w.accepted()
		w.must(409, "POST", "/orders", strings.Replace(goodOrder, "149.97", "149.98", 1)).problem(t)
		if got := w.accepted(); got != before {
			t.Errorf("%d orders, want %d", got, before)
		}
		var o order
		w.must(200, "GET", "/orders/ORD-2001", "").into(t, &o)
		if o.Total != "149.97" {
			t.Errorf("total = %s", o.Total)
		}
	})
	t.Run("Key", func(t *testing.T) {
		body := `{"customer":"bob@example.com","items":1,"total":5}`
		first := w.must(202, "POST", "/orders", body, "Idempotency-Key", "k1")
		second := w.must(202, "POST", "/orders", body, "Idempotency-Key", "k1")
		if first.body != second.body {
			t.Errorf("replay differs:\n%s\n%s", first.body, second.body)
		}
		if first.header.Get("Location") != second.header.Get("Location") || second.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("headers of the replay: %v", second.header)
		}
		w.must(422, "POST", "/orders", strings.Replace(body, "5", "6", 1), "Idempotency-Key", "k1").problem(t)
	})
	t.Run("CharsetUTF8", func(t *testing.T) {
		w.must(202, "POST", "/orders", goodOrder, "Content-Type", "application/json; charset=UTF-8")
	})
}

// TestCreateOrder_BadInput sends what must be refused, and sees that nothing of
// it is stored.
func TestCreateOrder_BadInput(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	with := func(old, new string) string { return strings.Replace(goodOrder, old, new, 1) }

	for _, tt := range []struct {
		name    string
		body    string
		code    int
		field   string // "" is not checked
		headers []string
	}{
		{name: "Empty", body: "", code: 400, headers: []string{"Content-Type", "application/json"}},
		{name: "NotJSON", body: "orderId=1", code: 400},
		{name: "CutOff", body: goodOrder[:40], code: 400},
		{name: "TwoValues", body: goodOrder + goodOrder, code: 400},
		{name: "InvalidUTF8", body: with("alice", "al\xffice"), code: 400},
		{name: "LoneSurrogate", body: with("alice", `al\ud800ice`), code: 400},
		{name: "NUL", body: with("alice", `al\u0000ice`), code: 422, field: "customer"},
		{name: "ControlCharacter", body: with("alice", `al\nice`), code: 422, field: "customer"},
		{name: "Array", body: "[" + goodOrder + "]", code: 422},
		{name: "Null", body: "null", code: 422},
		{name: "ItemsText", body: with(":3", `:"3"`), code: 422, field: "items"},
		{name: "ItemsZero", body: with(":3", ":0"), code: 422, field: "items"},
		{name: "ItemsNegative", body: with(":3", ":-3"), code: 422, field: "items"},
		{name: "ItemsFraction", body: with(":3", ":3.5"), code: 422, field: "items"},
		{name: "TotalMissing", body: with(`,"total":149.97`, ""), code: 422, field: "total"},
		{name: "TotalNegative", body: with("149.97", "-1"), code: 422, field: "total"},
		{name: "TotalTooPrecise", body: with("149.97", "149.975"), code: 422, field: "total"},
		{name: "TotalTooLarge", body: with("149.97", "1e30"), code: 422, field: "total"},
		{name: "TotalHugeExponent", body: with("149.97", "1e999999999"), code: 422, field: "total"},
		{name: "TotalText", body: with("149.97", `"149.97"`), code: 422, field: "total"},
		{name: "CustomerMissing", body: with(`"customer":"alice@example.com",`, ""), code: 422, field: "customer"},
		{name: "CustomerNumber", body: with(`"alice@example.com"`, "7"), code: 422, field: "customer"},
		{name: "CustomerTooLong", body: with("alice", strings.Repeat("a", 300)), code: 422, field: "customer"},
		{name: "IDWithSpace", body: with("ORD-2001", "ORD 2001"), code: 422, field: "orderId"},
		{name: "IDTooLong", body: with("ORD-2001", strings.Repeat("x", 129)), code: 422, field: "orderId"},
		{name: "UnknownField", body: with(`"items"`, `"coupon":"X","items"`), code: 422, field: "coupon"},
		{name: "FieldTwice", body: with(`"items"`, `"items":3,"items"`), code: 422},
		{name: "UnknownCurrency", body: with(`"items"`, `"currency":"XYZ","items"`), code: 422, field: "currency"},
		{name: "TooLarge", body: with("alice", strings.Repeat("a", 2<<20)), code: 413},
		{name: "TypeMissing", body: goodOrder, code: 415, field: "Content-Type", headers: []string{"Content-Type", ""}},
		{name: "TypeText", body: goodOrder, code: 415, field: "Content-Type", headers: []string{"Content-Type", "text/plain"}},
		{name: "TypeForm", body: goodOrder, code: 415, headers: []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{name: "TypeLatin1", body: goodOrder, code: 415, headers: []string{"Content-Type", "application/json; charset=iso-8859-1"}},
		{name: "Compressed", body: goodOrder, code: 415, field: "Content-Encoding", headers: []string{"Content-Encoding", "gzip"}},
		{name: "KeyTooLong", body: goodOrder, code: 422, field: "Idempotency-Key", headers: []string{"Idempotency-Key", strings.Repeat("k", 256)}},
		{name: "KeyNotASCII", body: goodOrder, code: 422, field: "Idempotency-Key", headers: []string{"Idempotency-Key", "ключ"}},
		{name: "OtherSite", body: goodOrder, code: 403, headers: []string{"Sec-Fetch-Site", "cross-site"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := w.do("POST", "/orders", tt.body, tt.headers...)
			if a.code != tt.code {
				t.Errorf("status %d, want %d; body %s", a.code, tt.code, a.body)
			}
			if p := a.problem(t); p.Detail == "" || tt.field != "" && p.Field != tt.field {
				t.Errorf("problem %+v, want field %q and a detail", p, tt.field)
			}
		})
	}
	t.Run("TooLargeChunked", func(t *testing.T) {
		body := io.MultiReader(strings.NewReader(`{"customer":"`), strings.NewReader(strings.Repeat("a", 2<<20)))
		resp, err := w.client.Post(w.url+"/orders", "application/json", body) // of unknown length
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 413 {
			t.Errorf("status %d, want 413", resp.StatusCode)
		}
	})
	t.Run("CutOffConnection", func(t *testing.T) {
		conn, err := net.Dial("tcp", w.server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(goodOrder)+1, goodOrder)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		// Whatever it says, it says it after it has decided.
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Error(err)
		}
		conn.Close()
	})
	if got := w.accepted(); got != 0 {
		t.Errorf("%d orders are stored, want none", got)
	}
	w.place("after") // and the server takes good ones as before
}

// BenchmarkCreateOrder is the whole way of a POST from the parsed request to the
// committed order, with many callers at once.
func BenchmarkCreateOrder(b *testing.B) {
	w := start(b, api.Options{}, nil)
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			body := fmt.Sprintf(`{"orderId":"B-%d","customer":"alice@example.com","items":3,"total":149.97}`, n.Add(1))
			r := httptest.NewRequest("POST", "/orders", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			if w.server.ServeHTTP(rec, r); rec.Code != 202 {
				b.Errorf("status %d: %s", rec.Code, rec.Body)
			}
		}
	})
}

func TestListOrders(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	type page struct {
		Orders []order
		Next   *string
	}
	var p page
	w.must(200, "GET", "/orders", "").into(t, &p)
	if p.Orders == nil || len(p.Orders) != 0 || p.Next == nil || *p.Next != "" {
		t.Errorf("empty list = %+v", p)
	}
	for i := range 5 {
		w.place(fmt.Sprintf("L-%d", i))
	}
	w.confirm("L-2")

	var ids []string
	path := "/orders?limit=2"
	for pages := 0; ; pages++ {
		var p page
		w.must(200, "GET", path, "").into(t, &p)
		for _, o := range p.Orders {
			ids = append(ids, o.OrderID)
		}
		if *p.Next == "" {
			break
		}
		if pages > 3 {
			t.Fatal("the pages do not end")
		}
		path = "/orders?limit=2&cursor=" + *p.Next
	}
	if got := strings.Join(ids, " "); got != "L-4 L-3 L-2 L-1 L-0" {
		t.Errorf("pages hold %s", got)
	}
	for path, want := range map[string]int{
		"/orders?status=confirmed":                    1,
		"/orders?status=created":                      4,
		"/orders?customer=alice%40example.com":        5,
		"/orders?customer=nobody":                     0,
		"/orders?status=confirmed&customer=bob":       0,
		"/orders?status=confirmed&limit=500&cursor=":  1,
		"/orders?status=delivered&customer=&limit=10": 0,
	} {
		var p page
		w.must(200, "GET", path, "").into(t, &p)
		if len(p.Orders) != want {
			t.Errorf("%s: %d orders, want %d", path, len(p.Orders), want)
		}
	}
}

func TestOrderActions(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)

	t.Run("ShipAndDeliver", func(t *testing.T) {
		w.place("A")
		w.must(409, "POST", "/orders/A/ship", `{}`).problem(t)
		w.confirm("A")
		var o order
		w.must(200, "POST", "/orders/A/ship", `{"carrier":"DHL","trackingNumber":"123"}`).into(t, &o)
		if o.Status != "shipped" || o.Carrier != "DHL" || o.TrackingNumber != "123" {
			t.Errorf("shipped order = %+v", o)
		}
		w.must(200, "POST", "/orders/A/deliver", "").into(t, &o)
		if o.Status != "delivered" {
			t.Errorf("status = %s", o.Status)
		}
		w.must(409, "POST", "/orders/A/cancel", "{}").problem(t)
		var got order
		w.must(200, "GET", "/orders/A", "").into(t, &got)
		var way []string
		for _, h := range got.History {
			way = append(way, h.Status+"/"+h.By)
		}
		if s := strings.Join(way, " "); s != "created/ processing/ confirmed/ shipped/api delivered/api" {
			t.Errorf("history = %s", s)
		}
	})
	t.Run("Cancel", func(t *testing.T) {
		w.place("C")
		var o order
		w.must(200, "POST", "/orders/C/cancel", `{"reason":"changed my mind"}`).into(t, &o)
		if o.Status != "cancelled" || o.CancelRequested {
			t.Errorf("order = %+v", o)
		}
		w.must(200, "GET", "/orders/C", "").into(t, &o)
		if last := o.History[len(o.History)-1]; last.Reason != "changed my mind" || last.By != "api" {
			t.Errorf("last change = %+v", last)
		}
	})
	t.Run("CancelWhileHeld", func(t *testing.T) {
		w.place("H")
		token := w.claim("H")
		var o order
		w.must(202, "POST", "/orders/H/cancel", `{}`).into(t, &o)
		if o.Status != "processing" || !o.CancelRequested {
			t.Errorf("order = %+v", o)
		}
		w.finish(ordersConfirm("H", token))
		w.must(200, "GET", "/orders/H", "").into(t, &o)
		if o.Status != "cancelled" {
			t.Errorf("status = %s, want cancelled", o.Status)
		}
	})
	t.Run("NotFound", func(t *testing.T) {
		for _, path := range []string{"/orders/none", "/orders/%00", "/orders/a%2Fb", "/orders/" + strings.Repeat("x", 200), "/dead-letters/none", "/inventory/none"} {
			w.must(404, "GET", path, "").problem(t)
		}
		for _, path := range []string{"/orders/none/ship", "/orders/none/deliver", "/orders/none/cancel", "/orders/none/redrive", "/dead-letters/none/redrive"} {
			w.must(404, "POST", path, "{}").problem(t)
		}
	})
	t.Run("EscapedID", func(t *testing.T) {
		w.place("a:b~c")
		w.must(200, "GET", "/orders/a%3Ab%7Ec", "")
	})
	t.Run("BadBodies", func(t *testing.T) {
		w.place("B")
		w.confirm("B")
		for _, tt := range []struct {
			body, field string
			code        int
		}{
			{`{`, "", 400},
			{`{"carrier":"\ud800"}`, "", 400},
			{`{"carrier":"a` + "\xff" + `"}`, "", 400},
			{`{} {}`, "", 400},
			{`[]`, "", 422},
			{`null`, "", 422},
			{`{"carrier":7}`, "carrier", 422},
			{`{"carrier":"\u0000"}`, "carrier", 422},
			{`{"carier":"DHL"}`, "carier", 422},
			{`{"carrier":"a","carrier":"b"}`, "carrier", 422},
			{`{"carrier":"` + strings.Repeat("x", 101) + `"}`, "carrier", 422},
			{`{"trackingNumber":"` + strings.Repeat("x", 201) + `"}`, "trackingNumber", 422},
		} {
			a := w.do("POST", "/orders/B/ship", tt.body)
			if p := a.problem(t); a.code != tt.code || p.Field != tt.field {
				t.Errorf("%.40s: status %d, field %q, want %d, %q", tt.body, a.code, p.Field, tt.code, tt.field)
			}
		}
		var o order
		w.must(200, "GET", "/orders/B", "").into(t, &o)
		if o.Status != "confirmed" {
			t.Errorf("status = %s, want confirmed still", o.Status)
		}
	})
}
