package goqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "goqueue/goqueuev1"
)

const reasonMax = 1000

// TransactionalOptions are options of producers of transactions.
type TransactionalOptions struct {
	ProducerOptions
	// TransactionTimeout is the time without a sign of life after which the broker aborts. Default: one minute.
	TransactionTimeout time.Duration
}

// TransactionalProducer publishes messages in transactions, one at a time.
//
// What must stay true: one producer id and epoch stand for one transaction. The next one has an epoch from the answer to
// the end, or from a new InitProducer: so messages that were believed lost cannot become a part of it.
type TransactionalProducer struct {
	core    producerCore
	id      string
	timeout time.Duration

	busy    sync.Mutex // held by a transaction
	current *identity  // nil: to be asked for
	fenced  error
}

func newTransactionalProducer(connection *connection, id string, options TransactionalOptions) *TransactionalProducer {
	producer := &TransactionalProducer{id: id, timeout: cmp.Or(options.TransactionTimeout, time.Minute)}
	producer.core.init(connection, options.ProducerOptions)
	producer.core.isTransactional = true
	producer.core.identify = func(context.Context) (identity, error) {
		return identity{}, &Error{Code: ErrTransactionNotOpen, Message: "no transaction is open"}
	}
	return producer
}

// Transaction is an open transaction; the function of [TransactionalProducer.Transaction] gets it.
type Transaction struct {
	core *producerCore
	// ID names the transaction.
	ID string

	mu      sync.Mutex
	over    bool
	acked   []*LeasedMessage
	offsets []*pb.AddOffsetsRequest
}

// Send takes a message to be stored with the commit.
func (t *Transaction) Send(ctx context.Context, topic string, message OutgoingMessage) (*Delivery, error) {
	return t.SendAll(ctx, topic, []OutgoingMessage{message})
}

// SendAll takes many messages.
func (t *Transaction) SendAll(ctx context.Context, topic string, messages []OutgoingMessage) (*Delivery, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, t.isOver()
	}
	return t.core.take(ctx, topic, messages)
}

// Ack acknowledges messages with the commit. If it is aborted, they are delivered again.
func (t *Transaction) Ack(messages ...*LeasedMessage) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return t.isOver()
	}
	t.acked = append(t.acked, messages...)
	return nil
}

// CommitOffsets commits offsets of a group with the commit.
func (t *Transaction) CommitOffsets(group string, offsets map[Partition]int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return t.isOver()
	}
	request := &pb.AddOffsetsRequest{Group: group}
	for place, offset := range offsets {
		one := &pb.TransactionOffset{Topic: place.Topic, Partition: place.Number, Offset: offset}
		request.Offsets = append(request.Offsets, one)
	}
	t.offsets = append(t.offsets, request)
	return nil
}

func (t *Transaction) isOver() error {
	return &Error{Code: ErrTransactionNotOpen, Message: fmt.Sprintf("transaction %s is over", t.ID)}
}

func (t *Transaction) end() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
}

// Transaction runs work in a transaction: it commits when work returns nil, and aborts when it returns an error or
// panics. Another producer with the same transactional id fences this one.
func (p *TransactionalProducer) Transaction(ctx context.Context, work func(context.Context, *Transaction) error) error {
	if !p.busy.TryLock() {
		return invalid("producer %s has an open transaction", p.id)
	}
	defer p.busy.Unlock()
	if err := p.core.refuseIfClosed(); err != nil {
		return err
	}
	if p.fenced != nil {
		return p.fenced
	}
	err := p.run(ctx, work)
	if errors.Is(err, ErrProducerFenced) {
		p.fenced = err
	}
	return err
}

func (p *TransactionalProducer) run(ctx context.Context, work func(context.Context, *Transaction) error) error {
	if err := p.core.drain(ctx); err != nil { // what the former transaction left behind is none of this one's
		return err
	}
	if p.current == nil {
		found, err := p.initialize(ctx)
		if err != nil {
			return err
		}
		p.current = found
	}
	producer := *p.current
	p.begin(producer)
	transaction := &Transaction{core: &p.core, ID: fmt.Sprintf("%d-%d", producer.producerID, producer.epoch)}
	stopBeating := p.beat(producer)
	defer stopBeating()
	isPanic := true
	defer func() {
		if isPanic {
			transaction.end()
			p.abort(ctx, transaction, producer, errors.New("panic"))
		}
	}()
	err := work(ctx, transaction)
	isPanic = false
	transaction.end()
	if drained := p.core.drain(ctx); err == nil {
		err = drained
	}
	if err == nil {
		err = p.takeFailure()
	}
	if err == nil {
		err = p.settle(ctx, transaction, producer)
	}
	if err != nil {
		p.abort(ctx, transaction, producer, err)
		return err
	}
	return p.commit(ctx, producer)
}

func (p *TransactionalProducer) begin(producer identity) {
	p.core.mu.Lock()
	defer p.core.mu.Unlock()
	p.core.failure, p.core.failed = nil, nil
	p.core.identify = func(context.Context) (identity, error) { return producer, nil }
	for _, sender := range p.core.senders {
		sender.become(&producer)
	}
}

