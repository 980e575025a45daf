"""What became of messages: the batch they travel in, and the light objects that a caller holds."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from goqueue.client.retry import Backoff
from goqueue.client.times import nanoseconds, to_datetime
from goqueue.delay import DELIVER_IN, due_of
from goqueue.errors import GoQueueError, RequestTimedOut


class Stored(NamedTuple):
    """Where a message lies that was published by itself. One that is `delayed` lies in the delayed log."""

    partition: int
    offset: int
    delayed: bool = False
    deliver_at_ns: int | None = None

    @property
    def deliver_at(self) -> datetime | None:
        return _moment(self.deliver_at_ns)


class Receipt(NamedTuple):
    """Where a message lies. With `acks="none"` the broker does not say at which offset or when.

    The offset of one that is `delayed` is that of the partition's delayed log.
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


Origin = tuple[bytes, bytes, bytes, int, int]
"""Value, key, encoded headers, priority and flags: what a frame was made of. The first one of a section is made
anew, with the producer's header."""

Due = tuple[str, bytes]
"""The header that says when a message is to be delivered."""

OnDelivery = Callable[[Any], object]

Pieces = Sequence[tuple[int, int]]
"""Ranges of offsets, each without its end, in the order of the messages."""


class Batch:
    """Messages of one partition that are sent, acknowledged or refused together."""

    __slots__ = (
        "backoff",
        "callbacks",
        "count",
        "delayed",
        "dues",
        "error",
        "first_offset",
        "frames",
        "identity",
        "last_refusal",
        "looked",
        "not_before_ns",
        "opened_ns",
        "origin",
        "owner",
        "partition",
        "pieces",
        "sealed",
        "sequence",
        "settled",
        "size",
        "timestamp_ns",
        "topic",
        "unsure",
        "waiters",
        "wanted",
    )

    def __init__(
        self, owner: Any, topic: str, partition: int, origin: Origin, opened_ns: int, *, delayed: bool = False
    ) -> None:
        self.owner = owner
        self.topic = topic
        self.partition = partition
        self.delayed = delayed
        self.dues: list[Due] = []
        """Of each message of a delayed batch."""
        self.origin: Origin | None = origin
        self.opened_ns = opened_ns
        self.frames: list[bytes] = []
        self.count = 0
        self.size = 0
        self.sealed: bytes | None = None
        self.identity: tuple[int, int] | None = None
        self.sequence = 0
        """Whose it is since it was sealed, and with which sequence it begins."""
        self.unsure = False
        """Whether an answer to it was lost: then the broker may have it."""
        self.backoff = Backoff()
        self.not_before_ns = 0
        self.last_refusal: GoQueueError | None = None
        self.callbacks: list[tuple[int, int, OnDelivery]] = []
        self.settled = False
        self.error: GoQueueError | None = None
        self.first_offset: int | None = None
        self.timestamp_ns: int | None = None
        self.pieces: Pieces | None = None
        self.waiters: list[Callable[[], object]] = []
        self.wanted = False
        """Whether anybody has waited for it, be it in vain: then it is sent at once."""
        self.looked: set[int] = set()

    def receipt(self, index: int) -> Receipt:
        if self.delayed:
            return Receipt(self.partition, self._offset(index), self.timestamp_ns, True, self._due_ns(index))
        return Receipt(self.partition, self._offset(index), self.timestamp_ns)

    def _due_ns(self, index: int) -> int | None:
        if not self.dues:
            return None
        due = self.dues[index]
        if self.timestamp_ns is None and due[0] == DELIVER_IN:
            return None  # it counts from a time that the broker has not said
        return due_of([due], self.timestamp_ns or 0)

    def _offset(self, index: int) -> int | None:
        if self.first_offset is None:
            return None
        if self.pieces is None:
            return self.first_offset + index
        for first, end in self.pieces:
            if index < end - first:
                return first + index
            index -= end - first
        return None  # nor does the broker say

    def wait_with(self, wake: Callable[[], object]) -> None:
        self.waiters.append(wake)
        self.wanted = True

    def wait_no_more(self, wake: Callable[[], object]) -> None:
        if wake in self.waiters:
            self.waiters.remove(wake)

    def settle(
        self,
        error: GoQueueError | None,
        first_offset: int | None = None,
        timestamp: str | None = None,
        pieces: Pieces | None = None,
    ) -> None:
        """The end of the batch; its bytes are let go."""
        self.error, self.first_offset, self.pieces = error, first_offset, pieces
        self.timestamp_ns = nanoseconds(timestamp) if timestamp else None
        self.frames, self.sealed, self.origin = [], None, None
        self.settled = True
        waiters, self.waiters = self.waiters, []
        for wake in waiters:
            wake()

    @property
    def unseen(self) -> int:
        """Messages that failed, and nobody asked about them nor is told."""
        told = {index for first, count, _ in self.callbacks for index in range(first, first + count)}
        return self.count - len(told | self.looked) if self.error is not None else 0

    def fault(self, index: int) -> GoQueueError | None:
        """The error of one message, which is looked at with this."""
        if self.error is not None:
            self.looked.add(index)
        return self.error


