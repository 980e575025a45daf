package goqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"goqueue"
	"goqueue/goqueuev1"
)

// shared is one broker for all tests of this file.
type shared struct {
	*testing.T
	broker *broker
	client *goqueue.Client
	ctx    context.Context
}

func TestClient(t *testing.T) {
	broker := startBroker(t)
	for name, test := range map[string]func(shared){
		"message is read with its key, headers, priority and time":                testMessage,
		"keys go to the partitions that the broker chooses":                       testKeys,
		"delayed message is delivered once it is due":                             testDelay,
		"messages are stored in order while the buffer is full":                   testProducer,
		"messages that break the schema fail alone":                               testSchema,
		"messages are placed anew when partitions are added":                      testAddedPartitions,
		"member acks, nacks, rejects, extends and releases":                       testGroup,
		"second member gets its share, and the messages of one that leaves":       testSharing,
		"acks that are made side by side are all acknowledged":                    testParallelAcks,
		"reader begins at an offset, at a time, or at the end, and filters":       testReader,
		"transaction commits messages and acks together, or aborts them":          testTransaction,
		"transaction is aborted by a panic":                                       testPanic,
		"error has the code, hint and fields of the broker":                       testErrors,
		"context ends what waits":                                                 testContext,
		"clients as generated use the connection and its errors":                  testGenerated,
		"example of the README prints what it says":                               testExample,
		"closed client, producer, member and reader refuse what comes after them": testClosed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(shared{t, broker, broker.client(goqueue.Options{}), within(t, 60*time.Second)})
		})
	}
}

func (s shared) topic(partitions int32, settings map[string]any) string {
	s.Helper()
	name := strings.NewReplacer("TestClient/", "", ",", "").Replace(s.Name())[:20] + strconv.FormatInt(time.Now().UnixNano(), 36)
	_, err := s.client.Topics().Create(s.ctx, name, goqueue.TopicOptions{Partitions: partitions, Settings: settings})
	must(s.T, err)
	return name
}

func (s shared) publish(topic string, message goqueue.OutgoingMessage) goqueue.Receipt {
	s.Helper()
	receipt, err := s.client.Publish(s.ctx, topic, message)
	must(s.T, err)
	return receipt
}

func (s shared) read(topic string, options goqueue.ReaderOptions) []*goqueue.Message {
	s.Helper()
	return read(s.ctx, s.T, s.client, topic, options)
}

func (s shared) equal(found, want any) {
	s.Helper()
	if !reflect.DeepEqual(found, want) {
		s.Fatalf("found %v, not %v", found, want)
	}
}

func text(value string) goqueue.OutgoingMessage { return goqueue.OutgoingMessage{Value: []byte(value)} }

func testMessage(s shared) {
	topic := s.topic(3, nil)
	headers := []goqueue.Header{{Name: "source", Value: []byte("till")}, {Name: "raw", Value: []byte{255, 254}}}
	message := goqueue.OutgoingMessage{Value: []byte("paid"), Key: []byte("user-42"), Headers: headers, Priority: goqueue.PriorityHigh}
	receipt := s.publish(topic, message)
	s.equal(receipt, goqueue.Receipt{Topic: topic, Partition: receipt.Partition})
	s.publish(topic, goqueue.OutgoingMessage{Key: []byte("user-42"), Tombstone: true})
	found := s.read(topic, goqueue.ReaderOptions{})
	s.equal(len(found), 2)
	first := found[0]
	s.equal([]int32{first.Partition, found[1].Partition}, []int32{receipt.Partition, receipt.Partition})
	s.equal([]string{string(first.Value), string(first.Key), first.Priority.String()}, []string{"paid", "user-42", "high"})
	s.equal(first.Headers, headers)
	s.equal(string(first.Header("source")), "till")
	s.equal(found[1].Tombstone, true)
	s.equal(found[1].Priority, goqueue.PriorityNormal)
	if time.Since(first.Timestamp).Abs() > time.Minute {
		s.Fatal(first.Timestamp)
	}
}

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
}

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

