// Package broker is the embedded broker: the gRPC service of KubeMQ servers
// over a durable store, in one process. It knows nothing of orders.
//
// # Life
//
// Open locks and replays the store and listens. Run serves until its context
// ends; then streams end with status Aborted, which tells clients that this is
// no lost connection, and the store is closed. Close is for a broker that never
// ran.
//
// # Promises
//
// A send is answered when it is on disk; concurrent sends share a sync.
//
// A message has one consumer at a time. A poll is answered as soon as a message
// can be received, with up to MaxItems of them (and at most 3 MiB, if it is more
// than one, as many clients accept no more), in the order of the queue, and takes
// nothing if its client is gone. A delayed message has its place by when its
// delay ends. That a message was received is on disk
// before it is delivered. What a stream held when it ended goes back to its
// place in the queue, and so does what was held when the broker was killed:
// counted as received, unless the client gave it back with CloseByClient. A
// message that was received MaxReceiveCount times and comes back goes to its
// MaxReceiveQueue, without expiration and policy, or is dropped if it has none.
//
// A plain event goes to whoever is subscribed; a subscriber that is
// 65,536 events or 64 MiB behind loses the newest ones, which is logged, and
// nobody else is delayed, except that a stream of events is held to some ten
// thousands a second while a subscriber that reads is far behind. A kept event is answered when it is on disk; a subscriber
// reads from the store at its own pace, and its position is kept by ClientID,
// channel and group, up to a tenth of a second behind.
//
// # Not promised
//
// It is one node. Acknowledgements are not answered and reach the disk some
// milliseconds later, so a crash may deliver an acknowledged message again.
// Limits on memory and kept events are those of package store. Commands and
// queries, and the older StreamQueueMessage, are answered Unimplemented, except
// for the queries that manage channels.
package broker
