package workers

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"orderd/orders"
	"orderd/queue"
)

// Pool takes orders off the queues and works on them: one receiver per queue,
// Options.Workers steps at once, one committer of outcomes.
type Pool struct {
	options Options
	steps   *steps
	store   *orders.Store
	queue   *queue.Queue
	log     zerolog.Logger

	urgent   chan job // retries: they take a free worker first
	jobs     chan job
	suspects chan job // orders that have seen a worker die
	outcomes chan finished
	inFlight tally // messages taken and not settled

	frontier atomic.Int64 // see Frontier
}

// job is a claimed order with its message.
type job struct {
	claim orders.Claim
	msg   *queue.Message
	room  chan struct{}
}

// finished is a job with its outcome, to be committed.
type finished struct {
	job
	out orders.Outcome
}

// tally counts what is under way. Unlike a sync.WaitGroup, it may grow from
// zero while somebody waits: messages arrive until the receivers close.
type tally struct {
	mu   sync.Mutex // protects n and idle
	n    int
	idle chan struct{} // closed while n is 0; nil before the first use
}

func (t *tally) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 && n > 0 {
		t.idle = make(chan struct{})
	}
	if t.n += n; t.n == 0 && n < 0 {
		close(t.idle)
	}
}

// none returns a channel that is closed when nothing is under way.
func (t *tally) none() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = make(chan struct{})
		close(t.idle)
	}
	return t.idle
}

// NewPool makes a Pool.
func NewPool(o Options, store *orders.Store, q *queue.Queue, gateway Gateway, log zerolog.Logger) *Pool {
	p := &Pool{options: o, store: store, queue: q, log: log}
	room := p.room()
	p.urgent, p.jobs, p.suspects = make(chan job, room), make(chan job, room), make(chan job, 2*room)
	p.outcomes = make(chan finished, 2*room)
	p.steps = &steps{options: &p.options, store: store, gateway: gateway, logger: func(err any, stack []byte, order string) {
		log.Error().Interface("panic", err).Bytes("stack", stack).Str("order_id", order).Msg("step panicked")
	}}
	return p
}

// room is how many messages of one queue are in flight at most: those being
// worked on, as many waiting for a worker, and what one poll may bring more.
func (p *Pool) room() int { return 2*p.options.Workers + pollReserve }

const pollReserve = 16

// Frontier is the time at which the newest message that arrived was sent: what
// was sent well before it and did not arrive is lost. 0 if nothing is known.
func (p *Pool) Frontier() orders.Millis { return orders.Millis(p.frontier.Load()) }

// Abandoned is how many steps go on although they ignored their deadline and
// were given up. More than zero for long means that a gateway or library hangs.
func (p *Pool) Abandoned() int64 { return p.steps.abandoned.Load() }

func (p *Pool) reached(at orders.Millis) {
	for {
		old := p.frontier.Load()
		if int64(at) <= old || p.frontier.CompareAndSwap(old, int64(at)) {
			return
		}
	}
}

// Run works until ctx ends. Steps that run then may finish for a third of
// ShutdownTimeout; after that they are cut off and their orders returned
// without an attempt counted.
func (p *Pool) Run(ctx context.Context) error {
	life, die := context.WithCancel(context.WithoutCancel(ctx)) // ends when all is drained
	defer die()
	stepCtx, cut := context.WithCancelCause(life)
	defer cut(nil)

	receivers := []*queue.Receiver{p.queue.NewReceiver(queue.Retry), p.queue.NewReceiver(queue.Orders)}
	var receiving, working sync.WaitGroup
	for i, r := range receivers {
		to := p.jobs
		if i == 0 {
			to = p.urgent
		}
		receiving.Go(func() { p.receive(ctx, life, r, to) })
	}
	for range p.options.Workers {
		working.Go(func() { p.work(ctx, stepCtx) })
	}
	working.Go(func() { p.workAlone(ctx, stepCtx) })
	var committing sync.WaitGroup
	committing.Go(func() { p.commit(life) })

	<-ctx.Done()
	third := p.options.ShutdownTimeout / 3
	slow := time.AfterFunc(third, func() { cut(errStopping) })
	defer slow.Stop()
	stuck := time.AfterFunc(third+third/4, die) // the store does not answer
	defer stuck.Stop()
	<-p.inFlight.none()
	die()
	var err error
	for _, r := range receivers {
		err = errors.Join(err, r.Close())
	}
	if err != nil {
		p.log.Debug().Err(err).Msg("receivers closed with an error")
	}
	receiving.Wait()
	close(p.urgent)
	close(p.jobs)
	close(p.suspects)
	working.Wait()
	close(p.outcomes)
	committing.Wait()
	return nil
}

