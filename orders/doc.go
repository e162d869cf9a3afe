// Package orders is the domain of orderd and its store: what an order is, how
// its status may change, and the tables that keep both.
//
// # Life
//
// Open opens the database (SQLite in a folder, or PostgreSQL), brings its tables
// up to date, registers this process and takes back what a dead predecessor
// held. Run renews the process's lease and looks after dead processes until its
// context ends. Close gives the lease back.
//
// # Promises
//
// A method that changes something returns nil only after its transaction is on
// disk (SQLite: synchronous=FULL; PostgreSQL: as synchronous_commit says, which
// is on by default). Concurrent writers share one transaction. Every change of
// status is one guarded statement together with its row in the event log, so
// that the order and its history cannot disagree. The database's clock decides
// what is due, late or dead, never a process's own.
//
// All methods of Store are safe for concurrent use, are bounded by their context
// and by a deadline of their own, and report a database that cannot be used as
// an *Error of KindUnavailable.
//
// # Not promised
//
// The package sends nothing anywhere: what has to leave the process is handed
// out by NextDispatches, NumberEvents, ClaimDeliveries and DueVoids, and
// recorded as done by their counterparts.
package orders
