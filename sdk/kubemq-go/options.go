package kubemq

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	defaultHost              = "localhost"
	defaultPort              = 50000
	defaultConnectionTimeout = 10 * time.Second
	// Brokers of release 2.4 hang up on a client that pings more often than
	// every five minutes, or with no stream open.
	defaultKeepaliveTime    = 6 * time.Minute
	defaultKeepaliveTimeout = 20 * time.Second
	defaultMaxMessageBytes  = 100 << 20
	defaultReceiveBuffer    = 256
	defaultDrainTimeout     = 5 * time.Second
	defaultCallbackTimeout  = 30 * time.Second
)

// Option sets something on a client being made.
type Option interface{ apply(*Options) }

type optionFunc func(*Options)

func (f optionFunc) apply(o *Options) { f(o) }

// CallbackConfig says how a subscription runs its callbacks.
type CallbackConfig struct {
	MaxConcurrent int           // callbacks at one time for each subscription; 1 keeps the order of events
	Timeout       time.Duration // a callback that takes longer is reported to WithOnError; 0 for no limit
}

// DefaultCallbackConfig returns one callback at a time and 30 s.
func DefaultCallbackConfig() CallbackConfig {
	return CallbackConfig{MaxConcurrent: 1, Timeout: defaultCallbackTimeout}
}

// StateCallbacks are told about the connection, one at a time and in order, on
// a goroutine of their own; nil ones are skipped.
type StateCallbacks struct {
	OnConnected    func() // the connection is up for the first time
	OnDisconnected func() // it was lost
	OnReconnecting func() // it is being dialled again
	OnReconnected  func() // it is up again
	OnClosed       func() // the client is closed; nothing follows
}

// Options is what a client is made with. It is filled by Option values.
type Options struct {
	host              string
	port              int
	address           string // wins over host and port
	clientID          string
	token             string
	credentials       CredentialProvider
	tls               *TLSConfig
	skipVerify        bool
	serverName        string
	connectionTimeout time.Duration
	checkConnection   bool
	keepaliveTime     time.Duration
	keepaliveTimeout  time.Duration
	permitKeepalive   bool
	maxReceive        int
	maxSend           int
	reconnect         ReconnectPolicy
	retry             RetryPolicy
	waitForReady      bool
	logger            Logger
	defaultChannel    string
	states            StateCallbacks
	receiveBuffer     int
	callbacks         CallbackConfig
	drainTimeout      time.Duration
}

// GetDefaultOptions returns what a client without options is made with.
func GetDefaultOptions() *Options {
	return &Options{
		host:              defaultHost,
		port:              defaultPort,
		connectionTimeout: defaultConnectionTimeout,
		keepaliveTime:     defaultKeepaliveTime,
		keepaliveTimeout:  defaultKeepaliveTimeout,
		maxReceive:        defaultMaxMessageBytes,
		maxSend:           defaultMaxMessageBytes,
		reconnect:         DefaultReconnectPolicy(),
		retry:             DefaultRetryPolicy(),
		waitForReady:      true,
		logger:            silent{},
		receiveBuffer:     defaultReceiveBuffer,
		callbacks:         DefaultCallbackConfig(),
		drainTimeout:      defaultDrainTimeout,
	}
}

// String describes the options without secrets.
func (o *Options) String() string {
	security := "plain"
	if o.tls != nil || o.skipVerify {
		security = "tls"
	}
	return fmt.Sprintf("address=%s client_id=%s security=%s token=%t connection_timeout=%s keepalive=%s",
		o.target(), o.clientID, security, o.token != "" || o.credentials != nil, o.connectionTimeout, o.keepaliveTime)
}

