"""The options of producers and consumers by name, for type checkers and editors: programs do not load this.

`Options` and `ConsumerOptions` have their defaults.
"""

from datetime import timedelta
from typing import Literal, TypedDict

from goqueue.client.consumer_core import OnExpired, OnPartitions, Order, Protocol, Start, Strategy
from goqueue.client.message_encoding import Serializer
from goqueue.client.partition_reads import Isolation
from goqueue.client.producer_core import Acks, Compression


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
    transaction_timeout: str | float | timedelta


class ProducerArguments(BatchingArguments, total=False):
    """All options of `client.producer()`."""

    serializer: Serializer | None
    transactional_id: str | None


class ConsumerArguments(TypedDict, total=False):
    """All options of `client.consumer()`."""

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
    max_retries: int | Literal["unlimited"] | None
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
