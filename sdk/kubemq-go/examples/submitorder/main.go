// Command submitorder puts one order on the queue orders.
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

type Order struct {
	OrderID   string  `json:"orderId"`
	Customer  string  `json:"customer"`
	Items     int     `json:"items"`
	Total     float64 `json:"total"`
	CreatedAt int64   `json:"createdAt"`
}

func submitOrder(ctx context.Context, client *kubemq.Client, order Order) error {
	body, _ := json.Marshal(order)
	msg := kubemq.NewQueueMessage().
		SetChannel("orders").
		SetBody(body).
		SetMetadata("order.created").
		SetTags(map[string]string{"customer": order.Customer}).
		SetMaxReceiveCount(5).
		SetMaxReceiveQueue("orders.dlq").
		SetExpirationSeconds(300)

	result, err := client.SendQueueMessage(ctx, msg)
	if err != nil {
		return err
	}
	log.Printf("Order %s submitted: id=%s", order.OrderID, result.MessageID)
	return nil
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

	order := Order{
		OrderID:   "ORD-2001",
		Customer:  "alice@example.com",
		Items:     3,
		Total:     149.97,
		CreatedAt: time.Now().UnixMilli(),
	}
	if len(os.Args) > 1 {
		order.OrderID = os.Args[1]
	}
	if err := submitOrder(ctx, client, order); err != nil {
		log.Printf("Failed to submit %s: %v", order.OrderID, err)
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
