package goqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	pb "goqueue/goqueuev1"
)

const sequences = 1 << 31

// topicSender sends the messages of one topic: one request at a time, while the next one gathers.
//
// What must stay true: a sealed batch is sent with the same producer, sequence and count, byte for byte, until it is
// stored or fails, and nothing else of its partition is sealed before that. The broker knows its retries by these marks,
// so a batch whose answer was lost is stored once. Only a batch that the broker certainly does not have is sealed anew.
type topicSender struct {
	core   *producerCore
	topic  string
	stream batchStream
	wait   backoff

	loading sync.Mutex

	// The following are guarded by core.mu.
	facts    *topicFacts // nil when they must be loaded again
	known    *topicFacts
	queues   []*queue // in the order of their turns
	byPlace  map[place]*queue
	placedBy int32
	// recounted is the number of partitions that the topic has now, until what waits is placed by it.
	recounted int32
	sticky    int32
	identity  *identity
	running   bool
}

// place is a partition, or its delayed log.
type place struct {
	partition int32
	delayed   bool
}

// queue is what waits for one place.
type queue struct {
	place
	entries  []entry
	sequence uint32
	// most messages of the next batch, while the invalid ones of a refused batch are looked for.
	most int
}

// sealed is a batch of one partition, as it is sent until it is settled.
type sealed struct {
	queue    *queue
	entries  []entry
	identity identity
	sequence uint32
	section  []byte
	placedBy int32
	unsure   bool
}

func newTopicSender(core *producerCore, topic string) *topicSender {
	sender := &topicSender{core: core, topic: topic, byPlace: map[place]*queue{}}
	sender.stream = batchStream{connection: core.connection, open: core.open}
	return sender
}

// add takes a message. The caller holds core.mu.
func (s *topicSender) add(one entry) {
	s.place(one)
	if !s.running {
		s.running = true
		go s.run()
	}
}

// become makes the sender use another identity, whose sequences begin at 0. The caller holds core.mu.
func (s *topicSender) become(one *identity) {
	s.identity = one
	for _, queue := range s.queues {
		queue.sequence = 0
	}
}

func (s *topicSender) place(one entry) {
	partition := one.fixed
	if partition == byKey {
		partition = s.sticky
		if len(one.parts.key) > 0 {
			partition = partitionOf(one.parts.key, s.placedBy, s.known.hash)
		}
	}
	found := s.queue(partition, one.delayed)
	found.entries = append(found.entries, one)
}

func (s *topicSender) queue(partition int32, delayed bool) *queue {
	where := place{partition, delayed}
	found := s.byPlace[where]
	if found == nil {
		found = &queue{place: where, most: math.MaxInt}
		s.byPlace[where] = found
		s.queues = append(s.queues, found)
	}
	return found
}

// takeWaiting empties the queues. The caller holds core.mu.
func (s *topicSender) takeWaiting() []entry {
	var waiting []entry
	for _, queue := range s.queues {
		waiting = append(waiting, queue.entries...)
		queue.entries = nil
	}
	return waiting
}

func (s *topicSender) run() {
	for {
		s.core.mu.Lock()
		if !slices.ContainsFunc(s.queues, func(one *queue) bool { return len(one.entries) > 0 }) {
			s.running = false
			s.core.mu.Unlock()
			return
		}
		producer, identify := s.identity, s.core.identify
		s.core.mu.Unlock()
		if producer == nil {
			found, err := identify(s.core.open)
			if err != nil {
				s.unidentified(ErrorOf(err))
				continue
			}
			producer = &found
		}
		s.core.mu.Lock()
		if s.identity == nil {
			s.identity = producer
		}
		request := s.seal(*s.identity)
		s.core.mu.Unlock()
		for len(request) > 0 {
			request = s.attempt(request)
		}
	}
}

func (s *topicSender) unidentified(failure *Error) {
	s.core.mu.Lock()
	since := time.Now()
	for _, queue := range s.queues {
		if len(queue.entries) > 0 && queue.entries[0].since.Before(since) {
			since = queue.entries[0].since
		}
	}
	late := time.Since(since) > s.core.options.DeliveryTimeout
	if failure.IsTransient() && !late && !s.core.isTransactional && s.core.open.Err() == nil {
		s.core.mu.Unlock()
		_ = pause(s.core.open, s.wait.next(failure)) // the next attempt says that the producer is closed
		return
	}
	waiting := s.takeWaiting()
	s.core.mu.Unlock()
	s.core.settle(waiting, nil, failure)
}

