// Command pushservice gets every event on order-notifications, beside the other
// services, and sends a push notification for each.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"

	"github.com/kubemq-io/kubemq-go/v2"
)

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

	sub, err := client.SubscribeToEvents(ctx, "order-notifications", "",
		kubemq.WithOnEvent(func(event *kubemq.Event) {
			fmt.Printf("[Push] Notifying %s: order is %s\n",
				event.Tags["customer"], event.Tags["status"])
		}),
		kubemq.WithOnError(func(err error) {
			log.Println("[Push] Error:", err)
		}),
	)
	if err != nil {
		log.Print(err)
		return
	}
	log.Println("[Push] Subscribed")
	<-sub.Done()
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
