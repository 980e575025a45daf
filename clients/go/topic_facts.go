package goqueue

import (
	"context"
	"encoding/json"

	pb "goqueue/goqueuev1"
)

// topicFacts are what a producer must know of a topic.
type topicFacts struct {
	partitions      int32
	hash            hash
	messageBytesMax int
}

// loadFacts returns the facts of the topic, from memory if they are known.
func (s *topicSender) loadFacts(ctx context.Context) (*topicFacts, error) {
	s.core.mu.Lock()
	facts := s.facts
	s.core.mu.Unlock()
	if facts != nil {
		return facts, nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	s.core.mu.Lock()
	facts = s.facts
	s.core.mu.Unlock()
	if facts != nil {
		return facts, nil
	}
	facts, err := s.describe(ctx)
	if err != nil {
		return nil, err
	}
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.facts, s.known = facts, facts
	if s.placedBy == 0 { // later only when nothing sealed is left
		s.placedBy = facts.partitions
	}
	return facts, nil
}

func (s *topicSender) describe(ctx context.Context) (*topicFacts, error) {
	connection := s.core.connection
	found, err := repeat(ctx, connection, connection.topics.DescribeTopic, &pb.DescribeTopicRequest{Topic: s.topic})
	if err != nil {
		return nil, err
	}
	partitioner, size := "murmur3", 1<<20
	for name, target := range map[string]any{"partitioner": &partitioner, "max_message_bytes": &size} {
		if text := found.Config[name]; text != "" {
			if err := json.Unmarshal([]byte(text), target); err != nil {
				return nil, invalid("the setting %s of topic %s is %s, which this client does not know", name, s.topic, text)
			}
		}
	}
	chosen, err := hashNamed(partitioner)
	if err != nil {
		return nil, err
	}
	return &topicFacts{found.Partitions, chosen, size}, nil
}

// reloadFacts asks the broker again: partitions may have been added.
func (s *topicSender) reloadFacts(ctx context.Context) (*topicFacts, error) {
	s.core.mu.Lock()
	s.facts = nil
	s.core.mu.Unlock()
	return s.loadFacts(ctx)
}
