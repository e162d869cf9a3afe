package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"orderd/api/console"
	"orderd/orders"
)

// The limits of a connection. Event streams set their own deadlines.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 30 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	defaultMaxBody = 1 << 20
	pingTimeout    = 2 * time.Second
)

// Options says where to listen and whom to let in.
type Options struct {
	Addr    string   // host:port to listen on; port 0 takes a free one; empty: :8080
	APIKeys []string // one of these is needed for all but the page and the probes; none: everybody is let in
	Version string   // shown in /openapi.json and orderd_build_info; empty: "dev"
	MaxBody int64    // bytes of a request's body; 0: 1 MiB
}

// Events is where live status events come from.
type Events interface {
	// Listen returns the events that f selects from now on, in the order of
	// their numbers, and a function that ends it. The channel is closed when its
	// reader was too slow or the source stops.
	Listen(f orders.EventFilter) (<-chan orders.Event, func())
}

// Server answers HTTP requests. Made by New, served by Run.
type Server struct {
	opts     Options
	store    *orders.Store
	events   Events
	parts    func() map[string]string
	log      zerolog.Logger
	keys     keyring
	origins  *http.CrossOriginProtection
	router   *chi.Mux
	registry *prometheus.Registry
	metrics  *metrics
	scrape   http.Handler
	openapi  []byte
	page     console.Page
	listener net.Listener

	drain    chan struct{} // closed when Run was told to stop: event streams end
	draining atomic.Bool
}

// New prepares a server and listens. parts tells for /readyz how the parts that
// orderd can do without for a while are: "ok" or what is wrong; it may be nil.
// The metrics are registered with reg.
func New(o Options, store *orders.Store, events Events, parts func() map[string]string,
	reg *prometheus.Registry, log zerolog.Logger) (*Server, error) {
	if o.Addr == "" {
		o.Addr = ":8080"
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if parts == nil {
		parts = func() map[string]string { return nil }
	}
	s := &Server{
		opts: o, store: store, events: events, parts: parts, log: log,
		keys: newKeyring(o.APIKeys), origins: http.NewCrossOriginProtection(), registry: reg,
		page: console.Load(), drain: make(chan struct{}),
	}
	var err error
	if s.openapi, err = buildOpenAPI(o.Version, len(o.APIKeys) > 0); err != nil {
		return nil, fmt.Errorf("build openapi.json: %w", err)
	}
	if s.metrics, err = newMetrics(reg, store, o.Version); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	s.scrape = scrapeHandler(reg)
	s.router = s.newRouter(routes)
	if s.listener, err = net.Listen("tcp", o.Addr); err != nil {
		return nil, fmt.Errorf("listen for http: %w", err)
	}
	return s, nil
}

// Addr returns the address that the server listens on, with its real port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Run serves requests until ctx ends, then lets those under way finish. It may
// be called once.
func (s *Server) Run(ctx context.Context) error {
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          quietLog(s.log),
		// Requests outlive ctx on purpose: they are to finish, not to break off.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.listener) }()
	s.log.Info().Str("addr", s.Addr()).Msg("http listening")

	select {
	case err := <-served:
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	s.draining.Store(true)
	close(s.drain)
	// No request can last longer than this: both its timeouts are over by then.
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout+writeTimeout)
	defer cancel()
	err := srv.Shutdown(limit)
	if err != nil {
		err = errors.Join(fmt.Errorf("finish http requests: %w", err), srv.Close())
	}
	<-served
	return err
}

// Healthcheck asks a server on this machine that was told to listen on addr
// whether it is ready. It returns nil if so.
func Healthcheck(ctx context.Context, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	url := "http://" + net.JoinHostPort(host, port) + "/readyz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := (&http.Client{Timeout: readTimeout}).Do(req)
	if err != nil {
		return fmt.Errorf("ask whether ready: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask whether ready: %s says %s", url, resp.Status)
	}
	return nil
}
