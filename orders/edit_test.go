package orders_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"orderd/orders"
)

// mustFail ends a claimed order as a dead letter that leaves its payment as it
// is, and returns the dead letter's id.
func mustFail(t *testing.T, s *orders.Store, o orders.Order, payment orders.PaymentState) string {
	t.Helper()
	c := mustClaim(t, s, o)
	got := mustFinish(t, s, orders.Outcome{OrderID: o.ID, Token: c.Token, Kind: orders.OutcomeFail, Step: orders.StepInventory,
		Class: "out_of_stock", Reason: "no stock", Payment: payment})
	if got.Result != orders.ResultApplied {
		t.Fatalf("fail %s: result %d", o.ID, got.Result)
	}
	return mustLetters(t, s, orders.DeadLetterFilter{Status: orders.DeadLetterOpen})[0].ID
}

// dueVoids returns the keys of the voids that have become due since the last call.
func dueVoids(t *testing.T, s *orders.Store) []string {
	t.Helper()
	voids, err := s.DueVoids(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range voids {
		out = append(out, v.Key)
	}
	return out
}

func TestStore_EditDeadLetter_payment(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		for _, test := range []struct {
			id, patch string
			payment   orders.PaymentState
			void      bool
		}{
			{"amount", `{"total":99.97}`, orders.PaymentAuthorised, true},
			{"unknown", `{"total":99.97}`, orders.PaymentBegun, true},
			{"currency", `{"currency":"EUR"}`, orders.PaymentAuthorised, true},
			{"payer", `{"customer":"bob@example.com"}`, orders.PaymentAuthorised, true},
			{"language", `{"language":"de"}`, orders.PaymentAuthorised, false},
			{"items", `{"items":2}`, orders.PaymentAuthorised, false},
			{"nothing", `{"total":1.4997e2}`, orders.PaymentAuthorised, false},
		} {
			order := mustAccept(t, s, strings.Replace(seedOrder, "ORD-2001", test.id, 1))
			letter := mustFail(t, s, order, test.payment)
			edited, err := s.EditDeadLetter(t.Context(), letter, []byte(test.patch), "eve")
			if err != nil {
				t.Fatalf("%s: %v", test.id, err)
			}
			var want []string
			key, fresh := test.id+"/payment", false
			if test.void {
				want = []string{key}
				key, fresh = key+"/2", true
			}
			if diff := cmp.Diff(want, dueVoids(t, s)); diff != "" {
				t.Errorf("%s: voids (-want +got):\n%s", test.id, diff)
			}
			if _, err := s.Redrive(t.Context(), letter, "eve", false); err != nil {
				t.Fatalf("%s: %v", test.id, err)
			}
			c := mustClaim(t, s, edited)
			if c.Verdict != orders.Claimed || c.Order.PaymentKey() != key || c.Order.PaymentFresh != fresh {
				t.Errorf("%s: verdict %d, key %s, fresh %v", test.id, c.Verdict, c.Order.PaymentKey(), c.Order.PaymentFresh)
			}
			mustFinish(t, s, orders.Outcome{OrderID: test.id, Token: c.Token, Kind: orders.OutcomeConfirm, Payment: orders.PaymentAuthorised})
		}
	})
}

