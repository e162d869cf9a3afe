package orders

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Options says where the store is and what its rules are.
type Options struct {
	DatabaseURL    string        // postgres://…; empty: SQLite in DataDir
	DataDir        string        // made if it is not there
	Lease          time.Duration // of a process; renewed every third of it
	Expiration     time.Duration // an order's expiresAt = database time at acceptance + this
	MaxAttempts    int           // failed steps in a round before the dead letter
	MaxDeaths      int           // workers lost in a round before the dead letter
	IdempotencyTTL time.Duration // how long an Idempotency-Key is remembered
	EventRetention time.Duration // of the event log, handled marks and deliveries
	OrderRetention time.Duration // of finished orders, at least EventRetention; 0: for ever
	BackorderMax   time.Duration // how long an order may wait for stock before the dead letter
	MaxRedrives    int           // redrives of an order that need no force; 0: no end
}

// Store keeps orders and everything that follows from them. Made by Open; safe
// for concurrent use.
type Store struct {
	options Options
	log     zerolog.Logger
	db      database
	slot    *slot
	process *process

	check   func(context.Context) error // for damage, by Run; nil: there is nothing to check
	damaged atomic.Bool

	ops     chan *op
	closing chan struct{} // closed by Close
	closed  chan struct{} // closed when the committer is gone
	close   sync.Once

	out     *outgoing
	keys    *keys
	batches chan struct{} // slots of AcceptBatch
	signals signals
	handled handledMarks
	clock   clock
}

// Open opens the store: its folder, its database with up-to-date tables, its
// slot among the processes of this folder. Whatever a dead process of this
// folder held is released before Open returns.
func Open(ctx context.Context, o Options, log zerolog.Logger) (*Store, error) {
	if err := os.MkdirAll(o.DataDir, 0o750); err != nil {
		return nil, fmt.Errorf("make DATA_DIR: %w", err)
	}
	slot, dead, err := takeSlot(o.DataDir)
	if err != nil {
		return nil, err
	}
	db, check, err := openDatabase(ctx, o, len(dead) > 0)
	if err != nil {
		return nil, errors.Join(err, slot.close())
	}
	s := &Store{
		options: o, log: log, db: db, slot: slot, process: newProcess(), check: check,
		ops: make(chan *op, maxCommit), closing: make(chan struct{}), closed: make(chan struct{}),
		out: newOutgoing(), keys: newKeys(), batches: make(chan struct{}, batchesAtOnce),
	}
	go s.commits()
	if err := s.join(ctx, dead); err != nil {
		return nil, errors.Join(fmt.Errorf("use database %s: %w", db.name(), err), s.Close())
	}
	return s, nil
}

// openDatabase returns the database and, if it has to be checked for damage
// later, how.
func openDatabase(ctx context.Context, o Options, unclean bool) (database, func(context.Context) error, error) {
	switch {
	case o.DatabaseURL == "":
		db, checked, err := openSQLite(ctx, o.DataDir, unclean)
		if err != nil || checked {
			return db, nil, err
		}
		return db, func(ctx context.Context) error { return quickCheck(ctx, filepath.Join(o.DataDir, sqliteFile)) }, nil
	case strings.HasPrefix(o.DatabaseURL, "postgres://"), strings.HasPrefix(o.DatabaseURL, "postgresql://"):
		db, err := openPostgres(ctx, o.DatabaseURL)
		return db, nil, err
	}
	return nil, nil, errors.New("DATABASE_URL must start with postgres:// or be empty")
}

// checkDamage looks through the database in the background.
func (s *Store) checkDamage(ctx context.Context) {
	if s.check == nil {
		return
	}
	if err := s.check(ctx); errors.Is(err, errDamaged) {
		s.damaged.Store(true)
		s.log.Error().Err(err).Msg("database is damaged")
	} else if err != nil && ctx.Err() == nil {
		s.log.Warn().Err(err).Msg("database could not be checked for damage")
	}
}

// Damaged says that the check in the background has found the database damaged.
func (s *Store) Damaged() bool { return s.damaged.Load() }

// Close gives this process's lease back and closes the database. What waits
// for a commit fails as unavailable.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		err = s.leave(ctx)
		close(s.closing)
		<-s.closed
		err = errors.Join(err, s.db.close(), s.slot.close())
	})
	return err
}

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.read(ctx, "ping", &call{sql: "SELECT 1", row: func(scan scanFunc) error {
		var one int
		return scan(&one)
	}})
}

// Instance is a short name of this process's slot in DATA_DIR that stays the
// same over restarts and that no other process has at the same time.
func (s *Store) Instance() string { return s.slot.name }

// Worker is what attempts record as their worker: host, process id and slot.
func (s *Store) Worker() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + strconv.Itoa(os.Getpid()) + "/" + s.slot.name
}

// Now returns the database's time.
func (s *Store) Now(ctx context.Context) (Millis, error) {
	now, err := s.db.now(ctx)
	return now, s.fault("ask for the time", err)
}
