package orders_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderd/orders"
)

func TestParseMoney(t *testing.T) {
	for _, test := range []struct {
		text     string
		currency orders.Currency
		minor    int64 // -1: refused
		shown    string
	}{
		{"0", "USD", 0, "0.00"},
		{"0.1", "USD", 10, "0.10"},
		{"0.30", "USD", 30, "0.30"},
		{"0.30000000000000004", "USD", -1, ""}, // 0.1+0.2 in binary
		{"149.97", "USD", 14997, "149.97"},
		{"149.970", "USD", 14997, "149.97"},
		{"149.971", "USD", -1, ""},
		{"1e3", "USD", 100000, "1000.00"},
		{"1E-2", "USD", 1, "0.01"},
		{"1e-3", "USD", -1, ""},
		{"0e999", "USD", 0, "0.00"},
		{"1e999", "USD", -1, ""},
		{"1e99999999999999999999", "USD", -1, ""},
		{"-0", "USD", -1, ""},
		{"-1", "USD", -1, ""},
		{"9007199254740993", "USD", 900719925474099300, "9007199254740993.00"},
		{"92233720368547758.07", "USD", 9223372036854775807, "92233720368547758.07"},
		{"92233720368547758.08", "USD", -1, ""},
		{"9223372036854775807", "JPY", 9223372036854775807, "9223372036854775807"},
		{"9223372036854775808", "JPY", -1, ""}, // 2^63
		{"10.5", "JPY", -1, ""},
		{"10.0", "JPY", 10, "10"},
		{"1.234", "KWD", 1234, "1.234"},
		{"1.2345", "KWD", -1, ""},
		{"1", "XXX", -1, ""},
		{"", "USD", -1, ""},
		{"1.2.3", "USD", -1, ""},
		{"NaN", "USD", -1, ""},
		{strings.Repeat("0", 70), "USD", -1, ""},
	} {
		m, err := orders.ParseMoney(test.text, test.currency)
		switch {
		case test.minor < 0 && err == nil:
			t.Errorf("%s %s: got %s, want an error", test.text, test.currency, m)
		case test.minor < 0:
			wantKind(t, err, orders.KindInvalid)
		case err != nil || m.Minor != test.minor || m.String() != test.shown:
			t.Errorf("%s %s: got %d (%s), %v, want %d (%s)", test.text, test.currency, m.Minor, m, err, test.minor, test.shown)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		name, body string
		kind       orders.Kind
		field      string
	}{
		{"nothing", ``, orders.KindBadRequest, ""},
		{"cut off", `{"customer":"c","items":1,"total":1`, orders.KindBadRequest, ""},
		{"twice", `{"customer":"c","items":1,"total":1}{}`, orders.KindBadRequest, ""},
		{"a fault, then no JSON", `{"items":0,"customer":"c",}`, orders.KindBadRequest, ""},
		{"invalid UTF-8", "{\"customer\":\"\xff\"}", orders.KindBadRequest, ""},
		{"lone surrogate", `{"customer":"\udc00x"}`, orders.KindBadRequest, ""},
		{"text", `"order"`, orders.KindInvalid, ""},
		{"null", `null`, orders.KindInvalid, ""},
		{"twice the same member", `{"items":1,"items":1}`, orders.KindInvalid, "items"},
		{"line separator in customer", `{"customer":"a\u2028b","items":1,"total":1}`, orders.KindInvalid, "customer"},
		{"dots as id", `{"orderId":"..","customer":"c","items":1,"total":1}`, orders.KindInvalid, "orderId"},
		{"language", `{"customer":"c","items":1,"total":1,"language":"english!"}`, orders.KindInvalid, "language"},
		{"no lines", `{"customer":"c","lines":[]}`, orders.KindInvalid, "lines"},
		{"line without price", `{"customer":"c","lines":[{"sku":"a","quantity":1}]}`, orders.KindInvalid, "lines[0].price"},
		{"line with more", `{"customer":"c","lines":[{"sku":"a","quantity":1,"price":1,"x":1}]}`, orders.KindInvalid, "lines[0].x"},
		{"line with no quantity", `{"customer":"c","lines":[{"sku":"a","quantity":0,"price":1}]}`, orders.KindInvalid, "lines[0].quantity"},
		{"lines overflow", `{"customer":"c","lines":[{"sku":"a","quantity":1000000000,"price":92233720368547758.07}]}`, orders.KindInvalid, "lines"},
		{"total disagrees", `{"customer":"c","total":2,"lines":[{"sku":"a","quantity":1,"price":1}]}`, orders.KindInvalid, "total"},
	} {
		_, err := orders.Decode([]byte(test.body), true)
		wantKind(t, err, test.kind)
		var e *orders.Error
		if errors.As(err, &e) && e.Field != test.field {
			t.Errorf("%s: field %q, want %q: %v", test.name, e.Field, test.field, err)
		}
	}
}

func TestDecode_sameOrder(t *testing.T) {
	want := mustDecode(t, `{"customer":"José","items":3,"total":149.97}`)
	for _, body := range []string{
		`{"total":149.970,"items":3,"customer":"Jos\u00e9"}`,
		`{"customer":"José","items":3,"total":1.4997e2,"currency":"USD","createdAt":5,"orderId":null,"lines":null,"language":null}`,
		`{"orderId":"other","customer":"José","items":3,"total":14997e-2}`,
	} {
		if got := mustDecode(t, body); got.Hash() != want.Hash() {
			t.Errorf("%s is another order than %s", body, `{"customer":"José","items":3,"total":149.97}`)
		}
	}
	for _, body := range []string{
		`{"customer":"Jose","items":3,"total":149.97}`, `{"customer":"José","items":4,"total":149.97}`, `{"customer":"José","items":3,"total":149.98}`,
		`{"customer":"José","items":3,"total":149.97,"currency":"EUR"}`, `{"customer":"José","items":3,"total":149.97,"language":"en"}`,
		`{"customer":"José","lines":[{"sku":"a","quantity":3,"price":49.99}]}`,
	} {
		if got := mustDecode(t, body); got.Hash() == want.Hash() {
			t.Errorf("%s is taken for the same order", body)
		}
	}
}

// What other programs put on the queue may say more.
func TestDecode_lenient(t *testing.T) {
	o, err := orders.Decode([]byte(`{"customer":"c","items":1,"total":1,"extra":{"a":[1]}}`), false)
	if err != nil || o.Customer != "c" {
		t.Errorf("got %+v, %v", o, err)
	}
}

// Whatever is accepted comes out of a message as it went in, and shows as JSON.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(seedOrder))
	f.Add([]byte(`{"customer":"\u00e9","lines":[{"sku":"a","quantity":2,"price":1.50}],"currency":"KWD","language":"pt-BR"}`))
	f.Add([]byte(`{"customer":"c","items":1,"total":1e3}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := orders.Decode(body, true)
		if err != nil {
			if k := orders.KindOf(err); k != orders.KindBadRequest && k != orders.KindInvalid {
				t.Fatalf("kind %v: %v", k, err)
			}
			return
		}
		if o.ID == "" {
			o.ID = "x"
		}
		if o.CreatedAt == 0 {
			o.CreatedAt = 1
		}
		message := o.AppendMessage(nil)
		again, err := orders.Decode(message, true)
		if err != nil {
			t.Fatalf("%s became %s: %v", body, message, err)
		}
		if diff := cmp.Diff(o, again); diff != "" {
			t.Fatalf("%s became %s: %s", body, message, diff)
		}
		if shown := o.AppendJSON(nil); !json.Valid(shown) {
			t.Fatalf("%s is shown as %s", body, shown)
		}
	})
}

func TestStatus_CanBecome(t *testing.T) {
	allowed := map[string]bool{
		"created>processing": true, "created>failed": true, "created>expired": true, "created>cancelled": true,
		"processing>confirmed": true, "processing>failed": true, "processing>expired": true, "processing>cancelled": true,
		"confirmed>shipped": true, "confirmed>cancelled": true, "shipped>delivered": true, "failed>created": true, "expired>created": true,
	}
	for _, from := range orders.Statuses() {
		for _, to := range orders.Statuses() {
			if got, want := from.CanBecome(to), allowed[string(from)+">"+string(to)]; got != want {
				t.Errorf("%s to %s: got %v, want %v", from, to, got, want)
			}
		}
	}
	if orders.Status("gone").Valid() || orders.Status("gone").CanBecome(orders.StatusCreated) {
		t.Error("an unknown status is valid")
	}
}

func TestEvent_AppendBody(t *testing.T) {
	e := orders.Event{OrderID: "a", Status: orders.StatusShipped, Customer: `"\` + "\u2028", Amount: orders.Money{Minor: 5, Currency: "EUR"}, At: 7}
	var got map[string]any
	if err := json.Unmarshal(e.AppendBody(nil), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"orderId": "a", "status": "shipped", "customer": `"\` + "\u2028", "amount": 0.05, "timestamp": 7.0}, got); diff != "" {
		t.Error(diff)
	}
	back, err := orders.DecodeEventBody(e.AppendBody(nil))
	if err == nil {
		t.Errorf("a customer with a line separator is taken from another program: %+v", back)
	}
}
