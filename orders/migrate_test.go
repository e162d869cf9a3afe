package orders_test

import (
	"database/sql"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"orderd/orders"
)

// A database of the first version keeps its audit, which can be paged then;
// and the way back is there.
func TestMigrations(t *testing.T) {
	each(t, func(t *testing.T, o orders.Options) {
		driver, dsn, dialect := "sqlite", filepath.Join(o.DataDir, "orderd.db"), goose.DialectSQLite3
		if o.DatabaseURL != "" {
			driver, dsn, dialect = "pgx", o.DatabaseURL, goose.DialectPostgres
		}
		db, err := sql.Open(driver, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		files, err := fs.Sub(orders.Migrations, "migrations")
		if err != nil {
			t.Fatal(err)
		}
		p, err := goose.NewProvider(dialect, db, files)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.UpTo(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		for _, row := range []string{"(5, 'eve', 'redrive', 'a', '')", "(5, 'eve', 'redrive', 'b', '')", "(7, 'bob', 'discard', 'c', 'noise')"} {
			if _, err := db.ExecContext(t.Context(), "INSERT INTO audit (at, actor, action, target, detail) VALUES "+row); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := p.DownTo(t.Context(), 1); err != nil {
			t.Fatalf("back to the first version: %v", err)
		}
		s := mustOpen(t, o)
		var got []string
		for cursor := ""; ; {
			page, next, err := s.Audit(t.Context(), orders.AuditFilter{Cursor: cursor, Limit: 1})
			if err != nil || len(page) != 1 {
				t.Fatalf("audit: %+v, %v", page, err)
			}
			got = append(got, page[0].Target)
			if cursor = next; cursor == "" {
				break
			}
		}
		want := [][]string{{"c", "b", "a"}, {"c", "a", "b"}} // two are of the same moment
		if cmp.Diff(want[0], got) != "" && cmp.Diff(want[1], got) != "" {
			t.Errorf("audit of the first version: %v", got)
		}
	})
}
