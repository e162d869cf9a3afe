// Package kubemq is a client of a KubeMQ broker: queues, events and events
// store over gRPC.
//
// # Life
//
// NewClient returns once the connection is up, or says why it is not. From then
// on the client keeps it: a lost or idle connection is dialled again for ever
// (ReconnectPolicy), calls wait for it until their context ends, receivers open
// a new stream at the next Poll, and subscriptions subscribe again. Close ends
// everything the client started and waits for it.
//
// # What it promises
//
//   - A send that returned a result without IsError was answered by the broker.
//   - A send is never repeated by the client if the broker may have got it.
//   - Ack, Nack and ReQueue return an error if the stream the message came on is
//     gone; the broker gives such a message to a consumer again. If the broker
//     itself refuses them, Errors of the receiver says so.
//   - A Poll whose context ends gives back whatever the broker had for it.
//   - An events store subscription goes on after its last event.
//   - The defaults are accepted by any broker: no keepalive pings that it would
//     hang up on, messages up to 100 MiB.
//
// # What it does not promise
//
// Queue messages and stored events may come twice after a lost connection.
// Plain events published while a subscription is away are gone. A nil error of
// Ack, Nack or ReQueue means handed to the connection: the protocol has no
// answer for success.
//
// All methods of Client, QueueDownstreamReceiver, PollResponse,
// QueueDownstreamMessage and Subscription may be called from several goroutines
// at once. Messages, events and requests that the caller builds may not be
// changed while a call uses them.
//
// Commands, queries and telemetry options are not part of this package.
package kubemq
