package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"orderd/api"
	"orderd/broker"
	"orderd/config"
	"orderd/notify"
	"orderd/orders"
	"orderd/queue"
	"orderd/workers"
)

// start opens what the roles share, runs the roles that are on until ctx ends,
// and closes everything again.
func start(ctx context.Context, cfg config.Config, log zerolog.Logger) (err error) {
	as := func(role string) zerolog.Logger { return log.With().Str("role", role).Logger() }
	log.Info().Str("version", version).Msg("starting")
	store, err := orders.Open(ctx, orders.Options(cfg.Store), as("store"))
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	embedded, err := openBroker(&cfg, as("broker"))
	if err != nil {
		return err
	}
	runBroker := func(context.Context) error { return nil }
	if embedded != nil {
		defer func() { err = errors.Join(err, embedded.Close()) }()
		runBroker = embedded.Run
	}
	dial, err := queue.NewDial(queue.Connection(cfg.KubeMQ), as("kubemq"))
	if err != nil {
		return &settingsError{err}
	}
	work := queue.New(queue.Options(cfg.Queue), embedded == nil, dial, store.Instance(), as("queue"))
	defer func() { err = errors.Join(err, work.Close()) }()
	gateway, err := workers.NewGateway(workers.Options(cfg.Workers))
	if err != nil {
		return &settingsError{err}
	}
	pool := workers.NewPool(workers.Options(cfg.Workers), store, work, gateway, as("workers"))
	keeper := workers.NewKeeper(store, work, as("keeper"))
	sweeper := workers.NewSweeper(workers.Options(cfg.Workers), store, gateway, pool.Frontier, as("sweeper"))
	relay := workers.NewRelay(store, work, as("relay"))
	redriver := workers.NewRedriver(store, as("redriver"))

	told := notify.Options(cfg.Notify)
	if err := told.Check(); err != nil {
		return &settingsError{err}
	}
	hub := notify.NewHub(store, as("hub"))
	publisher := notify.NewPublisher(told, store, notify.Dial(dial), as("publisher"))
	email := notify.NewEmail(told, store, notify.Dial(dial), as("email"))
	push := notify.NewPush(told, store, notify.Dial(dial), as("push"))
	analytics := notify.NewAnalytics(told, store, notify.Dial(dial), as("analytics"))

	runAPI := func(context.Context) error { return nil }
	if cfg.Roles.API {
		parts := func() map[string]string {
			events := publisher.State()
			if events == "standby" { // another process publishes
				events = "ok"
			}
			return map[string]string{"database": condition(store), "queue": work.State(), "events": events}
		}
		server, err := api.New(api.Options(cfg.HTTP), store, hub, parts, prometheus.NewRegistry(), as("api"))
		if err != nil {
			return &settingsError{fmt.Errorf("serve at HTTP_ADDR: %w", err)}
		}
		if err := server.WatchSteps(pool.Abandoned); err != nil {
			return err
		}
		runAPI = server.Run
	}
	sinks(cfg, log)

	on := cfg.Roles
	intake := []role{{"api", on.API, runAPI}, {"workers", on.Workers, pool.Run}, {"keeper", on.DLQ, keeper.Run}, {"sweeper", on.Workers, sweeper.Run},
		{"redriver", true, redriver.Run}}
	outflow := []role{{"relay", true, relay.Run}, {"publisher", true, publisher.Run}, {"hub", on.API, hub.Run},
		{"email", on.Email, email.Run}, {"push", on.Push, push.Run}, {"analytics", on.Analytics, analytics.Run}}
	base := []role{{"store", true, store.Run}, {"broker", embedded != nil, runBroker}}
	err = serve(ctx, cfg.Run.ShutdownTimeout, log, intake, outflow, base)
	if err == nil {
		log.Info().Msg("stopped")
	}
	return err
}

// openBroker opens the embedded broker unless KUBEMQ_ADDRESS names another, and
// points the clients at it.
func openBroker(cfg *config.Config, log zerolog.Logger) (*broker.Broker, error) {
	if cfg.KubeMQ.Address != "" {
		return nil, nil
	}
	o := broker.Options(cfg.Broker)
	o.DataDir, o.Version = filepath.Join(cfg.Store.DataDir, "broker"), version
	if o.Addr == "off" {
		// v2.0.4 of the SDK connects to host:port only: a loopback port that
		// nobody else has the token for.
		o.Addr, o.AuthToken = "127.0.0.1:0", rand.Text()
	}
	b, err := broker.Open(o, log)
	if errors.Is(err, broker.ErrLocked) {
		return nil, &settingsError{fmt.Errorf("another orderd runs the broker in %s: set KUBEMQ_ADDRESS to where it listens: %w", o.DataDir, err)}
	}
	var busy *net.OpError
	if errors.As(err, &busy) {
		return nil, &settingsError{fmt.Errorf("listen at BROKER_ADDR: %w", err)}
	}
	if err != nil {
		return nil, fmt.Errorf("open the broker: %w", err)
	}
	cfg.KubeMQ = config.KubeMQ{Address: b.Addr(), AuthToken: o.AuthToken}
	log.Info().Str("addr", b.Addr()).Msg("broker listening")
	return b, nil
}

func condition(store *orders.Store) string {
	if store.Damaged() {
		return "damaged"
	}
	return "ok"
}

// sinks names what stands in for what is not set.
func sinks(cfg config.Config, log zerolog.Logger) {
	for _, s := range []struct{ name, value, instead string }{
		{"PAYMENT_URL", cfg.Workers.PaymentURL, "payments are simulated"},
		{"SMTP_URL", cfg.Notify.SMTPURL, "mails are log lines"},
		{"PUSH_URL", cfg.Notify.PushURL, "pushes are log lines"},
	} {
		if s.value == "" {
			log.Info().Str("setting", s.name).Str("instead", s.instead).Msg("built-in sink in use")
		}
	}
}
