package goqueue

import (
	"encoding/json"
	"slices"
	"time"

	pb "goqueue/goqueuev1"
)

// Priority of a message. The zero value is normal.
type Priority int

// Priorities, which are delivered side by side with more or less weight.
const (
	PriorityNormal Priority = iota
	PriorityCritical
	PriorityHigh
	PriorityLow
	PriorityBackground
)

// storedPriorities are those of the broker, 0 being critical.
var storedPriorities = []Priority{PriorityCritical, PriorityHigh, PriorityNormal, PriorityLow, PriorityBackground}

func (p Priority) String() string {
	names := []string{"normal", "critical", "high", "low", "background"}
	if p < 0 || int(p) >= len(names) {
		return "unknown"
	}
	return names[p]
}

// Header of a message. Names may repeat.
type Header struct {
	Name  string
	Value []byte
}

// Message is a message of a topic.
type Message struct {
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is when the broker appended it.
	Timestamp time.Time
	Key       []byte
	Value     []byte
	Headers   []Header
	Priority  Priority
	// Tombstone deletes its key when the topic is compacted.
	Tombstone bool
}

// Header returns the value of the first header with this name, or nil.
func (m *Message) Header(name string) []byte {
	for _, one := range m.Headers {
		if one.Name == name {
			return one.Value
		}
	}
	return nil
}

// JSON decodes the value.
func (m *Message) JSON(target any) error { return json.Unmarshal(m.Value, target) }

func (m *Message) size() int { return len(m.Key) + len(m.Value) + 100 }

func storedMessage(found *pb.Message) Message {
	message := Message{
		Topic:     found.Topic,
		Partition: found.Partition,
		Offset:    found.Offset,
		Timestamp: found.Timestamp.AsTime(),
		Key:       found.Key,
		Value:     found.Value,
		Tombstone: found.Tombstone,
	}
	if int(found.Priority) < len(storedPriorities) {
		message.Priority = storedPriorities[found.Priority]
	}
	for _, one := range found.RawHeaders {
		message.Headers = append(message.Headers, Header{one.Name, one.Value})
	}
	if len(found.RawHeaders) > 0 {
		return message
	}
	for name, value := range found.Headers {
		message.Headers = append(message.Headers, Header{name, []byte(value)})
	}
	slices.SortFunc(message.Headers, func(a, b Header) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return message
}