// receive is the dispatcher of one queue: it polls for as much as there is
// room, claims, and hands over. It polls on while the pool drains, since the
// stream that it keeps open settles what is in flight; what arrives then goes
// back.
func (p *Pool) receive(ctx, life context.Context, r *queue.Receiver, to chan<- job) {
	room := make(chan struct{}, p.room())
	for range cap(room) {
		room <- struct{}{}
	}
	for {
		free := take(life, room, cap(room))
		if free == 0 {
			return
		}
		msgs, err := r.Poll(life, free)
		if err != nil {
			return // only life's end and Close are errors
		}
		for range free - len(msgs) {
			room <- struct{}{}
		}
		p.inFlight.add(len(msgs))
		if r.Empty() && r.HoldsNothing() {
			p.drained(life)
		}
		if len(msgs) > 0 {
			p.claim(ctx, msgs, room, to)
		}
	}
}

// take waits for one place and takes all that are free.
func take(ctx context.Context, room <-chan struct{}, most int) int {
	select {
	case <-ctx.Done():
		return 0
	case <-room:
	}
	for n := 1; n < most; n++ {
		select {
		case <-room:
		default:
			return n
		}
	}
	return most
}

// drained notes that the queue has nothing for us: all that was sent before
// now has arrived, or is lost.
func (p *Pool) drained(ctx context.Context) {
	now, err := p.store.Now(ctx)
	if err == nil {
		p.reached(now)
	}
}

func (p *Pool) settle(j job, ack bool) {
	if !ack {
		j.msg.Drop()
	} else if err := j.msg.Ack(); err != nil {
		p.log.Debug().Err(err).Msg("message not acked, it may come again")
	}
	j.room <- struct{}{}
	p.inFlight.add(-1)
}

// claim decides about what arrived. While the store is away it holds the
// messages and does not poll.
func (p *Pool) claim(ctx context.Context, msgs []*queue.Message, room chan struct{}, to chan<- job) {
	in := make([]orders.Arrival, len(msgs))
	for i, m := range msgs {
		in[i] = m.Arrival
	}
	var claims []orders.Claim
	err := p.insist(ctx, "claim orders", func() (err error) {
		claims, err = p.store.Claim(ctx, in)
		return err
	})
	if err != nil {
		for _, m := range msgs {
			p.settle(job{msg: m, room: room}, false)
		}
		return
	}
	for i, c := range claims {
		j := job{claim: c, msg: msgs[i], room: room}
		p.reached(c.SentAt)
		switch c.Verdict {
		case orders.Claimed:
			if c.Order.Deaths > 0 {
				p.suspects <- j
			} else {
				to <- j
			}
			continue
		case orders.DeadLettered:
			p.log.Warn().Str("message_id", j.msg.MessageID).Str("reason", c.Reason).Msg("message is a dead letter")
		case orders.ExpiredNow:
			p.log.Debug().Str("order_id", c.Order.ID).Msg("order expired")
		case orders.Ignored:
			p.log.Debug().Str("order_id", c.Order.ID).Str("reason", c.Reason).Msg("message ignored")
		}
		p.settle(j, true)
	}
}

// insist repeats try while the store is away, until ctx ends. Another error
// ends it too, and is logged.
func (p *Pool) insist(ctx context.Context, doing string, try func() error) error {
	wait := storeRetryMin
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			if n > 0 {
				p.log.Info().Str("doing", doing).Msg("store answers again")
			}
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if orders.KindOf(err) != orders.KindUnavailable {
			p.log.Error().Err(err).Str("doing", doing).Msg("store refused")
			return err
		}
		if n == 0 {
			p.log.Warn().Err(err).Str("doing", doing).Msg("store is away, holding on")
		}
		if !pause(ctx, wait) {
			return err
		}
		wait = min(2*wait, storeRetryMax)
	}
}

const (
	storeRetryMin = 50 * time.Millisecond
	storeRetryMax = 2 * time.Second
)

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

