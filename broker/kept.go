package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/rs/zerolog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"orderd/broker/store"
)

// keptEvents is what KubeMQ calls Events Store: events in the store, and
// subscribers that read them there, each at its own pace.
type keptEvents struct {
	store *store.Store
	log   zerolog.Logger
	stop  <-chan struct{}

	mu      sync.Mutex // protects all below
	readers map[*reader]bool
	groups  map[store.Position]*group
}

func newKeptEvents(s *store.Store, stop <-chan struct{}, log zerolog.Logger) *keptEvents {
	return &keptEvents{store: s, log: log, stop: stop, readers: make(map[*reader]bool), groups: make(map[store.Position]*group)}
}

func (k *keptEvents) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.readers)
}

// add keeps an event.
func (k *keptEvents) add(ev *pb.EventReceive) (*store.Commit, error) {
	payload, err := proto.Marshal(ev)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	t := k.store.Begin()
	t.Event(ev.GetChannel(), payload)
	return t.Commit(false), nil
}

// reader is a subscriber. Those of one group share what they read.
type reader struct {
	k       *keptEvents
	at      store.Position
	after   uint64 // sequence of the last event sent; not used in a group
	group   *group
	dropped chan struct{} // closed when the channel is deleted
}

// subscribe makes a reader at the subscription's position. The first time, that
// is where the request says, and it is on disk before subscribe returns.
func (k *keptEvents) subscribe(r *pb.Subscribe) (*reader, error) {
	at := store.Position{Client: r.GetClientID(), Channel: r.GetChannel()}
	if r.GetGroup() != "" {
		at = store.Position{Channel: r.GetChannel(), Group: r.GetGroup()}
	}
	start := k.start(r)
	k.mu.Lock()
	t := k.store.Begin()
	rd := &reader{k: k, at: at, after: t.Position(at, start), dropped: make(chan struct{})}
	commit := t.Commit(false)
	if at.Group != "" {
		rd.group = k.join(at, rd.after)
	}
	k.readers[rd] = true
	k.mu.Unlock()
	if err := onDisk(commit); err != nil {
		k.unsubscribe(rd)
		return nil, err
	}
	return rd, nil
}

// start returns the sequence behind which a new subscription begins.
func (k *keptEvents) start(r *pb.Subscribe) uint64 {
	first, last := k.store.Bounds(r.GetChannel())
	value := r.GetEventsStoreTypeValue()
	switch r.GetEventsStoreTypeData() {
	case startFromFirst:
		return first - 1
	case startFromLast:
		return max(first, last) - 1
	case startAtSequence:
		return uint64(value) - 1
	case startAtTime:
		return k.store.FirstSince(r.GetChannel(), value) - 1
	case startAtTimeDelta:
		return k.store.FirstSince(r.GetChannel(), time.Now().Add(-time.Duration(value)*time.Second).UnixNano()) - 1
	default:
		return last
	}
}

func (k *keptEvents) unsubscribe(rd *reader) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.readers, rd)
	if g := rd.group; g != nil {
		if g.members--; g.members == 0 && k.groups[rd.at] == g {
			delete(k.groups, rd.at)
		}
	}
}

// delete removes a channel with its events and positions, and ends the
// subscriptions to it.
func (k *keptEvents) delete(channel string) error {
	k.mu.Lock()
	t := k.store.Begin()
	t.DeleteChannel(channel)
	commit := t.Commit(false)
	for rd := range k.readers {
		if rd.at.Channel == channel {
			close(rd.dropped)
			delete(k.readers, rd)
			delete(k.groups, rd.at)
		}
	}
	k.mu.Unlock()
	return onDisk(commit)
}

// subscribed returns the channels that somebody is subscribed to.
func (k *keptEvents) subscribed() map[string]bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	live := make(map[string]bool)
	for rd := range k.readers {
		live[rd.at.Channel] = true
	}
	return live
}

var errDropped = status.Error(codes.Aborted, "the channel was deleted")

// deliver sends events until the stream, the channel or the broker ends.
func (rd *reader) deliver(ctx context.Context, send func(*pb.EventReceive) error) error {
	for {
		var err error
		if rd.group != nil {
			err = rd.shared(ctx, send)
		} else {
			err = rd.alone(ctx, send)
		}
		switch {
		case errors.Is(err, errStopping):
			return stoppingStatus()
		case errors.Is(err, errNotRead):
			return status.Error(codes.Internal, err.Error())
		case err != nil:
			return err
		}
	}
}

// await waits until there may be more to read, in the store or elsewhere.
func (rd *reader) await(ctx context.Context, more, elsewhere <-chan struct{}) error {
	select {
	case <-more:
		return nil
	case <-elsewhere:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-rd.dropped:
		return errDropped
	case <-rd.k.stop:
		return errStopping
	}
}

// readAtOnce is how many events are read from the store at a time.
const readAtOnce = 256

