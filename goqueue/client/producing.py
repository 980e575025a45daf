"""What the producers of threads and of event loops share: their options, topics and messages."""

import os
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from goqueue.client.accumulator import Accumulator, Lane, Rules, Topic, topic_of
from goqueue.client.bulk import Piece
from goqueue.client.delivery import Batch, Due, OnDelivery, Origin, Span
from goqueue.client.dispatch import Dispatch
from goqueue.client.due import Delay, DeliverAt, header_of
from goqueue.client.endpoints import TopicInfo
from goqueue.client.outgoing import (
    Headers,
    Key,
    Priority,
    Value,
    as_headers,
    check_partition,
    check_size,
    origin_of,
    origin_with,
    own_headers_bytes,
)
from goqueue.client.times import seconds
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
from goqueue.partitioner import hash_named, partition_of
from goqueue.storage.frame import NO_HEADERS, NORMAL, encode

COMPRESSIONS = (None, "zstd")
ACKS = ("leader", "all", "none")


@dataclass(frozen=True, slots=True)
class Options:
    """How a producer gathers and sends.

    A batch is sent when it has `batch_messages` or `batch_bytes`, when its first message is `linger` old, or when
    somebody waits for it. While a request is under way, the next one gathers up to `request_bytes`.
    """

    batch_messages: int = 100
    batch_bytes: int = 64 * KIB
    linger: str | float = 0.005
    request_bytes: int = MIB
    buffer_bytes: int = 32 * MIB
    max_block: str | float = 60.0
    delivery_timeout: str | float = 120.0
    compression: str | None = None
    idempotent: bool = True
    acks: str = "leader"
    transactional_id: str | None = None
    transaction_timeout: str | float | timedelta = TRANSACTION_SECONDS

    def __post_init__(self) -> None:
        for name in ("batch_messages", "batch_bytes", "request_bytes", "buffer_bytes"):
            if getattr(self, name) < 1:
                raise RequestInvalid(f"{name} is {getattr(self, name)}, and must be at least 1")
        for name, allowed in (("compression", COMPRESSIONS), ("acks", ACKS)):
            if getattr(self, name) not in allowed:
                known = ", ".join(map(repr, allowed))
                raise RequestInvalid(f"{name} is {getattr(self, name)!r}", hint=f"known are {known}")
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

    def rules(self) -> Rules:
        return Rules(
            self.batch_messages,
            self.batch_bytes,
            seconds(self.linger, "linger"),
            self.request_bytes,
            self.buffer_bytes,
            seconds(self.delivery_timeout, "delivery_timeout"),
            self.idempotent,
            self.transactional_id is not None,
        )


def options_of(given: dict[str, Any]) -> Options:
    try:
        return Options(**given)
    except TypeError:
        known = ", ".join(Options.__slots__)
        unknown = ", ".join(given.keys() - set(Options.__slots__))
        raise RequestInvalid(f"a producer has no option {unknown}", hint=f"known are {known}") from None


