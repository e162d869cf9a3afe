package broker_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	pb "github.com/kubemq-io/protobuf/go"
	"pgregory.net/rapid"

	"orderd/broker"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", fmt.Sprint(scaled(8, 50, 1000))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Queues against lists, over random histories of two consumers, with streams
// that break, restarts and crashes.
func TestQueues_Model(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &queueModel{rt: rt, r: start(t, broker.Options{}), queues: make(map[string][]*modelMessage), next: make(map[string]int64)}
		m.connect()
		defer func() { m.r.stop() }()
		rt.Repeat(map[string]func(*rapid.T){
			"send": m.send, "get": m.get, "ack": m.ack, "nack": m.nack, "requeue": m.requeue, "close": m.close,
			"break": m.breakStream, "restart": m.restart, "crash": m.crash, "": func(*rapid.T) { m.step++ },
		})
	})
}

type modelMessage struct {
	body   string
	limit  int32  // deliveries allowed, 0: any number
	dead   string // queue for it after that
	isDead bool   // limit and dead do not count
	step   int    // when it came to its queue
	seq    int64
	count  int32
	held   bool
}

type modelTransaction struct {
	id       string
	queue    string
	consumer int
	messages []*modelMessage
}

type queueModel struct {
	rt        *rapid.T
	r         *running
	consumers [2]*consumer
	queues    map[string][]*modelMessage // in order, held ones included
	next      map[string]int64
	open      []*modelTransaction
	sent      int
	step      int
}

func (m *queueModel) connect() {
	for i := range m.consumers {
		m.consumers[i] = m.r.consumer()
	}
}

var modelQueues = []string{"a", "b", "dead"}

func (m *queueModel) add(queue string, msg modelMessage) {
	m.next[queue]++
	msg.seq, msg.step, msg.count, msg.held = m.next[queue], m.step, 0, false
	m.queues[queue] = append(m.queues[queue], &msg)
}

func (m *queueModel) send(rt *rapid.T) {
	queue := rapid.SampledFrom(modelQueues[:2]).Draw(rt, "queue")
	batch := &pb.QueueMessagesBatchRequest{}
	for range rapid.IntRange(1, 4).Draw(rt, "messages") {
		m.sent++
		limit, dead := int32(rapid.IntRange(0, 3).Draw(rt, "limit")), rapid.SampledFrom([]string{"", "dead", "b"}).Draw(rt, "dead")
		msg := message(queue, fmt.Sprint(m.sent))
		msg.Policy = &pb.QueueMessagePolicy{MaxReceiveCount: limit, MaxReceiveQueue: dead}
		batch.Messages = append(batch.Messages, msg)
		m.add(queue, modelMessage{body: fmt.Sprint(m.sent), limit: limit, dead: dead})
	}
	m.r.sendBatch(batch)
}

func (m *queueModel) get(rt *rapid.T) {
	queue, limit := rapid.SampledFrom(modelQueues).Draw(rt, "queue"), rapid.IntRange(1, 5).Draw(rt, "max")
	who := rapid.IntRange(0, 1).Draw(rt, "consumer")
	a := m.consumers[who].get(queue, int32(limit), 20)
	tr := &modelTransaction{id: a.TransactionId, queue: queue, consumer: who}
	want, got := []string{}, []string{}
	for _, msg := range m.queues[queue] {
		if !msg.held && len(want) < limit {
			msg.count++
			msg.held = true
			tr.messages = append(tr.messages, msg)
			want = append(want, fmt.Sprint(msg.body, " ", msg.seq, " ", msg.count))
		}
	}
	for _, msg := range a.Messages {
		got = append(got, fmt.Sprint(string(msg.Body), " ", msg.Attributes.Sequence, " ", msg.Attributes.ReceiveCount))
	}
	if unlike := diff.Diff(want, got); unlike != "" {
		rt.Fatalf("from %s (-want +got):\n%s", queue, unlike)
	}
	if len(want) > 0 {
		m.open = append(m.open, tr)
	}
}

// some picks messages of an open transaction and takes them out of it.
func (m *queueModel) some(rt *rapid.T) (*modelTransaction, []*modelMessage) {
	if len(m.open) == 0 {
		rt.Skip("nothing is held")
	}
	tr := rapid.SampledFrom(m.open).Draw(rt, "transaction")
	picked := slices.Clone(tr.messages)
	if n := rapid.IntRange(0, len(picked)-1).Draw(rt, "of them, or 0 for all"); n > 0 {
		picked = picked[:n]
	}
	m.take(tr, picked)
	return tr, picked
}

