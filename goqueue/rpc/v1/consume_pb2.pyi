import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from goqueue.rpc.v1 import options_pb2 as _options_pb2
from goqueue.rpc.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConsumeStartPosition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONSUME_START_POSITION_EARLIEST: _ClassVar[ConsumeStartPosition]
    CONSUME_START_POSITION_LATEST: _ClassVar[ConsumeStartPosition]
    CONSUME_START_POSITION_OFFSET: _ClassVar[ConsumeStartPosition]
    CONSUME_START_POSITION_TIMESTAMP: _ClassVar[ConsumeStartPosition]

class RebalanceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REBALANCE_TYPE_UNSPECIFIED: _ClassVar[RebalanceType]
    REBALANCE_TYPE_REVOKE: _ClassVar[RebalanceType]
    REBALANCE_TYPE_ASSIGN: _ClassVar[RebalanceType]
CONSUME_START_POSITION_EARLIEST: ConsumeStartPosition
CONSUME_START_POSITION_LATEST: ConsumeStartPosition
CONSUME_START_POSITION_OFFSET: ConsumeStartPosition
CONSUME_START_POSITION_TIMESTAMP: ConsumeStartPosition
REBALANCE_TYPE_UNSPECIFIED: RebalanceType
REBALANCE_TYPE_REVOKE: RebalanceType
REBALANCE_TYPE_ASSIGN: RebalanceType

class ConsumeRequest(_message.Message):
    __slots__ = ("topic", "partitions", "start_position", "start_offset", "start_timestamp", "max_messages", "max_bytes", "max_wait", "consumer_id", "frames", "read_uncommitted", "filter", "skip_damage", "until_end")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    START_POSITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    START_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    READ_UNCOMMITTED_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SKIP_DAMAGE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_END_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    start_position: ConsumeStartPosition
    start_offset: int
    start_timestamp: _timestamp_pb2.Timestamp
    max_messages: int
    max_bytes: int
    max_wait: _duration_pb2.Duration
    consumer_id: str
    frames: bool
    read_uncommitted: bool
    filter: _containers.RepeatedScalarFieldContainer[str]
    skip_damage: bool
    until_end: bool
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., start_position: _Optional[_Union[ConsumeStartPosition, str]] = ..., start_offset: _Optional[int] = ..., start_timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., consumer_id: _Optional[str] = ..., frames: _Optional[bool] = ..., read_uncommitted: _Optional[bool] = ..., filter: _Optional[_Iterable[str]] = ..., skip_damage: _Optional[bool] = ..., until_end: _Optional[bool] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("topics", "group_id", "consumer_id", "start_position", "max_messages", "max_bytes", "max_wait", "session_timeout", "heartbeat_interval", "frames", "visibility_timeout", "max_in_flight", "read_uncommitted", "skip_damage", "member_id")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    START_POSITION_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    READ_UNCOMMITTED_FIELD_NUMBER: _ClassVar[int]
    SKIP_DAMAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    group_id: str
    consumer_id: str
    start_position: ConsumeStartPosition
    max_messages: int
    max_bytes: int
    max_wait: _duration_pb2.Duration
    session_timeout: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    frames: bool
    visibility_timeout: _duration_pb2.Duration
    max_in_flight: int
    read_uncommitted: bool
    skip_damage: bool
    member_id: str
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., group_id: _Optional[str] = ..., consumer_id: _Optional[str] = ..., start_position: _Optional[_Union[ConsumeStartPosition, str]] = ..., max_messages: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., session_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., frames: _Optional[bool] = ..., visibility_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_in_flight: _Optional[int] = ..., read_uncommitted: _Optional[bool] = ..., skip_damage: _Optional[bool] = ..., member_id: _Optional[str] = ...) -> None: ...

class ConsumeResponse(_message.Message):
    __slots__ = ("messages", "heartbeat", "assignment", "rebalance", "error")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    messages: MessageBatch
    heartbeat: Heartbeat
    assignment: Assignment
    rebalance: RebalanceNotification
    error: _types_pb2.Error
    def __init__(self, messages: _Optional[_Union[MessageBatch, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., assignment: _Optional[_Union[Assignment, _Mapping]] = ..., rebalance: _Optional[_Union[RebalanceNotification, _Mapping]] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class MessageBatch(_message.Message):
    __slots__ = ("messages", "high_watermark", "topic", "partition", "next_offset", "frames", "lease")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.Message]
    high_watermark: int
    topic: str
    partition: int
    next_offset: int
    frames: bytes
    lease: Lease
    def __init__(self, messages: _Optional[_Iterable[_Union[_types_pb2.Message, _Mapping]]] = ..., high_watermark: _Optional[int] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., next_offset: _Optional[int] = ..., frames: _Optional[bytes] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("id", "first", "end", "attempt", "visibility_timeout", "failures")
    ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    id: str
    first: int
    end: int
    attempt: int
    visibility_timeout: _duration_pb2.Duration
    failures: int
    def __init__(self, id: _Optional[str] = ..., first: _Optional[int] = ..., end: _Optional[int] = ..., attempt: _Optional[int] = ..., visibility_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., failures: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("timestamp",)
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    timestamp: _timestamp_pb2.Timestamp
    def __init__(self, timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("generation", "partitions", "member_id")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    generation: int
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    member_id: str
    def __init__(self, generation: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., member_id: _Optional[str] = ...) -> None: ...

class RebalanceNotification(_message.Message):
    __slots__ = ("type", "partitions", "generation")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    type: RebalanceType
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    generation: int
    def __init__(self, type: _Optional[_Union[RebalanceType, str]] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., generation: _Optional[int] = ...) -> None: ...
