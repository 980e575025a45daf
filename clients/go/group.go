package goqueue

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "goqueue/goqueuev1"
)

// waitingBytesMax is the size of messages that wait in this process, beyond which the stream is not read.
const waitingBytesMax = 16 << 20

// Partition of a topic.
type Partition struct {
	Topic  string
	Number int32
}

// GroupOptions are options of members. The zero value has the defaults.
type GroupOptions struct {
	// Start is Earliest or Latest, in partitions that the group never read. Default: Earliest.
	Start Start
	// MaxInFlight is the maximum number of unsettled messages of this member. Default: 1,000.
	MaxInFlight int
	// VisibilityTimeout is how long a message is leased. Default: the setting of the group, the topic or the broker.
	VisibilityTimeout time.Duration
	SessionTimeout    time.Duration
	// Name is for operators. Default: "go".
	Name string

	// OnAssignment gets all partitions of this member, at the begin and after changes.
	OnAssignment func(partitions []Partition, generation int32)
	// OnRevoked gets partitions that go to other members: settle their messages.
	OnRevoked func([]Partition)
	// OnReconnecting is called when the connection was lost, and is made again.
	OnReconnecting func(error)
}

// Group is a member of a group. It joins with the first read and leaves with Close; then messages that are not settled go
// to other members at once. After a lost connection it goes on as the same member.
type Group struct {
	connection *connection
	name       string
	topics     []string
	options    GroupOptions
	settler    settler
	open       context.Context
	leave      context.CancelFunc
	ended      chan struct{}
	// changed gets a token when something below has changed.
	changed chan struct{}

	mu           sync.Mutex
	started      bool
	memberID     string
	assignment   []Partition
	waiting      []*LeasedMessage
	waitingBytes int
	failure      error
	// room gets a token when messages were taken.
	room chan struct{}
}

func newGroup(connection *connection, name string, topics []string, options GroupOptions) *Group {
	group := &Group{connection: connection, name: name, topics: slices.Clone(topics), options: options}
	group.settler.connection = connection
	group.open, group.leave = context.WithCancel(connection.open)
	group.ended, group.changed, group.room = make(chan struct{}), make(chan struct{}, 1), make(chan struct{}, 1)
	return group
}

// Assignment returns the partitions of this member.
func (g *Group) Assignment() []Partition {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.assignment)
}

// Next waits for a message.
func (g *Group) Next(ctx context.Context) (*LeasedMessage, error) {
	batch, err := g.Batch(ctx, 1)
	if err != nil {
		return nil, err
	}
	return batch[0], nil
}

// Batch waits for messages, and returns what has arrived, at most so many.
func (g *Group) Batch(ctx context.Context, most int) ([]*LeasedMessage, error) {
	for {
		batch, err := g.taken(most)
		if err != nil || len(batch) > 0 {
			return batch, err
		}
		select {
		case <-g.changed:
		case <-ctx.Done():
			return nil, ErrorOf(ctx.Err())
		case <-g.open.Done():
		}
	}
}

// All yields messages until the member is closed. An error ends it.
func (g *Group) All(ctx context.Context) iter.Seq2[*LeasedMessage, error] {
	return func(yield func(*LeasedMessage, error) bool) {
		for {
			message, err := g.Next(ctx)
			if errors.Is(err, ErrClientClosed) {
				return
			}
			if !yield(message, err) || err != nil {
				return
			}
		}
	}
}

func (g *Group) taken(most int) ([]*LeasedMessage, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open.Err() != nil {
		return nil, &Error{Code: ErrClientClosed, Message: "this member has left its group", Hint: "make another"}
	}
	if !g.started {
		g.started = true
		go g.run()
	}
	count := min(max(most, 1), len(g.waiting))
	if count == 0 {
		return nil, g.failure
	}
	batch := slices.Clone(g.waiting[:count])
	g.waiting = g.waiting[count:]
	for _, message := range batch {
		g.waitingBytes -= message.size()
	}
	signal(g.room)
	if len(g.waiting) > 0 || g.failure != nil {
		signal(g.changed) // for another caller
	}
	return batch, nil
}

