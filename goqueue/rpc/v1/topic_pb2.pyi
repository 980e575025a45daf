import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from goqueue.rpc.v1 import options_pb2 as _options_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListTopicsRequest(_message.Message):
    __slots__ = ("internal",)
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    internal: bool
    def __init__(self, internal: _Optional[bool] = ...) -> None: ...

class ListTopicsResponse(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("name", "num_partitions", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    num_partitions: int
    settings: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., num_partitions: _Optional[int] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("name", "partitions", "created", "operation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    created: bool
    operation: int
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., created: _Optional[bool] = ..., operation: _Optional[int] = ...) -> None: ...

class DescribeTopicRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class DescribeTopicResponse(_message.Message):
    __slots__ = ("name", "partitions", "total_messages", "total_size_bytes", "partition_offsets", "created_at", "config", "dlq_topic")
    class PartitionOffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: PartitionOffsets
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[PartitionOffsets, _Mapping]] = ...) -> None: ...
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITION_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    DLQ_TOPIC_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    total_messages: int
    total_size_bytes: int
    partition_offsets: _containers.MessageMap[str, PartitionOffsets]
    created_at: _timestamp_pb2.Timestamp
    config: _containers.ScalarMap[str, str]
    dlq_topic: str
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., total_messages: _Optional[int] = ..., total_size_bytes: _Optional[int] = ..., partition_offsets: _Optional[_Mapping[str, PartitionOffsets]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., config: _Optional[_Mapping[str, str]] = ..., dlq_topic: _Optional[str] = ...) -> None: ...

class PartitionOffsets(_message.Message):
    __slots__ = ("earliest", "latest")
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    earliest: int
    latest: int
    def __init__(self, earliest: _Optional[int] = ..., latest: _Optional[int] = ...) -> None: ...

class AlterTopicRequest(_message.Message):
    __slots__ = ("topic", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    settings: _containers.ScalarMap[str, str]
    def __init__(self, topic: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class AlterTopicResponse(_message.Message):
    __slots__ = ("name", "config", "operation")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    config: _containers.ScalarMap[str, str]
    operation: int
    def __init__(self, name: _Optional[str] = ..., config: _Optional[_Mapping[str, str]] = ..., operation: _Optional[int] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ("deleted", "delayed_deleted", "operation")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    DELAYED_DELETED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    delayed_deleted: int
    operation: int
    def __init__(self, deleted: _Optional[bool] = ..., delayed_deleted: _Optional[int] = ..., operation: _Optional[int] = ...) -> None: ...

class ListPartitionsRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class ListPartitionsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("partition", "earliest", "latest", "log_end", "durable_end", "high_watermark", "last_stable", "size_bytes", "segments", "leader", "replicas", "in_sync_replicas")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    LOG_END_FIELD_NUMBER: _ClassVar[int]
    DURABLE_END_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    earliest: int
    latest: int
    log_end: int
    durable_end: int
    high_watermark: int
    last_stable: int
    size_bytes: int
    segments: int
    leader: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    in_sync_replicas: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partition: _Optional[int] = ..., earliest: _Optional[int] = ..., latest: _Optional[int] = ..., log_end: _Optional[int] = ..., durable_end: _Optional[int] = ..., high_watermark: _Optional[int] = ..., last_stable: _Optional[int] = ..., size_bytes: _Optional[int] = ..., segments: _Optional[int] = ..., leader: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., in_sync_replicas: _Optional[_Iterable[int]] = ...) -> None: ...

class AddPartitionsRequest(_message.Message):
    __slots__ = ("topic", "count", "dry_run", "accept_key_moves")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_KEY_MOVES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    count: int
    dry_run: bool
    accept_key_moves: bool
    def __init__(self, topic: _Optional[str] = ..., count: _Optional[int] = ..., dry_run: _Optional[bool] = ..., accept_key_moves: _Optional[bool] = ...) -> None: ...

class AddPartitionsResponse(_message.Message):
    __slots__ = ("old_partition_count", "new_partition_count", "partitions_added", "operation")
    OLD_PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEW_PARTITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_ADDED_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    old_partition_count: int
    new_partition_count: int
    partitions_added: int
    operation: int
    def __init__(self, old_partition_count: _Optional[int] = ..., new_partition_count: _Optional[int] = ..., partitions_added: _Optional[int] = ..., operation: _Optional[int] = ...) -> None: ...

class FindOffsetRequest(_message.Message):
    __slots__ = ("topic", "partition", "time")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    time: _timestamp_pb2.Timestamp
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class FindOffsetResponse(_message.Message):
    __slots__ = ("partition", "offset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...
