package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"google.golang.org/protobuf/proto"

	"orderd/broker/store"
)

// poll waits until there is a message in a queue and takes up to limit of them.
// It returns none when the wait is over, and errStopping or ctx's error when
// there is nobody to give them to. What it returns must be confirmed or settled
// before it is delivered.
func (qs *queues) poll(ctx context.Context, stop <-chan struct{}, name string, limit int, wait time.Duration) (grant, error) {
	w := &waiter{max: limit, granted: make(chan grant, 1)}
	qs.change(true, func(c *change) {
		q := qs.queue(name)
		w.place = q.waiters.PushBack(w)
		c.touch(q)
	})
	var g grant
	var err error
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case g = <-w.granted:
	case <-timer.C:
		g = qs.withdraw(name, w)
	case <-ctx.Done():
		g, err = qs.withdraw(name, w), ctx.Err()
	case <-stop:
		g, err = qs.withdraw(name, w), errStopping
	}
	if err == nil {
		err = ctx.Err() // it may have ended at the same time
	}
	if err != nil {
		return grant{}, firstError(err, qs.giveBack(g.entries, false))
	}
	return g, nil
}

// confirm returns what was granted for a client that settles it, when it is on
// disk that it was received. If the client is gone by then it goes back.
func (qs *queues) confirm(ctx context.Context, g grant) ([]*pb.QueueMessage, error) {
	err := onDisk(g.commit)
	if err == nil {
		err = ctx.Err()
	}
	var messages []*pb.QueueMessage
	if err == nil {
		messages, err = qs.messages(g.entries)
	}
	if err != nil {
		return nil, firstError(err, qs.giveBack(g.entries, false))
	}
	return messages, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// withdraw ends a wait. It returns what was granted before that.
func (qs *queues) withdraw(name string, w *waiter) grant {
	qs.mu.Lock()
	waits := w.place != nil
	if waits {
		q := qs.byName[name]
		q.waiters.Remove(w.place)
		w.place = nil
		if !q.known && q.waiters.Len() == 0 {
			delete(qs.byName, name)
		}
	}
	qs.mu.Unlock()
	if waits {
		return grant{}
	}
	return <-w.granted
}

// peek waits like poll, but takes nothing. Receive counts are what they would be
// if the messages were received.
func (qs *queues) peek(ctx context.Context, stop <-chan struct{}, name string, limit int, wait time.Duration) ([]*pb.QueueMessage, error) {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	again := time.NewTicker(peekEvery)
	defer again.Stop()
	for {
		got, err := qs.look(name, limit)
		if len(got) > 0 || err != nil {
			return got, err
		}
		select {
		case <-again.C:
		case <-deadline.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-stop:
			return nil, nil
		}
	}
}

// peekEvery is how often a waiting peek looks: it must not stand among the
// waiters, which are there to take.
const peekEvery = 10 * time.Millisecond

// look returns the first messages of a queue as they are now.
func (qs *queues) look(name string, limit int) ([]*pb.QueueMessage, error) {
	qs.mu.Lock()
	var ready []peeked
	if q := qs.byName[name]; q != nil {
		now := time.Now().UnixNano()
		for _, e := range q.ready.list {
			if e.m.ExpiresAt == 0 || e.m.ExpiresAt > now {
				ready = append(ready, peeked{e, e.m.Received + 1})
			}
		}
	}
	qs.mu.Unlock()
	slices.SortFunc(ready, func(a, b peeked) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.m.Seq, b.m.Seq)) })
	var out []*pb.QueueMessage
	size := 0
	for i, e := range ready {
		if size += e.m.Size(); i >= limit || i > 0 && size > answerBytes {
			break
		}
		m, err := qs.message(e.m, e.received)
		if errors.Is(err, store.ErrGone) {
			continue
		}
		if err != nil {
			return nil, qs.unreadable(err)
		}
		out = append(out, m)
	}
	return out, nil
}

// unreadable logs why a message cannot be read and returns what to tell clients.
func (qs *queues) unreadable(err error) error {
	if errors.Is(err, store.ErrGone) {
		return err // its queue was deleted
	}
	qs.log.Error().Err(err).Msg("message cannot be read")
	return errNotRead
}

type peeked struct {
	*entry
	received int32
}

// hand returns what was granted for a client that does not settle it, when it is
// on disk that it is settled. If the client is gone before, it goes back.
func (qs *queues) hand(ctx context.Context, g grant) ([]*pb.QueueMessage, error) {
	messages, err := qs.messages(g.entries)
	if err = firstError(err, ctx.Err()); err != nil {
		return nil, firstError(err, qs.giveBack(g.entries, false))
	}
	if err := onDisk(qs.ack(g.entries, false)); err != nil {
		return nil, err
	}
	return messages, nil
}

