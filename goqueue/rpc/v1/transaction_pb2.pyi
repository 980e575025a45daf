import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from goqueue.rpc.v1 import ack_pb2 as _ack_pb2
from goqueue.rpc.v1 import options_pb2 as _options_pb2
from goqueue.rpc.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InitProducerRequest(_message.Message):
    __slots__ = ("transactional_id", "transaction_timeout_ms", "producer_id", "epoch")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    transaction_timeout_ms: int
    producer_id: int
    epoch: int
    def __init__(self, transactional_id: _Optional[str] = ..., transaction_timeout_ms: _Optional[int] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class InitProducerResponse(_message.Message):
    __slots__ = ("producer_id", "epoch", "error")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    epoch: int
    error: _types_pb2.Error
    def __init__(self, producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class BeginTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class BeginTransactionResponse(_message.Message):
    __slots__ = ("transaction_id", "error")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    error: _types_pb2.Error
    def __init__(self, transaction_id: _Optional[str] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class AddPartitionRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "topic", "partition")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    topic: str
    partition: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class AddPartitionResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _types_pb2.Error
    def __init__(self, error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class AddOffsetsRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "group", "offsets", "member_id", "generation")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    group: str
    offsets: _containers.RepeatedCompositeFieldContainer[TransactionOffset]
    member_id: str
    generation: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., group: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[TransactionOffset, _Mapping]]] = ..., member_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class TransactionOffset(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class AddOffsetsResponse(_message.Message):
    __slots__ = ("transaction_id",)
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    def __init__(self, transaction_id: _Optional[str] = ...) -> None: ...

class AddAcksRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "receipts")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    receipts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., receipts: _Optional[_Iterable[str]] = ...) -> None: ...

class AddAcksResponse(_message.Message):
    __slots__ = ("transaction_id", "failures")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    failures: _containers.RepeatedCompositeFieldContainer[_ack_pb2.AckError]
    def __init__(self, transaction_id: _Optional[str] = ..., failures: _Optional[_Iterable[_Union[_ack_pb2.AckError, _Mapping]]] = ...) -> None: ...

class CommitTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class CommitTransactionResponse(_message.Message):
    __slots__ = ("error", "producer_id", "epoch", "transaction_id", "state")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    error: _types_pb2.Error
    producer_id: int
    epoch: int
    transaction_id: str
    state: str
    def __init__(self, error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., transaction_id: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class AbortTransactionRequest(_message.Message):
    __slots__ = ("transactional_id", "producer_id", "epoch", "reason")
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    transactional_id: str
    producer_id: int
    epoch: int
    reason: str
    def __init__(self, transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class AbortTransactionResponse(_message.Message):
    __slots__ = ("error", "producer_id", "epoch", "transaction_id", "state")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    error: _types_pb2.Error
    producer_id: int
    epoch: int
    transaction_id: str
    state: str
    def __init__(self, error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., transaction_id: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[TransactionInfo]
    def __init__(self, transactions: _Optional[_Iterable[_Union[TransactionInfo, _Mapping]]] = ...) -> None: ...

class DescribeTransactionRequest(_message.Message):
    __slots__ = ("transaction_id", "transactional_id")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    transactional_id: str
    def __init__(self, transaction_id: _Optional[str] = ..., transactional_id: _Optional[str] = ...) -> None: ...

class DescribeTransactionResponse(_message.Message):
    __slots__ = ("transaction", "error")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    transaction: TransactionInfo
    error: _types_pb2.Error
    def __init__(self, transaction: _Optional[_Union[TransactionInfo, _Mapping]] = ..., error: _Optional[_Union[_types_pb2.Error, _Mapping]] = ...) -> None: ...

class TransactionInfo(_message.Message):
    __slots__ = ("transaction_id", "transactional_id", "producer_id", "epoch", "state", "start_time", "last_update_time", "timeout_ms", "partitions")
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    transaction_id: str
    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    start_time: _timestamp_pb2.Timestamp
    last_update_time: _timestamp_pb2.Timestamp
    timeout_ms: int
    partitions: _containers.RepeatedCompositeFieldContainer[TransactionPartition]
    def __init__(self, transaction_id: _Optional[str] = ..., transactional_id: _Optional[str] = ..., producer_id: _Optional[int] = ..., epoch: _Optional[int] = ..., state: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., timeout_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[TransactionPartition, _Mapping]]] = ...) -> None: ...

class TransactionPartition(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...
