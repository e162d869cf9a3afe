package orders

import (
	"context"
	"fmt"
)

// AuditEntry is one thing that a person did.
type AuditEntry struct {
	ID     string
	At     Millis
	By     string
	Action string // redrive, discard, edit, cancel, …
	Target string // the order, dead letter, redrive or sku
	Detail string // may be empty
}

// AuditFilter selects audit entries. The zero value of a field selects all.
type AuditFilter struct {
	By, Action, Target string
	Before, After      Millis // At < Before, >= After
	Cursor             string
	Limit              int // 1 to 500; 0 means 50
}

// audit is the entry for what a person does in this transaction. Nothing in
// the store changes or deletes one.
func (t *tx) audit(by, action, target, detail string) *call {
	return &call{sql: "INSERT INTO audit (id, at, actor, action, target, detail) VALUES ($1, $2, $3, $4, $5, $6)",
		args: []any{NewID(), int64(t.now), by, action, target, clip(detail, maxReasonBytes)}}
}

// Audit returns what people did, the newest first, and the cursor of the next
// page, empty on the last. KindInvalid for a cursor that is none.
func (s *Store) Audit(ctx context.Context, f AuditFilter) ([]AuditEntry, string, error) {
	w := new(where)
	w.equal("actor", f.By)
	w.equal("action", f.Action)
	w.equal("target", f.Target)
	if f.Before != 0 {
		w.add("at < ?", int64(f.Before))
	}
	if f.After != 0 {
		w.add("at >= ?", int64(f.After))
	}
	if err := w.before("at", "id", f.Cursor); err != nil {
		return nil, "", err
	}
	limit := pageSize(f.Limit)
	var out []AuditEntry
	err := s.read(ctx, "list the audit", &call{
		sql:  "SELECT id, at, actor, action, target, detail FROM audit" + w.String() + fmt.Sprintf(" ORDER BY at DESC, id DESC LIMIT %d", limit+1),
		args: w.args,
		row: func(scan scanFunc) error {
			var a AuditEntry
			err := scan(&a.ID, &a.At, &a.By, &a.Action, &a.Target, &a.Detail)
			out = append(out, a)
			return err
		}})
	if err != nil {
		return nil, "", err
	}
	if len(out) <= limit {
		return out, "", nil
	}
	out = out[:limit]
	return out, cursorOf(out[limit-1].At, out[limit-1].ID), nil
}
