package goqueue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	pb "goqueue/goqueuev1"
)

// batchStream is one stream of batches: a request at a time, each with its response.
type batchStream struct {
	connection *connection
	open       context.Context
	stream     pb.PublishService_PublishBatchesClient
	cancel     context.CancelFunc
}

// send sends a batch. An error is unsure: the broker may have stored it.
func (b *batchStream) send(request *pb.PublishBatchRequest) (*pb.PublishBatchResponse, error) {
	if err := b.connection.refuseIfClosed(); err != nil {
		return nil, err
	}
	if b.stream == nil {
		ctx, cancel := context.WithCancel(b.open)
		stream, err := b.connection.publishing.PublishBatches(ctx)
		if err != nil {
			cancel()
			return nil, unsure(err)
		}
		b.stream, b.cancel = stream, cancel
	}
	timeout := b.connection.timeout
	var late atomic.Bool
	timer := time.AfterFunc(timeout, func() {
		late.Store(true)
		b.cancel()
	})
	answer, err := b.exchange(request)
	timer.Stop()
	if err == nil && !late.Load() {
		return answer, nil
	}
	b.end()
	if err == nil {
		return answer, nil
	}
	failure := unsure(err)
	if late.Load() {
		failure.Code, failure.Message = ErrRequestTimedOut, fmt.Sprintf("the broker did not answer within %v", timeout)
	}
	return nil, failure
}

func (b *batchStream) exchange(request *pb.PublishBatchRequest) (*pb.PublishBatchResponse, error) {
	if err := b.stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	answer, err := b.stream.Recv() // after io.EOF of Send, this is the reason
	if errors.Is(err, io.EOF) {
		return nil, &Error{Code: ErrBrokerUnreachable, Message: "the broker has ended the stream"}
	}
	return answer, err
}

func (b *batchStream) end() {
	if b.stream != nil {
		b.cancel()
		b.stream = nil
	}
}

func unsure(err error) *Error {
	failure := *ErrorOf(err)
	failure.Unsure = true
	return &failure
}