// Validate returns every fault of the options at once, each an ErrValidation,
// or nil.
func (o *Options) Validate() error {
	var faults []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, invalid("NewClient", "", format, args...))
		}
	}
	if o.address != "" {
		host, port, err := net.SplitHostPort(o.address)
		n, portErr := strconv.ParseUint(port, 10, 16)
		bad(err != nil || host == "" || portErr != nil || n == 0, "address %q is not host:port", o.address)
	} else {
		bad(o.host == "", "host must not be empty")
		bad(o.port < 1 || o.port > 65535, "port %d is not from 1 to 65535", o.port)
	}
	bad(o.connectionTimeout <= 0, "connection timeout %s must be above 0", o.connectionTimeout)
	bad(o.keepaliveTime < 0, "keepalive time %s must not be negative", o.keepaliveTime)
	bad(o.keepaliveTimeout < 0, "keepalive timeout %s must not be negative", o.keepaliveTimeout)
	bad(o.maxReceive <= 0, "max receive message size %d must be above 0", o.maxReceive)
	bad(o.maxSend <= 0, "max send message size %d must be above 0", o.maxSend)
	bad(o.receiveBuffer < 0, "receive buffer size %d must not be negative", o.receiveBuffer)
	bad(o.callbacks.MaxConcurrent < 1, "max concurrent callbacks %d must be at least 1", o.callbacks.MaxConcurrent)
	bad(o.callbacks.Timeout < 0, "callback timeout %s must not be negative", o.callbacks.Timeout)
	bad(o.drainTimeout < 0, "drain timeout %s must not be negative", o.drainTimeout)
	bad(o.retry.MaxRetries < 0, "max retries %d must not be negative", o.retry.MaxRetries)
	bad(o.reconnect.MaxAttempts < 0, "max reconnect attempts %d must not be negative", o.reconnect.MaxAttempts)
	bad(o.reconnect.BufferSize < 0, "reconnect buffer size %d must not be negative", o.reconnect.BufferSize)
	bad(o.token != "" && o.credentials != nil, "auth token and credential provider exclude each other")
	if err := validateTLS(o.tls); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (o *Options) target() string {
	if o.address != "" {
		return o.address
	}
	return net.JoinHostPort(o.host, strconv.Itoa(o.port))
}

// WithAddress sets where the broker is; the default is localhost:50000.
func WithAddress(host string, port int) Option {
	return optionFunc(func(o *Options) { o.host, o.port, o.address = host, port, "" })
}

// WithClientId sets the name the broker knows this client by; the default is a
// random one. A broker keeps an events store position by it.
func WithClientId(id string) Option { return optionFunc(func(o *Options) { o.clientID = id }) }

// WithAuthToken sends token in the authorization metadata of each call, as it
// is. It excludes WithCredentialProvider.
func WithAuthToken(token string) Option { return optionFunc(func(o *Options) { o.token = token }) }

// WithCredentialProvider asks p for the token of each call and keeps it until
// it expires or is refused.
func WithCredentialProvider(p CredentialProvider) Option {
	return optionFunc(func(o *Options) { o.credentials = p })
}

// WithConnectionTimeout sets how long NewClient tries to connect; the default
// is 10 s. It also bounds one attempt to reconnect.
func WithConnectionTimeout(d time.Duration) Option {
	return optionFunc(func(o *Options) { o.connectionTimeout = d })
}

// WithCheckConnection makes NewClient also ping the broker, which finds a wrong
// token or a server that is no KubeMQ. The default is false.
func WithCheckConnection(value bool) Option {
	return optionFunc(func(o *Options) { o.checkConnection = value })
}

// WithKeepaliveTime sets after how much silence the connection is pinged; 0
// never. The default is 6 min, since brokers hang up on clients that ping more
// than every 5 min unless set up otherwise. Below 10 s means 10 s.
func WithKeepaliveTime(d time.Duration) Option {
	return optionFunc(func(o *Options) { o.keepaliveTime = d })
}

// WithKeepaliveTimeout sets how long a ping, or data sent, may go unanswered
// before the connection counts as lost; the default is 20 s.
func WithKeepaliveTimeout(d time.Duration) Option {
	return optionFunc(func(o *Options) { o.keepaliveTimeout = d })
}

