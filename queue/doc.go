// Package queue is the work queue: it puts orders on KubeMQ queues and takes
// them off again. It uses nothing but the public API of the KubeMQ SDK for Go,
// release v2.0.4.
//
// # Life
//
// New makes a Queue; it connects in the background when it is first used, and
// again whenever the connection is lost. Receivers are made by NewReceiver and
// end with Close. Close ends the sending side.
//
// # Promises
//
// A broker that is away, restarts or loses a stream is never an error of the
// caller's: Send says what did not get there, Poll waits, rebuilds what is
// broken, and goes on. What a KubeMQ server of release 2.4 does wrong (messages
// kept by streams that are gone, polls that swallow what comes later, streams
// that fall silent) is worked around here and nowhere else.
//
// # Not promised
//
// Messages may be lost, repeated and reordered by the broker. The store decides
// what a message means; a message is only a hint to look at its order.
package queue
