package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// OutcomeKind is how work on a claimed order ended.
type OutcomeKind uint8

// The kinds of outcomes.
const (
	OutcomeConfirm OutcomeKind = iota // all steps are done
	OutcomeRetry                      // transient: spends an attempt, due again after Delay
	OutcomeFail                       // permanent: dead letter
	OutcomeReturn                     // cut off by a shutdown: nothing is counted, due at once
	OutcomeWait                       // out of stock: spends no attempt, due again after Delay
)

// StepRun is a step's run as the worker records it; Worker, Round and Attempt
// may be left empty, the store fills them in.
type StepRun = Attempt

// Outcome is the end of work on an order that was claimed.
type Outcome struct {
	OrderID string
	Token   int64
	Kind    OutcomeKind
	Delay   time.Duration // OutcomeRetry, OutcomeWait
	Step    Step          // the step that decided
	Class   string        // error class, for Retry, Fail and Wait
	Reason  string
	Payment PaymentState // what the payment step found out; empty: unchanged
	Runs    []StepRun    // steps run since the claim, oldest first
}

// Result is what Finish made of an Outcome.
type Result uint8

// The results.
const (
	ResultApplied    Result = iota
	ResultLost              // token or status are not this process's any more: nothing changed
	ResultCancelled         // a cancel was requested: the order is cancelled now, its payment will be voided
	ResultOutOfStock        // OutcomeConfirm only: nothing changed, SKU says what is missing
	ResultFailed            // OutcomeRetry or OutcomeWait that was the last one: dead letter written
)

// Finished is the answer to one Outcome.
type Finished struct {
	Result Result
	SKU    string // ResultOutOfStock only
}

// Finish applies outcomes, all in one transaction. The result has one element
// per outcome. Nothing is applied if an error is returned.
func (s *Store) Finish(ctx context.Context, in []Outcome) ([]Finished, error) {
	f := &finishing{in: in}
	if err := s.write(ctx, finishLane, f); err != nil {
		return nil, s.fault("finish orders", err)
	}
	return f.out, nil
}

type finishing struct {
	in  []Outcome
	out []Finished
}

var finishLane = &lane{name: "finish orders", run: func(t *tx, ops []*op) error {
	var ids []string
	for _, o := range ops {
		f := o.arg.(*finishing)
		f.out = make([]Finished, len(f.in))
		for i := range f.in {
			ids = append(ids, f.in[i].OrderID)
		}
	}
	rows, err := t.load(ids)
	if err != nil {
		return err
	}
	stock, err := t.loadStock(ops, rows)
	if err != nil {
		return err
	}
	e := new(edits)
	for _, o := range ops {
		f := o.arg.(*finishing)
		for i := range f.in {
			if r := rows[f.in[i].OrderID]; r != nil {
				f.out[i] = t.finish(e, r, stock, &f.in[i])
			} else {
				f.out[i] = Finished{Result: ResultLost}
			}
		}
	}
	stock.save(t, e)
	return e.write(t)
}}

func (t *tx) loadStock(ops []*op, rows map[string]*row) (*stocks, error) {
	var skus []string
	for _, o := range ops {
		f := o.arg.(*finishing)
		for i := range f.in {
			if r := rows[f.in[i].OrderID]; r != nil && f.in[i].Kind == OutcomeConfirm {
				for _, need := range r.needs() {
					skus = append(skus, need.SKU)
				}
			}
		}
	}
	return t.stocks(skus)
}

func (t *tx) finish(e *edits, r *row, stock *stocks, o *Outcome) Finished {
	if r.owner != t.s.process.id() || r.token != o.Token || r.Status != StatusProcessing {
		// Money may have been authorised for an order that nobody will confirm.
		if o.Payment == PaymentAuthorised && (r.Status == StatusCancelled || r.Status == StatusExpired) && r.Payment != PaymentVoided {
			r.Payment = PaymentAuthorised
			t.void(e, r)
			e.save(r)
		}
		return Finished{Result: ResultLost}
	}
	if o.Payment != "" {
		r.Payment = o.Payment
	}
	for i := range o.Runs {
		o.Runs[i].fill(r, t.s.Worker())
	}
	if r.cancelAt != 0 {
		e.add(insertRuns(r, o.Runs))
		t.cancel(e, r)
		return Finished{Result: ResultCancelled}
	}
	switch o.Kind {
	case OutcomeConfirm:
		return t.confirm(e, r, stock, o)
	case OutcomeRetry:
		r.Attempts++
		if r.Attempts >= t.s.options.MaxAttempts {
			t.fail(e, r, o.Class, o.Reason, o.Step, o.Runs)
			return Finished{Result: ResultFailed}
		}
		t.again(e, r, o)
	case OutcomeWait:
		if r.waiting == 0 {
			r.waiting = t.now
		}
		if t.now > r.waiting.Add(t.s.options.BackorderMax) {
			t.fail(e, r, o.Class, o.Reason, o.Step, o.Runs)
			return Finished{Result: ResultFailed}
		}
		t.again(e, r, o)
	case OutcomeReturn:
		o.Delay = 0
		o.Runs = nil
		t.again(e, r, o)
	case OutcomeFail:
		t.fail(e, r, o.Class, o.Reason, o.Step, o.Runs)
	}
	return Finished{}
}

// fill adds what only the store knows of a run.
func (a *Attempt) fill(r *row, worker string) {
	a.Round = r.Round
	a.Attempt = r.Attempts + 1
	if a.Worker == "" {
		a.Worker = worker
	}
}

