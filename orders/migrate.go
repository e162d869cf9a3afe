package orders

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"golang.org/x/sys/unix"
)

//go:embed migrations/*.sql
var migrations embed.FS

func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, opts ...goose.ProviderOption) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(dialect, db, files, opts...)
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// migrateSQLite holds a lock on a file meanwhile: processes that share a
// folder may start at the same moment.
func migrateSQLite(ctx context.Context, db *sql.DB, dir string) (err error) {
	f, err := os.OpenFile(filepath.Join(dir, "migrate.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }() // closing unlocks
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return migrate(ctx, goose.DialectSQLite3, db)
}

func migratePostgres(ctx context.Context, cfg *pgx.ConnConfig) (err error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { err = errors.Join(err, db.Close()) }()
	return migrate(ctx, goose.DialectPostgres, db, goose.WithSessionLocker(locker))
}

// isNetwork says whether err came from a socket.
func isNetwork(err error) bool {
	var e net.Error
	return errors.As(err, &e) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
