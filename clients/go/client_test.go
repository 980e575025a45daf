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
	nowhere, err := goqueue.New(goqueue.Options{Address: "127.0.0.1:1", Timeout: 400 * time.Millisecond})
	must(s.T, err)
	defer nowhere.Close()
	begun := time.Now()
	_, err = nowhere.Topics().List(s.ctx)
	failure := wantCode(s.T, err, goqueue.ErrBrokerUnreachable)
	s.equal(failure.IsTransient(), true)
	s.equal(failure.Unsure, false)
	s.equal(strings.Contains(failure.Hint, "GOQUEUE_GRPC_ADDRESS"), true)
	s.equal(time.Since(begun) >= 290*time.Millisecond, true)
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
