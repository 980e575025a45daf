"""The common part of producers for threads and for event loops: options, topics and messages."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from goqueue.client import propagation, unclosed
from goqueue.client.accumulator import Accumulator, BatchingRules, PartitionQueue, TopicQueues, topic_queues
from goqueue.client.address import Address
from goqueue.client.admin_requests import TopicInfo
from goqueue.client.api_request import check_names, refuse_after_fork
from goqueue.client.delivery import BatchSpan, DueHeader, FrameFields, OnDelivery, SendBatch
from goqueue.client.message_encoding import (
    FrameGroup,
    Headers,
    Key,
    Priority,
    Serializer,
    Value,
    as_headers,
    check_partition,
    check_size,
    frame_fields,
    serialize_json,
)
from goqueue.client.sender import BatchSender, SendStep
from goqueue.client.servers import Servers
from goqueue.client.times import Delay, DeliverAt, delay_header, seconds
from goqueue.clock import Clock
from goqueue.errors import BrokerOverloaded, GoQueueError, RequestInvalid
from goqueue.limits import (
    FRAME_HEADER_BYTES,
    KIB,
    MIB,
    TRANSACTION_SECONDS,
    TRANSACTION_SECONDS_MAX,
    TRANSACTION_SECONDS_MIN,
)
from goqueue.partitioner import hash_function
from goqueue.storage.frame import NO_HEADERS, NORMAL, encode

if TYPE_CHECKING:
    from goqueue.client.serializers.known_schemas import KnownSchemas
    from goqueue.client.serializers.topic_encoding import TopicEncoding

Compression = Literal["zstd"]
Acks = Literal["leader", "all", "none"]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a producer.

    A batch is sent when it has `batch_messages` or `batch_bytes`, when its first message is `linger` old, or when a
    caller waits for it. While a request is under way, the next one gathers up to `request_bytes`.
    """

    batch_messages: int = 100
    batch_bytes: int = 64 * KIB
    linger: str | float = 0.005
    request_bytes: int = MIB
    buffer_bytes: int = 32 * MIB
    max_block: str | float = 60.0
    delivery_timeout: str | float = 120.0
    compression: Compression | None = None
    idempotent: bool = True
    acks: Acks = "all"
    serializer: Serializer | None = None
    key_serializer: Serializer | None = None
    transactional_id: str | None = None
    transaction_timeout: str | float | timedelta = TRANSACTION_SECONDS

    def __post_init__(self) -> None:
        for name in ("batch_messages", "batch_bytes", "request_bytes", "buffer_bytes"):
            if getattr(self, name) < 1:
                raise RequestInvalid(f"{name} is {getattr(self, name)}, and must be at least 1")
        for name, allowed in (("compression", (None, *get_args(Compression))), ("acks", get_args(Acks))):
            if getattr(self, name) not in allowed:
                known = ", ".join(map(repr, allowed))
                raise RequestInvalid(f"{name} is {getattr(self, name)!r}", hint=f"known are {known}")
        for name in ("serializer", "key_serializer"):
            given = getattr(self, name)
            if given is not None and given != "json" and not callable(given) and not _has_schema(given):
                hint = 'give "json", a function of one value, or an AvroSerializer, for example'
                raise RequestInvalid(f"{name} is {given!r:.80}", hint=hint)
        if self.transactional_id is not None:
            self._check_transactional()

    def _check_transactional(self) -> None:
        name = self.transactional_id
        if not isinstance(name, str) or not name:
            raise RequestInvalid(f"the transactional_id is {name!r}, and must be text", hint="orders-1, for example")
        if self.acks == "none" or not self.idempotent:
            raise RequestInvalid(
                "a transaction knows what the broker has stored: it needs an idempotent producer, and acks"
            )
        timeout = seconds(self.transaction_timeout, "transaction_timeout")
        if not TRANSACTION_SECONDS_MIN <= timeout <= TRANSACTION_SECONDS_MAX:
            raise RequestInvalid(
                f"transaction_timeout is {timeout:g} seconds, and must be {TRANSACTION_SECONDS_MIN:g} to "
                f"{TRANSACTION_SECONDS_MAX:g}"
            )

    def rules(self) -> BatchingRules:
        return BatchingRules(
            self.batch_messages,
            self.batch_bytes,
            seconds(self.linger, "linger"),
            self.request_bytes,
            self.buffer_bytes,
            seconds(self.delivery_timeout, "delivery_timeout"),
            self.idempotent,
            self.transactional_id is not None,
        )