func (p *TransactionalProducer) takeFailure() error {
	p.core.mu.Lock()
	defer p.core.mu.Unlock()
	return p.core.failure
}

func (p *TransactionalProducer) settle(ctx context.Context, transaction *Transaction, producer identity) error {
	if len(transaction.acked) == 0 && len(transaction.offsets) == 0 {
		return nil
	}
	service := p.core.connection.transactions
	begin := &pb.BeginTransactionRequest{TransactionalId: p.id, ProducerId: producer.producerID, Epoch: producer.epoch}
	if _, err := repeat(ctx, p.core.connection, service.BeginTransaction, begin); err != nil {
		return err
	}
	if len(transaction.acked) > 0 {
		request := &pb.AddAcksRequest{TransactionalId: p.id, ProducerId: producer.producerID, Epoch: producer.epoch}
		for _, message := range transaction.acked {
			request.Receipts = append(request.Receipts, message.ReceiptHandle)
		}
		answer, err := repeat(ctx, p.core.connection, service.AddAcks, request)
		if err != nil {
			return err
		}
		if len(answer.Failures) > 0 { // another member may process that message
			return errorOfPart(answer.Failures[0].Error)
		}
	}
	for _, request := range transaction.offsets {
		request.TransactionalId, request.ProducerId, request.Epoch = p.id, producer.producerID, producer.epoch
		if _, err := repeat(ctx, p.core.connection, service.AddOffsets, request); err != nil {
			return err
		}
	}
	return nil
}

func (p *TransactionalProducer) commit(ctx context.Context, producer identity) error {
	p.current = nil // unknown, until the answer names the next one
	request := &pb.CommitTransactionRequest{TransactionalId: p.id, ProducerId: producer.producerID, Epoch: producer.epoch}
	next, err := repeat(ctx, p.core.connection, p.core.connection.transactions.CommitTransaction, request)
	if err == nil {
		p.current = &identity{next.ProducerId, next.Epoch}
		return nil
	}
	failure := ErrorOf(err)
	if !failure.IsTransient() && failure.Code != ErrCancelled {
		return failure
	}
	lost := *failure
	lost.Message = fmt.Sprintf("whether transaction %d-%d was committed is not known: %s", producer.producerID, producer.epoch, failure.Message)
	lost.Unsure, lost.cause = true, failure
	return &lost
}

// abort ends the transaction, also when the context has ended.
func (p *TransactionalProducer) abort(ctx context.Context, transaction *Transaction, producer identity, cause error) {
	p.current = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.core.connection.timeout)
	defer cancel()
	_ = p.core.drain(ctx) // what is still sent counts for nothing
	reason := []rune(cause.Error())
	reason = reason[:min(len(reason), reasonMax)]
	request := &pb.AbortTransactionRequest{
		TransactionalId: p.id, ProducerId: producer.producerID, Epoch: producer.epoch, Reason: string(reason),
	}
	// An error is no matter: nothing had begun, or the timeout ends it; the next transaction asks for another epoch.
	if next, err := repeat(ctx, p.core.connection, p.core.connection.transactions.AbortTransaction, request); err == nil {
		p.current = &identity{next.ProducerId, next.Epoch}
	}
	var ours *Error
	isOurs := errors.As(cause, &ours)
	var settling sync.WaitGroup
	for _, message := range transaction.acked {
		settling.Go(func() {
			if isOurs {
				_ = message.Release(ctx) // else its lease ends
			} else {
				_, _ = message.Nack(ctx, NackOptions{Reason: string(reason)})
			}
		})
	}
	settling.Wait()
}

// beat shows the broker that the transaction is alive, until the function that it returns is called.
func (p *TransactionalProducer) beat(producer identity) (stop func()) {
	ctx, cancel := context.WithCancel(p.core.open)
	path := fmt.Sprintf("/producers/%d/heartbeat", producer.producerID)
	body, err := json.Marshal(map[string]any{"transactional_id": p.id, "epoch": producer.epoch})
	if err != nil {
		panic(err) // text and a number
	}
	request := &pb.CallRequest{Method: "POST", Path: path, Body: string(body)}
	go func() {
		for pause(ctx, p.timeout/3) == nil {
			_, _ = call(ctx, p.core.connection, p.core.connection.admin.Call, request) // the next one may arrive
		}
	}()
	return cancel
}

func (p *TransactionalProducer) initialize(ctx context.Context) (*identity, error) {
	request := &pb.InitProducerRequest{TransactionalId: p.id, TransactionTimeoutMs: p.timeout.Milliseconds()}
	found, err := repeat(ctx, p.core.connection, p.core.connection.transactions.InitProducer, request)
	if err != nil {
		return nil, err
	}
	return &identity{found.ProducerId, found.Epoch}, nil
}

// Close ends the producer. A transaction that is open is aborted by the broker.
func (p *TransactionalProducer) Close() error {
	p.core.close()
	return nil
}
