package notify

import (
	"strconv"

	"github.com/kubemq-io/kubemq-go/v2"

	"orderd/orders"
)

// The tags of status events. Seeds and other programs use the first two.
const (
	tagStatus   = "status"
	tagCustomer = "customer"
	tagEvent    = "event" // the number in the log
	tagOrigin   = "origin"
	tagRound    = "round" // from the second round on
	metadata    = "order."
)

func tagsOf(e *orders.Event) map[string]string {
	tags := map[string]string{tagStatus: string(e.Status), tagCustomer: e.Customer, tagEvent: strconv.FormatInt(e.Number, 10), tagOrigin: orders.Origin}
	if e.Round > 1 {
		tags[tagRound] = strconv.Itoa(e.Round)
	}
	return tags
}

func (p *Publisher) plain(e *orders.Event) *kubemq.Event {
	return kubemq.NewEvent().SetId(e.EventID()).SetChannel(p.options.EventsChannel).SetMetadata(metadata + string(e.Status)).
		SetBody(e.AppendBody(nil)).SetTags(tagsOf(e))
}

func (p *Publisher) kept(e *orders.Event) *kubemq.EventStore {
	return kubemq.NewEventStore().SetId(e.EventID()).SetChannel(p.options.EventsChannel).SetMetadata(metadata + string(e.Status)).
		SetBody(e.AppendBody(nil)).SetTags(tagsOf(e))
}

// foreign reads a status event of another program: what its body lacks, its
// tags may have.
func foreign(e *kubemq.Event) (orders.Event, error) {
	out, err := orders.DecodeEventBody(e.Body)
	if err != nil {
		return orders.Event{}, err
	}
	if out.Customer == "" {
		out.Customer = e.Tags[tagCustomer]
	}
	return out, nil
}