// seal makes batches of what waits. The caller holds core.mu.
func (s *topicSender) seal(producer identity) []*sealed {
	var request []*sealed
	var waiting, served []*queue
	room := s.core.options.RequestBytes
	for _, queue := range s.queues {
		if len(queue.entries) == 0 || room <= 0 {
			waiting = append(waiting, queue)
			continue
		}
		count := 0
		for count < len(queue.entries) && count < queue.most && (room > 0 || count == 0) {
			room -= queue.entries[count].size
			count++
		}
		taken := slices.Clip(queue.entries[:count])
		queue.entries = queue.entries[count:]
		section := encodeSection(queue.partition, queue.delayed, taken, mark{producer, queue.sequence})
		request = append(request, &sealed{queue, taken, producer, queue.sequence, section, s.placedBy, false})
		queue.sequence = (queue.sequence + uint32(count)) % sequences
		served = append(served, queue)
	}
	s.queues = append(waiting, served...)
	if s.placedBy > 0 {
		s.sticky = (s.sticky + 1) % s.placedBy
	}
	return request
}

// attempt sends sealed batches, and returns those that must be sent again.
func (s *topicSender) attempt(request []*sealed) []*sealed {
	results, err := s.send(request)
	var again []*sealed
	var refusal *Error
	for at, batch := range request {
		failure := ErrorOf(err)
		if err == nil {
			if results[at].Error == nil {
				s.stored(batch.queue, batch.entries, results[at].FirstOffset, results[at].Duplicate)
				continue
			}
			failure = errorOfPart(results[at].Error)
		}
		if s.refused(batch, failure) {
			again = append(again, batch)
		}
		refusal = failure
	}
	if len(again) > 0 {
		_ = pause(s.core.open, s.wait.next(refusal)) // the next attempt says that the producer is closed
		return again
	}
	s.wait.reset()
	s.placeAgain()
	return nil
}

func (s *topicSender) send(request []*sealed) ([]*pb.PublishResult, error) {
	if err := s.core.refuseIfClosed(); err != nil {
		s.stream.end()
		return nil, err
	}
	message := &pb.PublishBatchRequest{Topic: s.topic, Partitions: request[0].placedBy}
	for _, batch := range request {
		if len(request) == 1 {
			message.Frames = batch.section
		} else {
			message.Frames = append(message.Frames, batch.section...)
		}
	}
	if s.core.options.Acks == AcksAll {
		message.AckMode = pb.AckMode_ACK_MODE_ALL
	}
	if s.core.isTransactional {
		message.ProducerId, message.ProducerEpoch = request[0].identity.producerID, request[0].identity.epoch
		message.Begin = true
	}
	answer, err := s.stream.send(message)
	if err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, errorOfPart(answer.Error)
	}
	if len(answer.Results) != len(request) {
		sentence := fmt.Sprintf("the broker has sent %d results for %d batches", len(answer.Results), len(request))
		return nil, &Error{Code: ErrUnknown, Message: sentence, Unsure: true}
	}
	return answer.Results, nil
}

func (s *topicSender) stored(queue *queue, entries []entry, first int64, duplicate bool) {
	s.core.mu.Lock()
	queue.most = math.MaxInt
	s.core.mu.Unlock()
	s.core.settle(entries, func(at int) Receipt {
		where := Receipt{s.topic, queue.partition, first, queue.delayed, duplicate}
		if first >= 0 {
			where.Offset += int64(at)
		}
		return where
	}, nil)
}

