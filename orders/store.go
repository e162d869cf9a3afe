package orders

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

var errNotBuilt = &Error{Kind: KindUnavailable, Msg: "not built yet"}

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
	OrderRetention time.Duration // of finished orders; 0: for ever
	BackorderMax   time.Duration // how long an order may wait for stock before the dead letter
}

// Store keeps orders and everything that follows from them. Made by Open; safe
// for concurrent use.
type Store struct {
}

// Open opens the store.
func Open(ctx context.Context, o Options, log zerolog.Logger) (*Store, error) {
	return nil, errNotBuilt
}

// Run renews this process's lease and releases what dead processes held, until
// ctx ends.
func (s *Store) Run(ctx context.Context) error { return errNotBuilt }

// Close gives this process's lease back.
func (s *Store) Close() error { return errNotBuilt }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return errNotBuilt }

// Instance is a short name of this process's slot that stays the same over restarts.
func (s *Store) Instance() string { return "" }

// Worker is what attempts record as their worker.
func (s *Store) Worker() string { return "" }

// Now returns the database's time.
func (s *Store) Now(ctx context.Context) (Millis, error) { return 0, errNotBuilt }