// messages returns the messages as clients see them.
func (qs *queues) messages(list []*entry) ([]*pb.QueueMessage, error) {
	out := make([]*pb.QueueMessage, 0, len(list))
	for _, e := range list {
		m, err := qs.message(e.m, e.m.Received)
		if err != nil {
			return nil, qs.unreadable(err)
		}
		out = append(out, m)
	}
	return out, nil
}

func (qs *queues) message(m *store.Message, received int32) (*pb.QueueMessage, error) {
	payload, err := qs.store.Payload(m)
	if err != nil {
		return nil, err
	}
	out := new(pb.QueueMessage)
	if err := proto.Unmarshal(payload, out); err != nil {
		return nil, fmt.Errorf("decode message %d of queue %s: %w", m.Seq, m.Queue(), err)
	}
	out.Channel = m.Queue()
	if m.From != "" {
		out.Policy = &pb.QueueMessagePolicy{} // a dead letter has none; the payload keeps it for a way back
	}
	out.Attributes = &pb.QueueMessageAttributes{
		Timestamp: m.SentAt, Sequence: m.Seq, ReceiveCount: received, ReRouted: m.From != "", ReRoutedFromQueue: m.From,
		ExpirationAt: m.ExpiresAt, DelayedTo: m.DelayedTo,
	}
	return out, nil
}

// ack settles messages; what is not held any more is left alone. The commit is
// lazy unless somebody waits.
func (qs *queues) ack(list []*entry, lazy bool) *store.Commit {
	return qs.change(lazy, func(c *change) {
		for _, e := range list {
			if c.release(e) {
				c.Settle(e.m)
			}
		}
	})
}

// giveBack puts messages back to their places. Counted ones that were received
// as often as they may be become dead letters; the others were not received.
func (qs *queues) giveBack(list []*entry, counted bool) error {
	if len(list) == 0 {
		return nil
	}
	payloads := make([][]byte, len(list))
	if counted {
		for i, e := range list {
			if e.m.MaxReceived == 0 || e.m.Received < e.m.MaxReceived || e.m.DeadLetterTo == "" {
				continue
			}
			var err error
			if payloads[i], err = qs.store.Payload(e.m); err != nil && !errors.Is(err, store.ErrGone) {
				return qs.unreadable(err)
			}
		}
	}
	qs.change(true, func(c *change) {
		for i, e := range list {
			if !c.release(e) {
				continue
			}
			c.touch(e.q)
			if !counted {
				c.Receive(e.m, e.m.Received-1)
			}
			switch {
			case c.isExpired(e):
				c.expire(e)
			case counted && e.m.MaxReceived > 0 && e.m.Received >= e.m.MaxReceived:
				c.Settle(e.m)
				if e.m.DeadLetterTo != "" {
					c.put(e.m.DeadLetterTo, &store.Message{From: e.q.name}, payloads[i])
				}
			default:
				qs.schedule(e, c.now)
			}
		}
	})
	return nil
}

// requeue moves messages to the end of another queue, where they begin anew
// under the policy they were sent with.
func (qs *queues) requeue(list []*entry, name string) error {
	payloads := make([][]byte, len(list))
	policies := make([]*pb.QueueMessagePolicy, len(list))
	for i, e := range list {
		payload, err := qs.store.Payload(e.m)
		m := new(pb.QueueMessage)
		if err == nil {
			err = proto.Unmarshal(payload, m)
		}
		if err != nil {
			return firstError(qs.unreadable(err), qs.giveBack(list, true))
		}
		payloads[i], policies[i] = payload, m.GetPolicy()
	}
	qs.change(true, func(c *change) {
		for i, e := range list {
			if c.release(e) {
				c.Settle(e.m)
				c.put(name, newMessage(c.now, policies[i]), payloads[i])
			}
		}
	})
	return nil
}

// ackAll settles everything in a queue that nobody holds and that is not
// delayed. It returns how many that were when it is on disk.
func (qs *queues) ackAll(name string) (int, error) {
	n := 0
	commit := qs.change(false, func(c *change) {
		q := qs.byName[name]
		if q == nil {
			return
		}
		for _, e := range slices.Clone(q.ready.list) {
			qs.unschedule(e)
			if c.isExpired(e) {
				c.expire(e)
				continue
			}
			c.Settle(e.m)
			n++
		}
	})
	return n, onDisk(commit)
}

// expiredIn returns how many messages of a queue expired since the start.
func (qs *queues) expiredIn(name string) int {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.byName[name]; q != nil {
		return q.expired
	}
	return 0
}
