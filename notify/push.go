package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"orderd/orders"
)

// NewPush makes the subscriber that posts every status change to PUSH_URL.
func NewPush(o Options, store *orders.Store, dial Dial, log zerolog.Logger) *Subscriber {
	s := newSubscriber("push", o, store, dial, log)
	s.effect = func(e *orders.Event) orders.Effect {
		return orders.Effect{Deliver: wanted(o.PushStatuses, e.Status), To: e.Customer}
	}
	s.sender = func(_ context.Context, d orders.Delivery) answer {
		log.Info().Str("to", d.To).Str("order_id", d.OrderID).Str("status", string(d.Event.Status)).Msg("push to customer (PUSH_URL is not set)")
		return answer{status: orders.DeliverySent, answer: "logged"}
	}
	if o.PushURL != "" {
		s.sender = newPusher(o.PushURL).send
	}
	return s
}

type pusher struct {
	url    string
	client *http.Client
}

func newPusher(url string) *pusher {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = deliverAtOnce
	return &pusher{url: url, client: &http.Client{Transport: transport,
		// A redirected POST would become a GET, or go to whom the user did not name.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

const maxAnswerBytes = 64 << 10

// send posts the event's body. 2xx is a yes; 408, 425, 429, 3xx and 5xx are
// worth another try; other 4xx are a no.
func (p *pusher) send(ctx context.Context, d orders.Delivery) answer {
	again := func(text string, after time.Duration) answer {
		return answer{status: orders.DeliveryPending, answer: text, after: after}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(d.Event.AppendBody(nil)))
	if err != nil {
		return answer{status: orders.DeliveryFailed, answer: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", d.Event.EventID())
	resp, err := p.client.Do(req)
	if err != nil {
		return again(err.Error(), 0)
	}
	// Read to its end, so that the connection can be used again.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswerBytes))
	if err := errors.Join(err, resp.Body.Close()); err != nil && resp.StatusCode >= 300 {
		return again(err.Error(), 0)
	}
	text := fmt.Sprintf("answered %d", resp.StatusCode)
	switch c := resp.StatusCode; {
	case c >= 200 && c < 300:
		return answer{status: orders.DeliverySent, answer: text}
	case c == http.StatusRequestTimeout, c == http.StatusTooEarly, c == http.StatusTooManyRequests, c < 400, c >= 500:
		return again(text, retryAfter(resp.Header))
	}
	return answer{status: orders.DeliveryFailed, answer: text}
}

// retryAfter reads the header of RFC 9110 in both of its forms; 0 if there is none.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
