package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"goqueue"
)

type order struct {
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	client, err := goqueue.New(goqueue.Options{}) // GOQUEUE_GRPC_ADDRESS, or 127.0.0.1:9090
	if err != nil {
		return err
	}
	defer client.Close()
	for _, topic := range []string{"orders", "invoices"} {
		if _, err := client.Topics().Create(ctx, topic, goqueue.TopicOptions{Partitions: 1, ExistOK: true}); err != nil {
			return err
		}
	}

	// Publish: returns when the message is on the broker's disk, exactly once.
	value, err := json.Marshal(order{"anna", 420})
	if err != nil {
		return err
	}
	receipt, err := client.Publish(ctx, "orders", goqueue.OutgoingMessage{Key: []byte("anna"), Value: value})
	if err != nil {
		return err
	}
	fmt.Printf("stored in %s, offset %d\n", receipt.Topic, receipt.Offset)

	// Consume as a member of a group, and ack what is processed.
	billing := client.Group("billing", []string{"orders"}, goqueue.GroupOptions{})
	defer billing.Close() // leaves the group
	message, err := billing.Next(ctx)
	if err != nil {
		return err
	}
	var paid order
	if err := message.JSON(&paid); err != nil {
		return err
	}
	fmt.Println("charged", paid.Customer, paid.Cents)
	if err := message.Ack(ctx); err != nil {
		return err
	}

	// A transaction: the ack and the invoice count together, or not at all.
	invoicing := client.Group("invoicing", []string{"orders"}, goqueue.GroupOptions{})
	defer invoicing.Close()
	if message, err = invoicing.Next(ctx); err != nil {
		return err
	}
	producer := client.TransactionalProducer("invoicing-1", goqueue.TransactionalOptions{})
	defer producer.Close()
	err = producer.Transaction(ctx, func(ctx context.Context, transaction *goqueue.Transaction) error {
		invoice := goqueue.OutgoingMessage{Value: []byte("invoice for " + paid.Customer)}
		if _, err := transaction.Send(ctx, "invoices", invoice); err != nil {
			return err
		}
		return transaction.Ack(message)
	})
	if err != nil {
		return err
	}

	reader := client.Reader("invoices", goqueue.ReaderOptions{UntilNow: true})
	defer reader.Close()
	for message, err := range reader.All(ctx) {
		if err != nil {
			return err
		}
		fmt.Println(string(message.Value))
	}
	return nil
}
