package orders

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// OrderFilter selects orders. The zero value of a field selects all.
type OrderFilter struct {
	Status   Status
	Customer string
	Cursor   string // of the page before
	Limit    int    // 1 to 500; 0 means 50
}

// ListOrders returns orders, the newest first, without history, and the cursor
// of the next page, which is empty on the last one. KindInvalid for a cursor
// that is none.
func (s *Store) ListOrders(ctx context.Context, f OrderFilter) (orders []Order, next string, err error) {
	w := new(where)
	w.equal("status", string(f.Status))
	w.equal("customer", f.Customer)
	if err := w.before("accepted_at", "id", f.Cursor); err != nil {
		return nil, "", err
	}
	limit := pageSize(f.Limit)
	err = s.read(ctx, "list orders", &call{
		sql:  "SELECT " + rowColumns + " FROM orders" + w.String() + fmt.Sprintf(" ORDER BY accepted_at DESC, id DESC LIMIT %d", limit+1),
		args: w.args,
		row: func(scan scanFunc) error {
			var r row
			err := r.scan(scan)
			orders = append(orders, r.Order)
			return err
		}})
	if err != nil {
		return nil, "", err
	}
	if len(orders) > limit {
		orders = orders[:limit]
		next = cursorOf(orders[limit-1].AcceptedAt, orders[limit-1].ID)
	}
	return orders, next, nil
}

const (
	defaultPage = 50
	maxPage     = 500
)

func pageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

// where collects conditions; ? stands for the next argument.
type where struct {
	conditions []string
	args       []any
}

func (w *where) add(condition string, args ...any) {
	for _, a := range args {
		w.args = append(w.args, a)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(w.args)), 1)
	}
	w.conditions = append(w.conditions, condition)
}

func (w *where) equal(column, value string) {
	if value != "" {
		w.add(column+" = ?", value)
	}
}

// before goes on after the row that cursor names, newest first.
func (w *where) before(at, id, cursor string) error {
	if cursor == "" {
		return nil
	}
	time, last, err := parseCursor(cursor)
	if err != nil {
		return err
	}
	w.add("("+at+", "+id+") < (?, ?)", int64(time), last)
	return nil
}

func (w *where) String() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// cursorOf names a row by what its list is sorted by. Clients take it as it is.
func cursorOf(at Millis, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(int64(at), 10) + " " + id))
}

func parseCursor(cursor string) (Millis, string, error) {
	bad := errorf(KindInvalid, "cursor", "is not a cursor of this list")
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", bad
	}
	at, id, ok := strings.Cut(string(b), " ")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || clip(id, len(id)) != id {
		return 0, "", bad
	}
	return Millis(n), id, nil
}

// prefixed puts a table's alias before each of columns.
func prefixed(alias, columns string) string {
	return alias + strings.ReplaceAll(columns, ", ", ", "+alias)
}

// bare returns the order without history.
func (s *Store) bare(ctx context.Context, id string) (Order, error) {
	var r row
	c := &call{sql: "SELECT " + rowColumns + " FROM orders WHERE id = $1", args: []any{id}, row: func(scan scanFunc) error { return r.scan(scan) }}
	if err := s.read(ctx, "get order "+id, c); err != nil {
		return Order{}, err
	}
	if c.rows == 0 {
		return Order{}, errorf(KindNotFound, "", "there is no order %s", clip(id, maxIDBytes))
	}
	return r.Order, nil
}

// Get returns the order with its history and attempts. KindNotFound if there is
// none.
func (s *Store) Get(ctx context.Context, id string) (Order, error) {
	o, err := s.bare(ctx, id)
	if err != nil {
		return Order{}, err
	}
	// The history is read after the order: it may be newer, never older.
	err = s.read(ctx, "get history of order "+id, &call{
		sql: "SELECT status, at, actor, reason, round, runs FROM events WHERE order_id = $1 ORDER BY seq", args: []any{id},
		row: func(scan scanFunc) error {
			var c Change
			var runs string
			if err := scan(&c.Status, &c.At, &c.By, &c.Reason, &c.Round, &runs); err != nil {
				return err
			}
			o.History = append(o.History, c)
			return o.addRuns(runs)
		}})
	if err != nil {
		return Order{}, err
	}
	err = s.read(ctx, "get attempts of order "+id, &call{
		sql: "SELECT runs FROM runs WHERE order_id = $1", args: []any{id},
		row: func(scan scanFunc) error {
			var runs string
			if err := scan(&runs); err != nil {
				return err
			}
			return o.addRuns(runs)
		}})
	if err != nil {
		return Order{}, err
	}
	slices.SortStableFunc(o.Tries, func(a, b Attempt) int { return int(a.StartedAt - b.StartedAt) })
	if last := o.History[len(o.History)-1]; last.Status != o.Status && o.Status.CanBecome(last.Status) {
		o.Status, o.UpdatedAt = last.Status, last.At
	}
	return o, nil
}

// storedRun is an Attempt as appendRuns writes it.
type storedRun struct {
	Step       Step
	Round      int
	Attempt    int
	StartedAt  Millis
	TookMs     int64
	Outcome    string
	ErrorClass string
	Error      string
	Worker     string
}

func (o *Order) addRuns(text string) error {
	if text == "" {
		return nil
	}
	var runs []storedRun
	if err := json.Unmarshal([]byte(text), &runs); err != nil {
		return fmt.Errorf("attempts of order %s: %w", o.ID, err)
	}
	for _, r := range runs {
		o.Tries = append(o.Tries, Attempt(r))
	}
	return nil
}
