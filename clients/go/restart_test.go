package goqueue_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"goqueue"
)

const restartMessages = 6000

func TestNothingIsLostOrStoredTwiceWhenTheBrokerIsKilled(t *testing.T) {
	t.Parallel()
	ctx, broker := within(t, 100*time.Second), startBroker(t)
	client := broker.client(goqueue.Options{Timeout: time.Minute})
	for name, partitions := range map[string]int32{"numbers": 3, "squares": 2} {
		_, err := client.Topics().Create(ctx, name, goqueue.TopicOptions{Partitions: partitions})
		must(t, err)
	}
	producer := client.Producer(goqueue.ProducerOptions{RequestBytes: 4000})
	squaring := client.TransactionalProducer("squaring-1", goqueue.TransactionalOptions{})
	reader := client.Reader("numbers", goqueue.ReaderOptions{})
	var reconnections atomic.Int32
	group := client.Group("squaring", []string{"numbers"}, goqueue.GroupOptions{
		MaxInFlight: 500, VisibilityTimeout: 3 * time.Second,
		OnReconnecting: func(error) { reconnections.Add(1) },
	})
	var followed []int
	var working sync.WaitGroup
	quarters := make(chan struct{}, 3)
	working.Go(func() { publishNumbers(ctx, t, producer, quarters) })
	working.Go(func() { followed = follow(ctx, t, reader) })
	working.Go(func() { square(ctx, group, squaring) })
	working.Go(func() {
		squares := client.Reader("squares", goqueue.ReaderOptions{})
		follow(ctx, t, squares)
		_ = group.Close()
	})
	for range 3 {
		<-quarters
		broker.end(syscall.SIGKILL)
		broker.start()
	}
	working.Wait()
	must(t, producer.Close(ctx))
	if found := reconnections.Load(); found < 3 {
		t.Errorf("the member has reconnected %d times", found)
	}
	want, squares := make([]int, restartMessages), make([]int, restartMessages)
	for number := range want {
		want[number], squares[number] = number, number*number
	}
	for what, found := range map[string][]int{
		"numbers":  numbersOf(t, read(ctx, t, client, "numbers", goqueue.ReaderOptions{})),
		"followed": followed,
	} {
		if slices.Sort(found); !slices.Equal(found, want) {
			t.Errorf("%s has %d messages that are not those that were sent once", what, len(found))
		}
	}
	found := numbersOf(t, read(ctx, t, client, "squares", goqueue.ReaderOptions{}))
	if slices.Sort(found); !slices.Equal(found, squares) {
		t.Errorf("squares has %d messages that are not those of committed transactions", len(found))
	}
}

func publishNumbers(ctx context.Context, t *testing.T, producer *goqueue.Producer, quarters chan<- struct{}) {
	for first := 0; first < restartMessages; first += 20 {
		var batch []goqueue.OutgoingMessage
		for number := range 20 {
			message := text(strconv.Itoa(first + number))
			message.Key = []byte("k" + strconv.Itoa(number))
			batch = append(batch, message)
		}
		delivery, err := producer.SendAll(ctx, "numbers", batch)
		if err == nil {
			_, err = delivery.Receipts(ctx)
		}
		if err != nil {
			t.Error(err)
			return
		}
		if done := first + 20; done%(restartMessages/4) == 0 && done < restartMessages {
			quarters <- struct{}{}
		}
	}
}

// follow reads until it has seen all messages.
func follow(ctx context.Context, t *testing.T, reader *goqueue.Reader) []int {
	defer reader.Close()
	var found []*goqueue.Message
	for message, err := range reader.All(ctx) {
		if err != nil {
			t.Error(err)
			break
		}
		if found = append(found, message); len(found) == restartMessages {
			break
		}
	}
	return numbersOf(t, found)
}

func square(ctx context.Context, group *goqueue.Group, producer *goqueue.TransactionalProducer) {
	for {
		batch, err := group.Batch(ctx, 200)
		if err != nil {
			return // closed
		}
		// After an error it is aborted as a whole, or its outcome is not known: the broker delivers again what was not
		// acknowledged.
		_ = producer.Transaction(ctx, func(ctx context.Context, transaction *goqueue.Transaction) error {
			var squares []goqueue.OutgoingMessage
			for _, message := range batch {
				number, err := strconv.Atoi(string(message.Value))
				if err != nil {
					return err
				}
				squares = append(squares, text(strconv.Itoa(number*number)))
			}
			if _, err := transaction.SendAll(ctx, "squares", squares); err != nil {
				return err
			}
			return transaction.Ack(batch...)
		})
	}
}

func numbersOf(t *testing.T, messages []*goqueue.Message) []int {
	var numbers []int
	for _, value := range valuesOf(messages) {
		number, err := strconv.Atoi(value)
		if err != nil {
			t.Error(err)
		}
		numbers = append(numbers, number)
	}
	return numbers
}
