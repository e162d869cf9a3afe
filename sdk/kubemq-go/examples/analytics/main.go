// Command analytics runs two workers that share the events on
// order-notifications: each event is recorded by one of them.
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

	for worker := range 2 {
		sub, err := client.SubscribeToEvents(ctx, "order-notifications", "analytics",
			kubemq.WithOnEvent(func(event *kubemq.Event) {
				fmt.Printf("[Analytics] Recording metric: %s (worker %d)\n", event.Metadata, worker+1)
			}),
			kubemq.WithOnError(func(err error) {
				log.Println("[Analytics] Error:", err)
			}),
		)
		if err != nil {
			log.Print(err)
			return
		}
		defer func() { <-sub.Done() }()
	}
	log.Println("[Analytics] Subscribed")
	<-ctx.Done()
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
