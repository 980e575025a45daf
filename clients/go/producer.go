package goqueue

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	pb "goqueue/goqueuev1"
)

const failuresMax = 1000

// Acks says when the broker answers.
type Acks int

// AcksLeader: the message is on the leader's disk. AcksAll: all in-sync replicas have it.
const (
	AcksLeader Acks = iota
	AcksAll
)

// ProducerOptions are options of producers. The zero value has the defaults.
type ProducerOptions struct {
	Acks Acks
	// RequestBytes is the maximum size of a request. Default: 1 MiB.
	RequestBytes int
	// BufferBytes is the size of messages that wait; beyond it, Send waits for room. Default: 32 MiB.
	BufferBytes int
	// DeliveryTimeout is the time after which a message that is not stored fails. Default: 2 minutes.
	DeliveryTimeout time.Duration
}

// identity names a producer to the broker.
type identity struct {
	producerID int64
	epoch      int32
}

// producerCore is the common part of producers with and without transactions.
type producerCore struct {
	connection      *connection
	options         ProducerOptions
	isTransactional bool
	identify        func(context.Context) (identity, error)
	// open ends with the producer.
	open  context.Context
	close context.CancelFunc

	// mu guards everything below, and the queues of the senders.
	mu       sync.Mutex
	senders  map[string]*topicSender
	buffered int
	waiters  []*waiter
	pending  map[*Delivery]struct{}
	// failed are deliveries that may hold a failure which no caller has asked for.
	failed []*Delivery
	// failure is the first one since it was reset.
	failure error
}

// waiter waits for room in the buffer.
type waiter struct {
	size  int
	ready chan struct{}
}

func (c *producerCore) init(connection *connection, options ProducerOptions) {
	options.RequestBytes = cmp.Or(options.RequestBytes, 1<<20)
	options.BufferBytes = cmp.Or(options.BufferBytes, 32<<20)
	options.DeliveryTimeout = cmp.Or(options.DeliveryTimeout, 2*time.Minute)
	c.connection, c.options = connection, options
	c.open, c.close = context.WithCancel(connection.open)
	c.senders, c.pending = map[string]*topicSender{}, map[*Delivery]struct{}{}
}

func (c *producerCore) refuseIfClosed() error {
	if c.open.Err() != nil {
		return &Error{Code: ErrClientClosed, Message: "this producer is closed"}
	}
	return nil
}

func (c *producerCore) take(ctx context.Context, topic string, messages []OutgoingMessage) (*Delivery, error) {
	if err := c.refuseIfClosed(); err != nil {
		return nil, err
	}
	sender := c.sender(topic)
	facts, err := sender.loadFacts(ctx)
	if err != nil {
		return nil, err
	}
	delivery := newDelivery(len(messages))
	entries := make([]entry, len(messages))
	now := time.Now()
	for at := range messages {
		message, one := &messages[at], &entries[at]
		one.fixed = byKey
		if given := message.Partition; given != nil {
			if *given >= facts.partitions {
				if facts, err = sender.reloadFacts(ctx); err != nil {
					return nil, err
				}
			}
			if *given < 0 || *given >= facts.partitions {
				return nil, &Error{Code: ErrPartitionNotFound, Message: noPartition(topic, *given, facts.partitions)}
			}
			one.fixed = *given
		}
		if one.parts, err = partsOf(message, facts.messageBytesMax, c.isTransactional); err != nil {
			return nil, err
		}
		one.size, one.delayed = one.parts.size(), message.isDelayed()
		one.delivery, one.index, one.since = delivery, at, now
	}
	for at := range entries {
		if err := c.reserve(ctx, entries[at].size); err != nil {
			c.abandon(entries[at:], err)
			return nil, err
		}
		c.mu.Lock()
		c.pending[delivery] = struct{}{}
		sender.add(entries[at])
		c.mu.Unlock()
	}
	return delivery, nil
}

func (c *producerCore) sender(topic string) *topicSender {
	c.mu.Lock()
	defer c.mu.Unlock()
	sender := c.senders[topic]
	if sender == nil {
		sender = newTopicSender(c, topic)
		c.senders[topic] = sender
	}
	return sender
}