// refused reports whether the batch must be sent again as it is.
func (s *topicSender) refused(batch *sealed, failure *Error) bool {
	if failure.IsTransient() || failure.Code == ErrChecksumMismatch {
		batch.unsure = batch.unsure || failure.Unsure
		if time.Since(batch.entries[0].since) <= s.core.options.DeliveryTimeout {
			return true
		}
		failure = s.expired(batch, failure)
		s.core.mu.Lock()
		if s.core.isTransactional {
			s.become(s.identity)
		} else {
			s.become(nil)
		}
		s.core.mu.Unlock()
		s.core.settle(batch.entries, nil, failure)
		return false
	}
	if failure.Code == ErrPartitionCountStale && s.recount(batch, failure) {
		return false
	}
	s.core.mu.Lock()
	isLost := s.decide(batch, failure)
	s.core.mu.Unlock()
	if isLost {
		s.core.settle(batch.entries, nil, failure)
	}
	return false
}

// decide puts messages back that can be sealed anew, and reports whether they have failed instead. The caller holds
// core.mu.
func (s *topicSender) decide(batch *sealed, failure *Error) bool {
	queue := batch.queue
	if isCertainlyNotStored(batch, failure) && !s.core.isTransactional {
		if s.identity != nil && *s.identity == batch.identity {
			s.become(nil)
		}
		queue.entries = append(batch.entries, queue.entries...)
		return false
	}
	switch {
	case failure.Code == ErrSchemaViolation || failure.Code == ErrMessageTooLarge: // the others of the batch can be stored
		queue.sequence = batch.sequence // nothing of it is stored
		if count := len(batch.entries); count > 1 {
			queue.most = (count + 1) / 2
			queue.entries = append(batch.entries, queue.entries...)
			return false
		}
		queue.most = math.MaxInt
	case !s.core.isTransactional:
		s.become(nil)
	}
	if failure.Code == ErrTopicNotFound || failure.Code == ErrPartitionNotFound {
		s.facts = nil
	}
	return true
}

// recount takes back a batch that was placed by a former number of partitions. Messages in its pieces are stored.
func (s *topicSender) recount(batch *sealed, failure *Error) bool {
	count, err := strconv.ParseInt(failure.Details["partitions"], 10, 32)
	if err != nil || count < 1 || int32(count) == batch.placedBy {
		return false
	}
	var pieces [][2]int64
	if text := failure.Details["pieces"]; text != "" {
		if err := json.Unmarshal([]byte(text), &pieces); err != nil {
			return false
		}
	}
	stored := 0
	for _, piece := range pieces {
		stored += int(piece[1] - piece[0])
	}
	if stored > 0 {
		s.stored(batch.queue, batch.entries[:stored], pieces[0][0], false)
	}
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	batch.queue.sequence = (batch.sequence + uint32(stored)) % sequences
	batch.queue.entries = append(slices.Clip(batch.entries[stored:]), batch.queue.entries...)
	s.facts, s.recounted = nil, int32(count)
	return true
}

// placeAgain places everything that waits by the new number of partitions; nothing is sealed now.
func (s *topicSender) placeAgain() {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.recounted == 0 {
		return
	}
	s.placedBy, s.recounted = s.recounted, 0
	for _, one := range s.takeWaiting() {
		s.place(one)
	}
}

func isCertainlyNotStored(batch *sealed, failure *Error) bool {
	if failure.Code == ErrUnknownProducer {
		return true
	}
	if failure.Code != ErrSequenceOutOfOrder {
		return false
	}
	if expected, err := strconv.ParseUint(failure.Details["expected"], 10, 32); err == nil {
		ahead := (batch.sequence - uint32(expected)) % sequences
		return ahead > 0 && ahead < sequences/2
	}
	return failure.Details["forgotten"] == "true" && !batch.unsure
}

func (s *topicSender) expired(batch *sealed, cause *Error) *Error {
	what := fmt.Sprintf("%d messages for %s/%d are", len(batch.entries), s.topic, batch.queue.partition)
	if len(batch.entries) == 1 {
		what = fmt.Sprintf("a message for %s/%d is", s.topic, batch.queue.partition)
	}
	failure := &Error{Code: ErrRequestTimedOut, Message: what + " not stored in time: " + cause.Message, Unsure: batch.unsure}
	failure.cause = errors.Join(cause, context.DeadlineExceeded)
	if batch.unsure {
		failure.Hint = "may have been stored"
	}
	return failure
}

func noPartition(topic string, partition, count int32) string {
	return fmt.Sprintf("%s has no partition %d: it has %d, from 0", topic, partition, count)
}
