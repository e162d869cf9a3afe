package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"orderd/api"
)

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{APIKeys: []string{"first-key", "", "second-key"}}, nil)
	for _, path := range []string{"/", "/healthz", "/readyz"} {
		w.must(200, "GET", path, "")
	}
	for _, path := range []string{"/orders", "/orders/x", "/dead-letters", "/deliveries", "/inventory", "/stats", "/books", "/events", "/metrics", "/openapi.json"} {
		a := w.must(401, "GET", path, "")
		a.problem(t)
		if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: WWW-Authenticate = %q", path, a.header.Get("WWW-Authenticate"))
		}
	}
	w.must(401, "POST", "/orders", goodOrder).problem(t)
	for _, bad := range [][]string{
		{"X-API-Key", "first"}, {"X-API-Key", "first-key2"}, {"Authorization", "Bearer"}, {"Authorization", "Bearer "},
		{"Authorization", "Basic first-key"}, {"Authorization", "first-key"}, {"Authorization", "Bearer FIRST-KEY"},
	} {
		w.must(401, "GET", "/orders", "", bad...).problem(t)
	}
	if got := w.accepted(); got != 0 {
		t.Errorf("%d orders stored without a key", got)
	}
	for _, good := range [][]string{
		{"X-API-Key", "first-key"}, {"Authorization", "Bearer second-key"}, {"Authorization", "bearer first-key"},
	} {
		w.must(200, "GET", "/orders", "", good...)
	}

	w.must(202, "POST", "/orders", goodOrder, "X-API-Key", "first-key")
	w.must(200, "POST", "/orders/ORD-2001/cancel", "", "X-API-Key", "second-key")
	var o order
	w.must(200, "GET", "/orders/ORD-2001", "", "X-API-Key", "first-key").into(t, &o)
	sum := sha256.Sum256([]byte("second-key"))
	if got, want := o.History[len(o.History)-1].By, "api:"+hex.EncodeToString(sum[:4]); got != want {
		t.Errorf("cancelled by %q, want %q", got, want)
	}
	if log := w.log.String(); strings.Contains(log, "second-key") {
		t.Error("the log has a key")
	}
}

func TestRouting(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	for _, path := range []string{"/nothing", "/orders/", "/orders/a/b", "/orders/a/b/c", "//orders", "/Orders", "/orders/../orders"} {
		w.must(404, "GET", path, "").problem(t)
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"DELETE", "/orders", "GET, HEAD, POST"},
		{"PUT", "/orders/a", "GET, HEAD"},
		{"GET", "/orders/a/ship", "POST"},
		{"POST", "/inventory/a", "GET, HEAD, PUT"},
		{"OPTIONS", "/books", "GET, HEAD"},
		{"PURGE", "/", "GET, HEAD"},
	} {
		a := w.must(405, tt.method, tt.path, "")
		a.problem(t)
		if got := a.header.Get("Allow"); got != tt.allow {
			t.Errorf("%s %s: Allow = %q, want %q", tt.method, tt.path, got, tt.allow)
		}
	}
	for path, field := range map[string]string{
		"/orders?stauts=failed": "stauts", "/orders?limit=1&limit=2": "limit", "/orders?limit=0": "limit", "/orders?limit=501": "limit",
		"/orders?limit=x": "limit", "/orders?status=done": "status", "/orders?cursor=nonsense!": "cursor", "/orders?customer=%00": "customer",
		"/orders?customer=%ff": "customer", "/orders/a?x=1": "x", "/books?x": "x", "/dead-letters?status=failed": "status",
		"/dead-letters?before=soon": "before", "/dead-letters?cursor=%25": "cursor", "/inventory?cursor=a%20b": "cursor", "/deliveries?cursor=a%20b": "cursor",
	} {
		if p := w.must(422, "GET", path, "").problem(t); p.Field != field {
			t.Errorf("%s: field %q, want %q", path, p.Field, field)
		}
	}
	w.must(422, "POST", "/orders?dryRun=1", goodOrder).problem(t)
	w.must(400, "GET", "/orders?customer=%zz", "").problem(t)
	w.must(200, "GET", "/healthz?probe=1", "")

	t.Run("HEAD", func(t *testing.T) {
		w.place("a")
		get, head := w.must(200, "GET", "/orders/a", ""), w.must(200, "HEAD", "/orders/a", "")
		if head.body != "" || head.header.Get("Content-Length") != get.header.Get("Content-Length") {
			t.Errorf("HEAD has body %q and Content-Length %s; GET %s", head.body, head.header.Get("Content-Length"), get.header.Get("Content-Length"))
		}
	})
	t.Run("RequestID", func(t *testing.T) {
		if got := w.do("GET", "/books", "", "X-Request-Id", "my.own-id_7").header.Get("X-Request-Id"); got != "my.own-id_7" {
			t.Errorf("X-Request-Id = %q", got)
		}
		one, two := w.do("GET", "/books", "", "X-Request-Id", `"><b>`).header, w.do("GET", "/books", "").header
		if one.Get("X-Request-Id") == `"><b>` || one.Get("X-Request-Id") == two.Get("X-Request-Id") {
			t.Errorf("ids %q and %q", one.Get("X-Request-Id"), two.Get("X-Request-Id"))
		}
	})
}

func TestConsole(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	a := w.must(200, "GET", "/", "")
	if got := a.header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("Content-Type = %q", got)
	}
	csp := a.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("CSP %q lacks %s", csp, want)
		}
	}
	// The policy allows one script and one style, and no attribute that is either.
	for what, want := range map[string]int{"<script": 1, "<style": 1, " onclick=": 0, " style=": 0, "src=": 0, "http://": 1, "https://": 0, "innerHTML": 0} {
		if got := strings.Count(a.body, what); got != want { // http://: the namespace of the icon
			t.Errorf("the page has %d × %s, want %d", got, what, want)
		}
	}
	for k, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := a.header.Get(k); got != want {
			t.Errorf("%s = %q", k, got)
		}
	}
}

func TestOtherSites(t *testing.T) {
	t.Parallel()
	w := start(t, api.Options{}, nil)
	w.place("a")
	w.must(403, "POST", "/orders/a/cancel", "", "Origin", "https://evil.example").problem(t)
	w.must(200, "GET", "/orders/a", "", "Origin", "https://evil.example")
	w.must(http.StatusOK, "POST", "/orders/a/cancel", "", "Origin", w.url)
}