func signal(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

func (g *Group) run() {
	defer close(g.ended)
	var wait backoff
	for {
		failure := g.receive(&wait)
		if g.open.Err() != nil {
			return
		}
		if !failure.IsTransient() && failure.Code != ErrMemberUnknown && failure.Code != ErrGenerationStale {
			g.mu.Lock()
			g.failure = failure
			g.mu.Unlock()
			signal(g.changed)
			return
		}
		if g.options.OnReconnecting != nil {
			g.options.OnReconnecting(failure)
		}
		if pause(g.open, wait.next(failure)) != nil {
			return
		}
	}
}

func (g *Group) request() (*pb.SubscribeRequest, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	options := g.options
	request := &pb.SubscribeRequest{
		GroupId:     g.name,
		Topics:      g.topics,
		ConsumerId:  cmp.Or(options.Name, "go"),
		MaxInFlight: int32(cmp.Or(options.MaxInFlight, 1000)),
		MemberId:    g.memberID,
	}
	switch options.Start.kind {
	case startEarliest:
	case startLatest:
		request.StartPosition = pb.ConsumeStartPosition_CONSUME_START_POSITION_LATEST
	default:
		return nil, invalid("a group starts at Earliest or Latest")
	}
	if options.VisibilityTimeout != 0 {
		request.VisibilityTimeout = durationpb.New(options.VisibilityTimeout)
	}
	if options.SessionTimeout != 0 {
		request.SessionTimeout = durationpb.New(options.SessionTimeout)
	}
	return request, nil
}

// receive reads one stream until it ends.
func (g *Group) receive(wait *backoff) *Error {
	request, err := g.request()
	if err != nil {
		return ErrorOf(err)
	}
	ctx, cancel := context.WithCancel(g.open)
	defer cancel()
	stream, err := g.connection.consuming.Subscribe(ctx, request)
	for err == nil {
		var response *pb.ConsumeResponse
		if response, err = stream.Recv(); err == nil {
			wait.reset()
			err = g.take(response)
		}
	}
	return errorOfStream(err)
}

func errorOfStream(err error) *Error {
	if errors.Is(err, io.EOF) {
		return &Error{Code: ErrBrokerUnreachable, Message: "the broker has ended the stream"}
	}
	return ErrorOf(err)
}

func (g *Group) take(response *pb.ConsumeResponse) error {
	switch payload := response.Payload.(type) {
	case *pb.ConsumeResponse_Messages:
		return g.deliver(payload.Messages.Messages)
	case *pb.ConsumeResponse_Assignment:
		partitions := partitionsOf(payload.Assignment.Partitions)
		g.mu.Lock()
		g.memberID, g.assignment = payload.Assignment.MemberId, partitions
		g.mu.Unlock()
		if g.options.OnAssignment != nil {
			g.options.OnAssignment(slices.Clone(partitions), payload.Assignment.Generation)
		}
	case *pb.ConsumeResponse_Rebalance:
		isRevoke := payload.Rebalance.Type == pb.RebalanceType_REBALANCE_TYPE_REVOKE
		if isRevoke && g.options.OnRevoked != nil {
			g.options.OnRevoked(partitionsOf(payload.Rebalance.Partitions))
		}
	}
	return nil
}

func partitionsOf(found []*pb.TopicPartition) []Partition {
	partitions := make([]Partition, len(found))
	for at, one := range found {
		partitions[at] = Partition{one.Topic, one.Partition}
	}
	return partitions
}

// deliver lets messages wait for the caller, and waits itself while there are too many.
func (g *Group) deliver(found []*pb.Message) error {
	arrived := map[reference]bool{}
	messages := make([]*LeasedMessage, len(found))
	for at, one := range found {
		messages[at] = &LeasedMessage{storedMessage(one), int(one.RetryCount) + 1, one.ReceiptHandle, &g.settler}
		arrived[messages[at].reference()] = true
	}
	g.mu.Lock()
	// Messages that wait here since before the connection was lost may have been delivered anew.
	g.waiting = slices.DeleteFunc(g.waiting, func(one *LeasedMessage) bool {
		isFormer := arrived[one.reference()]
		if isFormer {
			g.waitingBytes -= one.size()
		}
		return isFormer
	})
	g.waiting = append(g.waiting, messages...)
	for _, one := range messages {
		g.waitingBytes += one.size()
	}
	g.mu.Unlock()
	signal(g.changed)
	for {
		g.mu.Lock()
		isFull := g.waitingBytes > waitingBytesMax
		g.mu.Unlock()
		if !isFull {
			return nil
		}
		select {
		case <-g.room:
		case <-g.open.Done():
			return g.open.Err()
		}
	}
}

// reference names a message.
type reference struct {
	Partition
	offset int64
}

func (m *Message) reference() reference {
	return reference{Partition{m.Topic, m.Partition}, m.Offset}
}

// Close leaves the group. Acks that are under way are completed.
func (g *Group) Close() error {
	g.settler.wait()
	g.leave()
	g.mu.Lock()
	started := g.started
	g.started = true
	g.mu.Unlock()
	if started {
		<-g.ended
	} else {
		close(g.ended)
	}
	return nil
}
