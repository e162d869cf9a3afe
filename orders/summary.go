package orders

import (
	"cmp"
	"context"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// DeadLetterClass sums up the dead letters of one error class.
type DeadLetterClass struct {
	Class               string
	Count               int64
	FirstSeen, LastSeen Millis
	AtStake             []Amount // totals of their orders, by currency
}

// Amount is a sum of money, which may be more than one order can be about.
type Amount struct {
	Currency Currency
	Minor    *big.Int // not nil
}

// String returns the amount with the currency's decimals: a valid JSON number.
func (a Amount) String() string {
	digits, ok := a.Currency.Digits()
	if !ok {
		digits = 2
	}
	minor := a.Minor.String()
	if pad := digits + 1 - len(minor); pad > 0 {
		minor = strings.Repeat("0", pad) + minor
	}
	if digits == 0 {
		return minor
	}
	return minor[:len(minor)-digits] + "." + minor[len(minor)-digits:]
}

// Float returns the amount in units of the currency, as near as a float gets.
func (a Amount) Float() float64 {
	f, err := strconv.ParseFloat(a.String(), 64)
	if err != nil {
		panic(err) // digits and a point
	}
	return f
}

// half is where amounts are cut in two to be summed: neither sum overflows
// with fewer than a thousand million dead letters.
const half = 1_000_000_000

// DeadLetterSummary sums up the dead letters that f selects, by error class, the
// most frequent first. f.Cursor and f.Limit are ignored.
func (s *Store) DeadLetterSummary(ctx context.Context, f DeadLetterFilter) ([]DeadLetterClass, error) {
	w := f.where()
	byClass := make(map[string]*DeadLetterClass)
	err := s.read(ctx, "sum up dead letters", &call{
		sql: "SELECT d.class, COALESCE(o.currency, ''), COUNT(*), MIN(d.failed_at), MAX(d.failed_at), " +
			"CAST(COALESCE(SUM(o.amount / 1000000000), 0) AS BIGINT), CAST(COALESCE(SUM(o.amount % 1000000000), 0) AS BIGINT) " +
			"FROM dead_letters d LEFT JOIN orders o ON o.id = d.order_id AND d.round > 0" + w.String() + " GROUP BY 1, 2 ORDER BY 1, 2",
		args: w.args,
		row: func(scan scanFunc) error {
			var part DeadLetterClass
			var cur Currency
			var high, low int64
			if err := scan(&part.Class, &cur, &part.Count, &part.FirstSeen, &part.LastSeen, &high, &low); err != nil {
				return err
			}
			if cur != "" { // a message that did not become an order has no amount
				minor := new(big.Int).Mul(big.NewInt(high), big.NewInt(half))
				part.AtStake = []Amount{{cur, minor.Add(minor, big.NewInt(low))}}
			}
			if c := byClass[part.Class]; c != nil {
				c.add(&part)
			} else {
				byClass[part.Class] = &part
			}
			return nil
		}})
	if err != nil {
		return nil, err
	}
	out := make([]DeadLetterClass, 0, len(byClass))
	for _, c := range byClass {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b DeadLetterClass) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class))
	})
	return out, nil
}

// add adds the dead letters of one more currency.
func (c *DeadLetterClass) add(part *DeadLetterClass) {
	c.Count += part.Count
	c.FirstSeen = min(c.FirstSeen, part.FirstSeen)
	c.LastSeen = max(c.LastSeen, part.LastSeen)
	c.AtStake = append(c.AtStake, part.AtStake...)
}