// next reads what follows. If there is nothing it waits until there may be
// something and returns none.
func (rd *reader) next(ctx context.Context, after uint64, elsewhere <-chan struct{}) ([]store.Event, error) {
	events, skipped, more, err := rd.k.store.EventsAfter(rd.at.Channel, after, readAtOnce)
	if errors.Is(err, store.ErrClosed) {
		return nil, errStopping
	}
	if err != nil {
		rd.k.log.Error().Err(err).Msg("events cannot be read")
		return nil, errNotRead
	}
	if skipped > 0 {
		rd.k.log.Warn().Str("client_id", rd.at.Client).Str("group", rd.at.Group).Str("channel", rd.at.Channel).
			Uint64("lost", skipped).Msg("subscriber lost events that are not kept any more")
	}
	if len(events) > 0 {
		return events, nil
	}
	return nil, rd.await(ctx, more, elsewhere)
}

// alone sends what comes next to a subscriber without a group.
func (rd *reader) alone(ctx context.Context, send func(*pb.EventReceive) error) error {
	events, err := rd.next(ctx, rd.after, nil)
	if err != nil {
		return err
	}
	defer func() { rd.k.store.SetPosition(rd.at, rd.after) }()
	for _, ev := range events {
		if err := rd.ended(ctx); err != nil {
			return err
		}
		if err := sendKept(ev, send); err != nil {
			return err
		}
		rd.after = ev.Seq
	}
	return nil
}

func (rd *reader) ended(ctx context.Context) error {
	select {
	case <-rd.dropped:
		return errDropped
	case <-rd.k.stop:
		return errStopping
	default:
		return ctx.Err()
	}
}

func sendKept(ev store.Event, send func(*pb.EventReceive) error) error {
	out := new(pb.EventReceive)
	if err := proto.Unmarshal(ev.Payload, out); err != nil {
		return status.Errorf(codes.Internal, "decode event %d: %v", ev.Seq, err)
	}
	out.Sequence, out.Timestamp = ev.Seq, ev.At
	return send(out)
}

// group is what the live members of a group share: each event goes to one.
type group struct {
	members int           // belongs to keptEvents.mu
	retry   chan struct{} // capacity 1: failed has grown
	turn    chan struct{} // capacity 1; who has what is in it takes the next event. Waiters get it in order

	mu     sync.Mutex // protects all below
	after  uint64     // sequence of the last event read
	read   []store.Event
	onWay  map[uint64]bool // taken by a member and not sent
	failed []store.Event   // taken by a member that is gone
}

// join returns a group, made if it has no members. The caller holds k.mu.
func (k *keptEvents) join(at store.Position, after uint64) *group {
	g := k.groups[at]
	if g == nil {
		g = &group{turn: make(chan struct{}, 1), retry: make(chan struct{}, 1), after: after, onWay: make(map[uint64]bool)}
		g.turn <- struct{}{}
		k.groups[at] = g
	}
	g.members++
	return g
}

// shared sends the group's next event to this member, when it is its turn.
func (rd *reader) shared(ctx context.Context, send func(*pb.EventReceive) error) error {
	g := rd.group
	if err := rd.await(ctx, g.turn, nil); err != nil {
		return err
	}
	ev, err := rd.takeNext(ctx)
	g.turn <- struct{}{}
	if err != nil {
		return err
	}
	if err = ctx.Err(); err == nil {
		err = sendKept(ev, send)
	}
	rd.k.store.SetPosition(rd.at, g.sent(ev, err == nil))
	return err
}

// takeNext takes the group's next event. The caller has the turn.
func (rd *reader) takeNext(ctx context.Context) (store.Event, error) {
	g := rd.group
	for {
		g.mu.Lock()
		from := &g.failed
		if len(*from) == 0 {
			from = &g.read
		}
		if len(*from) > 0 {
			ev := (*from)[0]
			*from = (*from)[1:]
			g.onWay[ev.Seq] = true
			g.mu.Unlock()
			return ev, nil
		}
		after := g.after
		g.mu.Unlock()
		events, err := rd.next(ctx, after, g.retry)
		if err != nil {
			return store.Event{}, err
		}
		g.mu.Lock()
		if n := len(events); n > 0 {
			g.read, g.after = events, events[n-1].Seq
		}
		g.mu.Unlock()
	}
}

// sent notes what became of an event and returns the group's position: all up
// to there were sent.
func (g *group) sent(ev store.Event, ok bool) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.onWay, ev.Seq)
	if !ok {
		g.failed = append(g.failed, ev)
		slices.SortFunc(g.failed, func(a, b store.Event) int { return int(int64(a.Seq - b.Seq)) })
		select {
		case g.retry <- struct{}{}:
		default:
		}
	}
	lowest := g.after + 1
	if len(g.read) > 0 {
		lowest = g.read[0].Seq
	}
	if len(g.failed) > 0 {
		lowest = min(lowest, g.failed[0].Seq)
	}
	for seq := range g.onWay {
		lowest = min(lowest, seq)
	}
	return lowest - 1
}
