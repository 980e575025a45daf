package goqueue

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "goqueue/goqueuev1"
)

const receiptsMax = 10_000

// settler gathers acks while others are under way, and settles messages in the other ways.
type settler struct {
	connection *connection
	mu         sync.Mutex
	waiting    []*waitingAck
	// idle is closed when no ack is under way; nil: none is.
	idle chan struct{}
}

type waitingAck struct {
	receipt string
	done    chan error
}

// ack returns the error of each receipt, in their order.
func (s *settler) ack(ctx context.Context, receipts ...string) []error {
	acks := make([]*waitingAck, len(receipts))
	for at, receipt := range receipts {
		acks[at] = &waitingAck{receipt, make(chan error, 1)}
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, acks...)
	if s.idle == nil {
		s.idle = make(chan struct{})
		go s.run()
	}
	s.mu.Unlock()
	failures := make([]error, len(acks))
	for at, one := range acks {
		select {
		case failures[at] = <-one.done:
		case <-ctx.Done():
			failure := ErrorOf(ctx.Err())
			failure.Unsure = true
			failures[at] = failure
		}
	}
	return failures
}

// wait waits until no ack is under way.
func (s *settler) wait() {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

func (s *settler) run() {
	for {
		s.mu.Lock()
		count := min(len(s.waiting), receiptsMax)
		some := s.waiting[:count]
		s.waiting = s.waiting[count:]
		if count == 0 {
			close(s.idle)
			s.idle = nil
		}
		s.mu.Unlock()
		if count == 0 {
			return
		}
		request := &pb.BatchAckRequest{}
		for _, one := range some {
			request.ReceiptHandles = append(request.ReceiptHandles, one.receipt)
		}
		// An ack of which the answer was lost is repeated.
		answer, err := repeat(s.connection.open, s.connection, s.connection.acks.BatchAck, request)
		failures := map[string]error{}
		for _, one := range answer.GetFailures() {
			failures[one.ReceiptHandle] = errorOfPart(one.Error)
		}
		for _, one := range some {
			if err != nil {
				one.done <- err
			} else {
				one.done <- failures[one.receipt]
			}
		}
	}
}

func (s *settler) nack(ctx context.Context, receipt string, options NackOptions) (bool, error) {
	request := &pb.NackRequest{ReceiptHandle: receipt, Reason: options.Reason}
	if options.Delay != nil {
		request.VisibilityTimeout = durationpb.New(*options.Delay)
	}
	answer, err := call(ctx, s.connection, s.connection.acks.Nack, request)
	return answer.GetSuccess(), err
}

func (s *settler) reject(ctx context.Context, receipt, reason string) error {
	request := &pb.RejectRequest{ReceiptHandle: receipt, Reason: reason}
	_, err := call(ctx, s.connection, s.connection.acks.Reject, request)
	return err
}

func (s *settler) extend(ctx context.Context, receipt string, timeout time.Duration) (time.Time, error) {
	request := &pb.ExtendVisibilityRequest{ReceiptHandle: receipt, VisibilityTimeout: durationpb.New(timeout)}
	answer, err := repeat(ctx, s.connection, s.connection.acks.ExtendVisibility, request)
	if err != nil || answer.NewDeadline == nil {
		return time.Time{}, err
	}
	return answer.NewDeadline.AsTime(), nil
}

// NackOptions say when a message is delivered again, and why it failed.
type NackOptions struct {
	// Delay before the next attempt; nil: it grows with each attempt. See [After].
	Delay  *time.Duration
	Reason string
}

// After is a delay of [NackOptions].
func After(delay time.Duration) *time.Duration { return &delay }

// LeasedMessage is a message that is leased to this member. Settle it once: ack, nack, reject or release.
type LeasedMessage struct {
	Message
	// Attempt counts deliveries, with this one.
	Attempt int
	// ReceiptHandle names this delivery.
	ReceiptHandle string

	settler *settler
}

// Ack says that the message is processed. Acks that are made side by side travel together.
func (m *LeasedMessage) Ack(ctx context.Context) error { return m.settler.ack(ctx, m.ReceiptHandle)[0] }

// Nack delivers the message again. It returns false if this was the last attempt: then it is in the dead-letter queue.
func (m *LeasedMessage) Nack(ctx context.Context, options NackOptions) (bool, error) {
	return m.settler.nack(ctx, m.ReceiptHandle, options)
}

// Reject moves the message to the dead-letter queue.
func (m *LeasedMessage) Reject(ctx context.Context, reason string) error {
	return m.settler.reject(ctx, m.ReceiptHandle, reason)
}

// Extend leases the message for so long from now, and returns the new deadline.
func (m *LeasedMessage) Extend(ctx context.Context, timeout time.Duration) (time.Time, error) {
	return m.settler.extend(ctx, m.ReceiptHandle, timeout)
}

// Release delivers the message again at once, without counting a failure.
func (m *LeasedMessage) Release(ctx context.Context) error {
	_, err := m.settler.extend(ctx, m.ReceiptHandle, 0)
	return err
}

// AckAll acknowledges messages in one request. The error joins those of messages that were not acknowledged.
func AckAll(ctx context.Context, messages []*LeasedMessage) error {
	if len(messages) == 0 {
		return nil
	}
	receipts := make([]string, len(messages))
	for at, message := range messages {
		receipts[at] = message.ReceiptHandle
	}
	return errors.Join(messages[0].settler.ack(ctx, receipts...)...)
}
