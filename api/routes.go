package api

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// route is one thing that the API can do.
type route struct {
	method, path, does string
	handle             func(*Server, *exchange, *http.Request) error

	query    []*parameter
	body     string // schema of the request's body, empty if there is none
	lines    bool   // the body may come as NDJSON too, one element a line
	ok       string // the answer when all is well: status and schema
	also     string // another status of the same schema
	fails    string // statuses of problems that belong to this route
	open     bool   // needs no API key
	anyQuery bool   // takes whatever parameters there are, and ignores them
	stream   bool   // answers for as long as the caller listens
}

// routes is the whole API.
var routes = []*route{
	{method: "POST", path: "/orders", does: "take a new order", handle: (*Server).createOrder,
		body: "NewOrder", ok: "202 Order", fails: "400 409 413 415 422 503"},
	{method: "POST", path: "/orders/batch", does: "take up to 1,000 new orders in one transaction, with an answer for each", handle: (*Server).createOrders,
		body: "OrderBatch", lines: true, ok: "200 BatchResult", fails: "400 409 413 415 422 503"},
	{method: "GET", path: "/orders", does: "list orders, the newest first", handle: (*Server).listOrders,
		query: []*parameter{orderStatusParam, customerParam, limitParam, cursorParam}, ok: "200 OrderList", fails: "422 503"},
	{method: "GET", path: "/orders/{id}", does: "an order with its history and attempts", handle: (*Server).getOrder,
		ok: "200 Order", fails: "404 503"},
	{method: "POST", path: "/orders/{id}/ship", does: "a confirmed order was handed to a carrier", handle: (*Server).shipOrder,
		body: "Ship", ok: "200 Order", fails: "400 404 409 413 415 422 503"},
	{method: "POST", path: "/orders/{id}/deliver", does: "a shipped order has arrived", handle: (*Server).deliverOrder,
		body: "Empty", ok: "200 Order", fails: "400 404 409 413 415 422 503"},
	{method: "POST", path: "/orders/{id}/cancel", does: "cancel an order; 202 while a worker holds it", handle: (*Server).cancelOrder,
		body: "Reason", ok: "200 Order", also: "202", fails: "400 404 409 413 415 422 503"},
	{method: "POST", path: "/orders/{id}/redrive", does: "start a failed or expired order again", handle: (*Server).redriveOrder,
		query: []*parameter{forceParam}, body: "Empty", ok: "202 Order", fails: "400 404 409 413 415 422 503"},

	{method: "GET", path: "/dead-letters", does: "list dead letters, the newest first", handle: (*Server).listDeadLetters,
		query: []*parameter{deadLetterStatusParam, errorClassParam, customerParam, reasonParam, beforeParam, afterParam, limitParam, cursorParam}, ok: "200 DeadLetterList", fails: "422 503"},
	{method: "GET", path: "/dead-letters/summary", does: "dead letters by error class, with what their orders are worth", handle: (*Server).sumUpDeadLetters,
		query: []*parameter{deadLetterStatusParam, errorClassParam, customerParam, reasonParam, beforeParam, afterParam}, ok: "200 DeadLetterSummary", fails: "422 503"},
	{method: "POST", path: "/dead-letters/redrive", does: "start all open dead letters of a filter again, at a rate; 200 for a dry run", handle: (*Server).redriveDeadLetters,
		query: []*parameter{openStatusParam, errorClassParam, customerParam, reasonParam, beforeParam, afterParam, rateParam, forceParam, dryRunParam},
		body:  "Empty", ok: "202 Redrive", also: "200", fails: "400 413 415 422 503"},
	{method: "GET", path: "/dead-letters/{id}", does: "a dead letter with its order and attempts", handle: (*Server).getDeadLetter,
		ok: "200 DeadLetter", fails: "404 503"},
	{method: "POST", path: "/dead-letters/{id}/redrive", does: "start the order of an open dead letter again", handle: (*Server).redriveDeadLetter,
		query: []*parameter{forceParam}, body: "Empty", ok: "202 Order", fails: "400 404 409 413 415 422 503"},
	{method: "PATCH", path: "/dead-letters/{id}/order", does: "edit the order of an open dead letter", handle: (*Server).editDeadLetter,
		body: "OrderEdit", ok: "200 Order", fails: "400 404 409 413 415 422 503"},
	{method: "POST", path: "/dead-letters/{id}/discard", does: "close an open dead letter for good", handle: (*Server).discardDeadLetter,
		body: "Reason", ok: "200 DeadLetter", fails: "400 404 409 413 415 422 503"},

	{method: "GET", path: "/redrives", does: "list redrives of many dead letters, the newest first", handle: (*Server).listRedrives,
		query: []*parameter{limitParam, cursorParam}, ok: "200 RedriveList", fails: "422 503"},
	{method: "GET", path: "/redrives/{id}", does: "how far a redrive is", handle: (*Server).getRedrive,
		ok: "200 Redrive", fails: "404 503"},
	{method: "POST", path: "/redrives/{id}/cancel", does: "end a running redrive", handle: (*Server).cancelRedrive,
		body: "Empty", ok: "200 Redrive", fails: "400 404 409 413 415 422 503"},
	{method: "GET", path: "/audit", does: "what people did, the newest first", handle: (*Server).listAudit,
		query: []*parameter{byParam, actionParam, targetParam, auditBeforeParam, auditAfterParam, limitParam, cursorParam}, ok: "200 Audit", fails: "422 503"},

	{method: "GET", path: "/deliveries", does: "list mails and pushes, the newest first", handle: (*Server).listDeliveries,
		query: []*parameter{subscriberParam, deliveryStatusParam, orderIDParam, limitParam, cursorParam}, ok: "200 DeliveryList", fails: "422 503"},
	{method: "GET", path: "/inventory", does: "list what is on hand, by sku", handle: (*Server).listInventory,
		query: []*parameter{limitParam, cursorParam}, ok: "200 StockList", fails: "422 503"},
	{method: "GET", path: "/inventory/{sku}", does: "what is on hand of a sku", handle: (*Server).getInventory,
		ok: "200 Stock", fails: "404 503"},
	{method: "PUT", path: "/inventory/{sku}", does: "set what is on hand of a sku", handle: (*Server).putInventory,
		body: "OnHand", ok: "200 Stock", fails: "400 413 415 422 503"},
	{method: "GET", path: "/stats", does: "orders and revenue by status", handle: (*Server).getStats,
		query: []*parameter{fromParam, toParam, stepParam}, ok: "200 Stats", fails: "422 503"},
	{method: "GET", path: "/books", does: "count all orders by where they are", handle: (*Server).getBooks,
		ok: "200 Books", fails: "503"},
	{method: "GET", path: "/events", does: "status events as they happen (server-sent events)", handle: (*Server).streamEvents,
		query: []*parameter{lastEventParam, eventStatusParam, customerParam, orderIDParam}, ok: "200 text/event-stream", fails: "422 503", stream: true},

	{method: "GET", path: "/healthz", does: "200 as long as the process answers", handle: (*Server).healthz,
		ok: "200 Health", open: true, anyQuery: true},
	{method: "GET", path: "/readyz", does: "whether orders can be taken, and how the parts are", handle: (*Server).readyz,
		ok: "200 Ready", fails: "503", open: true, anyQuery: true},
	{method: "GET", path: "/metrics", does: "metrics for Prometheus", handle: (*Server).serveMetrics,
		ok: "200 text/plain", anyQuery: true},
	{method: "GET", path: "/openapi.json", does: "this API in OpenAPI 3.1", handle: (*Server).serveOpenAPI,
		ok: "200 application/json", anyQuery: true},
	{method: "GET", path: "/", does: "the console page", handle: (*Server).serveConsole,
		ok: "200 text/html", open: true, anyQuery: true},
}

// newRouter puts a table into a router. Every GET answers HEAD too.
func (s *Server) newRouter(table []*route) *chi.Mux {
	mux := chi.NewRouter()
	for _, rt := range table {
		mux.Method(rt.method, rt.path, s.handler(rt))
		if rt.method == http.MethodGet {
			mux.Method(http.MethodHead, rt.path, s.handler(rt))
		}
	}
	mux.NotFound(s.notFound)
	mux.MethodNotAllowed(s.methodNotAllowed)
	return mux
}

// allowed lists the methods that the path of r takes.
func (s *Server) allowed(r *http.Request) string {
	path := r.URL.Path
	if r.URL.RawPath != "" {
		path = r.URL.RawPath
	}
	var methods []string
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch} {
		if s.router.Match(chi.NewRouteContext(), m, path) {
			methods = append(methods, m)
		}
	}
	return strings.Join(methods, ", ")
}