// work is one worker. Once ctx has ended it begins nothing: what was claimed
// and not begun is returned.
func (p *Pool) work(ctx, stepCtx context.Context) {
	for {
		j, ok := p.next()
		if !ok {
			return
		}
		out := orders.Outcome{OrderID: j.claim.Order.ID, Token: j.claim.Token, Kind: orders.OutcomeReturn}
		if ctx.Err() == nil {
			out = p.steps.work(stepCtx, j.claim)
		}
		p.outcomes <- finished{j, out}
	}
}

// workAlone works on suspects, one at a time and each announced in the store, so
// that the one that kills its worker is known by it, and those beside it are not
// taken for it.
func (p *Pool) workAlone(ctx, stepCtx context.Context) {
	for j := range p.suspects {
		out := orders.Outcome{OrderID: j.claim.Order.ID, Token: j.claim.Token, Kind: orders.OutcomeReturn}
		if ctx.Err() == nil {
			begun, err := p.store.Begin(ctx, out.OrderID, out.Token)
			if err != nil && ctx.Err() == nil {
				p.log.Warn().Err(err).Str("order_id", out.OrderID).Msg("order not begun, it is returned")
			}
			if begun {
				out = p.steps.work(stepCtx, j.claim)
			}
		}
		p.outcomes <- finished{j, out}
	}
}

// next returns a retry if one waits, else whatever comes first. It says false
// when both queues are closed and empty.
func (p *Pool) next() (job, bool) {
	select {
	case j, ok := <-p.urgent:
		if ok {
			return j, true
		}
	default:
	}
	select {
	case j, ok := <-p.urgent:
		if ok {
			return j, true
		}
		j, ok = <-p.jobs
		return j, ok
	case j, ok := <-p.jobs:
		if ok {
			return j, true
		}
		j, ok = <-p.urgent
		return j, ok
	}
}

const maxOutcomes = 256

// commit writes outcomes, all that wait in one call, and acks their messages.
func (p *Pool) commit(life context.Context) {
	var batch []finished
	for f := range p.outcomes {
		batch = append(batch[:0], f)
	collect:
		for len(batch) < maxOutcomes {
			select {
			case f, ok := <-p.outcomes:
				if !ok {
					break collect
				}
				batch = append(batch, f)
			default:
				break collect
			}
		}
		p.finish(life, batch)
	}
}

// finish commits a batch. Orders whose stock went in between are finished a
// second time, as out of stock.
func (p *Pool) finish(life context.Context, batch []finished) {
	for len(batch) > 0 {
		outs := make([]orders.Outcome, len(batch))
		for i, f := range batch {
			outs[i] = f.out
		}
		var results []orders.Finished
		err := p.insist(life, "finish orders", func() (err error) {
			results, err = p.store.Finish(life, outs)
			return err
		})
		if err != nil {
			p.giveUp(life, batch)
			return
		}
		var again []finished
		for i, f := range batch {
			if results[i].Result == orders.ResultOutOfStock {
				f.out = p.steps.outOfStock(f.out, &f.claim.Order, results[i].SKU)
				again = append(again, f)
				continue
			}
			p.tell(f.out, results[i])
			p.settle(f.job, true)
		}
		batch = again
	}
}

// giveUp finds the outcome that the store refuses: the others are finished by
// themselves, and that one's order stays leased until this process ends.
func (p *Pool) giveUp(life context.Context, batch []finished) {
	if len(batch) > 1 && life.Err() == nil {
		for i := range batch {
			p.finish(life, batch[i:i+1])
		}
		return
	}
	for _, f := range batch {
		p.settle(f.job, false)
	}
}

var kindNames = [...]string{orders.OutcomeConfirm: "confirmed", orders.OutcomeRetry: "retry", orders.OutcomeFail: "failed",
	orders.OutcomeReturn: "returned", orders.OutcomeWait: "waits for stock"}

// tell logs an outcome. A dead letter is for a person to look at.
func (p *Pool) tell(o orders.Outcome, f orders.Finished) {
	e := p.log.Debug()
	outcome := kindNames[o.Kind]
	switch {
	case f.Result == orders.ResultLost:
		e, outcome = p.log.Warn(), "lost"
	case f.Result == orders.ResultCancelled:
		outcome = "cancelled"
	case f.Result == orders.ResultFailed, o.Kind == orders.OutcomeFail:
		e, outcome = p.log.Warn(), "failed"
	}
	e.Str("order_id", o.OrderID).Str("outcome", outcome).Str("step", string(o.Step)).Str("class", o.Class).Str("reason", o.Reason).Msg("order worked on")
}
