package types

import (
	"context"
	"time"
)

// ConnectionState is what a client's connection is doing.
type ConnectionState int

// The states. Idle is before the first dial; Connecting until the connection
// is first made; then Ready and Reconnecting alternate until Closed, which is
// final.
const (
	StateIdle ConnectionState = iota
	StateConnecting
	StateReady
	StateReconnecting
	StateClosed
)

// String returns the state's name in capitals.
func (s ConnectionState) String() string {
	switch s {
	case StateIdle:
		return "IDLE"
	case StateConnecting:
		return "CONNECTING"
	case StateReady:
		return "READY"
	case StateReconnecting:
		return "RECONNECTING"
	case StateClosed:
		return "CLOSED"
	default:
		return "UNKNOWN"
	}
}

// CredentialProvider gives the token that goes with each call. GetToken is
// called from many goroutines, never at the same time. A token is used until
// expiresAt, or until the broker refuses it; a zero expiresAt means it does not
// expire.
type CredentialProvider interface {
	GetToken(ctx context.Context) (token string, expiresAt time.Time, err error)
}

// StaticTokenProvider gives one token for ever.
type StaticTokenProvider struct{ token string }

// NewStaticTokenProvider returns a provider of token.
func NewStaticTokenProvider(token string) *StaticTokenProvider {
	return &StaticTokenProvider{token: token}
}

// GetToken returns the token; it never fails.
func (p *StaticTokenProvider) GetToken(_ context.Context) (string, time.Time, error) {
	return p.token, time.Time{}, nil
}

// Logger takes what the client has to say. keysAndValues alternate. The
// methods are called from many goroutines at once and should not block.
type Logger interface {
	Debug(msg string, keysAndValues ...any)
	Info(msg string, keysAndValues ...any)
	Warn(msg string, keysAndValues ...any)
	Error(msg string, keysAndValues ...any)
}

// TLSConfig says how the connection is secured. The zero value trusts the
// system's authorities and shows no certificate. Of a file and the matching PEM
// bytes only one may be set.
type TLSConfig struct {
	CertFile   string // our certificate, for mutual TLS
	KeyFile    string // its private key
	CACertFile string // authorities that may have signed the broker's certificate
	CertPEM    []byte
	KeyPEM     []byte
	CACertPEM  []byte
	ServerName string // name in the broker's certificate, if it is not the address
	MinVersion uint16 // a version of crypto/tls; 0 means TLS 1.2
}
