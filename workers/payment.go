package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"orderd/orders"
)

// Payment is what a gateway is asked to authorise.
type Payment struct {
	Key      string // idempotency key: the same key is the same payment
	OrderID  string
	Customer string
	Amount   orders.Money
	Attempts int // failed attempts of the order so far in this round
}

// Gateway authorises, looks up and voids payments. Its methods return when ctx
// ends and are safe for concurrent use. There are two: an HTTP one and the
// simulator.
type Gateway interface {
	Authorise(ctx context.Context, p Payment) *PaymentError
	// Enquire tells what became of a key; PaymentNone if the gateway does not
	// know it or cannot tell.
	Enquire(ctx context.Context, p Payment) (orders.PaymentState, *PaymentError)
	// Void gives an authorisation back; nil if there is none any more.
	Void(ctx context.Context, key string) *PaymentError
}

// PaymentError says why a gateway did not do what it was asked.
type PaymentError struct {
	Refused bool // for good; otherwise the outcome is unknown or may change
	Class   string
	Reason  string
	After   time.Duration // what Retry-After asked for
}

// Error returns the reason.
func (e *PaymentError) Error() string { return e.Reason }

func (e *PaymentError) result() result {
	if !e.Refused {
		return retryLater(e.Class, e.Reason, e.After)
	}
	res := rejected(e.Class, e.Reason)
	res.payment = orders.PaymentRefused
	return res
}

// httpGateway is a gateway behind one URL.
type httpGateway struct {
	base   url.URL
	token  string
	client *http.Client
}

const (
	maxAnswerBytes = 64 << 10
	maxReasonBytes = 300
)

// NewGateway returns the gateway at PaymentURL, or the simulator if that is
// empty.
func NewGateway(o Options) (Gateway, error) {
	if o.PaymentURL == "" {
		return simulator{}, nil
	}
	u, err := url.Parse(o.PaymentURL)
	if err != nil {
		return nil, fmt.Errorf("read PAYMENT_URL: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = o.Workers + 1
	return &httpGateway{base: *u, token: o.PaymentToken, client: &http.Client{
		Transport: transport,
		// A redirected POST would become a GET, or go to whom the user did not name.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// url returns the gateway's URL with the key and more path after it.
func (g *httpGateway) url(key, more string) string {
	u := g.base
	if key != "" {
		path, raw := strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.EscapedPath(), "/")
		u.Path, u.RawPath = path+"/"+key+more, raw+"/"+url.PathEscape(key)+more
	}
	return u.String()
}

func (g *httpGateway) Authorise(ctx context.Context, p Payment) *PaymentError {
	body, err := json.Marshal(struct {
		OrderID  string `json:"orderId"`
		Customer string `json:"customer"`
		Amount   string `json:"amount"`
		Currency string `json:"currency"`
	}{p.OrderID, p.Customer, p.Amount.String(), string(p.Amount.Currency)})
	if err != nil {
		return &PaymentError{Class: "payment_request", Reason: err.Error()}
	}
	status, header, answer, err := g.do(ctx, http.MethodPost, g.url("", ""), p.Key, body)
	if err != nil {
		return unreachable(err)
	}
	return judge(status, header, answer)
}

// judge maps an answer to an authorisation: 2xx is a yes; 408, 429, 5xx and
// whatever is not meant for a program are not known yet; other 4xx are a no.
func judge(status int, header http.Header, answer []byte) *PaymentError {
	said := fmt.Sprintf("the gateway answered %d", status)
	if text := printable(answer); text != "" {
		said += ": " + text
	}
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status < 400, status >= 500:
		return &PaymentError{Class: "gateway_" + strconv.Itoa(status), Reason: said, After: retryAfter(header)}
	}
	return &PaymentError{Refused: true, Class: "payment_refused", Reason: said}
}

func (g *httpGateway) Enquire(ctx context.Context, p Payment) (orders.PaymentState, *PaymentError) {
	status, header, answer, err := g.do(ctx, http.MethodGet, g.url(p.Key, ""), "", nil)
	if err != nil {
		return "", unreachable(err)
	}
	switch status {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return orders.PaymentNone, nil
	default:
		return "", &PaymentError{Class: "gateway_" + strconv.Itoa(status), Reason: fmt.Sprintf("the gateway answered an enquiry with %d", status), After: retryAfter(header)}
	}
	var said struct {
		Status orders.PaymentState `json:"status"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return "", &PaymentError{Class: "gateway_answer", Reason: "the gateway's answer to an enquiry cannot be read: " + err.Error()}
	}
	switch said.Status {
	case orders.PaymentAuthorised, orders.PaymentRefused, orders.PaymentVoided:
		return said.Status, nil
	}
	return "", &PaymentError{Class: "gateway_answer", Reason: fmt.Sprintf("the gateway answered an enquiry with status %q", said.Status)}
}

func (g *httpGateway) Void(ctx context.Context, key string) *PaymentError {
	status, header, answer, err := g.do(ctx, http.MethodPost, g.url(key, "/void"), "", nil)
	switch {
	case err != nil:
		return unreachable(err)
	case status == http.StatusNotFound:
		return nil // there was nothing to give back
	}
	return judge(status, header, answer)
}

func (g *httpGateway) do(ctx context.Context, method, target, key string, body []byte) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if g.token != "" {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	// The status is the answer; a body that breaks off says nothing against it.
	if err := errors.Join(err, resp.Body.Close()); err != nil && resp.StatusCode == http.StatusOK && method == http.MethodGet {
		return 0, nil, nil, err
	}
	return resp.StatusCode, resp.Header, answer, nil
}

func unreachable(err error) *PaymentError {
	e := &PaymentError{Class: "gateway_unreachable", Reason: err.Error()}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Class, e.Reason = "gateway_timeout", "the gateway did not answer within STEP_TIMEOUT"
	}
	return e
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

// printable cuts an answer to what a log line and a dead letter can show.
func printable(b []byte) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return ' '
		}
		return r
	}, string(b[:min(len(b), maxReasonBytes)]))
	return strings.Join(strings.Fields(text), " ")
}
