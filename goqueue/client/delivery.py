"""Sent messages: their batch, and the handles that the caller holds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from goqueue.client.request_attempts import Backoff
from goqueue.client.times import nanoseconds, to_datetime
from goqueue.delay import DELIVER_IN, due_time
from goqueue.errors import GoQueueError, QuotaExceeded, RequestTimedOut
from goqueue.wire.sections import ProducerIdentity


class Stored(NamedTuple):
    """The position of a message that was published by itself. A `delayed` one is in the delayed log."""

    partition: int
    offset: int
    delayed: bool = False
    deliver_at_ns: int | None = None

    @property
    def deliver_at(self) -> datetime | None:
        return _moment(self.deliver_at_ns)


class Receipt(NamedTuple):
    """The position of a message. With `acks="none"` the offset and the time are not known.

    The offset of a `delayed` message is that of the partition's delayed log.
    """

    partition: int
    offset: int | None
    timestamp_ns: int | None
    delayed: bool = False
    deliver_at_ns: int | None = None

    @property
    def timestamp(self) -> datetime | None:
        return _moment(self.timestamp_ns)

    @property
    def deliver_at(self) -> datetime | None:
        return _moment(self.deliver_at_ns)


def _moment(time_ns: int | None) -> datetime | None:
    return None if time_ns is None else to_datetime(time_ns)


FrameFields = tuple[bytes, bytes, bytes, int, int]
"""Value, key, encoded headers, priority and flags of a frame. The first frame of a section is encoded again with them,
with the producer's header."""

DueHeader = tuple[str, bytes]
"""The header with the delivery time of a delayed message."""

OnDelivery = Callable[[Any], object]

OffsetPieces = Sequence[tuple[int, int]]
"""Ranges of offsets, without their ends, in the order of the messages."""


@dataclass(slots=True, eq=False)
class SendBatch:
    """Messages of one partition that are sent, acknowledged or failed together."""

    owner: Any
    topic: str
    partition: int
    origin: FrameFields | None
    opened_ns: int
    delayed: bool = False
    dues: list[DueHeader] = field(default_factory=list)
    """The delivery times of a delayed batch, one for each message."""
    frames: list[bytes] = field(default_factory=list)
    count: int = 0
    size: int = 0
    sealed: bytes | None = None
    identity: ProducerIdentity | None = None
    sequence: int = 0
    """The producer and the first sequence, set when the batch is sealed."""
    unsure: bool = False
    """True if an answer to it was lost, so that the broker may have it."""
    backoff: Backoff = field(default_factory=Backoff)
    not_before_ns: int = 0
    last_refusal: GoQueueError | None = None
    callbacks: list[tuple[int, int, OnDelivery]] = field(default_factory=list)
    settled: bool = False
    error: GoQueueError | None = None
    first_offset: int | None = None
    timestamp_ns: int | None = None
    pieces: OffsetPieces | None = None
    waiters: list[Callable[[], object]] = field(default_factory=list)
    in_flight: bool = False
    """True while a request with it is under way to the leader of its partition."""
    wanted: bool = False
    """True if a caller has waited for it: then it is sent at once."""
    looked: set[int] = field(default_factory=set)
    placed_by: int = 0
    """The number of partitions by which its messages were placed."""
    fixed: set[int] = field(default_factory=set)
    """The messages whose partition the caller has named."""
    parts: "list[BatchSlot] | None" = None
    """Where its messages went when they were placed by another number of partitions. Then they are settled there."""
    wholes: "list[SendBatch]" = field(default_factory=list)
    """The batches of which this one has messages."""
    adopted: set[int] = field(default_factory=set)
    """The messages that came from those batches, whose handles belong to them."""

    def divide(self, parts: "list[BatchSlot]") -> None:
        """Leave the messages to other batches. This one is settled with the last of them."""
        self.parts, self.frames, self.sealed, self.origin = parts, [], None, None
        for part, index in parts:
            part.adopted.add(index)
            part.wanted = part.wanted or self.wanted
            if self not in part.wholes:
                part.wholes.append(self)
        self._settle_with_parts()

    def _settle_with_parts(self) -> None:
        assert self.parts is not None, "it was divided"
        if all(part.settled for part, _ in self.parts):
            self._end(next((part.error for part, _ in self.parts if part.error is not None), None))

    def receipt(self, index: int) -> Receipt:
        if self.parts is not None:
            part, place = self.parts[index]
            return part.receipt(place)
        if self.delayed:
            return Receipt(self.partition, self._offset(index), self.timestamp_ns, True, self._due_ns(index))
        return Receipt(self.partition, self._offset(index), self.timestamp_ns)

    def _due_ns(self, index: int) -> int | None:
        if not self.dues:
            return None
        due = self.dues[index]
        if self.timestamp_ns is None and due[0] == DELIVER_IN:
            return None  # it counts from a time that is not known yet
        return due_time([due], self.timestamp_ns or 0)

    def _offset(self, index: int) -> int | None:
        if self.first_offset is None:
            return None
        if self.pieces is None:
            return self.first_offset + index
        for first, end in self.pieces:
            if index < end - first:
                return first + index
            index -= end - first
        return None  # unknown

    def wait_with(self, wake: Callable[[], object]) -> None:
        self.waiters.append(wake)
        self.want()

    def want(self) -> None:
        """Send it at once."""
        self.wanted = True
        for part in {id(part): part for part, _ in self.parts or ()}.values():
            part.want()

    def wait_no_more(self, wake: Callable[[], object]) -> None:
        if wake in self.waiters:
            self.waiters.remove(wake)

    def settle(
        self,
        error: GoQueueError | None,
        first_offset: int | None = None,
        timestamp: str | None = None,
        pieces: OffsetPieces | None = None,
    ) -> None:
        """End the batch and free its bytes."""
        self.first_offset, self.pieces = first_offset, pieces
        self.timestamp_ns = nanoseconds(timestamp) if timestamp else None
        self.frames, self.sealed, self.origin = [], None, None
        self._end(error)

    def _end(self, error: GoQueueError | None) -> None:
        self.error, self.settled = error, True
        waiters, self.waiters = self.waiters, []
        for wake in waiters:
            wake()
        for whole in self.wholes:
            whole._settle_with_parts()

    @property
    def unseen(self) -> int:
        """The number of failed messages that neither a callback nor the caller has seen."""
        if self.error is None:
            return 0
        told = {index for first, count, _ in self.callbacks for index in range(first, first + count)}
        seen = told | self.looked | self.adopted
        if self.parts is None:
            return self.count - len(seen)
        return sum(self.error_at(index) is not None for index in range(self.count) if index not in seen)

    def error_at(self, index: int) -> GoQueueError | None:
        if self.parts is None:
            return self.error
        part, place = self.parts[index]
        return part.error_at(place)

    def fault(self, index: int) -> GoQueueError | None:
        """Return the error of one message, which counts as seen now."""
        error = self.error_at(index)
        if error is not None:
            self.looked.add(index)
        return error

    def partition_of(self, index: int) -> int:
        if self.parts is None:
            return self.partition
        part, place = self.parts[index]
        return part.partition_of(place)


