package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubemq-io/kubemq-go/v2"
	"github.com/rs/zerolog"

	"orderd/orders"
)

// Options says which channels are used and how they are polled.
type Options struct {
	OrdersChannel   string        // where orders go first
	RetryChannel    string        // where orders go again
	DLQChannel      string        // where the broker and we put dead letters
	PollMaxItems    int           // most messages asked for at once
	PollWait        time.Duration // longest wait of a poll, in whole seconds
	MaxReceiveCount int           // deliveries before the broker dead-letters
}

// Dial connects a client to the broker. It blocks until the connection stands
// or ctx ends; then it returns ctx's error.
type Dial func(ctx context.Context, clientID string) (*kubemq.Client, error)

// Channel names one of the queues.
type Channel uint8

// The queues.
const (
	Orders Channel = iota
	Retry
	DeadLetters
)

// Queue puts orders on queues. Safe for concurrent use.
type Queue struct {
	options Options
	remote  bool
	dial    Dial
	name    string
	log     zerolog.Logger

	mu     sync.Mutex // protects client; not held while connecting or sending
	client *kubemq.Client

	receiving atomic.Int32 // receivers whose stream stands
}

// New makes a Queue whose clients are named after name, which no other process
// may use. remote says that the broker may be a real KubeMQ server, whose ways
// the receivers then respect.
func New(o Options, remote bool, dial Dial, name string, log zerolog.Logger) *Queue {
	return &Queue{options: o, remote: remote, dial: dial, name: name, log: log}
}

// Close ends the sending side.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.client == nil {
		return nil
	}
	err := q.client.Close()
	q.client = nil
	return err
}

func (q *Queue) channelName(c Channel) string {
	switch c {
	case Retry:
		return q.options.RetryChannel
	case DeadLetters:
		return q.options.DLQChannel
	}
	return q.options.OrdersChannel
}

// sendTimeout bounds one batch: a broker that does not answer is away.
const sendTimeout = 10 * time.Second

// Send puts a batch on its queues and says which got there. An error says why
// the others did not; they may have got there nevertheless.
func (q *Queue) Send(ctx context.Context, ds []orders.Dispatch) (sent, unsent []orders.Dispatch, err error) {
	client, err := q.sender(ctx)
	if err != nil {
		return nil, ds, err
	}
	msgs := make([]*kubemq.QueueMessage, len(ds))
	for i := range ds {
		msgs[i] = q.message(&ds[i])
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	results, err := client.SendQueueMessages(ctx, msgs)
	if err != nil {
		q.drop(client)
		return nil, ds, fmt.Errorf("send %d orders: %w", len(ds), err)
	}
	for i := range ds {
		switch {
		case i >= len(results):
			unsent = append(unsent, ds[i])
			err = errors.Join(err, fmt.Errorf("send order %s: no answer", ds[i].OrderID))
		case results[i].IsError:
			unsent = append(unsent, ds[i])
			err = errors.Join(err, fmt.Errorf("send order %s: %s", ds[i].OrderID, results[i].Error))
		default:
			sent = append(sent, ds[i])
		}
	}
	return sent, unsent, err
}

// sender returns the client, connecting first if there is none.
func (q *Queue) sender(ctx context.Context) (*kubemq.Client, error) {
	q.mu.Lock()
	client := q.client
	q.mu.Unlock()
	if client != nil {
		return client, nil
	}
	client, err := q.dial(ctx, "orderd-relay-"+q.name)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.client != nil { // another was faster
		return q.client, client.Close()
	}
	q.client = client
	return client, nil
}

// drop closes a client that failed; the next Send makes a new one. A client
// that only sends comes back by itself, but one that the server has turned
// away does not.
func (q *Queue) drop(client *kubemq.Client) {
	q.mu.Lock()
	mine := q.client == client
	if mine {
		q.client = nil
	}
	q.mu.Unlock()
	if mine {
		if err := client.Close(); err != nil {
			q.log.Debug().Err(err).Msg("client closed with an error")
		}
	}
}

// Connect connects the sending side. It blocks until that stands or ctx ends.
func (q *Queue) Connect(ctx context.Context) error {
	_, err := q.sender(ctx)
	return err
}

// State is "ok" while the broker can be reached, else "connecting".
func (q *Queue) State() string {
	q.mu.Lock()
	client := q.client
	q.mu.Unlock()
	if q.receiving.Load() > 0 || client != nil && client.State() == kubemq.StateReady {
		return "ok"
	}
	return "connecting"
}

// The tags and metadata of our messages.
const (
	metadata    = "order.created"
	tagCustomer = "customer"
	tagOrigin   = "origin"
	tagRound    = "round"
	tagReason   = "reason"
)

// Bounds that KubeMQ sets: expiration in whole seconds from 1 to 12 hours
// (error 133 beyond), receive counts up to 1,024 (error 134 beyond).
const maxExpirationSeconds = 43_200

// maxReasonBytes bounds the tag: the whole reason is in the store.
const maxReasonBytes = 200

func (q *Queue) message(d *orders.Dispatch) *kubemq.QueueMessage {
	tags := map[string]string{tagCustomer: d.Customer, tagOrigin: orders.Origin, tagRound: strconv.Itoa(d.Round)}
	if d.Kind == orders.DispatchDeadLetter {
		tags[tagReason] = strings.ToValidUTF8(d.Reason[:min(len(d.Reason), maxReasonBytes)], "")
	}
	m := kubemq.NewQueueMessage().SetMetadata(metadata).SetBody(d.Body).SetTags(tags)
	switch d.Kind {
	case orders.DispatchDeadLetter:
		return m.SetChannel(q.options.DLQChannel) // without a policy: a copy waits for whoever watches that queue
	case orders.DispatchRetry:
		m.SetChannel(q.options.RetryChannel)
	default:
		m.SetChannel(q.options.OrdersChannel)
	}
	m.SetMaxReceiveCount(q.options.MaxReceiveCount).SetMaxReceiveQueue(q.options.DLQChannel)
	if d.ExpiresAt != 0 {
		left := int((d.Left + time.Second - 1) / time.Second)
		m.SetExpirationSeconds(min(max(1, left), maxExpirationSeconds))
	}
	return m
}
