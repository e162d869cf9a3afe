package broker

import "container/heap"

// entries is a heap of messages by a time and, for the same time, by sequence.
// It remembers where in it a message is, so that any can be taken out.
type entries struct {
	list  []*entry
	at    func(*entry) int64
	index func(*entry) *int
}

func (h *entries) Len() int { return len(h.list) }

func (h *entries) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	if x, y := h.at(a), h.at(b); x != y {
		return x < y
	}
	return a.m.Seq < b.m.Seq
}

func (h *entries) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	*h.index(h.list[i]), *h.index(h.list[j]) = i, j
}

func (h *entries) Push(x any) {
	e := x.(*entry)
	*h.index(e) = len(h.list)
	h.list = append(h.list, e)
}

func (h *entries) Pop() any {
	e := h.list[len(h.list)-1]
	h.list[len(h.list)-1] = nil
	h.list = h.list[:len(h.list)-1]
	*h.index(e) = notInHeap
	return e
}

const notInHeap = -1

func (h *entries) add(e *entry) { heap.Push(h, e) }

func (h *entries) first() *entry {
	if len(h.list) == 0 {
		return nil
	}
	return h.list[0]
}

// remove takes e out if it is in there.
func (h *entries) remove(e *entry) {
	if i := *h.index(e); i != notInHeap {
		heap.Remove(h, i)
	}
}
