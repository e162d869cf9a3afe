package orders

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteDatabase is one file with one writing connection in this process and a
// few reading ones. Other processes of the same host may have it open too.
type sqliteDatabase struct {
	writer  *sql.DB
	conn    *sql.Conn // of writer, used by the committer only
	readers *sql.DB

	stmts map[string]*sql.Stmt // of conn, used by the committer only

	mu        sync.Mutex // protects readStmts
	readStmts map[string]*sql.Stmt
}

const (
	sqliteFile    = "orderd.db"
	sqliteReaders = 4
)

func openSQLite(ctx context.Context, dir string) (*sqliteDatabase, error) {
	path := filepath.Join(dir, sqliteFile)
	writer, err := sql.Open("sqlite", sqliteDSN(path, "_txlock=immediate"))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	writer.SetMaxOpenConns(1)
	db := &sqliteDatabase{writer: writer, stmts: map[string]*sql.Stmt{}, readStmts: map[string]*sql.Stmt{}}
	if err := migrateSQLite(ctx, writer, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("bring tables of %s up to date: %w", path, err), writer.Close())
	}
	if db.conn, err = writer.Conn(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), writer.Close())
	}
	if db.readers, err = sql.Open("sqlite", sqliteDSN(path, "_pragma=query_only(1)")); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.conn.Close(), writer.Close())
	}
	db.readers.SetMaxOpenConns(sqliteReaders)
	db.readers.SetMaxIdleConns(sqliteReaders)
	return db, nil
}

// sqliteDSN asks for a write-ahead log that is synced at every commit: FULL,
// since NORMAL may lose the last commits when power fails.
func sqliteDSN(path, more string) string {
	return (&url.URL{Scheme: "file", Opaque: url.PathEscape(path)}).String() +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=cache_size(-16384)&_pragma=temp_store(MEMORY)&" + more
}

func (db *sqliteDatabase) forUpdate() string { return "" } // the writer is alone

// now is the host's clock: the database has no other, and all its processes
// are on one host.
func (db *sqliteDatabase) now(context.Context) (Millis, error) { return MillisOf(time.Now()), nil }

func (db *sqliteDatabase) begin(ctx context.Context) (session, error) {
	if _, err := db.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	return &sqliteSession{db: db, at: MillisOf(time.Now())}, nil
}

func (db *sqliteDatabase) exec(ctx context.Context, text string) (sql.Result, error) {
	stmt, err := db.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx)
}

func (db *sqliteDatabase) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt := db.stmts[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := db.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	db.stmts[text] = stmt
	return stmt, nil
}

func (db *sqliteDatabase) read(ctx context.Context, c *call) error {
	stmt, err := db.readStmt(ctx, c.sql)
	if err != nil {
		return err
	}
	return query(ctx, stmt, c)
}

func (db *sqliteDatabase) readStmt(ctx context.Context, text string) (*sql.Stmt, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if stmt := db.readStmts[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := db.readers.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	db.readStmts[text] = stmt
	return stmt, nil
}

func query(ctx context.Context, stmt *sql.Stmt, c *call) (err error) {
	rows, err := stmt.QueryContext(ctx, c.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		c.rows++
		if err := c.row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (db *sqliteDatabase) close() error {
	return errors.Join(db.readers.Close(), db.conn.Close(), db.writer.Close())
}

func (db *sqliteDatabase) unavailable(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return errors.Is(err, sql.ErrConnDone)
	}
	switch e.Code() & 0xff { // extended codes have the primary one in their low byte
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_NOMEM:
		return true
	}
	return false
}

type sqliteSession struct {
	db *sqliteDatabase
	at Millis
}

func (s *sqliteSession) now() Millis { return s.at }

func (s *sqliteSession) run(ctx context.Context, calls []*call) error {
	for _, c := range calls {
		stmt, err := s.db.prepare(ctx, c.sql)
		if err != nil {
			return err
		}
		if c.row != nil {
			if err := query(ctx, stmt, c); err != nil {
				return err
			}
			continue
		}
		result, err := stmt.ExecContext(ctx, c.args...)
		if err != nil {
			return err
		}
		if c.rows, err = result.RowsAffected(); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteSession) commit(ctx context.Context) error {
	_, err := s.db.exec(ctx, "COMMIT")
	return err
}

func (s *sqliteSession) rollback() {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	// An error here means that the failed statement has rolled back already.
	_, _ = s.db.exec(ctx, "ROLLBACK")
}