func insertRuns(r *row, runs []Attempt) *call {
	return &call{sql: "INSERT INTO runs (order_id, token, runs) VALUES ($1, $2, $3) ON CONFLICT (order_id, token) DO NOTHING",
		args: []any{r.ID, r.token, string(appendRuns(nil, runs))}}
}

// again ends a claim and has the order tried again later.
func (t *tx) again(e *edits, r *row, o *Outcome) {
	if len(o.Runs) > 0 {
		e.add(insertRuns(r, o.Runs))
	}
	r.touch(t)
	r.release(t, t.now.Add(o.Delay))
	e.save(r)
}

// confirm takes the stock and confirms, or changes nothing if there is not
// enough of it.
func (t *tx) confirm(e *edits, r *row, stock *stocks, o *Outcome) Finished {
	needs := r.needs()
	if sku := stock.missing(needs); sku != "" {
		return Finished{Result: ResultOutOfStock, SKU: sku}
	}
	if taken := stock.take(needs); len(taken) > 0 {
		b, err := json.Marshal(taken)
		if err != nil {
			panic(err) // strings and integers only
		}
		r.stock = string(b)
	}
	r.rest()
	ev := r.move(t, StatusConfirmed, "", "")
	ev.runs = o.Runs
	e.event(ev)
	e.save(r)
	return Finished{}
}

// fail ends an order for a person to review: one dead letter per order and
// round, with a copy for DLQ_CHANNEL. The payment keeps its state for a redrive.
func (t *tx) fail(e *edits, r *row, class, reason string, step Step, runs []Attempt) {
	r.rest()
	ev := r.move(t, StatusFailed, "", reason)
	ev.runs = runs
	e.event(ev)
	e.save(r)
	e.add(t.deadLetter(r, class, reason, step, true))
}

// cancel ends an order whose cancel was requested.
func (t *tx) cancel(e *edits, r *row) {
	r.rest()
	r.CancelRequested = false
	e.event(r.move(t, StatusCancelled, r.cancelBy, r.cancelWhy))
	t.void(e, r)
	e.save(r)
}

// void has the payment voided if any of it may be authorised.
func (t *tx) void(e *edits, r *row) {
	if !r.Payment.owed() {
		return
	}
	e.add(&call{sql: "INSERT INTO voids (payment_key, order_id, status, tries, due_at, owner, note) " +
		"VALUES ($1, $2, 'due', 0, $3, 0, '') ON CONFLICT (payment_key) DO NOTHING",
		args: []any{r.PaymentKey(), r.ID, int64(t.now)}})
	r.Payment = PaymentVoided
}

// need is what an order takes of one sku.
type need struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// needs returns what the order takes, one element per sku, sorted.
func (o *Order) needs() []need {
	if len(o.Lines) == 0 {
		return []need{{DefaultSKU, o.Items}}
	}
	sum := make(map[string]int64, len(o.Lines))
	for _, l := range o.Lines {
		sum[l.SKU] += l.Quantity
	}
	out := make([]need, 0, len(sum))
	for sku, n := range sum {
		out = append(out, need{sku, n})
	}
	slices.SortFunc(out, func(a, b need) int { return cmp.Compare(a.SKU, b.SKU) })
	return out
}

// stocks is what is on hand of the skus that a transaction needs, locked.
type stocks struct {
	onHand map[string]int64 // a sku nobody has set is missing: it is not tracked
	dirty  map[string]bool
}

func (t *tx) stocks(skus []string) (*stocks, error) {
	s := &stocks{onHand: make(map[string]int64), dirty: make(map[string]bool)}
	slices.Sort(skus)
	var calls []*call
	for _, sku := range slices.Compact(skus) {
		calls = append(calls, &call{sql: "SELECT on_hand FROM inventory WHERE sku = $1" + t.s.db.forUpdate(), args: []any{sku},
			row: func(scan scanFunc) error {
				var n int64
				err := scan(&n)
				s.onHand[sku] = n
				return err
			}})
	}
	return s, t.run(calls...)
}

func (s *stocks) missing(needs []need) string {
	for _, n := range needs {
		if have, tracked := s.onHand[n.SKU]; tracked && have < n.Quantity {
			return n.SKU
		}
	}
	return ""
}

// take returns what was taken: only tracked skus can be given back.
func (s *stocks) take(needs []need) []need {
	var taken []need
	for _, n := range needs {
		if _, tracked := s.onHand[n.SKU]; tracked {
			s.onHand[n.SKU] -= n.Quantity
			s.dirty[n.SKU] = true
			taken = append(taken, n)
		}
	}
	return taken
}

func (s *stocks) give(taken []need) {
	for _, n := range taken {
		if _, tracked := s.onHand[n.SKU]; tracked {
			s.onHand[n.SKU] += n.Quantity
			s.dirty[n.SKU] = true
		}
	}
}

func (s *stocks) save(t *tx, e *edits) {
	skus := make([]string, 0, len(s.dirty))
	for sku := range s.dirty {
		skus = append(skus, sku)
	}
	slices.Sort(skus)
	for _, sku := range skus {
		e.add(&call{sql: "UPDATE inventory SET on_hand = $1, updated_at = $2 WHERE sku = $3",
			args: []any{s.onHand[sku], int64(t.now), sku}})
	}
}

func deathReason(n int) string { return "its workers died " + strconv.Itoa(n) + " times" }