func (m *queueModel) take(tr *modelTransaction, picked []*modelMessage) {
	tr.messages = slices.DeleteFunc(tr.messages, func(x *modelMessage) bool { return slices.Contains(picked, x) })
	if len(tr.messages) == 0 {
		m.open = slices.DeleteFunc(m.open, func(x *modelTransaction) bool { return x == tr })
	}
}

func (m *queueModel) settle(tr *modelTransaction, picked []*modelMessage, all, some pb.QueuesDownstreamRequestType, target string) {
	request := &pb.QueuesDownstreamRequest{RequestTypeData: some, RefTransactionId: tr.id, ReQueueChannel: target}
	for _, msg := range picked {
		request.SequenceRange = append(request.SequenceRange, msg.seq)
	}
	if len(tr.messages) == 0 {
		request.RequestTypeData, request.SequenceRange = all, nil
	}
	m.consumers[tr.consumer].request(request)
	m.await()
}

// await waits until the broker holds what it should: settlements are silent.
func (m *queueModel) await() {
	held := 0
	for _, tr := range m.open {
		held += len(tr.messages)
	}
	eventually(m.r.t, fmt.Sprint(held, " messages are held"), func() bool { return m.r.broker.Stats().Unacked == held })
}

func (m *queueModel) remove(queue string, picked []*modelMessage) {
	m.queues[queue] = slices.DeleteFunc(m.queues[queue], func(x *modelMessage) bool { return slices.Contains(picked, x) })
}

// back puts messages back after a delivery that counts.
func (m *queueModel) back(queue string, picked []*modelMessage) {
	for _, msg := range picked {
		msg.held = false
		if msg.isDead || msg.limit == 0 || msg.count < msg.limit {
			continue
		}
		m.remove(queue, []*modelMessage{msg})
		if msg.dead != "" {
			dead := *msg
			dead.isDead = true
			m.add(msg.dead, dead)
		}
	}
}

func (m *queueModel) ack(rt *rapid.T) {
	tr, picked := m.some(rt)
	m.remove(tr.queue, picked)
	m.settle(tr, picked, ackAll, ackRange, "")
}

func (m *queueModel) nack(rt *rapid.T) {
	tr, picked := m.some(rt)
	m.back(tr.queue, picked)
	m.settle(tr, picked, nackAll, nackRange, "")
}

func (m *queueModel) requeue(rt *rapid.T) {
	tr, picked := m.some(rt)
	target := rapid.SampledFrom(modelQueues).Draw(rt, "target")
	m.remove(tr.queue, picked)
	for _, msg := range picked {
		again := *msg
		again.isDead = false
		m.add(target, again)
	}
	m.settle(tr, picked, requeueAll, requeueRange, target)
}

// close gives a transaction back without counting.
func (m *queueModel) close(rt *rapid.T) {
	if len(m.open) == 0 {
		rt.Skip("nothing is held")
	}
	tr := rapid.SampledFrom(m.open).Draw(rt, "transaction")
	for _, msg := range tr.messages {
		msg.held = false
		msg.count--
	}
	m.take(tr, slices.Clone(tr.messages))
	m.consumers[tr.consumer].settle(closeByClient, tr.id)
	m.await()
}

func (m *queueModel) breakStream(rt *rapid.T) {
	m.end(rapid.IntRange(0, 1).Draw(rt, "consumer"))
}

// end breaks a consumer's stream and makes it another one.
func (m *queueModel) end(who int) {
	m.backFrom(func(tr *modelTransaction) bool { return tr.consumer == who })
	m.consumers[who].end()
	m.await()
	m.consumers[who] = m.r.consumer()
}

// backFrom gives back what transactions hold, in the order in which it came to
// the queues.
func (m *queueModel) backFrom(is func(*modelTransaction) bool) {
	type from struct {
		queue string
		*modelMessage
	}
	var all []from
	for _, tr := range m.open {
		for _, msg := range tr.messages {
			if is(tr) {
				all = append(all, from{tr.queue, msg})
			}
		}
	}
	m.open = slices.DeleteFunc(m.open, is)
	slices.SortFunc(all, func(a, b from) int { return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.seq, b.seq)) })
	for _, f := range all {
		m.back(f.queue, []*modelMessage{f.modelMessage})
	}
}

func (m *queueModel) restart(*rapid.T) {
	m.end(1) // or both streams would end at the same time, in any order
	m.step++
	m.backFrom(func(*modelTransaction) bool { return true })
	m.r = m.r.restart()
	m.connect()
}

func (m *queueModel) crash(*rapid.T) {
	m.r.send("unrelated", "waits until all before it is on disk")
	m.backFrom(func(*modelTransaction) bool { return true })
	old := m.r
	m.r = m.r.crash()
	old.stop()
	m.connect()
}
