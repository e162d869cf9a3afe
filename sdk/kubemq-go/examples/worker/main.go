// Command worker takes orders off the queue orders. PollQueue settles them on
// delivery, so an order whose processing fails is only logged.
package main

import (
	"context"
	"encoding/json"
	"errors"
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

func processOrder(order Order) error {
	if order.Items < 1 || order.Total <= 0 {
		return errors.New("nothing to pay for")
	}
	return nil
}

func runWorker(ctx context.Context, client *kubemq.Client, workerID string) {
	for {
		resp, err := client.PollQueue(ctx, &kubemq.PollRequest{
			Channel:            "orders",
			MaxItems:           5,
			WaitTimeoutSeconds: 10,
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Printf("[%s] Poll error: %v", workerID, err)
			pause(ctx, 5*time.Second)
			continue
		}

		for _, m := range resp.Messages {
			var order Order
			json.Unmarshal(m.Message.Body, &order)

			log.Printf("[%s] Processing order %s (attempt %d)",
				workerID, order.OrderID, m.Message.Attributes.ReceiveCount)

			if err := processOrder(order); err != nil {
				log.Printf("[%s] Failed: %v", workerID, err)
				continue
			}
			log.Printf("[%s] Order %s completed", workerID, order.OrderID)
		}
		resp.AckAll()
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
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

	workerID := "worker-1"
	if len(os.Args) > 1 {
		workerID = os.Args[1]
	}
	runWorker(ctx, client, workerID)
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
