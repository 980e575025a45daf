import datetime

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

class OffsetResetStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OFFSET_RESET_STRATEGY_UNSPECIFIED: _ClassVar[OffsetResetStrategy]
    OFFSET_RESET_STRATEGY_EARLIEST: _ClassVar[OffsetResetStrategy]
    OFFSET_RESET_STRATEGY_LATEST: _ClassVar[OffsetResetStrategy]
    OFFSET_RESET_STRATEGY_TIMESTAMP: _ClassVar[OffsetResetStrategy]
    OFFSET_RESET_STRATEGY_OFFSET: _ClassVar[OffsetResetStrategy]
OFFSET_RESET_STRATEGY_UNSPECIFIED: OffsetResetStrategy
OFFSET_RESET_STRATEGY_EARLIEST: OffsetResetStrategy
OFFSET_RESET_STRATEGY_LATEST: OffsetResetStrategy
OFFSET_RESET_STRATEGY_TIMESTAMP: OffsetResetStrategy
OFFSET_RESET_STRATEGY_OFFSET: OffsetResetStrategy

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "offsets", "generation", "member_id")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetCommit]
    generation: int
    member_id: str
    def __init__(self, group_id: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[OffsetCommit, _Mapping]]] = ..., generation: _Optional[int] = ..., member_id: _Optional[str] = ...) -> None: ...

class OffsetCommit(_message.Message):
    __slots__ = ("topic", "partition", "offset", "metadata")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    metadata: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., metadata: _Optional[str] = ...) -> None: ...

class CommitOffsetsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[OffsetCommitResult]
    def __init__(self, results: _Optional[_Iterable[_Union[OffsetCommitResult, _Mapping]]] = ...) -> None: ...

class OffsetCommitResult(_message.Message):
    __slots__ = ("topic", "partition", "success", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    success: bool
    error: _types_pb2.Error
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., success: _Optional[bool] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class FetchOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "partitions")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    def __init__(self, group_id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class FetchOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetFetchResult]
    def __init__(self, offsets: _Optional[_Iterable[_Union[OffsetFetchResult, _Mapping]]] = ...) -> None: ...

class OffsetFetchResult(_message.Message):
    __slots__ = ("topic", "partition", "offset", "metadata", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    metadata: str
    error: _types_pb2.Error
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., metadata: _Optional[str] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class ResetOffsetsRequest(_message.Message):
    __slots__ = ("group_id", "strategy", "partitions", "timestamp", "offsets", "topic", "dry_run")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    strategy: OffsetResetStrategy
    partitions: _containers.RepeatedCompositeFieldContainer[_types_pb2.TopicPartition]
    timestamp: _timestamp_pb2.Timestamp
    offsets: _containers.RepeatedCompositeFieldContainer[OffsetCommit]
    topic: str
    dry_run: bool
    def __init__(self, group_id: _Optional[str] = ..., strategy: _Optional[_Union[OffsetResetStrategy, str]] = ..., partitions: _Optional[_Iterable[_Union[_types_pb2.TopicPartition, _Mapping]]] = ..., timestamp: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., offsets: _Optional[_Iterable[_Union[OffsetCommit, _Mapping]]] = ..., topic: _Optional[str] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ResetOffsetsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[OffsetResetResult]
    def __init__(self, results: _Optional[_Iterable[_Union[OffsetResetResult, _Mapping]]] = ...) -> None: ...

class OffsetResetResult(_message.Message):
    __slots__ = ("topic", "partition", "old_offset", "new_offset", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OLD_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEW_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    old_offset: int
    new_offset: int
    error: _types_pb2.Error
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., old_offset: _Optional[int] = ..., new_offset: _Optional[int] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...