BatchSlot = tuple[SendBatch, int]
"""A batch, and the index of a message in it."""


def concluded(batches: Iterable[SendBatch]) -> list[SendBatch]:
    """Return these batches as far as they are settled, and those that are settled with them."""
    left = [batch for batch in batches if batch.settled]
    if not any(batch.wholes for batch in left):
        return left
    found: dict[int, SendBatch] = {}
    for batch in left:
        if batch.settled and id(batch) not in found:
            found[id(batch)] = batch
            left += batch.wholes
    return list(found.values())


class DeliveryHandle:
    """The common part of both kinds of delivery. There is one for each message, so it holds two values only."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: SendBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Return whether the broker has acknowledged the message or refused it for good."""
        return self._batch.settled

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def partition(self) -> int:
        return self._batch.partition_of(self._index)

    @property
    def offset(self) -> int | None:
        """The offset; None until the message is acknowledged."""
        return self._batch.receipt(self._index).offset

    @property
    def timestamp(self) -> datetime | None:
        return self._batch.receipt(self._index).timestamp

    @property
    def delayed(self) -> bool:
        """True if the message is delivered later; its offset is that of the delayed log then."""
        return self._batch.delayed

    @property
    def deliver_at(self) -> datetime | None:
        """The delivery time; None for a message that is not delayed, and for a delay until it is acknowledged."""
        return self._batch.receipt(self._index).deliver_at

    def _receipt(self) -> Receipt:
        error = self._batch.fault(self._index)
        if error is not None:
            raise error
        return self._batch.receipt(self._index)

    def __repr__(self) -> str:
        batch = self._batch
        error = batch.error_at(self._index)
        state = "under way" if not batch.settled else "failed" if error else f"at {self.offset}"
        return f"<{type(self).__name__} {batch.topic}/{self.partition} {state}>"


BatchSpan = tuple[SendBatch, int, Sequence[int]]
"""A batch, the index of the first message in it, and the positions of the messages in the call."""


class BulkDeliveryHandle:
    """All messages of one bulk call."""

    __slots__ = ("_count", "_spans")

    def __init__(self, spans: list[BatchSpan]) -> None:
        self._spans = spans
        self._count = sum(len(positions) for _, _, positions in spans)

    def __len__(self) -> int:
        return self._count

    def done(self) -> bool:
        return all(batch.settled for batch, _, _ in self._spans)

    def _receipts(self) -> list[Receipt]:
        failed = self._failures()
        if failed:
            raise failed[min(failed)]
        found = {
            position: batch.receipt(index)
            for batch, first, positions in self._spans
            for index, position in enumerate(positions, first)
        }
        return [found[position] for position in range(self._count)]

    def _failures(self) -> dict[int, GoQueueError]:
        failed: dict[int, GoQueueError] = {}
        for batch, first, positions in self._spans:
            if batch.error is not None:
                faults = ((position, batch.fault(index)) for index, position in enumerate(positions, first))
                failed.update((position, error) for position, error in faults if error is not None)
        return failed

    def _batches(self) -> Iterator[SendBatch]:
        return (batch for batch, _, _ in self._spans if not batch.settled)


def still_pending(count: int, timeout: float | None) -> RequestTimedOut:
    what = "a message is" if count == 1 else f"{count} messages are"
    return RequestTimedOut(f"{what} still under way after {timeout} seconds", hint="it is not lost: wait again")


def delivery_timed_out(batch: SendBatch, seconds: float) -> GoQueueError:
    """Return the error of a batch that is older than the delivery timeout."""
    count, refusal = batch.count, batch.last_refusal
    what = f"{count} message{'' if count == 1 else 's'} for {batch.topic}/{batch.partition}"
    was = "was" if count == 1 else "were"
    if isinstance(refusal, QuotaExceeded) and not batch.unsure:
        sentence = f"{what} {was} not stored within {seconds} seconds: {refusal.sentence}"
        return QuotaExceeded(sentence, hint=refusal.hint, **refusal.details)
    is_open = batch.unsure or refusal is None  # else each attempt was refused, or not sent
    return RequestTimedOut(
        f"{what} {was} not delivered within {seconds} seconds{f': {refusal}' if refusal else ''}",
        hint=f"{'it' if count == 1 else 'they'} may have been stored" if batch.sealed and is_open else None,
    )