class Owner(Protocol):
    def wait(self, batch: Batch, timeout: float | None) -> bool: ...


class Settling:
    """What the two kinds of delivery have in common. They are made once a message, so they hold two numbers."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        """Whether the broker has acknowledged the message or refused it for good."""
        return self._batch.settled

    @property
    def topic(self) -> str:
        return self._batch.topic

    @property
    def partition(self) -> int:
        return self._batch.partition

    @property
    def offset(self) -> int | None:
        """None until the message is acknowledged."""
        return self._batch.receipt(self._index).offset

    @property
    def timestamp(self) -> datetime | None:
        return self._batch.receipt(self._index).timestamp

    @property
    def delayed(self) -> bool:
        """Whether it is to be delivered later; its offset is that of the delayed log then."""
        return self._batch.delayed

    @property
    def deliver_at(self) -> datetime | None:
        """None of a message that is not delayed, and of a delay until the message is acknowledged."""
        return self._batch.receipt(self._index).deliver_at

    def _receipt(self) -> Receipt:
        error = self._batch.fault(self._index)
        if error is not None:
            raise error
        return self._batch.receipt(self._index)

    def __repr__(self) -> str:
        batch = self._batch
        state = "under way" if not batch.settled else "failed" if batch.error else f"at {self.offset}"
        return f"<{type(self).__name__} {batch.topic}/{batch.partition} {state}>"


class Delivery(Settling):
    """One message on its way. Waiting for it sends what has gathered at once."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> Receipt:
        """Wait until the message is durable; raises what went wrong, and RequestTimedOut when nothing did yet."""
        self._wait(timeout)
        return self._receipt()

    def exception(self, timeout: float | None = None) -> GoQueueError | None:
        """Wait, and give what went wrong instead of raising it."""
        self._wait(timeout)
        return self._batch.fault(self._index)

    def _wait(self, timeout: float | None) -> None:
        if not self._batch.settled and not self._batch.owner.wait(self._batch, timeout):
            raise still_under_way(1, timeout)


Span = tuple[Batch, int, Sequence[int]]
"""A batch, the index of the first message in it, and which messages of the call these are."""


class SettlingMany:
    """All messages of one bulk call."""

    __slots__ = ("_count", "_spans")

    def __init__(self, spans: list[Span]) -> None:
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
                batch.looked.update(range(first, first + len(positions)))
                failed.update(dict.fromkeys(positions, batch.error))
        return failed

    def _batches(self) -> Iterator[Batch]:
        return (batch for batch, _, _ in self._spans if not batch.settled)


class Deliveries(SettlingMany):
    """All messages of one `send_many`."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> list[Receipt]:
        """Wait until all are durable: a receipt for each in the order of the call. Raises the first failure."""
        self._wait(timeout)
        return self._receipts()

    def exceptions(self, timeout: float | None = None) -> dict[int, GoQueueError]:
        """Wait, and give what went wrong by the place of the message in the call."""
        self._wait(timeout)
        return self._failures()

    def _wait(self, timeout: float | None) -> None:
        for batch in self._batches():
            if not batch.owner.wait(batch, timeout):
                raise still_under_way(self._count, timeout)


def still_under_way(count: int, timeout: float | None) -> RequestTimedOut:
    what = "a message is" if count == 1 else f"{count} messages are"
    return RequestTimedOut(f"{what} still under way after {timeout} seconds", hint="it is not lost: wait on")
