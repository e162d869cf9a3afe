// Command statuspublisher publishes three changes of one order's status on
// order-notifications.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/kubemq-io/kubemq-go/v2"
)

type OrderEvent struct {
	OrderID   string  `json:"orderId"`
	Status    string  `json:"status"`
	Customer  string  `json:"customer"`
	Amount    float64 `json:"amount"`
	Timestamp int64   `json:"timestamp"`
}

func publishOrderStatus(ctx context.Context, client *kubemq.Client, event OrderEvent) error {
	body, _ := json.Marshal(event)
	return client.SendEvent(ctx, kubemq.NewEvent().
		SetChannel("order-notifications").
		SetMetadata("order."+event.Status).
		SetBody(body).
		SetTags(map[string]string{
			"status":   event.Status,
			"customer": event.Customer,
		}),
	)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := kubemq.NewClient(ctx,
		kubemq.WithAddress(brokerAddress()),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	events := []OrderEvent{
		{"ORD-001", "created", "alice@example.com", 99.99, time.Now().UnixMilli()},
		{"ORD-001", "confirmed", "alice@example.com", 99.99, time.Now().UnixMilli()},
		{"ORD-001", "shipped", "alice@example.com", 99.99, time.Now().UnixMilli()},
	}

	for _, event := range events {
		if err := publishOrderStatus(ctx, client, event); err != nil {
			log.Printf("Failed to publish %s: %v", event.OrderID, err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// brokerAddress is localhost:50000 unless KUBEMQ_HOST and KUBEMQ_PORT say
// otherwise.
func brokerAddress() (host string, port int) {
	host, port = "localhost", 50000
	if h := os.Getenv("KUBEMQ_HOST"); h != "" {
		host = h
	}
	if p, err := strconv.Atoi(os.Getenv("KUBEMQ_PORT")); err == nil {
		port = p
	}
	return host, port
}
