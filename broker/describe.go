package broker

import (
	"cmp"
	"slices"
)

// description is what there is to say of a queue. Sent and taken count since the
// start of the broker.
type description struct {
	name                             string
	messages, held, delayed, expired int
	polls                            int
	sent, taken, bytes, lastAt       int64
	first, last                      uint64 // sequences of the oldest message there is and of the newest there ever was
}

// describe describes all queues, by name.
func (qs *queues) describe() []description {
	qs.mu.Lock()
	list := make([]description, 0, len(qs.byName))
	for _, q := range qs.byName {
		if q.known {
			list = append(list, description{name: q.name, held: q.held, delayed: q.delayed, expired: q.expired, polls: q.waiters.Len(),
				sent: q.sent, taken: q.taken, lastAt: q.lastAt})
		}
	}
	qs.mu.Unlock()
	for i := range list {
		d := &list[i]
		d.messages, d.bytes, d.first, d.last = qs.store.Queue(d.name)
	}
	slices.SortFunc(list, func(a, b description) int { return cmp.Compare(a.name, b.name) })
	return list
}

// create makes a queue without messages.
func (qs *queues) create(name string) error {
	return onDisk(qs.change(false, func(c *change) {
		qs.queue(name).known = true
		c.CreateQueue(name)
	}))
}

// delete removes a queue with its messages, those that are held included. Polls
// that wait go on waiting.
func (qs *queues) delete(name string) error {
	return onDisk(qs.change(false, func(c *change) {
		q := qs.byName[name]
		if q == nil {
			return
		}
		for _, heap := range []*entries{&q.ready, &qs.delayed} {
			for _, e := range slices.Clone(heap.list) {
				if e.q == q {
					qs.unschedule(e)
				}
			}
		}
		c.DeleteQueue(name)
		// Messages that are held belong to the queue that was.
		anew := &queue{name: name, ready: entries{at: byTime, index: orderIndex}}
		for w := q.waiters.Front(); w != nil; w = w.Next() {
			waits := w.Value.(*waiter)
			waits.place = anew.waiters.PushBack(waits)
		}
		q.waiters.Init()
		qs.byName[name] = anew
		c.touch(anew)
	}))
}