func testReader(s shared) {
	topic := s.topic(1, nil)
	for number := range 3 {
		s.publish(topic, text(fmt.Sprintf(`{"number": %d}`, number+1)))
	}
	numbers := func(options goqueue.ReaderOptions) (found []int) {
		for _, message := range s.read(topic, options) {
			var value struct{ Number int }
			must(s.T, message.JSON(&value))
			found = append(found, value.Number)
		}
		return found
	}
	third := s.read(topic, goqueue.ReaderOptions{})[2]
	s.equal(numbers(goqueue.ReaderOptions{Start: goqueue.FromOffsets(map[int32]int64{0: 1})}), []int{2, 3})
	fromTime := numbers(goqueue.ReaderOptions{Start: goqueue.FromTime(third.Timestamp)})
	s.equal(fromTime[len(fromTime)-1], 3)
	s.equal(len(numbers(goqueue.ReaderOptions{Start: goqueue.Latest})), 0)
	s.equal(numbers(goqueue.ReaderOptions{Filter: []string{"json.number>1"}}), []int{2, 3})
	latest := s.client.Reader(topic, goqueue.ReaderOptions{Start: goqueue.Latest})
	defer latest.Close()
	ctx, stop := context.WithCancel(s.ctx)
	publishing := make(chan struct{})
	go func() {
		defer close(publishing)
		for ctx.Err() == nil {
			_, _ = s.client.Publish(ctx, topic, text("new")) // the last one is cut off
		}
	}()
	message, err := latest.Next(s.ctx)
	stop()
	<-publishing
	must(s.T, err)
	s.equal(string(message.Value), "new")
	s.equal(latest.Positions()[0], message.Offset+1)
	missing := s.client.Reader(topic, goqueue.ReaderOptions{Partitions: []int32{7}})
	_, err = missing.Next(s.ctx)
	wantCode(s.T, err, goqueue.ErrPartitionNotFound)
}

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

func testErrors(s shared) {
	_, err := s.client.Topics().Describe(s.ctx, "missing")
	if failure := wantCode(s.T, err, goqueue.ErrTopicNotFound); failure.Hint == "" || failure.IsTransient() {
		s.Fatal(failure)
	}
	_, err = s.client.Topics().Create(s.ctx, "wrong", goqueue.TopicOptions{Settings: map[string]any{"retention_hours": "no"}})
	s.equal(wantCode(s.T, err, goqueue.ErrRequestInvalid).Problems[0].Field, "retention_hours")
	for _, want := range []bool{true, false} {
		created, err := s.client.Topics().Create(s.ctx, "known", goqueue.TopicOptions{ExistOK: true})
		must(s.T, err)
		s.equal(created, want)
	}
	_, err = s.client.Topics().Create(s.ctx, "known", goqueue.TopicOptions{})
	wantCode(s.T, err, goqueue.ErrTopicExists)
	topics, err := s.client.Topics().List(s.ctx)
	must(s.T, err)
	s.equal(slices.Contains(topics, "known"), true)
	must(s.T, s.client.Topics().Alter(s.ctx, "known", map[string]any{"retention_hours": 24}))
	info, err := s.client.Topics().Describe(s.ctx, "known")
	must(s.T, err)
	var hours float64
	must(s.T, json.Unmarshal(info.Settings["retention_hours"], &hours))
	s.equal(hours, 24.0)
	for code, message := range map[goqueue.Code]goqueue.OutgoingMessage{
		goqueue.ErrRequestInvalid:    {Tombstone: true},
		goqueue.ErrPartitionNotFound: {Partition: goqueue.To(900)},
		goqueue.ErrMessageTooLarge:   {Value: make([]byte, 2<<20)},
	} {
		_, err := s.client.Publish(s.ctx, "known", message)
		wantCode(s.T, err, code)
	}
	nowhere, err := goqueue.New(goqueue.Options{Address: "127.0.0.1:1", Timeout: 300 * time.Millisecond})
	must(s.T, err)
	defer nowhere.Close()
	_, err = nowhere.Topics().List(s.ctx)
	s.equal(wantCode(s.T, err, goqueue.ErrBrokerUnreachable).IsTransient(), true)
}

