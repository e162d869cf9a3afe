package kubemq

import "time"

// Version is the release of the API that this package follows.
const Version = "2.0.0"

// How long a call may take if its context has no deadline.
const (
	DefaultSendTimeout      = 5 * time.Second  // sends of messages and events
	DefaultRPCTimeout       = 10 * time.Second // other unary calls
	DefaultSubscribeTimeout = 10 * time.Second // opening a subscription or a stream
	DefaultQueueRecvTimeout = 10 * time.Second // AckAllQueueMessages, beyond its own wait
	DefaultQueuePollTimeout = 30 * time.Second // Poll and PollQueue, beyond their own wait
)

// The channel types that channel management knows.
const (
	ChannelTypeCommands    = "commands"
	ChannelTypeEvents      = "events"
	ChannelTypeEventsStore = "events_store"
	ChannelTypeQueries     = "queries"
	ChannelTypeQueues      = "queues"
)

// The kinds of request on a queue's downstream, as they are on the wire.
const (
	QueueDownstreamGet               = 1
	QueueDownstreamAckAll            = 2
	QueueDownstreamAckRange          = 3
	QueueDownstreamNAckAll           = 4
	QueueDownstreamNAckRange         = 5
	QueueDownstreamReQueueAll        = 6
	QueueDownstreamReQueueRange      = 7
	QueueDownstreamActiveOffsets     = 8
	QueueDownstreamTransactionStatus = 9
	QueueDownstreamCloseByClient     = 10
	QueueDownstreamCloseByServer     = 11
)
