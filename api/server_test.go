package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"orderd/api"
)

func TestNew_AddressTaken(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	_, err := api.New(api.Options{Addr: w.server.Addr()}, w.store, w.tail, nil, prometheus.NewRegistry(), zerolog.Nop())
	if err == nil || !strings.Contains(err.Error(), w.server.Addr()) {
		t.Errorf("error = %v, want one that names the address", err)
	}
}

func TestReadyz(t *testing.T) {
	t.Parallel()
	var broker atomic.Value
	broker.Store("connecting")
	w := start(t, api.Options{}, func() map[string]string { return map[string]string{"broker": broker.Load().(string)} })
	ready := func(code int, status, part string) {
		t.Helper()
		var h struct {
			Status string
			Parts  map[string]string
		}
		w.must(code, "GET", "/readyz", "").into(t, &h)
		if h.Status != status || h.Parts["broker"] != part || h.Parts["store"] != "ok" {
			t.Errorf("readyz = %+v, want %s with broker %s", h, status, part)
		}
	}
	ready(200, "degraded", "connecting")
	broker.Store("ok")
	ready(200, "ready", "ok")
	if got := w.must(200, "GET", "/healthz", "").body; got != `{"status":"ok"}` {
		t.Errorf("healthz = %s", got)
	}

	if err := api.Healthcheck(context.Background(), w.server.Addr()); err != nil {
		t.Errorf("Healthcheck: %v", err)
	}
	_, port, _ := net.SplitHostPort(w.server.Addr())
	for _, unspecified := range []string{":" + port, "0.0.0.0:" + port} {
		if err := api.Healthcheck(context.Background(), unspecified); err != nil {
			t.Errorf("Healthcheck %s: %v", unspecified, err)
		}
	}

	w.stop()
	if err := <-w.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	w.ended <- nil // for the cleanup
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, httptest.NewRequest("GET", "/readyz", nil))
	if rec.Code != 503 || !strings.Contains(rec.Body.String(), `"draining"`) {
		t.Errorf("readyz while draining: %d %s", rec.Code, rec.Body)
	}
	if err := api.Healthcheck(context.Background(), w.server.Addr()); err == nil {
		t.Error("Healthcheck of a stopped server says that it is ready")
	}
}

// TestRun_FinishesRequests stops the server while a request is half sent.
func TestRun_FinishesRequests(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	conn, err := net.Dial("tcp", w.server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(waitLimit)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(goodOrder))
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("got %q, %v; want 100 Continue, which says that the body is being read", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}

	w.stop()
	waitFor(t, "the listener to close", func() bool {
		c, err := net.Dial("tcp", w.server.Addr())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	fmt.Fprint(conn, goodOrder)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 202 {
		t.Errorf("status %d, want 202", resp.StatusCode)
	}
	if err := <-w.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	w.ended <- nil
	if got := w.accepted(); got != 1 {
		t.Errorf("%d orders stored, want 1", got)
	}
	if log := w.log.String(); strings.Contains(log, `"level":"error"`) {
		t.Errorf("a clean stop has error lines:\n%s", log)
	}
}

// waitFor asks until what is waited for has happened.
func waitFor(t testing.TB, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waitLimit); !happened(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", waitLimit, what)
		}
	}
}

func TestStoreAway(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	// A server of its own, on a store that is closed.
	store := openStoreUnclosed(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	server, err := api.New(api.Options{Addr: "127.0.0.1:0"}, store, w.tail, nil, prometheus.NewRegistry(), zerolog.New(w.log))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	away := &world{t: t, url: "http://" + server.Addr(), client: w.client}
	for _, a := range []answer{
		away.must(503, "POST", "/orders", goodOrder), away.must(503, "GET", "/orders", ""), away.must(503, "GET", "/orders/x", ""),
		away.must(503, "GET", "/events", ""), away.must(503, "GET", "/books", ""), away.must(503, "GET", "/dead-letters", ""),
	} {
		a.problem(t)
		if a.header.Get("Retry-After") == "" || a.header.Get("Retry-After") == "0" {
			t.Errorf("Retry-After = %q", a.header.Get("Retry-After"))
		}
	}
	if a := away.must(503, "GET", "/readyz", ""); !strings.Contains(a.body, `"unavailable"`) {
		t.Errorf("readyz = %s", a.body)
	}
	away.must(200, "GET", "/healthz", "")
	if a := away.must(200, "GET", "/metrics", ""); !strings.Contains(a.body, "\norderd_store_up 0\n") || strings.Contains(a.body, "\norderd_unsent ") {
		t.Error("metrics do not say that the store is away")
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{Version: "1.2.3"}, nil)
	w.place("a")
	w.place("b")
	w.kill("b")
	w.must(404, "GET", "/orders/none", "")
	w.must(404, "GET", "/no/such/path", "")
	w.must(405, "BREW", "/orders", "")
	body := w.must(200, "GET", "/metrics", "").body
	for _, want := range []string{
		`orderd_http_requests_total{code="202",method="POST",route="/orders"} 2`,
		`orderd_http_requests_total{code="404",method="GET",route="/orders/{id}"} 1`,
		`orderd_http_requests_total{code="404",method="GET",route="none"} 1`,
		`orderd_http_requests_total{code="405",method="other",route="none"} 1`,
		`orderd_http_request_seconds_count{route="/orders"} 2`,
		`orderd_build_info{version="1.2.3"} 1`,
		`orderd_event_streams 0`,
		`orderd_store_up 1`,
		`orderd_orders{status="created"} 1`,
		`orderd_orders{status="failed"} 1`,
		`orderd_orders{status="delivered"} 0`,
		`orderd_dead_letters{class="payment_refused"} 1`,
		`orderd_dead_letters_amount{class="payment_refused",currency="USD"} 149.97`,
		`orderd_orders_put_back_total 0`,
		`orderd_voids_due 0`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	for _, name := range []string{"orderd_unsent", "orderd_retries_due", "orderd_retries_waiting", "orderd_oldest_dead_letter_seconds", "orderd_events_unnumbered", "go_goroutines", "process_open_fds"} {
		if !regexp.MustCompile(`(?m)^` + name + ` [0-9]`).MatchString(body) {
			t.Errorf("metrics lack %s", name)
		}
	}
}

// TestOpenAPI checks that every path is described and every reference leads
// somewhere.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{Version: "9.9"}, nil)
	a := w.must(200, "GET", "/openapi.json", "")
	var doc struct {
		OpenAPI    string
		Info       struct{ Title, Version string }
		Paths      map[string]map[string]struct{ Responses map[string]any }
		Components struct{ Schemas map[string]any }
	}
	a.into(t, &doc)
	if doc.OpenAPI != "3.1.0" || doc.Info.Version != "9.9" {
		t.Errorf("openapi %q, version %q", doc.OpenAPI, doc.Info.Version)
	}
	for _, want := range []string{"post /orders", "get /orders/{id}", "put /inventory/{sku}", "post /dead-letters/{id}/discard", "get /events", "get /readyz"} {
		method, path, _ := strings.Cut(want, " ")
		if len(doc.Paths[path][method].Responses) < 2 {
			t.Errorf("%s is not described", want)
		}
	}
	for _, m := range regexp.MustCompile(`"\$ref":"([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
		name := strings.TrimPrefix(m[1], "#/components/schemas/")
		if doc.Components.Schemas[name] == nil {
			t.Errorf("%s leads nowhere", m[1])
		}
	}
	if !json.Valid([]byte(a.body)) {
		t.Error("not JSON")
	}
}