// WithPermitKeepaliveWithoutStream pings also while no call is open. The default
// is false, since brokers hang up on that unless set up otherwise.
func WithPermitKeepaliveWithoutStream(permit bool) Option {
	return optionFunc(func(o *Options) { o.permitKeepalive = permit })
}

// WithMaxReceiveMessageSize sets the largest answer taken, in bytes; the default
// is 100 MiB.
func WithMaxReceiveMessageSize(size int) Option {
	return optionFunc(func(o *Options) { o.maxReceive = size })
}

// WithMaxSendMessageSize sets the largest request sent, in bytes; the default is
// 100 MiB.
func WithMaxSendMessageSize(size int) Option {
	return optionFunc(func(o *Options) { o.maxSend = size })
}

// WithReconnectPolicy sets how a lost connection is dialled again.
func WithReconnectPolicy(p ReconnectPolicy) Option {
	return optionFunc(func(o *Options) { o.reconnect = p })
}

// WithRetryPolicy sets how unary calls are repeated.
func WithRetryPolicy(p RetryPolicy) Option { return optionFunc(func(o *Options) { o.retry = p }) }

// WithWaitForReady says whether calls made while the connection is down wait for
// it until their context ends (the default) or fail at once.
func WithWaitForReady(wait bool) Option {
	return optionFunc(func(o *Options) { o.waitForReady = wait })
}

// WithLogger sets who takes the client's log; without it there is none.
func WithLogger(l Logger) Option {
	return optionFunc(func(o *Options) {
		if l == nil {
			l = silent{}
		}
		o.logger = l
	})
}

// WithDefaultChannel sets the channel of messages, events and polls that name
// none.
func WithDefaultChannel(channel string) Option {
	return optionFunc(func(o *Options) { o.defaultChannel = channel })
}

// WithOnConnected sets StateCallbacks.OnConnected.
func WithOnConnected(fn func()) Option {
	return optionFunc(func(o *Options) { o.states.OnConnected = fn })
}

// WithOnDisconnected sets StateCallbacks.OnDisconnected.
func WithOnDisconnected(fn func()) Option {
	return optionFunc(func(o *Options) { o.states.OnDisconnected = fn })
}

// WithOnReconnecting sets StateCallbacks.OnReconnecting.
func WithOnReconnecting(fn func()) Option {
	return optionFunc(func(o *Options) { o.states.OnReconnecting = fn })
}

// WithOnReconnected sets StateCallbacks.OnReconnected.
func WithOnReconnected(fn func()) Option {
	return optionFunc(func(o *Options) { o.states.OnReconnected = fn })
}

// WithOnClosed sets StateCallbacks.OnClosed.
func WithOnClosed(fn func()) Option { return optionFunc(func(o *Options) { o.states.OnClosed = fn }) }

// WithReceiveBufferSize sets how many events a subscription holds for its
// callbacks, and how many results a stream holds for its reader, before it lets
// the broker wait; the default is 256.
func WithReceiveBufferSize(size int) Option {
	return optionFunc(func(o *Options) { o.receiveBuffer = size })
}

// WithMaxConcurrentCallbacks sets CallbackConfig.MaxConcurrent.
func WithMaxConcurrentCallbacks(n int) Option {
	return optionFunc(func(o *Options) { o.callbacks.MaxConcurrent = n })
}

// WithCallbackTimeout sets CallbackConfig.Timeout.
func WithCallbackTimeout(d time.Duration) Option {
	return optionFunc(func(o *Options) { o.callbacks.Timeout = d })
}

// WithDrainTimeout sets how long Close waits for calls and callbacks under way
// before it breaks them off; the default is 5 s.
func WithDrainTimeout(d time.Duration) Option {
	return optionFunc(func(o *Options) { o.drainTimeout = d })
}
