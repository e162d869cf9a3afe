// Package api is orderd's HTTP side: orders in, orders out, dead letters,
// inventory, statistics, the live stream of status events, probes, metrics and
// the console page.
//
// # Life
//
// New listens at once, so that an address that cannot be used stops the start.
// Run serves until its context ends; then /readyz turns 503, event streams end,
// requests that are under way are answered, and Run returns nil.
//
// # Promises
//
// The table in routes.go is the whole API: routing, accepted query parameters,
// /openapi.json and docs/api.md follow from it. Every failure is an
// application/problem+json (RFC 9457) made in problem.go; the cause of an
// internal error goes to the log and never to the caller. A request is bounded
// in headers, body and time. A POST /orders that was answered 202 is on disk.
//
// # Not promised
//
// There is no TLS and no rate limit here: that is for what stands in front.
// A client of the event stream that reconnects without Last-Event-ID, which
// browsers send by themselves, misses what happened in between.
package api