// reserve waits for room in the buffer, in the order of the calls.
func (c *producerCore) reserve(ctx context.Context, size int) error {
	c.mu.Lock()
	if len(c.waiters) == 0 && (c.buffered == 0 || c.buffered+size <= c.options.BufferBytes) {
		c.buffered += size
		c.mu.Unlock()
		return nil
	}
	mine := &waiter{size, make(chan struct{})}
	c.waiters = append(c.waiters, mine)
	c.mu.Unlock()
	var err error
	select {
	case <-mine.ready:
		return nil
	case <-ctx.Done():
		err = ErrorOf(ctx.Err())
	case <-c.open.Done():
		err = c.refuseIfClosed()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.waiters, mine)
	if at < 0 {
		return nil // the room came at the same moment
	}
	c.waiters = slices.Delete(c.waiters, at, at+1)
	c.grant()
	return err
}

func (c *producerCore) grant() {
	for len(c.waiters) > 0 {
		next := c.waiters[0]
		if c.buffered > 0 && c.buffered+next.size > c.options.BufferBytes {
			return
		}
		c.buffered += next.size
		c.waiters = c.waiters[1:]
		close(next.ready)
	}
}

// settle records entries that were stored, with their receipts, or that have failed.
func (c *producerCore) settle(entries []entry, receipt func(at int) Receipt, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = failure
	}
	for at := range entries {
		one := &entries[at]
		c.buffered -= one.size
		var where Receipt
		if failure == nil {
			where = receipt(at)
		}
		last, failed := one.delivery.settle(one.index, where, failure)
		if !last {
			continue
		}
		delete(c.pending, one.delivery)
		if failed && len(c.failed) < failuresMax {
			c.failed = append(c.failed, one.delivery)
		}
	}
	c.grant()
}

// abandon fails entries that have not been given room.
func (c *producerCore) abandon(entries []entry, failure error) {
	for at := range entries {
		entries[at].size = 0
	}
	c.settle(entries, nil, failure)
}

// drain waits until everything that was sent so far is stored or has failed.
func (c *producerCore) drain(ctx context.Context) error {
	c.mu.Lock()
	waiting := make([]*Delivery, 0, len(c.pending))
	for delivery := range c.pending {
		waiting = append(waiting, delivery)
	}
	c.mu.Unlock()
	for _, delivery := range waiting {
		select {
		case <-delivery.done:
		case <-ctx.Done():
			return ErrorOf(ctx.Err())
		}
	}
	return nil
}

// flush drains, and returns a failure that no caller has asked for.
func (c *producerCore) flush(ctx context.Context) error {
	if err := c.drain(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	failed := c.failed
	c.failed = nil
	c.mu.Unlock()
	for _, delivery := range failed {
		if err := delivery.unseen(); err != nil {
			return err
		}
	}
	return nil
}

// Producer sends messages in the background, each of them exactly once and in the order of the calls.
//
// A failure is returned by the [Delivery], or else by the next Flush or Close.
type Producer struct{ core producerCore }

func newProducer(connection *connection, options ProducerOptions) *Producer {
	producer := &Producer{}
	producer.core.init(connection, options)
	producer.core.identify = func(ctx context.Context) (identity, error) {
		found, err := repeat(ctx, connection, connection.transactions.InitProducer, &pb.InitProducerRequest{})
		if err != nil {
			return identity{}, err
		}
		return identity{found.ProducerId, found.Epoch}, nil
	}
	return producer
}

// Send takes a message to be sent. It waits only while the buffer is full.
func (p *Producer) Send(ctx context.Context, topic string, message OutgoingMessage) (*Delivery, error) {
	return p.core.take(ctx, topic, []OutgoingMessage{message})
}

// SendAll takes many messages, which is faster than one by one. If one is invalid, none is taken.
func (p *Producer) SendAll(ctx context.Context, topic string, messages []OutgoingMessage) (*Delivery, error) {
	return p.core.take(ctx, topic, messages)
}

// Close sends what is left, and ends. When the context ends before, the rest fails.
func (p *Producer) Close(ctx context.Context) error {
	defer p.core.close()
	return p.core.flush(ctx)
}

// Flush waits until everything sent so far is stored or has failed. It returns a failure that no caller has asked for.
func (p *Producer) Flush(ctx context.Context) error { return p.core.flush(ctx) }

// Buffered returns the bytes of messages that are neither stored nor failed.
func (p *Producer) Buffered() int {
	p.core.mu.Lock()
	defer p.core.mu.Unlock()
	return p.core.buffered
}
