package goqueue

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "goqueue/goqueuev1"
)

type startKind int

const (
	startEarliest startKind = iota
	startLatest
	startTime
	startOffsets
)

// Start is where reading starts. The zero value is Earliest.
type Start struct {
	kind    startKind
	time    time.Time
	offsets map[int32]int64
}

// Earliest starts with the first message of the log, Latest after its end.
var (
	Earliest = Start{kind: startEarliest}
	Latest   = Start{kind: startLatest}
)

// FromTime starts with the first message at or after a time.
func FromTime(first time.Time) Start { return Start{kind: startTime, time: first} }

// FromOffsets starts at an offset of each partition; others start at their first message.
func FromOffsets(offsets map[int32]int64) Start {
	return Start{kind: startOffsets, offsets: maps.Clone(offsets)}
}

// ReaderOptions are options of readers. The zero value reads everything, and what is appended.
type ReaderOptions struct {
	Start Start
	// Partitions to read. Default: all.
	Partitions []int32
	// UntilNow ends the reader where the partitions ended at its begin.
	UntilNow bool
	// Filter is FIELD OP TEXT, as in json.order.total>40; all must be true.
	Filter []string
	// ReadUncommitted includes messages of open and aborted transactions.
	ReadUncommitted bool
}

// Reader reads messages in the order of each partition; the broker keeps no position for it. After a failure it goes on
// where it was.
type Reader struct {
	connection *connection
	topic      string
	options    ReaderOptions
	open       context.Context
	stop       context.CancelFunc
	// batches has what was read; each partition waits until its batch is taken.
	batches chan readBatch

	mu        sync.Mutex
	started   bool
	parts     int
	waiting   []*Message
	failure   error
	positions map[int32]int64
}

type readBatch struct {
	messages []*Message
	failure  error
	isDone   bool
}

func newReader(connection *connection, topic string, options ReaderOptions) *Reader {
	reader := &Reader{connection: connection, topic: topic, options: options, positions: map[int32]int64{}}
	reader.open, reader.stop = context.WithCancel(connection.open)
	reader.batches = make(chan readBatch)
	return reader
}

// Positions returns the next offset to be read of each partition: where another reader would go on.
func (r *Reader) Positions() map[int32]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.positions)
}

// Next waits for a message. It returns io.EOF at the end of a reader with UntilNow.
func (r *Reader) Next(ctx context.Context) (*Message, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	for {
		message, err := r.taken()
		if message != nil || err != nil {
			return message, err
		}
		select {
		case batch := <-r.batches:
			r.take(batch)
		case <-ctx.Done():
			return nil, ErrorOf(ctx.Err())
		case <-r.open.Done():
			return nil, &Error{Code: ErrClientClosed, Message: "this reader is closed"}
		}
	}
}

// All yields messages. An error ends it.
func (r *Reader) All(ctx context.Context) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		for {
			message, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(message, err) || err != nil {
				return
			}
		}
	}
}

func (r *Reader) taken() (*Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) > 0 {
		message := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.positions[message.Partition] = message.Offset + 1
		return message, nil
	}
	if r.failure == nil && r.parts == 0 {
		return nil, io.EOF
	}
	return nil, r.failure
}

func (r *Reader) take(batch readBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, batch.messages...)
	if batch.failure != nil {
		r.failure = batch.failure
	}
	if batch.isDone {
		r.parts--
	}
}

func (r *Reader) begin(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started {
		return nil
	}
	request := &pb.ListPartitionsRequest{Topic: r.topic}
	found, err := repeat(ctx, r.connection, r.connection.topics.ListPartitions, request)
	if err != nil {
		return err
	}
	starts := map[int32]int64{}
	for _, one := range found.Partitions {
		if len(r.options.Partitions) > 0 && !slices.Contains(r.options.Partitions, one.Partition) {
			continue
		}
		if starts[one.Partition], err = r.start(ctx, one); err != nil {
			return err
		}
	}
	for _, number := range r.options.Partitions {
		if _, ok := starts[number]; !ok {
			return &Error{Code: ErrPartitionNotFound, Message: noPartition(r.topic, number, int32(len(found.Partitions)))}
		}
	}
	r.started, r.parts, r.positions = true, len(starts), maps.Clone(starts)
	for partition, offset := range starts {
		go r.follow(partition, offset)
	}
	return nil
}

func (r *Reader) start(ctx context.Context, one *pb.Partition) (int64, error) {
	switch r.options.Start.kind {
	case startLatest:
		return one.Latest, nil
	case startTime:
		request := &pb.FindOffsetRequest{
			Topic: r.topic, Partition: one.Partition, Time: timestamppb.New(r.options.Start.time),
		}
		found, err := repeat(ctx, r.connection, r.connection.topics.FindOffset, request)
		return found.GetOffset(), err
	case startOffsets:
		if offset, ok := r.options.Start.offsets[one.Partition]; ok {
			return offset, nil
		}
	}
	return one.Earliest, nil
}

// follow reads a partition until the reader is closed, or until its end.
func (r *Reader) follow(partition int32, next int64) {
	var wait backoff
	for {
		err := r.receive(partition, &next, &wait)
		if errors.Is(err, io.EOF) && r.options.UntilNow {
			r.pass(readBatch{isDone: true})
			return
		}
		failure := errorOfStream(err)
		if !failure.IsTransient() {
			r.pass(readBatch{failure: failure})
			return
		}
		if pause(r.open, wait.next(failure)) != nil {
			return
		}
	}
}

// receive reads one stream until it ends.
func (r *Reader) receive(partition int32, next *int64, wait *backoff) error {
	ctx, cancel := context.WithCancel(r.open)
	defer cancel()
	stream, err := r.connection.consuming.Consume(ctx, &pb.ConsumeRequest{
		Topic:           r.topic,
		Partitions:      []int32{partition},
		StartPosition:   pb.ConsumeStartPosition_CONSUME_START_POSITION_OFFSET,
		StartOffset:     *next,
		UntilEnd:        r.options.UntilNow,
		Filter:          r.options.Filter,
		ReadUncommitted: r.options.ReadUncommitted,
	})
	if err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		wait.reset()
		found := response.GetMessages()
		if found == nil {
			continue
		}
		batch := readBatch{}
		for _, one := range found.Messages {
			message := storedMessage(one)
			batch.messages = append(batch.messages, &message)
		}
		if err := r.pass(batch); err != nil {
			return err
		}
		*next = found.NextOffset
	}
}

func (r *Reader) pass(batch readBatch) error {
	select {
	case r.batches <- batch:
		return nil
	case <-r.open.Done():
		return r.open.Err()
	}
}

// Close ends the reader.
func (r *Reader) Close() error {
	r.stop()
	return nil
}
