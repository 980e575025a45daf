package goqueue_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"goqueue"
)

func testGroup(s shared) {
	topic := s.topic(2, map[string]any{"max_retries": 1})
	for _, value := range []string{"ack", "nack", "reject", "release"} {
		s.publish(topic, goqueue.OutgoingMessage{Value: []byte(value), Key: []byte("k")})
	}
	assigned := make(chan int, 10)
	group := s.client.Group("settling", []string{topic}, goqueue.GroupOptions{
		VisibilityTimeout: 20 * time.Second, Name: "till",
		OnAssignment: func(partitions []goqueue.Partition, _ int32) { assigned <- len(partitions) },
	})
	var seen []string
	for message, err := range group.All(s.ctx) {
		must(s.T, err)
		value := string(message.Value)
		seen = append(seen, fmt.Sprint(value, " ", message.Attempt))
		deadline, err := message.Extend(s.ctx, 25*time.Second)
		must(s.T, err)
		if time.Until(deadline) < 15*time.Second {
			s.Fatal(deadline)
		}
		switch {
		case value == "reject":
			err = message.Reject(s.ctx, "broken")
		case value == "release" && message.Attempt == 1:
			err = message.Release(s.ctx)
		case value == "nack":
			var again bool
			again, err = message.Nack(s.ctx, goqueue.NackOptions{Delay: goqueue.After(0), Reason: "not yet"})
			s.equal(again, message.Attempt == 1)
		default:
			err = message.Ack(s.ctx)
		}
		must(s.T, err)
		if len(seen) == 6 {
			break
		}
	}
	slices.Sort(seen)
	s.equal(seen, []string{"ack 1", "nack 1", "nack 2", "reject 1", "release 1", "release 2"})
	s.equal(<-assigned, 2)
	must(s.T, group.Close())
	dead := valuesOf(s.read(topic+".dlq", goqueue.ReaderOptions{}))
	slices.Sort(dead)
	s.equal(dead, []string{"nack", "reject"})
}

func testSharing(s shared) {
	topic := s.topic(4, nil)
	revoked, assigned := make(chan struct{}, 10), make(chan struct{}, 10)
	first := s.client.Group("sharing", []string{topic}, goqueue.GroupOptions{
		OnAssignment: func([]goqueue.Partition, int32) { assigned <- struct{}{} },
		OnRevoked:    func([]goqueue.Partition) { revoked <- struct{}{} },
	})
	defer first.Close()
	second := s.client.Group("sharing", []string{topic}, goqueue.GroupOptions{})
	seen := make(chan string, 100)
	go func() {
		for message, err := range first.All(s.ctx) {
			if err != nil || message.Ack(s.ctx) != nil {
				return
			}
			seen <- string(message.Value)
		}
	}()
	<-assigned
	publish := func(name string) {
		for number := range 8 {
			s.publish(topic, goqueue.OutgoingMessage{Value: []byte(name + strconv.Itoa(number)), Partition: goqueue.To(int32(number % 4))})
		}
	}
	publish("a")
	held := make(chan *goqueue.LeasedMessage, 1)
	go func() {
		message, err := second.Next(s.ctx)
		if err != nil {
			s.Error(err)
		}
		held <- message
	}()
	<-revoked
	publish("b")
	message := <-held
	if len(second.Assignment()) == 0 {
		s.Fatal("the second member has no partition")
	}
	must(s.T, second.Close()) // leaves with unsettled messages
	values := map[string]bool{}
	for len(values) < 16 {
		select {
		case value := <-seen:
			values[value] = true
		case <-s.ctx.Done():
			s.Fatal(values)
		}
	}
	_, err := message.Nack(s.ctx, goqueue.NackOptions{})
	wantCode(s.T, err, goqueue.ErrLeaseExpired)
}

func testParallelAcks(s shared) {
	topic := s.topic(1, nil)
	for number := range 300 {
		_, err := s.client.Publish(s.ctx, topic, text(strconv.Itoa(number)))
		must(s.T, err)
	}
	group := s.client.Group("parallel", []string{topic}, goqueue.GroupOptions{})
	var acks sync.WaitGroup
	for number := range 200 {
		message, err := group.Next(s.ctx)
		must(s.T, err)
		s.equal(message.Offset, int64(number))
		acks.Go(func() {
			if err := message.Ack(s.ctx); err != nil {
				s.Error(err)
			}
		})
	}
	acks.Wait()
	var rest []*goqueue.LeasedMessage
	for len(rest) < 100 {
		batch, err := group.Batch(s.ctx, 1000)
		must(s.T, err)
		rest = append(rest, batch...)
	}
	must(s.T, goqueue.AckAll(s.ctx, rest))
	wantCode(s.T, goqueue.AckAll(s.ctx, rest[:1]), goqueue.ErrLeaseExpired)
	must(s.T, group.Close())
	var found struct{ Offsets map[string]map[string]int }
	must(s.T, s.client.Request(s.ctx, "GET", "/groups/parallel/offsets", nil, &found))
	s.equal(found.Offsets[topic]["0"], 300)
}
