package notify

import (
	"context"
	"fmt"
	"net/mail"
	"strings"

	"github.com/rs/zerolog"

	"orderd/orders"
)

// NewEmail makes the subscriber that mails customers.
func NewEmail(o Options, store *orders.Store, dial Dial, log zerolog.Logger) *Subscriber {
	s := newSubscriber("email", o, store, dial, log)
	s.effect = func(e *orders.Event) orders.Effect {
		if !wanted(o.EmailStatuses, e.Status) {
			return orders.Effect{}
		}
		f := orders.Effect{Deliver: true, To: e.Customer}
		if !isMailAddress(e.Customer) {
			f.Skip = "the customer is no mail address"
		}
		return f
	}
	s.sender = func(_ context.Context, d orders.Delivery) answer {
		log.Info().Str("to", d.To).Str("order_id", d.OrderID).Str("status", string(d.Event.Status)).Msg("mail to customer (SMTP_URL is not set)")
		return answer{status: orders.DeliverySent, answer: "logged"}
	}
	if o.SMTPURL != "" {
		m, err := newMailer(o)
		s.sender = func(ctx context.Context, d orders.Delivery) answer {
			if err != nil { // Check has said so already
				return answer{status: orders.DeliveryFailed, answer: err.Error()}
			}
			return m.send(ctx, d)
		}
	}
	return s
}

// isMailAddress says whether mail can be sent to s: one address without a name.
func isMailAddress(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Name == "" && a.Address == s
}

// subjects by status; the order's id follows.
var subjects = map[orders.Status]string{
	orders.StatusCreated:    "We have received your order",
	orders.StatusProcessing: "We are working on your order",
	orders.StatusConfirmed:  "Your order is confirmed",
	orders.StatusShipped:    "Your order is on its way",
	orders.StatusDelivered:  "Your order was delivered",
	orders.StatusFailed:     "There is a problem with your order",
	orders.StatusExpired:    "Your order has expired",
	orders.StatusCancelled:  "Your order was cancelled",
}

func subjectOf(d orders.Delivery) string {
	s, ok := subjects[d.Event.Status]
	if !ok {
		s = "News about your order: " + string(d.Event.Status)
	}
	return s + " " + d.OrderID
}

func textOf(d orders.Delivery) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Hello,\n\n%s.\n\n", strings.TrimSuffix(subjectOf(d), " "+d.OrderID))
	fmt.Fprintf(&b, "Order:  %s\nTotal:  %s %s\n", d.OrderID, d.Event.Amount, d.Event.Amount.Currency)
	for _, l := range d.Order.Lines {
		fmt.Fprintf(&b, "        %d x %s\n", l.Quantity, l.SKU)
	}
	if d.Event.Status == orders.StatusShipped {
		if d.Order.Carrier != "" {
			fmt.Fprintf(&b, "Carrier: %s\n", d.Order.Carrier)
		}
		if d.Order.TrackingNumber != "" {
			fmt.Fprintf(&b, "Tracking number: %s\n", d.Order.TrackingNumber)
		}
	}
	return b.String()
}
