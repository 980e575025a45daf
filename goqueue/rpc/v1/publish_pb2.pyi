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

class AckMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACK_MODE_LEADER: _ClassVar[AckMode]
    ACK_MODE_NONE: _ClassVar[AckMode]
    ACK_MODE_ALL: _ClassVar[AckMode]
ACK_MODE_LEADER: AckMode
ACK_MODE_NONE: AckMode
ACK_MODE_ALL: AckMode

class PublishRequest(_message.Message):
    __slots__ = ("topic", "key", "value", "headers", "partition", "priority", "delay", "deliver_at", "ack_mode", "producer_id", "producer_epoch", "sequence", "raw_headers", "tombstone")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RAW_HEADERS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    key: bytes
    value: bytes
    headers: _containers.ScalarMap[str, str]
    partition: int
    priority: int
    delay: _duration_pb2.Duration
    deliver_at: _timestamp_pb2.Timestamp
    ack_mode: AckMode
    producer_id: int
    producer_epoch: int
    sequence: int
    raw_headers: _containers.RepeatedCompositeFieldContainer[_types_pb2.Header]
    tombstone: bool
    def __init__(self, topic: _Optional[str] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., partition: _Optional[int] = ..., priority: _Optional[int] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., ack_mode: _Optional[_Union[AckMode, str]] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., raw_headers: _Optional[_Iterable[_Union[_types_pb2.Header, _Mapping]]] = ..., tombstone: _Optional[bool] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ("topic", "partition", "offset", "timestamp", "error", "delayed", "deliver_at", "duplicate")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    timestamp: _timestamp_pb2.Timestamp
    error: _types_pb2.Error
    delayed: bool
    deliver_at: _timestamp_pb2.Timestamp
    duplicate: bool
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ..., delayed: _Optional[bool] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class PublishStreamRequest(_message.Message):
    __slots__ = ("correlation_id", "topic", "key", "value", "headers", "partition", "priority", "delay", "ack_mode", "producer_id", "producer_epoch", "sequence", "raw_headers", "tombstone", "deliver_at")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RAW_HEADERS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    correlation_id: str
    topic: str
    key: bytes
    value: bytes
    headers: _containers.ScalarMap[str, str]
    partition: int
    priority: int
    delay: _duration_pb2.Duration
    ack_mode: AckMode
    producer_id: int
    producer_epoch: int
    sequence: int
    raw_headers: _containers.RepeatedCompositeFieldContainer[_types_pb2.Header]
    tombstone: bool
    deliver_at: _timestamp_pb2.Timestamp
    def __init__(self, correlation_id: _Optional[str] = ..., topic: _Optional[str] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., partition: _Optional[int] = ..., priority: _Optional[int] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., ack_mode: _Optional[_Union[AckMode, str]] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., raw_headers: _Optional[_Iterable[_Union[_types_pb2.Header, _Mapping]]] = ..., tombstone: _Optional[bool] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PublishStreamResponse(_message.Message):
    __slots__ = ("correlation_id", "topic", "partition", "offset", "timestamp", "error", "delayed", "deliver_at", "duplicate")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    correlation_id: str
    topic: str
    partition: int
    offset: int
    timestamp: _timestamp_pb2.Timestamp
    error: _types_pb2.Error
    delayed: bool
    deliver_at: _timestamp_pb2.Timestamp
    duplicate: bool
    def __init__(self, correlation_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ..., delayed: _Optional[bool] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class OutgoingMessage(_message.Message):
    __slots__ = ("key", "value", "headers", "raw_headers", "partition", "priority", "delay", "deliver_at", "tombstone")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    RAW_HEADERS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    headers: _containers.ScalarMap[str, str]
    raw_headers: _containers.RepeatedCompositeFieldContainer[_types_pb2.Header]
    partition: int
    priority: int
    delay: _duration_pb2.Duration
    deliver_at: _timestamp_pb2.Timestamp
    tombstone: bool
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., raw_headers: _Optional[_Iterable[_Union[_types_pb2.Header, _Mapping]]] = ..., partition: _Optional[int] = ..., priority: _Optional[int] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tombstone: _Optional[bool] = ...) -> None: ...

class PublishBatchRequest(_message.Message):
    __slots__ = ("correlation_id", "topic", "messages", "frames", "partitions", "ack_mode", "producer_id", "producer_epoch", "begin", "checksum")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ACK_MODE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    correlation_id: str
    topic: str
    messages: _containers.RepeatedCompositeFieldContainer[OutgoingMessage]
    frames: bytes
    partitions: int
    ack_mode: AckMode
    producer_id: int
    producer_epoch: int
    begin: bool
    checksum: int
    def __init__(self, correlation_id: _Optional[str] = ..., topic: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[OutgoingMessage, _Mapping]]] = ..., frames: _Optional[bytes] = ..., partitions: _Optional[int] = ..., ack_mode: _Optional[_Union[AckMode, str]] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ..., begin: _Optional[bool] = ..., checksum: _Optional[int] = ...) -> None: ...

class PublishBatchResponse(_message.Message):
    __slots__ = ("correlation_id", "results", "error")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    correlation_id: str
    results: _containers.RepeatedCompositeFieldContainer[PublishResult]
    error: _types_pb2.Error
    def __init__(self, correlation_id: _Optional[str] = ..., results: _Optional[_Iterable[_Union[PublishResult, _Mapping]]] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class PublishResult(_message.Message):
    __slots__ = ("partition", "offset", "first_offset", "next_offset", "delayed", "duplicate", "deliver_at", "timestamp", "error")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELAYED_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    DELIVER_AT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    first_offset: int
    next_offset: int
    delayed: bool
    duplicate: bool
    deliver_at: _timestamp_pb2.Timestamp
    timestamp: _timestamp_pb2.Timestamp
    error: _types_pb2.Error
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., first_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., delayed: _Optional[bool] = ..., duplicate: _Optional[bool] = ..., deliver_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class PublishAllResponse(_message.Message):
    __slots__ = ("batches", "messages")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    batches: int
    messages: int
    def __init__(self, batches: _Optional[int] = ..., messages: _Optional[int] = ...) -> None: ...
