package orders

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteDatabase is one file with one writing connection in this process and a
// few reading ones. Other processes of the same host may have it open too.
type sqliteDatabase struct {
	path    string
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

// openSQLite opens the database in dir. After an unclean stop a small one is
// checked first, before anything is written to it; checked says that it was.
func openSQLite(ctx context.Context, dir string, unclean bool) (*sqliteDatabase, bool, error) {
	path := filepath.Join(dir, sqliteFile)
	checked := false
	if info, err := os.Stat(path); err == nil && unclean && info.Size() < checkBeforeReady {
		if err := quickCheck(ctx, path); err != nil {
			return nil, false, err
		}
		checked = true
	}
	db, err := openChecked(ctx, dir, path)
	return db, checked, named(path, err)
}

// checkBeforeReady is the size from which a database is checked in the
// background: until then it takes about a second.
const checkBeforeReady = 256 << 20

// quickCheck looks through the whole file for damage and writes nothing.
func quickCheck(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", sqliteDSN(path, "_pragma=query_only(1)&mode=ro"))
	if err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	var found []string
	rows, err := db.QueryContext(ctx, "PRAGMA quick_check(5)")
	for err == nil && rows.Next() {
		var line string
		err = rows.Scan(&line)
		found = append(found, line)
	}
	if err == nil {
		err = errors.Join(rows.Err(), rows.Close())
	}
	if err = errors.Join(err, db.Close()); err == nil && !slices.Equal(found, []string{"ok"}) {
		err = errors.Join(errDamaged, errors.New(strings.Join(found, "; ")))
	}
	return named(path, err)
}

var errDamaged = errors.New("the database is damaged")

// named says of a damaged file which one it is and what to do.
func named(path string, err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_CORRUPT || e.Code()&0xff == sqlite3.SQLITE_NOTADB) {
		err = errors.Join(errDamaged, err)
	}
	if errors.Is(err, errDamaged) {
		return fmt.Errorf("%s: nothing was changed; put a backup of it and its -wal file in place, or copy what can be read with sqlite3's .recover: %w", path, err)
	}
	return err
}

func openChecked(ctx context.Context, dir, path string) (*sqliteDatabase, error) {
	writer, err := sql.Open("sqlite", sqliteDSN(path, "_txlock=immediate"))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	writer.SetMaxOpenConns(1)
	db := &sqliteDatabase{path: path, writer: writer, stmts: map[string]*sql.Stmt{}, readStmts: map[string]*sql.Stmt{}}
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

func (db *sqliteDatabase) name() string      { return db.path }
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

// close finalizes all statements first: only then does SQLite bring its log into
// the file.
func (db *sqliteDatabase) close() error {
	var err error
	db.mu.Lock()
	for _, stmts := range []map[string]*sql.Stmt{db.readStmts, db.stmts} {
		for _, stmt := range stmts {
			err = errors.Join(err, stmt.Close())
		}
	}
	db.mu.Unlock()
	return errors.Join(err, db.readers.Close(), db.conn.Close(), db.writer.Close())
}

func (db *sqliteDatabase) collided(error) bool { return false } // the lock is waited for

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
