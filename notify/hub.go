package notify

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderd/orders"
)

// Hub hands the event log, as it grows, to listeners of this process. It reads
// the store and needs no broker.
type Hub struct {
	store *orders.Store
	log   zerolog.Logger

	mu        sync.Mutex // protects listeners
	listeners map[*listener]struct{}
}

type listener struct {
	filter orders.EventFilter
	events chan orders.Event
}

// NewHub makes a Hub.
func NewHub(store *orders.Store, log zerolog.Logger) *Hub {
	return &Hub{store: store, log: log, listeners: make(map[*listener]struct{})}
}

const (
	listenerBuffer = 1024
	tailBatch      = 500
	tailEvery      = 250 * time.Millisecond // other processes number events too
)

// Listen returns the events that f selects from now on, in order, and a
// function that ends it. The channel is closed when its reader was too slow or
// the hub stops.
func (h *Hub) Listen(f orders.EventFilter) (<-chan orders.Event, func()) {
	l := &listener{filter: f, events: make(chan orders.Event, listenerBuffer)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners == nil { // stopped
		close(l.events)
		return l.events, func() {}
	}
	h.listeners[l] = struct{}{}
	return l.events, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.drop(l)
	}
}

func (h *Hub) drop(l *listener) {
	if _, ok := h.listeners[l]; ok {
		delete(h.listeners, l)
		close(l.events)
	}
}

// Run tails the log until ctx ends; then all listeners end.
func (h *Hub) Run(ctx context.Context) error {
	defer h.stop()
	wake, unsubscribe := h.store.Subscribe(orders.SignalNumbered)
	defer unsubscribe()
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	at, known, away := int64(0), false, false
	for {
		err := h.tail(ctx, &at, &known)
		if err != nil && !away && ctx.Err() == nil {
			h.log.Warn().Err(err).Msg("event log cannot be read, trying on")
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-tick.C:
		}
	}
}

func (h *Hub) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		h.drop(l)
	}
	h.listeners = nil
}

// tail hands out what is new since *at.
func (h *Hub) tail(ctx context.Context, at *int64, known *bool) error {
	if !*known {
		_, last, err := h.store.LastEvent(ctx)
		if err != nil {
			return err
		}
		*at, *known = last, true
	}
	for {
		events, err := h.store.EventsAfter(ctx, *at, tailBatch, orders.EventFilter{})
		if err != nil {
			return err
		}
		for i := range events {
			h.hand(&events[i])
			*at = events[i].Number
		}
		if len(events) < tailBatch {
			return nil
		}
	}
}

func (h *Hub) hand(e *orders.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if !l.filter.Match(e) {
			continue
		}
		select {
		case l.events <- *e:
		default:
			h.log.Warn().Msg("live listener is too slow and is dropped")
			h.drop(l)
		}
	}
}
