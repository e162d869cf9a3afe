package orders

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresDatabase is a pool of connections; write transactions use one at a
// time, so that they share commits as on SQLite.
type postgresDatabase struct {
	pool *pgxpool.Pool
}

const postgresNow = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"

func openPostgres(ctx context.Context, url string) (*postgresDatabase, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read DATABASE_URL: %w", err)
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "orderd"
	// A server that hangs must not hold up the only writer for ever.
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "10000"
	cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "15000"
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if err := migratePostgres(ctx, cfg.ConnConfig); err != nil {
		return nil, fmt.Errorf("bring tables of the database up to date: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return &postgresDatabase{pool: pool}, nil
}

func (db *postgresDatabase) name() string      { return "PostgreSQL" }
func (db *postgresDatabase) forUpdate() string { return " FOR UPDATE" }

func (db *postgresDatabase) now(ctx context.Context) (Millis, error) {
	var now Millis
	err := db.pool.QueryRow(ctx, postgresNow).Scan(&now)
	return now, err
}

func (db *postgresDatabase) begin(ctx context.Context) (session, error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	s := &postgresSession{conn: conn}
	var b pgx.Batch
	b.Queue("BEGIN")
	b.Queue(postgresNow).QueryRow(func(row pgx.Row) error { return row.Scan(&s.at) })
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		s.rollback()
		return nil, err
	}
	return s, nil
}

func (db *postgresDatabase) read(ctx context.Context, c *call) error {
	rows, err := db.pool.Query(ctx, c.sql, c.args...)
	if err != nil {
		return err
	}
	return eachRow(rows, c)
}

func eachRow(rows pgx.Rows, c *call) error {
	defer rows.Close()
	for rows.Next() {
		c.rows++
		if err := c.row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (db *postgresDatabase) close() error {
	db.pool.Close()
	return nil
}

// unavailable takes every error that is not the server's word on a statement
// for a lost connection, and of the server's those that say that it cannot
// work now: class 08 connection, 53 resources, 57 operator, 58 system, and
// serialization failures and deadlocks, which a repetition cures.
func (db *postgresDatabase) unavailable(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		var connect *pgconn.ConnectError
		return errors.As(err, &connect) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) || isNetwork(err)
	}
	switch e.Code[:2] {
	case "08", "53", "57", "58", "40":
		return true
	}
	return e.Code == "25006" // a standby was asked to write
}

// collided takes class 40: deadlocks and failures of serialization.
func (db *postgresDatabase) collided(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code[:2] == "40"
}

type postgresSession struct {
	conn *pgxpool.Conn
	at   Millis
}

func (s *postgresSession) now() Millis { return s.at }

func (s *postgresSession) run(ctx context.Context, calls []*call) error {
	if len(calls) == 0 {
		return nil
	}
	var b pgx.Batch
	for _, c := range calls {
		q := b.Queue(c.sql, c.args...)
		if c.row != nil {
			q.Query(func(rows pgx.Rows) error { return eachRow(rows, c) })
			continue
		}
		q.Exec(func(tag pgconn.CommandTag) error { c.rows = tag.RowsAffected(); return nil })
	}
	return s.conn.SendBatch(ctx, &b).Close()
}

func (s *postgresSession) commit(ctx context.Context) error {
	tag, err := s.conn.Exec(ctx, "COMMIT")
	if err != nil {
		s.rollback()
		return err
	}
	s.conn.Release()
	if tag.String() != "COMMIT" {
		return fmt.Errorf("commit was answered %s", tag)
	}
	return nil
}

func (s *postgresSession) rollback() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := s.conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = s.conn.Conn().Close(ctx) // the pool makes a new one
	}
	s.conn.Release()
}