class Producing:
    """The part that neither waits nor locks."""

    _flags = 0
    """What all its frames have."""

    def __init__(self, options: Options, clock: Clock) -> None:
        self._options = options
        self._max_block = seconds(options.max_block, "max_block")
        self._shrink = options.compression is not None
        rules = options.rules()
        self._rules = rules
        self._clock = clock
        self._accumulator = Accumulator(rules, clock, self)
        self._dispatch = self._dispatch_of(options)
        self._topics: dict[str, Topic] = {}
        self._former: dict[str, Topic] = {}
        self._refusal: GoQueueError | None = None
        """Set when nothing can be sent any more."""
        _ALIVE.add(self)

    def _dispatch_of(self, options: Options) -> Dispatch:
        return Dispatch(self._accumulator, self._clock, options.acks)

    def _know(self, name: str, facts: TopicInfo) -> Topic:
        if facts.partitions < 1:
            raise RequestInvalid(f"topic {name} has no partitions")
        hash_key, most = hash_named(facts.partitioner), facts.message_bytes_max
        topic = topic_of(name, facts.partitions, hash_key, most, self._former.get(name))
        self._topics[name] = self._former[name] = topic
        return topic

    def _concluded(self) -> None:
        """A step is done: take over what has changed with it."""
        outdated = self._dispatch.outdated
        while outdated:
            self._topics.pop(outdated.pop(), None)

    def _prepare(
        self, topic: Topic, value: Value, key: Key, headers: Headers | None, partition: int | None, priority: Priority
    ) -> tuple[bytes, Origin, Lane | None]:
        """The frame, what it was made of, and where it belongs (None: wherever the sticky lane is)."""
        origin: Origin
        flags = self._flags
        if type(value) is bytes and not headers and not self._shrink and (key is None or type(key) is bytes):
            origin = (value, key or b"", NO_HEADERS, priority, flags)  # type: ignore[assignment]
            if priority == NORMAL:
                frame = encode(value, key, flags=flags) if flags else encode(value, key)
            else:
                origin = origin_of(value, key, None, priority, flags=flags)
                frame = encode(value, key, priority=origin[3], flags=flags)
        else:
            origin = origin_of(value, key, headers, priority, flags=flags, shrink=self._shrink)
            frame = encode(origin[0], origin[1], origin[2], priority=origin[3], flags=origin[4])
        if len(frame) - FRAME_HEADER_BYTES > topic.message_bytes_max:
            check_size(topic, len(origin[0]), len(origin[1]), len(origin[2]))
        if partition is not None:
            check_partition(topic, partition)
            return frame, origin, topic.lanes[partition]
        own_key = origin[1]
        if own_key:
            return frame, origin, topic.lanes[(topic.hash_key(own_key) & 0x7FFFFFFF) % len(topic.lanes)]
        return frame, origin, None

    def _prepare_later(
        self,
        topic: Topic,
        value: Value,
        key: Key,
        headers: Headers | None,
        partition: int | None,
        priority: Priority,
        due: Due,
    ) -> Piece:
        """The same of a delayed message; the way above has no time to ask whether it is one."""
        own = as_headers(headers, due)
        origin = origin_with(own, value, key, priority, flags=self._flags, shrink=self._shrink)
        content, own_key, own_headers, urgency, flags = origin
        frame = encode(content, own_key, own_headers, priority=urgency, flags=flags)
        check_size(topic, len(content), len(own_key), own_headers_bytes(own_headers, due))
        lane = None
        if partition is not None:
            check_partition(topic, partition)
            lane = topic.lanes[partition]
        elif own_key:
            lane = topic.lanes[partition_of(own_key, len(topic.lanes), topic.hash_key)]
        return Piece(lane, [frame], len(frame), origin, range(1), due)

    def _gather(self, topic: Topic, piece: Piece, on_delivery: OnDelivery | None) -> tuple[Batch, int]:
        """Take a piece for which there is room: its batch, and where in it the piece begins."""
        lane = piece.lane or topic.sticky
        batch = self._accumulator.add_many(topic, lane, piece.frames, piece.size, piece.origin, piece.due)
        first = batch.count - len(piece.frames)
        if on_delivery is not None:
            batch.callbacks.append((first, len(piece.frames), on_delivery))
        return batch, first

    def _is_full(self, batch: Batch) -> bool:
        """Whether it is to be sent without waiting for more."""
        rules = self._rules
        return batch.count >= rules.batch_messages or batch.size >= rules.batch_bytes

    def _due(self, delay: Delay | None, deliver_at: DeliverAt | None) -> Due | None:
        """The header that says when; None where that is at once."""
        return header_of(delay, deliver_at, self._clock.now_ns)

    def _refuse(
        self, topic: Topic, pieces: Iterable[Piece], error: GoQueueError, on_delivery: OnDelivery | None
    ) -> list[Span]:
        """The rest of a call of which a part was taken, as batches that have failed."""
        spans: list[Span] = []
        for piece in pieces:
            lane = piece.lane or topic.sticky
            batch = Batch(self, topic.name, lane.partition, piece.origin, 0, delayed=lane.delayed)
            batch.count = len(piece.frames)
            batch.settle(error)
            if on_delivery is not None:
                batch.callbacks.append((0, batch.count, on_delivery))
            spans.append((batch, 0, piece.positions))
        return spans

    def _overloaded(self) -> BrokerOverloaded:
        return BrokerOverloaded(
            f"{self._accumulator.buffered} bytes wait to be delivered, {self._rules.buffer_bytes} is the most",
            hint="send more slowly, or give the producer a larger buffer_bytes",
        )

    def _closed(self) -> RequestInvalid:
        return RequestInvalid("this producer is closed", hint="make another one with client.producer()")

    def _not_transactional(self) -> RequestInvalid:
        return RequestInvalid(
            "this producer has no transactional_id", hint='make one with client.producer(transactional_id="orders-1")'
        )

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are neither acknowledged nor refused."""
        return self._accumulator.buffered


def callbacks_of(batches: list[Batch]) -> list[tuple[Batch, int, int, OnDelivery]]:
    return [(batch, first, count, call) for batch in batches for first, count, call in batch.callbacks]


_ALIVE: "weakref.WeakSet[Producing]" = weakref.WeakSet()


def _forked() -> None:
    """In a child: the threads are gone and the locks may be held by one that was."""
    for producer in list(_ALIVE):
        producer.__dict__["_refusal"] = RequestInvalid(
            "this producer belongs to the process that this one was forked from",
            hint="make a producer in each process, after the fork",
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
