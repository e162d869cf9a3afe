package orders

import (
	"context"
	"errors"
	"time"
)

// call is one statement with what becomes of its result. Statements use
// $1, $2, … and mean the same in both databases.
type call struct {
	sql  string
	args []any
	row  func(scan scanFunc) error // called for each row; nil: the statement has none
	rows int64                     // rows that were returned, or affected if row is nil
}

type scanFunc func(dest ...any) error

// database is what differs between SQLite and PostgreSQL, all of it.
type database interface {
	// begin starts the one write transaction of this process.
	begin(ctx context.Context) (session, error)
	// read runs one statement outside of any transaction.
	read(ctx context.Context, c *call) error
	now(ctx context.Context) (Millis, error)
	name() string      // for messages: the file, or which kind of server
	forUpdate() string // suffix of a SELECT that locks its rows
	close() error
	// collided says that err is another process's transaction in the way: running
	// this one again cures it.
	collided(err error) bool
	// unavailable says that err is the database's state, not the statement's.
	unavailable(err error) bool
}

// session is an open write transaction.
type session interface {
	now() Millis // the database's time at its start
	// run runs calls in order, in one round trip if the database is remote, and
	// stops at the first error.
	run(ctx context.Context, calls []*call) error
	commit(ctx context.Context) error
	rollback()
}

// queryTimeout bounds every read and every transaction.
const queryTimeout = 10 * time.Second

// retryAfter is what callers are told while the database is away.
const retryAfter = time.Second

// fault turns an error of the database into an *Error.
func (s *Store) fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	kind := KindInternal
	if s.db.unavailable(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		kind = KindUnavailable
	}
	out := &Error{Kind: kind, Msg: doing, Err: err}
	if kind == KindUnavailable {
		out.Msg = "the store is not available"
		out.Err = errors.Join(errors.New(doing), err)
		out.RetryAfter = retryAfter
	}
	return out
}

// read runs one statement outside of any transaction.
func (s *Store) read(ctx context.Context, doing string, c *call) error {
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return s.fault(doing, s.db.read(ctx, c))
}
