"""Messages with their lease, one by one and as a batch.

Noting a settlement is one `append`; the consumer sends it. The first note counts: a message that was rejected inside
its `with` block is not acknowledged at the end of it.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, overload

from goqueue.client.lease import ACK, EXTEND, NACK, REJECT, RELEASE, LeaseHandle, Range, SettleNote
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
from goqueue.wire.leases import receipt_handle

if TYPE_CHECKING:
    from goqueue.client.serializers.message_decoding import MessageDecoding


class Settleable:
    """The ways to settle messages of a lease: all of them, unless a subclass has a smaller range."""

    __slots__ = ()

    _lease: LeaseHandle

    def ack(self, wait: bool = False) -> Any:
        """Acknowledge it. Sent within 50 ms; with `wait`, wait until it is durable (`await` it in an event loop)."""
        self._note(ACK)
        return self._durable() if wait else None

    def nack(self, delay: str | float | None = None, reason: str | None = None, wait: bool = False) -> Any:
        """Report a failure: it is retried after the delay, and dead-lettered after too many failures."""
        self._note(NACK, None if delay is None else retry_delay(delay), reason)
        return self._durable() if wait else None

    def reject(self, reason: str | None = None, wait: bool = False) -> Any:
        """Move it to the dead-letter queue without further retries."""
        self._note(REJECT, None, reason)
        return self._durable() if wait else None

    def release(self, wait: bool = False) -> Any:
        """Return it: it is delivered again at once, and no failure is counted."""
        self._note(RELEASE)
        return self._durable() if wait else None

    def extend(self, timeout: str | float) -> None:
        """Extend its lease, with all its messages, to this time from now on."""
        self._note(EXTEND, _timeout(timeout))

    @property
    def attempt(self) -> int:
        """The delivery count, this time included."""
        return self._lease.held.leased.attempt

    @property
    def failures(self) -> int:
        """The number of failures before this delivery; deliveries that were released have not failed."""
        return self._lease.held.leased.failures

    @property
    def is_last_attempt(self) -> bool:
        """True if the broker moves it to the dead-letter queue when it fails now."""
        return self._lease.held.leased.retry_delay is None

    @property
    def _range(self) -> Range:
        leased = self._lease.held.leased
        return leased.first, leased.end

    def _note(self, action: str, time: float | None = None, reason: str | None = None) -> None:
        self._lease.note(SettleNote(action, *self._range, time, _text(reason)))

    def _durable(self) -> Any:
        return self._lease.owner.durable(self._lease.held, *self._range)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.ack()
        elif isinstance(error, Exception):
            self._note(NACK, None, describe_error(error))
        else:
            self._note(RELEASE)


class Delivered(Message, Settleable, gc=False, eq=False, weakref=False):
    """A message leased to this consumer: acknowledge it, or settle it in another way.

    The end of its `with` block acknowledges it. An exception in the block nacks it, an interruption releases it.
    """

    _lease: LeaseHandle

    def ack(self, wait: bool = False) -> Any:
        """Acknowledge it. Sent within 50 ms; with `wait`, wait until it is durable (`await` it in an event loop)."""
        self._lease.note(self.offset)
        return self._durable() if wait else None

    def _decoding(self) -> "MessageDecoding":
        return self._lease.owner.decoding or super()._decoding()

    @property
    def receipt_handle(self) -> str:
        """The text that settles it over HTTP."""
        leased = self._lease.held.leased
        return receipt_handle(self.topic, self.partition, self.offset, leased.attempt, leased.lease)

    @property
    def _range(self) -> Range:
        return self.offset, self.offset + 1

    def __repr__(self) -> str:
        return f"<Delivered {self.topic}/{self.partition}@{self.offset} attempt {self.attempt}>"


class Batch(Settleable, Sequence[Delivered]):
    """The messages of one lease: of one partition, in their order, with the same delivery count.

    Settling the batch settles those of its messages that were not settled before.
    """

    __slots__ = ("_lease", "messages")

    def __init__(self, lease: LeaseHandle, messages: list[Delivered]) -> None:
        self._lease = lease
        self.messages = messages

    @property
    def topic(self) -> str:
        return self._lease.held.leased.topic

    @property
    def partition(self) -> int:
        return self._lease.held.leased.partition

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


def describe_error(error: BaseException) -> str:
    """Return an exception as short text."""
    try:
        said = str(error)
    except Exception:  # an exception of the application that cannot be shown
        said = ""
    kind = type(error).__name__
    return (f"{kind}: {said}" if said else kind)[:REASON_CHARACTERS_MAX]


def retry_delay(duration: str | float | timedelta) -> float:
    """Return the seconds of a delay. An invalid one is refused here, before it makes a whole request fail."""
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


def decode(lease: LeaseHandle, content: bytes, position: int) -> tuple[list[Delivered], list[Range]]:
    """Return the messages of a lease whose frames begin at `position`, and its ranges of offsets without messages.

    This repeats the loop of `message.decode`: a common one would cost readers a fifth of their speed. What must stay
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
            measure(content, position)  # raises the precise error
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
