package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"orderd/orders"
)

// gaugesTimeout bounds what a scrape may ask of the store.
const gaugesTimeout = 2 * time.Second

// metric is one row of the table below.
type metric struct {
	name, kind, means string
	labels            []string
}

// The metrics that this package serves; docs/api.md shows the same table.
var (
	requestsMetric = &metric{"orderd_http_requests_total", "counter", "requests by the pattern of their path, method and status (499: the caller left)", []string{"route", "method", "code"}}
	secondsMetric  = &metric{"orderd_http_request_seconds", "histogram", "time to answer, without event streams", []string{"route"}}
	streamsMetric  = &metric{"orderd_event_streams", "gauge", "open streams of GET /events", nil}
	buildMetric    = &metric{"orderd_build_info", "gauge", "always 1", []string{"version"}}

	storeUpMetric     = &metric{"orderd_store_up", "gauge", "1 if the store answered this scrape; without it the gauges below are missing", nil}
	ordersMetric      = &metric{"orderd_orders", "gauge", "orders by status", []string{"status"}}
	unsentMetric      = &metric{"orderd_unsent", "gauge", "orders to be put on a queue now", nil}
	retriesDueMetric  = &metric{"orderd_retries_due", "gauge", "of these, retries", nil}
	retriesWaitMetric = &metric{"orderd_retries_waiting", "gauge", "retries that are not due yet", nil}
	deadOpenMetric    = &metric{"orderd_dead_letters", "gauge", "open dead letters by error class", []string{"class"}}
	deadStakeMetric   = &metric{"orderd_dead_letters_amount", "gauge", "totals of the orders of open dead letters, in units of their currency", []string{"class", "currency"}}
	deadOldestMetric  = &metric{"orderd_oldest_dead_letter_seconds", "gauge", "age of the oldest open dead letter; 0 if there is none", nil}
	deliveriesMetric  = &metric{"orderd_deliveries_pending", "gauge", "mails and pushes to be made, by subscriber", []string{"subscriber"}}
	voidsDueMetric    = &metric{"orderd_voids_due", "gauge", "payments to be voided", nil}
	putBackMetric     = &metric{"orderd_orders_put_back_total", "counter", "orders that were neither queued, leased, waiting nor done, and were put back", nil}
	abandonedMetric   = &metric{"orderd_steps_abandoned", "gauge", "steps of this process that go on although they ignored STEP_TIMEOUT and were given up", nil}
	unnumberedMetric  = &metric{"orderd_events_unnumbered", "gauge", "committed events that have no number yet", nil}
)

var metricTable = []*metric{
	requestsMetric, secondsMetric, streamsMetric, buildMetric,
	storeUpMetric, ordersMetric, unsentMetric, retriesDueMetric, retriesWaitMetric, deadOpenMetric,
	deadStakeMetric, deadOldestMetric, putBackMetric, deliveriesMetric, voidsDueMetric, unnumberedMetric, abandonedMetric,
}

// metrics is what requests are counted in.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
}

// newMetrics registers all metrics of the table, and Go's and the process's own.
func newMetrics(reg *prometheus.Registry, store *orders.Store, version string) (*metrics, error) {
	m := &metrics{
		requests: newRequestCounter(), seconds: newRequestSeconds(),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: streamsMetric.name, Help: streamsMetric.means}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildMetric.name, Help: buildMetric.means}, buildMetric.labels)
	build.WithLabelValues(version).Set(1)
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.streams, build, newStoreGauges(store)} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register: %w", err)
		}
	}
	// These two may be there already: they are not this package's.
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		var twice prometheus.AlreadyRegisteredError
		if err := reg.Register(c); err != nil && !errors.As(err, &twice) {
			return nil, fmt.Errorf("register: %w", err)
		}
	}
	return m, nil
}

func newRequestCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: requestsMetric.name, Help: requestsMetric.means}, requestsMetric.labels)
}

func newRequestSeconds() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: secondsMetric.name, Help: secondsMetric.means,
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, secondsMetric.labels)
}

func scrapeHandler(reg *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError, // a store that is away must not hide the rest
		MaxRequestsInFlight: 4,
	})
}

// request counts one answered request. Labels come from the route's table, never
// from the caller, so that nobody can make up new ones.
func (m *metrics) request(x *exchange, method string, took time.Duration) {
	pattern := "none"
	if x.route != nil {
		pattern = x.route.path
	}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions:
	default:
		method = "other"
	}
	code := x.status
	if code == 0 {
		code = http.StatusOK // what net/http sends for a handler that wrote nothing
	}
	m.requests.WithLabelValues(pattern, method, codeText(code)).Inc()
	if x.route == nil || !x.route.stream {
		m.seconds.WithLabelValues(pattern).Observe(took.Seconds())
	}
}

func codeText(code int) string {
	switch code { // the frequent ones without making a string
	case http.StatusOK:
		return "200"
	case http.StatusAccepted:
		return "202"
	}
	return strconv.Itoa(code)
}

// WatchSteps has /metrics show how many steps were abandoned. To be called once,
// before Run.
func (s *Server) WatchSteps(abandoned func() int64) error {
	return s.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: abandonedMetric.name, Help: abandonedMetric.means},
		func() float64 { return float64(abandoned()) }))
}

// storeGauges asks the store at each scrape.
type storeGauges struct {
	store *orders.Store
	descs map[*metric]*prometheus.Desc
}

func newStoreGauges(store *orders.Store) *storeGauges {
	g := &storeGauges{store: store, descs: map[*metric]*prometheus.Desc{}}
	for _, m := range metricTable {
		switch m {
		case requestsMetric, secondsMetric, streamsMetric, buildMetric, abandonedMetric:
		default:
			g.descs[m] = prometheus.NewDesc(m.name, m.means, m.labels, nil)
		}
	}
	return g
}

// Describe implements prometheus.Collector.
func (g *storeGauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *storeGauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), gaugesTimeout)
	defer cancel()
	send := func(m *metric, v float64, labels ...string) {
		kind := prometheus.GaugeValue
		if m.kind == "counter" {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(g.descs[m], kind, v, labels...)
	}
	v, err := g.store.Gauges(ctx)
	if err != nil {
		send(storeUpMetric, 0)
		return
	}
	send(storeUpMetric, 1)
	for _, s := range orders.Statuses() { // all of them: a gauge that comes and goes is hard to watch
		send(ordersMetric, float64(v.ByStatus[s]), string(s))
	}
	send(unsentMetric, float64(v.Unsent))
	send(retriesDueMetric, float64(v.RetriesDue))
	send(retriesWaitMetric, float64(v.Waiting))
	for _, c := range v.DeadLetters {
		send(deadOpenMetric, float64(c.Count), c.Class)
		for _, a := range c.AtStake {
			send(deadStakeMetric, a.Float(), c.Class, string(a.Currency))
		}
	}
	send(putBackMetric, float64(v.PutBack))
	age := 0.0
	if v.OldestDeadLetter != 0 {
		age = max(0, time.Since(v.OldestDeadLetter.Time()).Seconds())
	}
	send(deadOldestMetric, age)
	for subscriber, n := range v.PendingDeliveries {
		send(deliveriesMetric, float64(n), subscriber)
	}
	send(voidsDueMetric, float64(v.DueVoids))
	send(unnumberedMetric, float64(v.UnnumberedEvents))
}