func testContext(s shared) {
	topic := s.topic(1, nil)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	group := s.client.Group("waiting", []string{topic}, goqueue.GroupOptions{})
	defer group.Close()
	reader := s.client.Reader(topic, goqueue.ReaderOptions{})
	defer reader.Close()
	_, ofTopics := s.client.Topics().List(ctx)
	_, ofGroup := group.Next(ctx)
	_, ofReader := reader.Next(ctx)
	for _, err := range []error{ofTopics, ofGroup, ofReader} {
		wantCode(s.T, err, goqueue.ErrCancelled)
		s.equal(errors.Is(err, context.Canceled), true)
	}
	soon, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	_, err := group.Next(soon)
	wantCode(s.T, err, goqueue.ErrRequestTimedOut)
	s.equal(errors.Is(err, context.DeadlineExceeded), true)
	s.publish(topic, text("x"))
	message, err := group.Next(s.ctx)
	must(s.T, err)
	must(s.T, message.Ack(s.ctx))
}

func testGenerated(s shared) {
	topic := s.topic(1, nil)
	service := goqueuev1.NewOffsetServiceClient(s.client.Conn())
	request := &goqueuev1.CommitOffsetsRequest{GroupId: "simple", Offsets: []*goqueuev1.OffsetCommit{{Topic: topic}}}
	_, err := service.CommitOffsets(s.ctx, request)
	must(s.T, err)
	found, err := service.FetchOffsets(s.ctx, &goqueuev1.FetchOffsetsRequest{GroupId: "simple"})
	must(s.T, err)
	s.equal(len(found.Offsets), 1)
	_, err = service.FetchOffsets(s.ctx, &goqueuev1.FetchOffsetsRequest{GroupId: "missing"})
	wantCode(s.T, goqueue.ErrorOf(err), goqueue.ErrGroupNotFound)
}

func testExample(s shared) {
	example := startBroker(s.T)
	command := exec.CommandContext(s.ctx, "go", "run", "./examples/five-minutes")
	command.Env = append(os.Environ(), "GOQUEUE_GRPC_ADDRESS="+example.address())
	output, err := command.CombinedOutput()
	if err != nil {
		s.Fatal(err, string(output))
	}
	s.equal(string(output), "stored in orders, offset 0\ncharged anna 420\ninvoice for anna\n")
}

func testClosed(s shared) {
	topic := s.topic(1, nil)
	producer := s.client.Producer(goqueue.ProducerOptions{})
	must(s.T, producer.Close(s.ctx))
	_, err := producer.Send(s.ctx, topic, text("x"))
	wantCode(s.T, err, goqueue.ErrClientClosed)
	group := s.client.Group("closed", []string{topic}, goqueue.GroupOptions{})
	must(s.T, group.Close())
	_, err = group.Next(s.ctx)
	wantCode(s.T, err, goqueue.ErrClientClosed)
	reader := s.client.Reader(topic, goqueue.ReaderOptions{})
	_, _ = reader.Next(canceled(s.ctx)) // it has begun
	must(s.T, reader.Close())
	_, err = reader.Next(s.ctx)
	wantCode(s.T, err, goqueue.ErrClientClosed)
	must(s.T, s.client.Close())
	_, err = s.client.Topics().List(s.ctx)
	wantCode(s.T, err, goqueue.ErrClientClosed)
}

func canceled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func TestKeyAndTLSArePresented(t *testing.T) {
	t.Parallel()
	ctx, files := within(t, 60*time.Second), t.TempDir()
	if output, err := exec.Command(program(), "cert", "dev", "--dir", files).CombinedOutput(); err != nil {
		t.Fatal(err, string(output))
	}
	file := func(name string) string { return filepath.Join(files, name) }
	secured := startBroker(t, "--tls-cert", file("server.pem"), "--tls-key", file("server.key"),
		"--auth", "--admin-key-file", file("admin.key"))
	authority, err := goqueue.TLSFiles(file("ca.pem"), "", "")
	must(t, err)
	key, err := os.ReadFile(file("admin.key"))
	must(t, err)
	mine := secured.client(goqueue.Options{TLS: authority, APIKey: strings.TrimSpace(string(key))})
	_, err = mine.Topics().Create(ctx, "orders", goqueue.TopicOptions{})
	must(t, err)
	_, err = mine.Publish(ctx, "orders", text("x"))
	must(t, err)
	_, err = secured.client(goqueue.Options{TLS: authority, APIKey: "wrong"}).Publish(ctx, "orders", text("x"))
	wantCode(t, err, goqueue.ErrUnauthenticated)
}
