package orders

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// StatRow is the sum of what happened from From on for one step of time.
type StatRow struct {
	From     Millis
	Status   Status
	Currency Currency
	Orders   int64 // orders that got this status for the first time
	Redrives int64 // orders that got it in a later round
	Minor    int64 // amount of Orders, in minor units; stays at 2^63-1 once it is over
}

type statKey struct {
	minute   Millis
	status   Status
	currency Currency
}

const minute = Millis(60_000)

// addStat adds an event to sums. An order counts once per status: what happens
// in a later round is counted apart and without its amount.
func addStat(sums map[statKey]*StatRow, e *Event) {
	k := statKey{e.At - e.At%minute, e.Status, e.Amount.Currency}
	sum := sums[k]
	if sum == nil {
		sum = new(StatRow)
		sums[k] = sum
	}
	if e.Round > 1 {
		sum.Redrives++
		return
	}
	sum.Orders++
	sum.Minor = addCapped(sum.Minor, e.Amount.Minor)
}

func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// addStats adds sums to the table. The amount is capped in the statement too:
// revenue past the largest number must not stop the subscriber.
func (t *tx) addStats(sums map[statKey]*StatRow) error {
	if len(sums) == 0 {
		return nil
	}
	ks := make([]statKey, 0, len(sums))
	for k := range sums {
		ks = append(ks, k)
	}
	// In one order for all processes, so that they never wait for each other.
	slices.SortFunc(ks, func(a, b statKey) int {
		return cmp.Or(cmp.Compare(a.minute, b.minute), cmp.Compare(a.status, b.status), cmp.Compare(a.currency, b.currency))
	})
	calls := make([]*call, len(ks))
	for i, k := range ks {
		sum := sums[k]
		calls[i] = &call{sql: "INSERT INTO stats (minute, status, currency, orders, redrives, amount) VALUES ($1, $2, $3, $4, $5, $6) " +
			"ON CONFLICT (minute, status, currency) DO UPDATE SET orders = stats.orders + excluded.orders, " +
			"redrives = stats.redrives + excluded.redrives, amount = CASE WHEN stats.amount > 9223372036854775807 - excluded.amount " +
			"THEN 9223372036854775807 ELSE stats.amount + excluded.amount END",
			args: []any{int64(k.minute), string(k.status), string(k.currency), sum.Orders, sum.Redrives, sum.Minor}}
	}
	return t.run(calls...)
}

// Stats returns sums for [from, to) in steps of whole minutes; a step of 0 is
// one row for all, From being from.
func (s *Store) Stats(ctx context.Context, from, to Millis, step time.Duration) ([]StatRow, error) {
	width := Millis(step.Truncate(time.Minute).Milliseconds())
	if step > 0 && width == 0 {
		return nil, errorf(KindInvalid, "step", "must be at least a minute")
	}
	sums := make(map[statKey]*StatRow)
	var out []StatRow
	err := s.read(ctx, "read stats", &call{
		sql:  "SELECT minute, status, currency, orders, redrives, amount FROM stats WHERE minute >= $1 AND minute < $2 ORDER BY minute",
		args: []any{int64(from - from%minute), int64(to)},
		row: func(scan scanFunc) error {
			var r StatRow
			if err := scan(&r.From, &r.Status, &r.Currency, &r.Orders, &r.Redrives, &r.Minor); err != nil {
				return err
			}
			k := statKey{from, r.Status, r.Currency}
			if width > 0 {
				k.minute = r.From - r.From%width
			}
			sum := sums[k]
			if sum == nil {
				sum = &StatRow{From: k.minute, Status: r.Status, Currency: r.Currency}
				sums[k] = sum
			}
			sum.Orders += r.Orders
			sum.Redrives += r.Redrives
			sum.Minor = addCapped(sum.Minor, r.Minor)
			return nil
		}})
	if err != nil {
		return nil, err
	}
	for _, sum := range sums {
		out = append(out, *sum)
	}
	slices.SortFunc(out, func(a, b StatRow) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(statusRank(a.Status), statusRank(b.Status)), cmp.Compare(a.Currency, b.Currency))
	})
	return out, nil
}

func statusRank(s Status) int { return slices.Index(Statuses(), s) }
