package goqueue

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	pb "goqueue/goqueuev1"
)

// Topics creates, lists, describes, alters and deletes topics.
type Topics struct{ connection *connection }

// Topics returns what there is to do with topics.
func (c *Client) Topics() Topics { return Topics{c.connection} }

// TopicOptions are options of a new topic.
type TopicOptions struct {
	// Partitions is their number. Default: the setting of the broker.
	Partitions int32
	// Settings as in docs/configuration.md: "retention_hours" to 72.
	Settings map[string]any
	// ExistOK: it is no error if the topic exists.
	ExistOK bool
}

// TopicInfo describes a topic.
type TopicInfo struct {
	Name       string
	Partitions int32
	Messages   int64
	Bytes      int64
	// Offsets by partition.
	Offsets map[int32]Offsets
	// Settings as JSON.
	Settings map[string]json.RawMessage
}

// Offsets of a partition: the first one, and the one after the last.
type Offsets struct{ Earliest, Latest int64 }

// Create creates a topic. It returns false if the topic existed.
func (t Topics) Create(ctx context.Context, name string, options TopicOptions) (bool, error) {
	settings, err := encodedSettings(options.Settings)
	if err != nil {
		return false, err
	}
	request := &pb.CreateTopicRequest{Name: name, Settings: settings}
	if options.Partitions != 0 {
		request.NumPartitions = &options.Partitions
	}
	if !options.ExistOK { // a retry after a lost answer would report the topic that this call has made
		_, err := call(ctx, t.connection, t.connection.topics.CreateTopic, request)
		return err == nil, err
	}
	answer, err := repeat(ctx, t.connection, t.connection.topics.CreateTopic, request)
	if errors.Is(err, ErrTopicExists) {
		return false, nil
	}
	return answer.GetCreated(), err
}

// List returns the names of all topics.
func (t Topics) List(ctx context.Context) ([]string, error) {
	answer, err := repeat(ctx, t.connection, t.connection.topics.ListTopics, &pb.ListTopicsRequest{})
	return answer.GetTopics(), err
}

// Describe returns the offsets and settings of a topic.
func (t Topics) Describe(ctx context.Context, topic string) (TopicInfo, error) {
	found, err := repeat(ctx, t.connection, t.connection.topics.DescribeTopic, &pb.DescribeTopicRequest{Topic: topic})
	if err != nil {
		return TopicInfo{}, err
	}
	info := TopicInfo{
		Name:       found.Name,
		Partitions: found.Partitions,
		Messages:   found.TotalMessages,
		Bytes:      found.TotalSizeBytes,
		Offsets:    map[int32]Offsets{},
		Settings:   map[string]json.RawMessage{},
	}
	for text, one := range found.PartitionOffsets {
		number, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return TopicInfo{}, &Error{Code: ErrUnknown, Message: "the broker names a partition " + strconv.Quote(text)}
		}
		info.Offsets[int32(number)] = Offsets{one.Earliest, one.Latest}
	}
	for name, text := range found.Config {
		info.Settings[name] = json.RawMessage(text)
	}
	return info, nil
}

// Alter changes settings of a topic.
func (t Topics) Alter(ctx context.Context, topic string, settings map[string]any) error {
	encoded, err := encodedSettings(settings)
	if err != nil {
		return err
	}
	request := &pb.AlterTopicRequest{Topic: topic, Settings: encoded}
	_, err = call(ctx, t.connection, t.connection.topics.AlterTopic, request)
	return err
}

// AddPartitions raises the number of partitions to count.
func (t Topics) AddPartitions(ctx context.Context, topic string, count int32) error {
	request := &pb.AddPartitionsRequest{Topic: topic, Count: count}
	_, err := call(ctx, t.connection, t.connection.topics.AddPartitions, request)
	return err
}

// Delete deletes a topic and its messages.
func (t Topics) Delete(ctx context.Context, topic string) error {
	_, err := call(ctx, t.connection, t.connection.topics.DeleteTopic, &pb.DeleteTopicRequest{Topic: topic})
	return err
}

func encodedSettings(settings map[string]any) (map[string]string, error) {
	encoded := map[string]string{}
	for name, value := range settings {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, invalid("the setting %s cannot be encoded: %v", name, err)
		}
		encoded[name] = string(text)
	}
	return encoded, nil
}
