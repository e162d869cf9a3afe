package orders

import (
	"context"
	"strconv"
)

// MaxBatch is how many orders AcceptBatch takes at once.
const MaxBatch = 1000

// batchesAtOnce bounds the batches that wait for one transaction or are in it:
// what they hold up, all other writes, must not take seconds.
const batchesAtOnce = 4

// BatchItem is one order of a batch.
type BatchItem struct {
	In  Order
	Out Accepted // what AcceptBatch answers if Err is nil
	Err error    // set before: the item is left out; set by AcceptBatch: an *Error, the order was not taken
}

// AcceptBatch is Accept for up to MaxBatch orders in one transaction: all that
// can be taken are, durably when it returns nil, or none. Each item says what
// became of it. With a key, the whole batch may be sent again: each of its
// orders, by its place, gives its first answer. KindTooLarge for more orders.
func (s *Store) AcceptBatch(ctx context.Context, items []BatchItem, key string) error {
	if len(items) > MaxBatch {
		return errorf(KindTooLarge, "", "a batch has at most %d orders", MaxBatch)
	}
	if len(key) > maxKeyBytes {
		return errorf(KindInvalid, "Idempotency-Key", "must have at most %d bytes", maxKeyBytes)
	}
	if key != "" {
		if !s.keys.enter(key) {
			return errorf(KindConflict, "Idempotency-Key", "a request with this key is under way")
		}
		defer s.keys.leave(key)
	}
	select {
	case s.batches <- struct{}{}:
		defer func() { <-s.batches }()
	case <-ctx.Done():
		return s.fault("accept a batch", ctx.Err())
	}
	b := &batch{items: items, ops: make([]*op, len(items))}
	for i := range items {
		a := &acceptance{in: items[i].In}
		if key != "" {
			a.key = batchKey(key, i)
		}
		b.ops[i] = &op{lane: acceptLane, arg: a}
	}
	if err := s.write(ctx, batchLane, b); err != nil {
		return s.fault("accept a batch", err)
	}
	for i, o := range b.ops {
		if items[i].Err == nil {
			items[i].Out, items[i].Err = o.arg.(*acceptance).out, o.err
		}
	}
	return nil
}

// batchKey is the key of one order of a batch: none that a client can send.
func batchKey(key string, i int) string { return key + "\n" + strconv.Itoa(i) }

type batch struct {
	items []BatchItem
	ops   []*op
}

var batchLane = &lane{name: "accept a batch", run: func(t *tx, ops []*op) error {
	var all []*op
	for _, o := range ops {
		b := o.arg.(*batch)
		for i, item := range b.ops {
			item.err = nil
			if b.items[i].Err == nil {
				all = append(all, item)
			}
		}
	}
	return acceptLane.run(t, all)
}}