func TestStore_EditDeadLetter(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, `{"orderId":"a","customer":"alice","lines":[{"sku":"x","quantity":2,"price":1.50}],"language":"en"}`)
		_, err := s.EditDeadLetter(t.Context(), "none", []byte(`{}`), "eve")
		wantKind(t, err, orders.KindNotFound)
		id := mustFail(t, s, order, orders.PaymentRefused)

		for patch, want := range map[string]struct {
			kind  orders.Kind
			field string
		}{
			`{"total":4}`:               {orders.KindInvalid, "total"}, // the lines say 3
			`{"customer":""}`:           {orders.KindInvalid, "customer"},
			`{"customer":null}`:         {orders.KindInvalid, "customer"},
			`{"currency":"JPY"}`:        {orders.KindInvalid, "lines[0].price"},
			`{"orderId":"b"}`:           {orders.KindInvalid, "orderId"},
			`{"createdAt":1}`:           {orders.KindInvalid, "createdAt"},
			`{"lines":[]}`:              {orders.KindInvalid, "lines"},
			`{"items":1,"items":2}`:     {orders.KindInvalid, "items"},
			`{"lines":null,"total":-1}`: {orders.KindInvalid, "total"},
			`[]`:                        {orders.KindInvalid, ""},
			`{"items":`:                 {orders.KindBadRequest, ""},
		} {
			_, err := s.EditDeadLetter(t.Context(), id, []byte(patch), "eve")
			wantKind(t, err, want.kind)
			if e, ok := err.(*orders.Error); !ok || e.Field != want.field {
				t.Errorf("%s: %v, want field %q", patch, err, want.field)
			}
		}

		got, err := s.EditDeadLetter(t.Context(), id,
			[]byte(`{"customer":"bob","currency":"KWD","lines":[{"sku":"y","quantity":3,"price":1.234}],"language":null}`), "eve")
		if err != nil {
			t.Fatal(err)
		}
		want := orders.Order{ID: "a", Customer: "bob", Items: 3, Total: orders.Money{Minor: 3702, Currency: "KWD"},
			Lines: []orders.Line{{SKU: "y", Quantity: 3, Price: 1234}}, CreatedAt: order.CreatedAt}
		asked := orders.Order{ID: got.ID, Customer: got.Customer, Items: got.Items, Total: got.Total, Lines: got.Lines, Language: got.Language, CreatedAt: got.CreatedAt}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("edited (-want +got):\n%s", diff)
		}
		if got.Status != orders.StatusFailed || got.Round != 1 {
			t.Errorf("edited: status %s, round %d", got.Status, got.Round)
		}
		if n := len(mustLetters(t, s, orders.DeadLetterFilter{Customer: "bob"})); n != 1 {
			t.Errorf("%d dead letters of the new customer", n)
		}

		// Without lines, items and total stay unless the edit says otherwise.
		if got, err = s.EditDeadLetter(t.Context(), id, []byte(`{"lines":null,"items":5}`), "eve"); err != nil || got.Items != 5 || got.Total.Minor != 3702 || len(got.Lines) != 0 {
			t.Errorf("without lines: %+v, %v", got, err)
		}

		log, _, err := s.Audit(t.Context(), orders.AuditFilter{Action: "edit"})
		if err != nil || len(log) != 2 || log[1].By != "eve" || log[1].Target != "a" ||
			log[1].Detail != `total: 3.00 USD -> 3.702 KWD; items: 2 -> 3; customer: alice -> bob; language: en -> ; `+
				`lines: [{"sku":"x","quantity":2,"price":1.50}] -> [{"sku":"y","quantity":3,"price":1.234}]` {
			t.Errorf("audit: %+v, %v", log, err)
		}

		if _, err := s.Redrive(t.Context(), id, "eve", false); err != nil {
			t.Fatal(err)
		}
		_, err = s.EditDeadLetter(t.Context(), id, []byte(`{"items":6}`), "eve")
		wantKind(t, err, orders.KindConflict)
		ds, err := s.NextDispatches(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		again := 0
		for _, d := range ds {
			if d.Kind != orders.DispatchOrder || d.Round != 2 {
				continue
			}
			again++
			if sent := mustDecode(t, string(d.Body)); sent.Customer != "bob" || sent.Items != 5 {
				t.Errorf("sent after the edit: %s", d.Body)
			}
		}
		if again != 1 {
			t.Errorf("%d messages of the new round", again)
		}
	})
}

// Messages and requests of an order's text from before an edit are about that
// order: they neither become dead letters nor conflicts.
func TestStore_EditDeadLetter_formerText(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		s := mustOpen(t, o)
		order := mustAccept(t, s, seedOrder)
		id := mustFail(t, s, order, orders.PaymentRefused)
		if _, err := s.EditDeadLetter(t.Context(), id, []byte(`{"total":1.00}`), "eve"); err != nil {
			t.Fatal(err)
		}
		copyOfOurs := orders.Arrival{MessageID: "dlq", Body: order.AppendMessage(nil), Order: order, Origin: orders.Origin, Reason: "no stock", Round: 1}
		if err := s.KeepDeadLetter(t.Context(), []orders.Arrival{copyOfOurs}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Redrive(t.Context(), id, "eve", false); err != nil {
			t.Fatal(err)
		}
		a, err := s.Accept(t.Context(), order, "")
		if err != nil || !a.Replayed || a.Order.Total.Minor != 100 {
			t.Errorf("the first request again: %+v, %v", a, err)
		}
		_, err = s.Accept(t.Context(), mustDecode(t, `{"orderId":"ORD-2001","customer":"alice@example.com","items":3,"total":2}`), "")
		wantKind(t, err, orders.KindConflict)
		c := mustClaim(t, s, order) // a late copy of the first message
		if c.Verdict != orders.Claimed || c.Order.Total.Minor != 100 {
			t.Errorf("claim by a former message: %+v", c)
		}
		if c := mustClaim(t, s, mustGet(t, s, order.ID)); c.Verdict != orders.Ignored {
			t.Errorf("claim by the new message: %+v", c)
		}
		mustFinish(t, s, orders.Outcome{OrderID: order.ID, Token: c.Token, Kind: orders.OutcomeReturn})
		if n := len(mustLetters(t, s, orders.DeadLetterFilter{})); n != 1 {
			t.Errorf("%d dead letters, want the first only", n)
		}
	})
}
