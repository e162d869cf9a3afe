package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"orderd/broker/store"
)

// Options of a broker.
type Options struct {
	Addr      string // host:port to listen on; port 0 takes a free one
	DataDir   string // folder of the store, made if it is not there
	AuthToken string // that clients send as authorization; empty: nobody needs one
	Version   string // of the program that the broker is in, shown behind our own by Ping
}

const (
	maxMessageBytes = 100 << 20 // KubeMQ's limit, both ways
	// Clients ping every ten seconds, also when nothing is under way; the
	// least that some of them allow is five.
	minPingInterval = 5 * time.Second
	// A peer that is silent for so long is asked, and gone if it does not
	// answer: what it held goes back.
	peerSilence  = 15 * time.Second
	peerAnswer   = 10 * time.Second
	streamWindow = 4 << 20
	connWindow   = 16 << 20
	stopGrace    = 2 * time.Second // for answers under way
)

// Broker is an open broker. Safe for concurrent use.
type Broker struct {
	options  Options
	log      zerolog.Logger
	host     string
	started  time.Time
	listener net.Listener
	server   *grpc.Server
	store    *store.Store
	queues   *queues
	hub      *hub
	kept     *keptEvents
	stopping chan struct{} // closed when streams are to end
	workers  sync.WaitGroup
	readers  sync.WaitGroup // of streams; they end a little after their handlers
	closing  sync.Once
	closed   error // what Close returns
}

// Open locks, replays and, if need be, makes the store, and listens.
// errors.Is(err, ErrLocked) if another process has the store.
func Open(o Options, log zerolog.Logger) (*Broker, error) {
	s, err := store.Open(filepath.Join(o.DataDir, "log"), store.Options{})
	if err != nil {
		return nil, fmt.Errorf("open the broker's store: %w", err)
	}
	qs, err := openQueues(s, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the broker's queues: %w", err), s.Close())
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for clients of the broker: %w", err), s.Close())
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	b := &Broker{
		options: o, log: log, host: host, started: time.Now(), listener: listener,
		store: s, queues: qs, hub: newHub(log), stopping: make(chan struct{}),
	}
	b.kept = newKeptEvents(s, b.stopping, log)
	b.server = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: peerSilence, Timeout: peerAnswer}),
		grpc.WaitForHandlers(true),
		grpc.ChainUnaryInterceptor(b.authorizeUnary), grpc.ChainStreamInterceptor(b.authorizeStream),
	)
	register(b.server, &service{b: b})
	reflection.Register(b.server)
	b.workers.Go(func() { qs.clock(b.stopping) })
	return b, nil
}

// Addr returns the host:port that the broker listens on.
func (b *Broker) Addr() string { return b.listener.Addr().String() }

// Run serves clients until ctx ends, and closes the broker. It returns nil if
// that went well, and earlier with an error if the store fails.
func (b *Broker) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- b.server.Serve(b.listener) }()
	var fault error
	select {
	case <-ctx.Done():
	case fault = <-served:
		served <- nil
	case <-b.store.Failed():
		fault = b.store.Err()
	}
	fault = firstError(fault, b.Close()) // Close repeats what Failed has said
	<-served
	if fault != nil {
		return fmt.Errorf("run the broker: %w", fault)
	}
	return nil
}

// Close ends all streams, closes the store and gives the port back. A broker
// that runs is closed by Run. It may be called again.
func (b *Broker) Close() error {
	b.closing.Do(func() {
		close(b.stopping)
		b.stopServer()
		err := b.listener.Close()
		if errors.Is(err, net.ErrClosed) {
			err = nil // by the server
		}
		b.readers.Wait()
		b.workers.Wait()
		b.closed = errors.Join(err, b.store.Close())
	})
	return b.closed
}

// stopServer lets calls end by themselves, which those that wait do at once,
// and breaks off what is left after a while.
func (b *Broker) stopServer() {
	stopped := make(chan struct{})
	go func() { b.server.GracefulStop(); close(stopped) }()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-stopped:
	case <-grace.C:
		b.server.Stop()
		<-stopped
	}
}

// Stats counts what is in a broker.
type Stats struct {
	Queues        int
	Waiting       int   // messages that can be received now
	Delayed       int   // messages whose time has not come
	Unacked       int   // messages that a consumer holds
	Polls         int   // polls that wait
	Subscriptions int   // to events, plain and kept
	LogBytes      int64 // on disk
	LiveBytes     int64 // of it still needed
}

// Stats returns the counts of this moment.
func (b *Broker) Stats() Stats {
	var s Stats
	b.queues.stats(&s)
	s.Subscriptions = b.hub.count() + b.kept.count()
	s.LogBytes, s.LiveBytes = b.store.Bytes()
	return s
}
