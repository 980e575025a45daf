"""The options of producers, consumers and handlers by name, for type checkers and editors: programs do not load this.

`Options`, `ConsumerOptions` and `HandlerOptions` have their defaults.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict

from goqueue.client.consumer_core import OnExpired, OnPartitions, Order, Protocol, Start, Strategy
from goqueue.client.handler_options import Backoff, Duration
from goqueue.client.message_encoding import Serializer
from goqueue.client.partition_reads import Isolation
from goqueue.client.producer_core import Acks, Compression
from goqueue.client.serializers.interfaces import PayloadDeserializer


class BatchingArguments(TypedDict, total=False):
    """The options of a producer that do not change its type."""

    batch_messages: int
    batch_bytes: int
    linger: str | float
    request_bytes: int
    buffer_bytes: int
    max_block: str | float
    delivery_timeout: str | float
    compression: Compression | None
    idempotent: bool
    acks: Acks
    key_serializer: Serializer | None
    transaction_timeout: str | float | timedelta


class ProducerArguments(BatchingArguments, total=False):
    """All options of `client.producer()`."""

    serializer: Serializer | None
    transactional_id: str | None


class _CommonConsumerArguments(TypedDict, total=False):
    """The options that mean the same to a consumer and to a worker."""

    client_id: str | None
    session_timeout: str | float
    protocol: Protocol
    assignment_strategy: Strategy | None
    order: Order | None
    start: Start | None
    isolation: Isolation | None
    max_in_flight: int | None
    max_messages: int
    max_bytes: int
    visibility_timeout: str | float | None
    retry_delay: str | float | None
    max_retry_delay: str | float | None
    dead_letter_topic: str | None
    wait: str | float
    heartbeat_interval: str | float | None
    prefetch: bool
    extend_leases: bool
    skip_damage: bool
    on_assigned: OnPartitions | None
    on_revoked: OnPartitions | None
    on_lost: OnPartitions | None
    on_expired: OnExpired | None
    until_idle: str | float | None
    deserializer: PayloadDeserializer | None
    key_deserializer: PayloadDeserializer | None


class ConsumerArguments(_CommonConsumerArguments, total=False):
    """All options of `client.consumer()`."""

    max_retries: int | Literal["unlimited"] | None


class HandlerArguments(TypedDict, total=False):
    """All options of `consumer.run()`."""

    concurrency: int
    max_retries: int | None
    backoff: Backoff | None
    reject_on: type[Exception] | tuple[type[Exception], ...]
    timeout: Duration | None
    grace: Duration
    middleware: Sequence[Any]


class WorkerArguments(_CommonConsumerArguments, HandlerArguments, total=False):
    """All options of `Worker()` and of its handlers."""
