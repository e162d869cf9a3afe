package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orderd/orders"
)

const (
	heartbeatEvery   = 15 * time.Second
	streamWriteLimit = 10 * time.Second // for one write; a reader that takes longer is cut off
	relistenPause    = time.Second
	replayPage       = 500
	maxLiveBatch     = 64 // events that share one write when they come fast
)

// stream is one listener on GET /events.
type stream struct {
	s      *Server
	ctl    *http.ResponseController
	x      *exchange
	filter orders.EventFilter
	last   int64 // number of the last event that was sent or may be skipped
	buf    *buffer
}

// streamEvents sends status events until the caller leaves, is too slow, or the
// server drains. The log in the store is what is sent; live events only spare
// looking there.
func (s *Server) streamEvents(x *exchange, r *http.Request) error {
	filter, err := eventFilter(x)
	if err != nil {
		return err
	}
	after, resume, err := resumeAfter(x, r)
	if err != nil {
		return err
	}
	first, last, err := s.store.LastEvent(r.Context())
	if err != nil {
		return err
	}
	st := &stream{s: s, ctl: http.NewResponseController(x), x: x, filter: filter, last: last, buf: getBuffer()}
	defer st.buf.free()
	opening := ": orderd\n\n"
	if resume {
		st.last = after
		if after > last || after < first-1 {
			// What was asked for is gone: cut off by EVENT_RETENTION, or this is
			// another log. All that is left follows, and the caller is told.
			st.last = max(0, first-1)
			opening = fmt.Sprintf("event: reset\ndata: {\"first\":%d,\"last\":%d}\n\n", first, last)
		}
	}

	h := x.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // or nginx would hold events back
	if err := st.ctl.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("lift read deadline: %w", err)
	}
	if r.Method == http.MethodHead {
		return nil
	}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	st.buf.b = append(st.buf.b, opening...)
	if err := st.flush(); err != nil {
		return nil // the caller has left already
	}
	if err := st.run(r.Context()); err != nil {
		s.log.Debug().Err(err).Str("request_id", x.id).Int64("event", st.last).Msg("event stream ended")
	}
	return nil
}

func eventFilter(x *exchange) (orders.EventFilter, error) {
	f := orders.EventFilter{Customer: x.query.Get("customer")}
	var err error
	if f.OrderID, err = x.orderID("orderId"); err != nil {
		return f, err
	}
	for _, list := range x.query["status"] {
		for _, v := range strings.Split(list, ",") {
			status, err := orderStatus(v)
			if err != nil {
				return f, err
			}
			if status != "" {
				f.Statuses = append(f.Statuses, status)
			}
		}
	}
	return f, nil
}

// resumeAfter returns the number of the event after which the caller goes on, if
// it names one. The header goes first: browsers repeat the URL of the first time.
func resumeAfter(x *exchange, r *http.Request) (after int64, ok bool, err error) {
	field, v := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if v == "" {
		field, v = "after", x.query.Get("after")
	}
	if v == "" {
		return 0, false, nil
	}
	after, err = strconv.ParseInt(v, 10, 64)
	if err != nil || after < 0 {
		return 0, false, fault(orders.KindInvalid, field, "This has to be the number of an event.")
	}
	return after, true, nil
}

// run replays what the log has and then sends what comes. A listener that was
// dropped, because its reader was too slow for a while, goes on from the log.
func (st *stream) run(ctx context.Context) error {
	for {
		if err := st.replay(ctx); err != nil { // before listening: a long one would overflow the listener
			return err
		}
		events, stop := st.s.events.Listen(st.filter)
		err := st.replay(ctx) // what was numbered between the two
		if err == nil {
			err = st.live(ctx, events)
		}
		stop()
		if err != nil {
			return err
		}
		select { // a source that has stopped must not make this loop spin
		case <-time.After(relistenPause):
		case <-ctx.Done():
			return ctx.Err()
		case <-st.s.drain:
			return errDraining
		}
	}
}

var errDraining = fault(orders.KindUnavailable, "", "draining")

func (st *stream) replay(ctx context.Context) error {
	for {
		select {
		case <-st.s.drain:
			return errDraining
		default:
		}
		events, err := st.s.store.EventsAfter(ctx, st.last, replayPage, st.filter)
		if err != nil {
			return fmt.Errorf("read events after %d: %w", st.last, err)
		}
		for i := range events {
			st.append(&events[i])
		}
		if err := st.flush(); err != nil {
			return err
		}
		if len(events) < replayPage {
			return nil
		}
	}
}

// live returns nil when the channel is closed.
func (st *stream) live(ctx context.Context, events <-chan orders.Event) error {
	heartbeat := time.NewTicker(heartbeatEvery)
	defer heartbeat.Stop()
	for {
		open := true
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-st.s.drain:
			return errDraining
		case <-heartbeat.C:
			st.buf.b = append(st.buf.b, ": still here\n\n"...)
		case e, ok := <-events:
			if open = ok; ok {
				st.append(&e)
				open = st.gather(events)
			}
		}
		if err := st.flush(); err != nil {
			return err
		}
		if !open {
			return nil
		}
	}
}

// gather takes what else is there already, so that a burst is one write. It
// returns false if the channel is closed.
func (st *stream) gather(events <-chan orders.Event) bool {
	for range maxLiveBatch {
		select {
		case e, ok := <-events:
			if !ok {
				return false
			}
			st.append(&e)
		default:
			return true
		}
	}
	return true
}

// append adds an event to the buffer unless it was sent before.
func (st *stream) append(e *orders.Event) {
	if e.Number <= st.last {
		return
	}
	st.last = e.Number
	b := append(st.buf.b, "id: "...)
	b = strconv.AppendInt(b, e.Number, 10)
	b = append(b, "\nevent: order."...)
	b = append(b, e.Status...)
	b = append(b, "\ndata: "...)
	b = e.AppendBody(b)
	st.buf.b = append(b, "\n\n"...)
}

// flush sends the buffer.
func (st *stream) flush() error {
	if len(st.buf.b) == 0 {
		return nil
	}
	if err := st.ctl.SetWriteDeadline(time.Now().Add(streamWriteLimit)); err != nil {
		return fmt.Errorf("set write deadline: %w", err)
	}
	_, err := st.x.Write(st.buf.b)
	st.buf.b = st.buf.b[:0]
	if err != nil {
		return fmt.Errorf("send events: %w", err)
	}
	if err := st.ctl.Flush(); err != nil {
		return fmt.Errorf("send events: %w", err)
	}
	return nil
}
