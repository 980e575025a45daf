package goqueue_test

import (
	"fmt"
	"strconv"
	"time"

	"goqueue"
)

func testKeys(s shared) {
	for _, partitioner := range []string{"murmur3", "murmur2"} {
		topic := s.topic(7, map[string]any{"partitioner": partitioner})
		for length := range 12 {
			key := string([]rune("kéy-0123456789")[:length+1])
			ours := s.publish(topic, goqueue.OutgoingMessage{Value: []byte("x"), Key: []byte(key)})
			body := map[string]any{"messages": []map[string]string{{"value": "x", "key": key}}}
			var theirs struct{ Results []struct{ Partition int32 } }
			must(s.T, s.client.Request(s.ctx, "POST", "/topics/"+topic+"/messages", body, &theirs))
			s.equal(ours.Partition, theirs.Results[0].Partition)
		}
	}
}

func testDelay(s shared) {
	topic := s.topic(1, nil)
	later := goqueue.OutgoingMessage{Value: []byte("later"), Delay: 100 * time.Millisecond, Headers: []goqueue.Header{{Name: "a"}}}
	s.equal(s.publish(topic, later).Delayed, true)
	s.publish(topic, goqueue.OutgoingMessage{Value: []byte("at"), DeliverAt: time.Now().Add(300 * time.Millisecond)})
	reader := s.client.Reader(topic, goqueue.ReaderOptions{})
	defer reader.Close()
	for _, want := range []string{"later", "at"} {
		message, err := reader.Next(s.ctx)
		must(s.T, err)
		s.equal(string(message.Value), want)
	}
}

func testProducer(s shared) {
	topic := s.topic(2, nil)
	producer := s.client.Producer(goqueue.ProducerOptions{BufferBytes: 20_000, RequestBytes: 5000})
	var deliveries []*goqueue.Delivery
	for first := 0; first < 3000; first += 100 {
		var batch []goqueue.OutgoingMessage
		for number := range 100 {
			message := text(strconv.Itoa(first + number))
			message.Partition = goqueue.To(int32(number % 2))
			batch = append(batch, message)
		}
		delivery, err := producer.SendAll(s.ctx, topic, batch)
		must(s.T, err)
		deliveries = append(deliveries, delivery)
		if buffered := producer.Buffered(); buffered > 20_100 {
			s.Fatal(buffered)
		}
	}
	must(s.T, producer.Flush(s.ctx))
	for at, delivery := range deliveries {
		receipts, err := delivery.Receipts(s.ctx)
		must(s.T, err)
		s.equal(receipts[98].Offset, int64(at*50+49))
	}
	var even, want []string
	for _, message := range s.read(topic, goqueue.ReaderOptions{Partitions: []int32{0}}) {
		even = append(even, string(message.Value))
	}
	for number := 0; number < 3000; number += 2 {
		want = append(want, strconv.Itoa(number))
	}
	s.equal(even, want)
	must(s.T, s.client.Topics().Delete(s.ctx, topic))
	lost, err := producer.Send(s.ctx, topic, text("x"))
	must(s.T, err)
	wantCode(s.T, producer.Flush(s.ctx), goqueue.ErrTopicNotFound)
	_, err = lost.Receipt(s.ctx)
	wantCode(s.T, err, goqueue.ErrTopicNotFound)
	must(s.T, producer.Close(s.ctx))
}

func testSchema(s shared) {
	topic := s.topic(1, map[string]any{"value_validation": "payload"})
	schema := map[string]string{"schemaType": "JSON", "schema": `{"type": "object", "required": ["id"]}`}
	var made struct{ ID int }
	must(s.T, s.client.Request(s.ctx, "POST", "/subjects/"+topic+"-value/versions", schema, &made))
	messages := make([]goqueue.OutgoingMessage, 40)
	var want []string
	for at := range messages {
		messages[at] = text(fmt.Sprintf(`{"id": %d}`, at))
		if at%13 == 5 {
			messages[at] = text("{}")
		} else {
			want = append(want, string(messages[at].Value))
		}
		messages[at].Headers = []goqueue.Header{{Name: "schema-id", Value: []byte(strconv.Itoa(made.ID))}}
	}
	producer := s.client.Producer(goqueue.ProducerOptions{})
	delivery, err := producer.SendAll(s.ctx, topic, messages)
	must(s.T, err)
	failures, err := delivery.Failures(s.ctx)
	must(s.T, err)
	s.equal(len(failures), 3)
	for _, at := range []int{5, 18, 31} {
		wantCode(s.T, failures[at], goqueue.ErrSchemaViolation)
	}
	must(s.T, producer.Close(s.ctx))
	s.equal(valuesOf(s.read(topic, goqueue.ReaderOptions{})), want)
}

func testAddedPartitions(s shared) {
	topic := s.topic(1, nil)
	producer := s.client.Producer(goqueue.ProducerOptions{})
	defer producer.Close(s.ctx)
	first, err := producer.Send(s.ctx, topic, goqueue.OutgoingMessage{Value: []byte("0"), Key: []byte("a")})
	must(s.T, err)
	_, err = first.Receipt(s.ctx)
	must(s.T, err)
	must(s.T, s.client.Topics().AddPartitions(s.ctx, topic, 5))
	var messages []goqueue.OutgoingMessage
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		messages = append(messages, goqueue.OutgoingMessage{Value: []byte(key), Key: []byte(key)})
	}
	delivery, err := producer.SendAll(s.ctx, topic, messages)
	must(s.T, err)
	receipts, err := delivery.Receipts(s.ctx)
	must(s.T, err)
	for at, message := range messages {
		s.equal(receipts[at].Partition, s.publish(topic, message).Partition)
	}
	s.equal(s.publish(topic, goqueue.OutgoingMessage{Partition: goqueue.To(4)}).Partition, int32(4))
}
