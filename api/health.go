package api

import (
	"context"
	"maps"
	"net/http"
)

// health is the answer of both probes.
type health struct {
	Status string            `json:"status"` // ok; ready, degraded, draining, unavailable
	Parts  map[string]string `json:"parts,omitempty"`
}

func (s *Server) healthz(x *exchange, _ *http.Request) error {
	return x.encode(http.StatusOK, health{Status: "ok"})
}

// readyz says no only when orders cannot be taken: while draining and without the
// store. Anything else that is away makes the process degraded, and orders are
// taken all the same.
func (s *Server) readyz(x *exchange, r *http.Request) error {
	h := health{Status: "ready", Parts: map[string]string{}}
	maps.Copy(h.Parts, s.parts())
	for _, state := range h.Parts {
		if state != "ok" {
			h.Status = "degraded"
		}
	}
	code := http.StatusOK
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	h.Parts["store"] = "ok"
	if err := s.store.Ping(ctx); err != nil {
		s.log.Warn().Err(err).Msg("store does not answer")
		h.Parts["store"], h.Status, code = "unavailable", "unavailable", http.StatusServiceUnavailable
	}
	if s.draining.Load() {
		h.Status, code = "draining", http.StatusServiceUnavailable
	}
	if code != http.StatusOK {
		x.Header().Set("Retry-After", "1")
	}
	return x.encode(code, h)
}

func (s *Server) serveOpenAPI(x *exchange, _ *http.Request) error {
	return x.json(http.StatusOK, s.openapi)
}

func (s *Server) serveMetrics(x *exchange, r *http.Request) error {
	s.scrape.ServeHTTP(x, r)
	return nil
}

func (s *Server) serveConsole(x *exchange, _ *http.Request) error {
	h := x.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", s.page.CSP)
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = x.Write(s.page.HTML) // a browser that left needs no page
	return nil
}
