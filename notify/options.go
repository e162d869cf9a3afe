package notify

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"time"

	"github.com/kubemq-io/kubemq-go/v2"

	"orderd/orders"
)

// Options says who is told of what.
type Options struct {
	EventsChannel    string        // KubeMQ channel of status events
	SMTPURL          string        // smtp://[user:password@]host:port[?tls=starttls|implicit|none]; empty: a log line per mail
	EmailFrom        string        // sender of mails
	EmailStatuses    []string      // statuses that are mailed; empty: all
	PushURL          string        // where pushes are posted; empty: a log line per push
	PushStatuses     []string      // statuses that are pushed; empty: all
	AnalyticsWorkers int           // subscriptions of analytics in this process
	SendTimeout      time.Duration // of one mail or push
	SendAttempts     int           // before a mail or push has failed
	RetryBase        time.Duration // upper bound of the first delay; doubles with each try
	RetryCap         time.Duration // upper bound of all delays, Retry-After included
}

// Dial connects a client to the broker. It blocks until the connection stands
// or ctx ends; then it returns ctx's error.
type Dial func(ctx context.Context, clientID string) (*kubemq.Client, error)

// Check returns every fault of the options, each with its variable.
func (o Options) Check() error {
	var faults []error
	if o.SMTPURL != "" {
		if _, err := parseSMTP(o.SMTPURL); err != nil {
			faults = append(faults, fmt.Errorf("SMTP_URL: %w", err))
		}
	}
	if _, err := mail.ParseAddress(o.EmailFrom); err != nil {
		faults = append(faults, fmt.Errorf("EMAIL_FROM=%q: %w", o.EmailFrom, err))
	}
	if u, err := url.Parse(o.PushURL); o.PushURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		faults = append(faults, errors.New("PUSH_URL: must be http://… or https://…"))
	}
	for name, list := range map[string][]string{"EMAIL_STATUSES": o.EmailStatuses, "PUSH_STATUSES": o.PushStatuses} {
		for _, s := range list {
			if !orders.Status(s).Valid() {
				faults = append(faults, fmt.Errorf("%s: %q is no status", name, s))
			}
		}
	}
	return errors.Join(faults...)
}

// wanted says whether a status is in a list, of which an empty one has all.
func wanted(list []string, s orders.Status) bool {
	return len(list) == 0 || slices.Contains(list, string(s))
}

// pause waits for d and says whether it did: not if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
