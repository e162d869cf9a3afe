package queue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/kubemq-io/kubemq-go/v2"
	"github.com/rs/zerolog"
)

// Connection says where the broker is and how to reach it.
type Connection struct {
	Address       string // host:port
	AuthToken     string // sent as it is in the authorization header; empty: none
	TLSCA         string // PEM file of the authority that signed the server's certificate; empty: no TLS
	TLSCert       string // PEM file of our certificate, for mutual TLS
	TLSKey        string // PEM file of its key
	TLSServerName string // name in the server's certificate, if it is not the address
}

const (
	connectTimeout = 5 * time.Second
	redialMin      = 100 * time.Millisecond
	redialMax      = 5 * time.Second
	// A KubeMQ server of release 2.4 hangs up on clients that ping more often
	// than every five minutes, or without a stream.
	keepalive = 6 * time.Minute
	// KubeMQ's own limit for a message and a batch.
	maxMessageBytes = 100 << 20
)

// NewDial returns a Dial for c. It says once that the broker cannot be reached,
// and goes on trying. The error is a fault in c: files that cannot be used.
func NewDial(c Connection, log zerolog.Logger) (Dial, error) {
	host, port, err := splitAddress(c.Address)
	if err != nil {
		return nil, err
	}
	options := []kubemq.Option{
		kubemq.WithAddress(host, port),
		kubemq.WithConnectionTimeout(connectTimeout),
		kubemq.WithCheckConnection(true),
		kubemq.WithKeepaliveTime(keepalive),
		kubemq.WithPermitKeepaliveWithoutStream(false),
		kubemq.WithMaxReceiveMessageSize(maxMessageBytes),
		kubemq.WithMaxSendMessageSize(maxMessageBytes),
		kubemq.WithRetryPolicy(kubemq.RetryPolicy{}), // the store repeats what has to be
	}
	if c.AuthToken != "" {
		options = append(options, kubemq.WithAuthToken(c.AuthToken))
	}
	switch {
	case c.TLSCert != "":
		options = append(options, kubemq.WithMTLS(c.TLSCert, c.TLSKey, c.TLSCA))
	case c.TLSCA != "":
		options = append(options, kubemq.WithTLS(c.TLSCA))
	}
	if c.TLSServerName != "" {
		options = append(options, kubemq.WithServerNameOverride(c.TLSServerName))
	}
	return func(ctx context.Context, clientID string) (*kubemq.Client, error) {
		return dial(ctx, append(options[:len(options):len(options)], kubemq.WithClientId(clientID)), log.With().Str("client_id", clientID).Logger())
	}, nil
}

func splitAddress(address string) (string, int, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("read KUBEMQ_ADDRESS: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("read KUBEMQ_ADDRESS: port %q must be from 1 to 65535", port)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return host, int(n), nil
}

func dial(ctx context.Context, options []kubemq.Option, log zerolog.Logger) (*kubemq.Client, error) {
	wait := redialMin
	for try := 1; ; try++ {
		client, err := kubemq.NewClient(ctx, options...)
		if err == nil {
			if try > 1 {
				log.Info().Msg("broker reached")
			}
			return client, nil
		}
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
		if try == 2 { // the first one may be a restart
			log.Warn().Err(err).Msg("broker cannot be reached, trying on")
		}
		if !pause(ctx, wait) {
			return nil, ctx.Err()
		}
		wait = min(2*wait, redialMax)
	}
}

// pause waits for d and says whether it did: not if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
