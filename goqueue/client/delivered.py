"""Messages with their lease, one by one and as a batch.

What is noted about a message costs an `append`; sending is the consumer's business. The first note counts: a message
that was rejected inside its `with` block is not acknowledged at the end of it.
"""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self, overload

from goqueue.client.intervals import Range
from goqueue.client.lease import ACK, EXTEND, NACK, REJECT, RELEASE, Lease, Note
from goqueue.client.message import FIELDS, PREFIX, Message
from goqueue.client.times import seconds
from goqueue.errors import FrameInvalid, RequestInvalid
from goqueue.limits import (
    FRAME_HEADER_BYTES,
    REASON_CHARACTERS_MAX,
    RETRY_DELAY_SECONDS_MAX,
    VISIBILITY_SECONDS_MAX,
    VISIBILITY_SECONDS_MIN,
)
from goqueue.storage.frame import CONTROL, FLAGS_ALL, measure


class Delivered(Message, gc=False, eq=False, weakref=False):
    """A message that is leased to this consumer: acknowledge it, or say what else is to become of it.

    As a `with` block it is acknowledged at the end, comes back later when the block raises, and comes back at once
    when the block is interrupted.
    """

    _lease: Lease

    def ack(self, wait: bool = False) -> Any:
        """It is done. Sent within 50 ms; `wait` for it to be durable (and `await` that in an event loop)."""
        self._lease.note(self.offset)
        return self._durable() if wait else None

    def nack(self, delay: str | float | None = None, reason: str | None = None, wait: bool = False) -> Any:
        """It failed: it comes back after the delay, and after too many failures goes to the dead letters."""
        self._note(NACK, _delay(delay), reason)
        return self._durable() if wait else None

    def reject(self, reason: str | None = None, wait: bool = False) -> Any:
        """It will always fail: to the dead letters with it, now."""
        self._note(REJECT, None, reason)
        return self._durable() if wait else None

    def release(self, wait: bool = False) -> Any:
        """Give it back as it came: it comes again at once, and that counts as no failure."""
        self._note(RELEASE)
        return self._durable() if wait else None

    def extend(self, timeout: str | float) -> None:
        """Keep it, and the others of its lease, for so long from now on."""
        self._note(EXTEND, _timeout(timeout))

    @property
    def attempt(self) -> int:
        """How often it was delivered, this time included."""
        return self._lease.held.leased.attempt

    @property
    def receipt_handle(self) -> str:
        """What settles it by itself over HTTP."""
        leased = self._lease.held.leased
        return f"{self.topic}:{self.partition}:{self.offset}:{leased.attempt}:{leased.lease}"

    def _note(self, action: str, time: float | None = None, reason: str | None = None) -> None:
        self._lease.note(Note(action, self.offset, self.offset + 1, time, _text(reason)))

    def _durable(self) -> Any:
        return self._lease.owner.durable(self._lease.held, self.offset, self.offset + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._lease.note(self.offset)
        elif isinstance(error, Exception):
            self._note(NACK, None, reason_of(error))
        else:
            self._note(RELEASE)

    def __repr__(self) -> str:
        return f"<Delivered {self.topic}/{self.partition}@{self.offset} attempt {self.attempt}>"


class Batch(Sequence[Delivered]):
    """The messages of one lease: of one partition, in their order, and all delivered as often.

    What is said of the batch holds for those of its messages of which nothing was said before.
    """

    __slots__ = ("_lease", "messages")

    def __init__(self, lease: Lease, messages: list[Delivered]) -> None:
        self._lease = lease
        self.messages = messages

    @property
    def topic(self) -> str:
        return self._lease.held.leased.topic

    @property
    def partition(self) -> int:
        return self._lease.held.leased.partition

    @property
    def attempt(self) -> int:
        return self._lease.held.leased.attempt

    def ack(self, wait: bool = False) -> Any:
        self._note(ACK)
        return self._durable() if wait else None

    def nack(self, delay: str | float | None = None, reason: str | None = None, wait: bool = False) -> Any:
        self._note(NACK, _delay(delay), reason)
        return self._durable() if wait else None

    def reject(self, reason: str | None = None, wait: bool = False) -> Any:
        self._note(REJECT, None, reason)
        return self._durable() if wait else None

    def release(self, wait: bool = False) -> Any:
        self._note(RELEASE)
        return self._durable() if wait else None

    def extend(self, timeout: str | float) -> None:
        self._note(EXTEND, _timeout(timeout))

    def _note(self, action: str, time: float | None = None, reason: str | None = None) -> None:
        leased = self._lease.held.leased
        self._lease.note(Note(action, leased.first, leased.end, time, _text(reason)))

    def _durable(self) -> Any:
        leased = self._lease.held.leased
        return self._lease.owner.durable(self._lease.held, leased.first, leased.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._note(ACK)
        elif isinstance(error, Exception):
            self._note(NACK, None, reason_of(error))
        else:
            self._note(RELEASE)

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Delivered]:
        return iter(self.messages)

    @overload
    def __getitem__(self, index: int) -> Delivered: ...
    @overload
    def __getitem__(self, index: slice) -> list[Delivered]: ...
    def __getitem__(self, index: int | slice) -> Delivered | list[Delivered]:
        return self.messages[index]

    def __repr__(self) -> str:
        return f"<Batch {self.topic}/{self.partition} of {len(self.messages)} messages, attempt {self.attempt}>"


def reason_of(error: BaseException) -> str:
    """What an exception says, in short."""
    try:
        said = str(error)
    except Exception:  # an exception of the application that cannot be shown
        said = ""
    kind = type(error).__name__
    return (f"{kind}: {said}" if said else kind)[:REASON_CHARACTERS_MAX]


def _delay(duration: str | float | None) -> float | None:
    """Refused here: a request with one wrong word would be refused with everything in it."""
    if duration is None:
        return None
    found = seconds(duration, "delay")
    if found > RETRY_DELAY_SECONDS_MAX:
        raise RequestInvalid(f"a delay of {duration} is too long, {RETRY_DELAY_SECONDS_MAX:g} seconds are the most")
    return found


def _timeout(duration: str | float) -> float:
    found = seconds(duration, "timeout")
    if not VISIBILITY_SECONDS_MIN <= found <= VISIBILITY_SECONDS_MAX:
        raise RequestInvalid(
            f"a lease cannot be extended by {duration}, only by {VISIBILITY_SECONDS_MIN:g} to "
            f"{VISIBILITY_SECONDS_MAX:g} seconds"
        )
    return found


def _text(reason: str | None) -> str | None:
    if reason is not None and not isinstance(reason, str):
        raise RequestInvalid(f"the reason is {type(reason).__name__}, and must be text")
    return reason and reason[:REASON_CHARACTERS_MAX]


def decode(lease: Lease, content: bytes, position: int) -> tuple[list[Delivered], list[Range]]:
    """The messages of a lease whose frames begin at `position`, and the ranges of its offsets that have none.

    The loop is that of `message.decode`: one that makes both kinds costs a reader a fifth of its speed. What must stay
    true is the same: a length is compared with the bytes at hand before it is used.
    """
    leased = lease.held.leased
    topic, partition, first, end = leased.topic, leased.partition, leased.first, leased.end
    found: list[Delivered] = []
    size, unpack = position + leased.bytes, FIELDS.unpack_from
    while position < size:
        if size - position < FRAME_HEADER_BYTES:
            raise FrameInvalid(f"the lease ends inside a frame, at byte {position}", position=position)
        prefix, offset, time, priority, key, value, headers = unpack(content, position)
        flags = prefix ^ PREFIX
        at_value = position + FRAME_HEADER_BYTES + key
        at_headers = at_value + value
        after = at_headers + headers
        if flags > FLAGS_ALL or after > size:
            measure(content, position)  # which says what is wrong
            raise FrameInvalid(f"no frame at byte {position}", position=position)
        if first <= offset < end and not flags & CONTROL:
            found.append(
                Delivered(
                    topic, partition, offset, time, priority, flags, content, at_value, at_headers, key, headers, lease
                )
            )
        position = after
    return found, [] if len(found) == end - first else _gaps(found, first, end)


def _gaps(found: list[Delivered], first: int, end: int) -> list[Range]:
    gaps = []
    for message in found:
        if message.offset > first:
            gaps.append((first, message.offset))
        first = message.offset + 1
    return [*gaps, (first, end)] if first < end else gaps
