import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from goqueue.rpc.v1 import options_pb2 as _options_pb2
from goqueue.rpc.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AckRequest(_message.Message):
    __slots__ = ("group_id", "receipt_handle", "topic", "partition", "offset")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    receipt_handle: str
    topic: str
    partition: int
    offset: int
    def __init__(self, group_id: _Optional[str] = ..., receipt_handle: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class AckResponse(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: bool
    error: _types_pb2.Error
    def __init__(self, success: _Optional[bool] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class NackRequest(_message.Message):
    __slots__ = ("group_id", "receipt_handle", "visibility_timeout", "topic", "partition", "offset", "reason")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    receipt_handle: str
    visibility_timeout: _duration_pb2.Duration
    topic: str
    partition: int
    offset: int
    reason: str
    def __init__(self, group_id: _Optional[str] = ..., receipt_handle: _Optional[str] = ..., visibility_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class NackResponse(_message.Message):
    __slots__ = ("success", "next_visible_at", "error", "dlq_topic")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    NEXT_VISIBLE_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DLQ_TOPIC_FIELD_NUMBER: _ClassVar[int]
    success: bool
    next_visible_at: _timestamp_pb2.Timestamp
    error: _types_pb2.Error
    dlq_topic: str
    def __init__(self, success: _Optional[bool] = ..., next_visible_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ..., dlq_topic: _Optional[str] = ...) -> None: ...

class RejectRequest(_message.Message):
    __slots__ = ("group_id", "receipt_handle", "reason", "topic", "partition", "offset")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    receipt_handle: str
    reason: str
    topic: str
    partition: int
    offset: int
    def __init__(self, group_id: _Optional[str] = ..., receipt_handle: _Optional[str] = ..., reason: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class RejectResponse(_message.Message):
    __slots__ = ("success", "dlq_topic", "dlq_partition", "dlq_offset", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    DLQ_TOPIC_FIELD_NUMBER: _ClassVar[int]
    DLQ_PARTITION_FIELD_NUMBER: _ClassVar[int]
    DLQ_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: bool
    dlq_topic: str
    dlq_partition: int
    dlq_offset: int
    error: _types_pb2.Error
    def __init__(self, success: _Optional[bool] = ..., dlq_topic: _Optional[str] = ..., dlq_partition: _Optional[int] = ..., dlq_offset: _Optional[int] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class ExtendVisibilityRequest(_message.Message):
    __slots__ = ("group_id", "receipt_handle", "visibility_timeout")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    receipt_handle: str
    visibility_timeout: _duration_pb2.Duration
    def __init__(self, group_id: _Optional[str] = ..., receipt_handle: _Optional[str] = ..., visibility_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ExtendVisibilityResponse(_message.Message):
    __slots__ = ("success", "new_deadline", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    NEW_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: bool
    new_deadline: _timestamp_pb2.Timestamp
    error: _types_pb2.Error
    def __init__(self, success: _Optional[bool] = ..., new_deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class BatchAckRequest(_message.Message):
    __slots__ = ("group_id", "receipt_handles", "offsets")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_HANDLES_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    receipt_handles: _containers.RepeatedScalarFieldContainer[str]
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetAck]
    def __init__(self, group_id: _Optional[str] = ..., receipt_handles: _Optional[_Iterable[str]] = ..., offsets: _Optional[_Iterable[_Union[OffsetAck, _Mapping]]] = ...) -> None: ...

class OffsetAck(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class BatchAckResponse(_message.Message):
    __slots__ = ("success_count", "failures")
    SUCCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    success_count: int
    failures: _containers.RepeatedCompositeFieldContainer[AckError]
    def __init__(self, success_count: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[AckError, _Mapping]]] = ...) -> None: ...

class AckError(_message.Message):
    __slots__ = ("receipt_handle", "topic", "partition", "offset", "error")
    RECEIPT_HANDLE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    receipt_handle: str
    topic: str
    partition: int
    offset: int
    error: _types_pb2.Error
    def __init__(self, receipt_handle: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class SettleRequest(_message.Message):
    __slots__ = ("group", "member_id", "generation", "acks", "nacks", "rejects", "releases", "extensions", "correlation_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    NACKS_FIELD_NUMBER: _ClassVar[int]
    REJECTS_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    generation: int
    acks: _containers.RepeatedCompositeFieldContainer[LeaseRanges]
    nacks: _containers.RepeatedCompositeFieldContainer[LeaseRanges]
    rejects: _containers.RepeatedCompositeFieldContainer[LeaseRanges]
    releases: _containers.RepeatedCompositeFieldContainer[LeaseRanges]
    extensions: _containers.RepeatedCompositeFieldContainer[LeaseExtension]
    correlation_id: str
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., generation: _Optional[int] = ..., acks: _Optional[_Iterable[_Union[LeaseRanges, _Mapping]]] = ..., nacks: _Optional[_Iterable[_Union[LeaseRanges, _Mapping]]] = ..., rejects: _Optional[_Iterable[_Union[LeaseRanges, _Mapping]]] = ..., releases: _Optional[_Iterable[_Union[LeaseRanges, _Mapping]]] = ..., extensions: _Optional[_Iterable[_Union[LeaseExtension, _Mapping]]] = ..., correlation_id: _Optional[str] = ...) -> None: ...

class LeaseRanges(_message.Message):
    __slots__ = ("topic", "partition", "lease", "ranges", "delay", "reason")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    lease: str
    ranges: _containers.RepeatedCompositeFieldContainer[OffsetRange]
    delay: _duration_pb2.Duration
    reason: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., lease: _Optional[str] = ..., ranges: _Optional[_Iterable[_Union[OffsetRange, _Mapping]]] = ..., delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class OffsetRange(_message.Message):
    __slots__ = ("first", "end")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    first: int
    end: int
    def __init__(self, first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class LeaseExtension(_message.Message):
    __slots__ = ("topic", "partition", "lease", "timeout")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    lease: str
    timeout: _duration_pb2.Duration
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., lease: _Optional[str] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SettleResponse(_message.Message):
    __slots__ = ("acks", "nacks", "rejects", "releases", "extensions", "correlation_id", "error")
    ACKS_FIELD_NUMBER: _ClassVar[int]
    NACKS_FIELD_NUMBER: _ClassVar[int]
    REJECTS_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    acks: _containers.RepeatedCompositeFieldContainer[SettleResult]
    nacks: _containers.RepeatedCompositeFieldContainer[SettleResult]
    rejects: _containers.RepeatedCompositeFieldContainer[SettleResult]
    releases: _containers.RepeatedCompositeFieldContainer[SettleResult]
    extensions: _containers.RepeatedCompositeFieldContainer[SettleResult]
    correlation_id: str
    error: _types_pb2.Error
    def __init__(self, acks: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., nacks: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., rejects: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., releases: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., extensions: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ..., correlation_id: _Optional[str] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class SettleResult(_message.Message):
    __slots__ = ("error", "requeued", "dead_letters", "dropped", "dlq_topic", "new_deadline")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REQUEUED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    DLQ_TOPIC_FIELD_NUMBER: _ClassVar[int]
    NEW_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    error: _types_pb2.Error
    requeued: bool
    dead_letters: int
    dropped: int
    dlq_topic: str
    new_deadline: _timestamp_pb2.Timestamp
    def __init__(self, error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ..., requeued: _Optional[bool] = ..., dead_letters: _Optional[int] = ..., dropped: _Optional[int] = ..., dlq_topic: _Optional[str] = ..., new_deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
