package goqueue

import (
	"context"
	"sync"
	"time"
)

// Receipt says where a message was stored.
type Receipt struct {
	Topic     string
	Partition int32
	// Offset is that in the log of the partition; of a delayed message, in the delayed log.
	Offset  int64
	Delayed bool
	// Duplicate is true if it was stored by an earlier attempt, whose answer was lost.
	Duplicate bool
}

// entry is a message of a producer, until it is settled.
type entry struct {
	parts    frameParts
	size     int
	delayed  bool
	fixed    int32 // the partition that the caller has chosen, or byKey
	delivery *Delivery
	index    int
	since    time.Time
}

const byKey int32 = -1

// Delivery stands for the messages of one call of a producer.
type Delivery struct {
	done     chan struct{}
	mu       sync.Mutex
	left     int
	receipts []Receipt
	failures map[int]error
	seen     bool
}

func newDelivery(count int) *Delivery {
	delivery := &Delivery{done: make(chan struct{}), left: count, receipts: make([]Receipt, count)}
	if count == 0 {
		close(delivery.done)
	}
	return delivery
}

// Done is closed when all messages are stored or have failed.
func (d *Delivery) Done() <-chan struct{} { return d.done }

// Receipt waits until the message is stored.
func (d *Delivery) Receipt(ctx context.Context) (Receipt, error) {
	found, err := d.Receipts(ctx)
	if err != nil {
		return Receipt{}, err
	}
	return found[0], nil
}

// Receipts waits until all messages are stored or have failed, and returns the failure of the first one that has.
func (d *Delivery) Receipts(ctx context.Context) ([]Receipt, error) {
	failures, err := d.Failures(ctx)
	if err != nil {
		return nil, err
	}
	for index := range d.receipts {
		if err := failures[index]; err != nil {
			return nil, err
		}
	}
	return d.receipts, nil
}

// Failures waits, and returns the errors by the position of the message in the call. The error is that of the context.
func (d *Delivery) Failures(ctx context.Context) (map[int]error, error) {
	select {
	case <-d.done:
	case <-ctx.Done():
		failure := ErrorOf(ctx.Err())
		failure.Message, failure.Unsure = "the context ended before the message was stored", true
		return nil, failure
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = true
	return d.failures, nil
}

// unseen returns a failure that the caller has not asked for.
func (d *Delivery) unseen() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for index := range d.receipts {
		if err := d.failures[index]; err != nil && !d.seen {
			return err
		}
	}
	return nil
}

// settle records what became of a message, and reports whether it was the last one, and whether any has failed.
func (d *Delivery) settle(index int, receipt Receipt, failure error) (last, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if failure != nil {
		if d.failures == nil {
			d.failures = map[int]error{}
		}
		d.failures[index] = failure
	} else {
		d.receipts[index] = receipt
	}
	d.left--
	if d.left == 0 {
		close(d.done)
	}
	return d.left == 0, d.failures != nil
}
