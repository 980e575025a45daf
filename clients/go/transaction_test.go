package goqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"goqueue"
)

func testTransaction(s shared) {
	orders, invoices := s.topic(1, nil), s.topic(2, nil)
	s.publish(orders, text("1"))
	s.publish(orders, text("2"))
	producer := s.client.TransactionalProducer("till-1", goqueue.TransactionalOptions{})
	group := s.client.Group("billing", []string{orders}, goqueue.GroupOptions{})
	noPaper := errors.New("no paper")
	var attempts []string
	for len(attempts) < 3 {
		message, err := group.Next(s.ctx)
		must(s.T, err)
		value := string(message.Value)
		attempts = append(attempts, fmt.Sprint(value, " ", message.Attempt))
		err = producer.Transaction(s.ctx, func(ctx context.Context, transaction *goqueue.Transaction) error {
			invoice := goqueue.OutgoingMessage{Value: []byte("invoice " + value), Key: []byte(value)}
			_, err := transaction.Send(ctx, invoices, invoice)
			must(s.T, err)
			must(s.T, transaction.Ack(message))
			if value == "2" && message.Attempt == 1 {
				return noPaper
			}
			return nil
		})
		s.equal(errors.Is(err, noPaper), len(attempts) == 2)
	}
	must(s.T, group.Close())
	s.equal(attempts, []string{"1 1", "2 1", "2 2"})
	found := valuesOf(s.read(invoices, goqueue.ReaderOptions{}))
	slices.Sort(found)
	s.equal(found, []string{"invoice 1", "invoice 2"})

	newer := s.client.TransactionalProducer("till-1", goqueue.TransactionalOptions{})
	var over *goqueue.Transaction
	must(s.T, newer.Transaction(s.ctx, func(ctx context.Context, transaction *goqueue.Transaction) error {
		over = transaction
		_, err := transaction.Send(ctx, invoices, text("invoice 3"))
		must(s.T, err)
		return transaction.CommitOffsets("billing", map[goqueue.Partition]int64{{Topic: orders, Number: 0}: 2})
	}))
	wantCode(s.T, over.Ack(), goqueue.ErrTransactionNotOpen)
	for range 2 {
		err := producer.Transaction(s.ctx, func(ctx context.Context, transaction *goqueue.Transaction) error {
			_, err := transaction.Send(ctx, invoices, text("too late"))
			return err
		})
		wantCode(s.T, err, goqueue.ErrProducerFenced)
	}
	s.equal(len(s.read(invoices, goqueue.ReaderOptions{})), 3)
	must(s.T, newer.Close())
	must(s.T, producer.Close())
}

func testPanic(s shared) {
	topic := s.topic(1, nil)
	producer := s.client.TransactionalProducer("panicking", goqueue.TransactionalOptions{})
	defer producer.Close()
	func() {
		defer func() { s.equal(recover(), "broken") }()
		_ = producer.Transaction(s.ctx, func(ctx context.Context, transaction *goqueue.Transaction) error {
			_, err := transaction.Send(ctx, topic, text("lost"))
			must(s.T, err)
			panic("broken")
		})
	}()
	must(s.T, producer.Transaction(s.ctx, func(ctx context.Context, transaction *goqueue.Transaction) error {
		_, err := transaction.Send(ctx, topic, text("stored"))
		return err
	}))
	s.equal(valuesOf(s.read(topic, goqueue.ReaderOptions{})), []string{"stored"})
}
