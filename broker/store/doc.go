// Package store is what the broker keeps on disk: queue messages with their
// receive counts, kept events, and how far durable subscriptions have read. It
// is one append-only log in segment files and, in memory, the state that
// replaying the log gives. It does not know what is in a message or an event.
//
// # Life
//
// Open locks the folder and replays the log. Begin starts a transaction, its
// methods change the state, and Commit hands the records to the writer; what
// Commit returns can be waited for. Close writes what is left and unlocks.
//
// # Promises
//
// A transaction whose wait is over is on disk (fdatasync), whole. Everything
// that was committed while the disk was busy shares the next frame and its
// sync. After a crash the state is that of some moment not earlier than the
// last wait that was over. A torn end of the log is cut off when it is opened;
// damage anywhere else is an error that names file and offset.
//
// Disk space comes back: a segment at the front goes as soon as nothing in it
// is alive, and when the log is more than twice as long as what is alive, the
// front's live entries are copied to the end. Segments go from the front only,
// so a record never outlives one that it undoes.
//
// # Not promised
//
// Lazy transactions (settlements) and positions that nobody waits for may be
// lost with the last LazyDelay or tenth of a second, which means that a message
// or event is delivered again, not that one is lost.
//
// Payloads of queue messages are kept in memory up to Options.MemoryBytes in all
// and read from disk beyond that. About 350 bytes stay in memory for every
// message, its place in a queue of package broker included, and 50 for every
// kept event, whose payloads are always read from disk. A channel keeps its
// newest events, as many as Options says; the oldest go.
//
// A disk that fails or is full ends the store: everything then returns the first
// error, and the state in memory is not to be used.
package store
