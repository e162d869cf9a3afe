package broker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/kubemq-io/protobuf/go"
	"github.com/rs/zerolog"
)

// A subscriber to plain events that is further behind loses what comes then.
// The bytes bound what a stalled one costs in memory, about.
const (
	eventBacklog      = 65_536
	eventBacklogBytes = 64 << 20
	eventOverhead     = 400 // bytes in memory of an event without its content
)

// hub hands plain events to whoever is subscribed at the time.
type hub struct {
	log zerolog.Logger

	mu        sync.RWMutex // protects all below
	exact     map[string][]*subscription
	wild      []*subscription
	turns     map[string]int // of groups
	listening int
}

// subscription is a subscriber with what is on its way to it.
type subscription struct {
	pattern, group, client string

	more chan struct{} // capacity 1: there is a backlog

	mu      sync.Mutex // protects all below
	backlog []waiting
	bytes   int
	lost    int
	taken   time.Time // when the backlog was last taken from
}

// waiting is an event in a backlog.
type waiting struct {
	event *pb.EventReceive
	size  int
}

func newHub(log zerolog.Logger) *hub {
	return &hub{log: log, exact: make(map[string][]*subscription), turns: make(map[string]int)}
}

func (h *hub) count() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.listening
}

// patterns returns what somebody is subscribed to, each once.
func (h *hub) patterns() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	names := slices.Collect(maps.Keys(h.exact))
	for _, s := range h.wild {
		if !slices.Contains(names, s.pattern) {
			names = append(names, s.pattern)
		}
	}
	return names
}

func (h *hub) subscribe(r *pb.Subscribe) *subscription {
	s := &subscription{pattern: r.GetChannel(), group: r.GetGroup(), client: r.GetClientID(), more: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listening++
	if strings.ContainsAny(s.pattern, "*>") {
		h.wild = append(h.wild, s)
	} else {
		h.exact[s.pattern] = append(h.exact[s.pattern], s)
	}
	return s
}

func (h *hub) unsubscribe(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listening--
	h.wild = without(h.wild, s)
	if left := without(h.exact[s.pattern], s); len(left) > 0 {
		h.exact[s.pattern] = left
	} else {
		delete(h.exact, s.pattern)
	}
	if !h.inUse(s.group) {
		delete(h.turns, s.group)
	}
}

func (h *hub) inUse(group string) bool {
	has := func(s *subscription) bool { return s.group == group }
	for _, list := range h.exact {
		if slices.ContainsFunc(list, has) {
			return true
		}
	}
	return slices.ContainsFunc(h.wild, has)
}

// without returns a new list: publishers may be at the old one.
func without(list []*subscription, s *subscription) []*subscription {
	var left []*subscription
	for _, other := range list {
		if other != s {
			left = append(left, other)
		}
	}
	return left
}

// publish hands an event to every subscriber without a group and to one of each
// group. It never waits. It says whether a subscriber that reads is far behind.
func (h *hub) publish(ev *pb.EventReceive, size int) (behind bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var groups map[string][]*subscription
	offer := func(s *subscription) {
		if s.group == "" {
			s.push(ev, size, true)
			behind = behind || s.isBehind()
			return
		}
		if groups == nil {
			groups = make(map[string][]*subscription)
		}
		groups[s.group] = append(groups[s.group], s)
	}
	for _, s := range h.exact[ev.GetChannel()] {
		offer(s)
	}
	for _, s := range h.wild {
		if matches(s.pattern, ev.GetChannel()) {
			offer(s)
		}
	}
	for name, members := range groups {
		turn := h.turns[name]
		h.turns[name] = turn + 1
		pushToOne(members, turn, ev, size)
		for _, s := range members {
			behind = behind || s.isBehind()
		}
	}
	return behind
}

// pushToOne gives an event to the member whose turn it is, or to the next that
// is not too far behind.
func pushToOne(members []*subscription, turn int, ev *pb.EventReceive, size int) {
	for i := range members {
		if members[(turn+i)%len(members)].push(ev, size, false) {
			return
		}
	}
	members[turn%len(members)].push(ev, size, true)
}

// push adds an event to the backlog and says whether there was room. If not and
// last, the event counts as lost.
func (s *subscription) push(ev *pb.EventReceive, size int, last bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	size += eventOverhead
	if len(s.backlog) >= eventBacklog || s.bytes+size > eventBacklogBytes && len(s.backlog) > 0 {
		if last {
			s.lost++
		}
		return false
	}
	s.backlog = append(s.backlog, waiting{ev, size})
	s.bytes += size
	select {
	case s.more <- struct{}{}:
	default:
	}
	return true
}

// isBehind says whether a subscriber that reads has half of what it may have to
// read. One that has stopped reading is not waited for.
func (s *subscription) isBehind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (len(s.backlog) > eventBacklog/2 || s.bytes > eventBacklogBytes/2) && time.Since(s.taken) < stalledAfter
}

const (
	takeAtOnce   = 256
	stalledAfter = 100 * time.Millisecond
)

// take takes from the backlog, and returns how many events were lost since.
func (s *subscription) take() (events []waiting, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.backlog), takeAtOnce)
	events, s.backlog = s.backlog[:n:n], s.backlog[n:]
	for _, w := range events {
		s.bytes -= w.size
	}
	if len(s.backlog) == 0 {
		s.backlog = nil
	}
	lost, s.lost = s.lost, 0
	s.taken = time.Now()
	return events, lost
}

// deliver sends a subscriber its events until the stream or the broker ends.
func (h *hub) deliver(ctx context.Context, stop <-chan struct{}, s *subscription, send func(*pb.EventReceive) error) error {
	lost, last := 0, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
			return stoppingStatus()
		case <-s.more:
		}
		for events, n := s.take(); len(events)+n > 0; events, n = s.take() {
			lost += n
			for i := range events {
				if err := send(events[i].event); err != nil {
					return err
				}
				events[i] = waiting{} // what is sent can go
			}
			if isClosed(stop) {
				return stoppingStatus()
			}
		}
		if lost > 0 && time.Since(last) > time.Second {
			h.log.Warn().Str("client_id", s.client).Str("channel", s.pattern).Int("lost", lost).Msg("slow subscriber lost events")
			lost, last = 0, time.Now()
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// matches says whether a channel fits a pattern, word by word: * is any word, >
// at the end is one or more.
func matches(pattern, channel string) bool {
	for {
		want, pattern2, more := strings.Cut(pattern, ".")
		word, channel2, longer := strings.Cut(channel, ".")
		switch {
		case want == ">" && !more:
			return word != ""
		case want != word && (want != "*" || word == ""):
			return false
		case !more || !longer:
			return more == longer
		}
		pattern, channel = pattern2, channel2
	}
}