def parse_producer_options(given: dict[str, Any]) -> Options:
    check_names("producer", given, Options.__slots__)
    return Options(**given)


def _has_schema(serializer: object) -> bool:
    """Tell whether a serializer is one with a schema, without loading those."""
    return hasattr(serializer, "bind")


def _serialize_function(given: Any) -> Callable[[Any], Any] | None:
    if given == "json":
        return serialize_json
    return None if _has_schema(given) else given


def topic_encoding(options: Options, known: "Callable[[], KnownSchemas]") -> "TopicEncoding | None":
    """Return the serializers with schemas, and of keys; None if there are none."""
    value: Any = options.serializer
    key: Any = options.key_serializer
    if key is None and not _has_schema(value):
        return None
    from goqueue.client.serializers.topic_encoding import TopicEncoding  # noqa: PLC0415 - not needed otherwise

    return TopicEncoding(known(), value if _has_schema(value) else None, _serialize_function(key) or key)


class Condition(Protocol):
    """A condition of threads, or of tasks."""

    def notify_all(self) -> None: ...


class ProducerCore:
    """The part that neither waits nor locks."""

    _work: Condition
    """Notified when there is something to do for the worker, which may be asleep."""

    _servers: Servers

    _flags = 0
    """The flags of all its frames."""

    def __init__(self, options: Options, clock: Clock) -> None:
        self._options = options
        self._max_block = seconds(options.max_block, "max_block")
        self._shrink = options.compression is not None
        self._serialize = _serialize_function(options.serializer)
        self._propagates = propagation.is_available()
        rules = options.rules()
        self._rules = rules
        self._clock = clock
        self._accumulator = Accumulator(rules, clock, self)
        self._sender = self._make_sender(options)
        self._topics: dict[str, TopicQueues] = {}
        self._former: dict[str, TopicQueues] = {}
        self._refusal: GoQueueError | None = None
        """The error for every further call, once nothing can be sent anymore."""
        self._process = os.getpid()
        self._end_reason = "the producer was closed"
        self._given_up = False
        self._asleep: set[Address | None] = set()
        """The workers that wait, by the leaders that they send to; None is the one that sends to any node."""
        self._stopping = False
        refuse_after_fork(self, "producer")

    def _make_sender(self, options: Options) -> BatchSender:
        return BatchSender(self._accumulator, self._clock, options.acks)

    def _know(self, name: str, facts: TopicInfo) -> TopicQueues:
        if facts.partitions < 1:
            raise RequestInvalid(f"topic {name} has no partitions")
        hash_key, most = hash_function(facts.partitioner), facts.message_bytes_max
        topic = self._former.get(name)
        if topic is None:
            topic = topic_queues(name, facts.partitions, hash_key, most)
        for one in (topic, topic.delayed):
            one.hash_key, one.message_bytes_max = hash_key, most
        self._accumulator.set_partitions(topic, facts.partitions)
        self._accumulator.place_again()
        self._topics[name] = self._former[name] = topic
        return topic

    def _next_step(self, leader: Address | None) -> tuple[SendStep | None, float | None, list[SendBatch]]:
        """Return the next step of a worker. It sends to the leaders of a cluster once an answer came from one."""
        if leader is not None:
            return self._sender.next_for(leader)
        if self._servers.cluster is not None:
            self._sender.follow(self._servers.cluster)
        return self._sender.next()

    def _concluded(self) -> None:
        """Apply what a finished step has changed."""
        outdated = self._sender.outdated
        while outdated:
            self._topics.pop(outdated.pop(), None)

    def _serialized(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return values as bytes or text, if the producer has a serializer. None, a tombstone, stays None."""
        serialize = self._serialize
        return values if serialize is None else [None if value is None else serialize(value) for value in values]

    def _prepare(
        self,
        topic: TopicQueues,
        value: Value,
        key: Key,
        headers: Headers | None,
        partition: int | None,
        priority: Priority,
    ) -> tuple[bytes, FrameFields, PartitionQueue | None]:
        """Return the frame, its fields, and its queue; None stands for the sticky one."""
        origin: FrameFields
        flags = self._flags
        if self._propagates:
            headers = propagation.add_current_trace(headers)
        if type(value) is bytes and not headers and not self._shrink and (key is None or type(key) is bytes):
            origin = (value, key or b"", NO_HEADERS, priority, flags)  # type: ignore[assignment]
            if priority == NORMAL:
                frame = encode(value, key, flags=flags) if flags else encode(value, key)
            else:
                origin = frame_fields(NO_HEADERS, value, key, priority, flags=flags)
                frame = encode(value, key, priority=origin[3], flags=flags)
        else:
            origin = frame_fields(as_headers(headers), value, key, priority, flags=flags, shrink=self._shrink)
            frame = encode(origin[0], origin[1], origin[2], priority=origin[3], flags=origin[4])
        if len(frame) - FRAME_HEADER_BYTES > topic.message_bytes_max:
            check_size(topic, len(origin[0]), len(origin[1]), len(origin[2]))
        if partition is not None:
            check_partition(topic, partition)
            return frame, origin, topic.queues[partition]
        own_key = origin[1]
        if own_key:
            return frame, origin, topic.queues[(topic.hash_key(own_key) & 0x7FFFFFFF) % len(topic.queues)]
        return frame, origin, None

    def _gather(self, topic: TopicQueues, piece: FrameGroup, on_delivery: OnDelivery | None) -> BatchSpan:
        """Add frames for which there is room, and wake the worker for a batch that begins or is full."""
        queue = piece.queue or topic.sticky
        batch = self._accumulator.add_many(
            topic, queue, piece.frames, piece.size, piece.origin, piece.due, piece.is_fixed
        )
        first = batch.count - len(piece.frames)
        if on_delivery is not None:
            batch.callbacks.append((first, len(piece.frames), on_delivery))
        rules = self._rules
        if self._asleep and (first == 0 or batch.count >= rules.batch_messages or batch.size >= rules.batch_bytes):
            self._wake()
        return batch, first, piece.positions

    def _wake(self) -> None:
        """Wake the workers; the lock is held."""
        self._asleep.clear()
        self._work.notify_all()

    def _due(self, delay: Delay | None, deliver_at: DeliverAt | None) -> DueHeader | None:
        """Return the header with the delivery time; None for a message to be delivered at once."""
        return delay_header(delay, deliver_at, self._clock.now_ns)

    def _refuse(
        self, topic: TopicQueues, pieces: Iterable[FrameGroup], error: GoQueueError, on_delivery: OnDelivery | None
    ) -> list[BatchSpan]:
        """Return the rest of a call that was taken in part, as failed batches."""
        spans: list[BatchSpan] = []
        for piece in pieces:
            queue = piece.queue or topic.sticky
            batch = SendBatch(self, topic.name, queue.partition, piece.origin, 0, delayed=queue.delayed)
            batch.count = len(piece.frames)
            batch.settle(error)
            if on_delivery is not None:
                batch.callbacks.append((0, batch.count, on_delivery))
            spans.append((batch, 0, piece.positions))
        return spans

    def _overloaded(self) -> BrokerOverloaded:
        return BrokerOverloaded(
            f"the buffer is full: {self._accumulator.buffered} of {self._rules.buffer_bytes} bytes are in use",
            hint="send more slowly, or give the producer a larger buffer_bytes",
        )

    def _closed(self) -> RequestInvalid:
        return RequestInvalid("this producer is closed", hint="make another one with client.producer()")

    def transaction(self) -> Any:
        """Begin a transaction; only for a producer with a transactional id."""
        raise RequestInvalid(
            "this producer has no transactional_id", hint='make one with client.producer(transactional_id="orders-1")'
        )

    def __del__(self) -> None:
        unclosed.report_collected(self)

    @property
    def buffered_bytes(self) -> int:
        """The bytes that are neither acknowledged nor failed."""
        return self._accumulator.buffered

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.buffered_bytes} bytes buffered>"


def delivery_callbacks(batches: list[SendBatch]) -> list[tuple[SendBatch, int, int, OnDelivery]]:
    return [(batch, first, count, call) for batch in batches for first, count, call in batch.callbacks]
