"""What is recorded in a delayed log besides the messages: frames with the flag of control records.

The key says what happened, the value to which messages, in whole numbers of eight bytes:

    delivered     a position of the topic, then ranges of offsets: they stand in the topic
    cancelled     ranges of offsets: nobody wants them any more
    expired       ranges of offsets: they could not be delivered any more
    rescheduled   pairs of an offset and its new deadline

A range is its first offset, and the one behind its last. The position says: whatever was delivered to the topic
before it is told here, or in a record before this one. A record speaks of messages that stand before it.

Beside them stand the markers that any log has where a transaction had messages in it.
"""

from dataclasses import dataclass

import numpy as np

from goqueue.broker.delay.schedule import CANCELLED, DELIVERED, EXPIRED, STATES
from goqueue.broker.delay.wheel import Numbers
from goqueue.errors import FrameInvalid
from goqueue.quantities import quoted
from goqueue.storage import frame
from goqueue.storage.marker import decode_marker, is_marker

RESCHEDULED = "rescheduled"
_ENDS = {STATES[state]: state for state in (DELIVERED, CANCELLED, EXPIRED)}
_NUMBER = np.dtype(">i8")


@dataclass(frozen=True, slots=True)
class Settled:
    """Messages that came to an end."""

    state: int
    firsts: Numbers
    ends: Numbers
    since: int | None = None
    """Where a search of the topic may begin."""

    @property
    def offsets(self) -> Numbers:
        """Each of them."""
        counts = self.ends - self.firsts
        if not len(counts) or counts.max() == 1:
            return self.firsts
        steps = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        offsets: Numbers = np.repeat(self.firsts, counts) + steps
        return offsets


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """Messages that are due at another time."""

    offsets: Numbers
    dues: Numbers


@dataclass(frozen=True, slots=True)
class Ended:
    """Messages of a transaction, which is decided."""

    is_commit: bool
    firsts: Numbers
    ends: Numbers
    time_ns: int
    """When it was."""


Record = Settled | Rescheduled | Ended


def settled(state: int, offsets: Numbers, since: int | None = None) -> bytes:
    """The frame that says so; the offsets rise."""
    assert (state == DELIVERED) == (since is not None), "where a search may begin is said of what was delivered"
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    firsts = np.concatenate((offsets[:1], offsets[breaks]))
    ends = np.concatenate((offsets[breaks - 1], offsets[-1:])) + 1
    pairs = np.stack((firsts, ends), axis=1).ravel()
    numbers = pairs if since is None else np.concatenate(([since], pairs))
    return _encoded(STATES[state], numbers)


def rescheduled(offsets: Numbers, dues: Numbers) -> bytes:
    """The frame that says so; the offsets rise."""
    return _encoded(RESCHEDULED, np.stack((offsets, dues), axis=1).ravel())


def _encoded(kind: str, numbers: Numbers) -> bytes:
    return frame.encode(numbers.astype(_NUMBER).tobytes(), kind.encode(), flags=frame.CONTROL)


def decode(message: frame.Message) -> Record:
    """What a control record of a delayed log says."""
    if is_marker(message.flags):
        marker = decode_marker(message)
        edges = np.array(marker.ranges, np.int64).reshape(-1, 2)
        return Ended(marker.is_commit, edges[:, 0], edges[:, 1], message.timestamp_ns)
    kind = (message.key or b"").decode("utf-8", "replace")
    if len(message.value) % _NUMBER.itemsize:
        raise _impossible(kind, message)
    numbers = np.frombuffer(message.value, _NUMBER).astype(np.int64)
    since: int | None = None
    if kind == STATES[DELIVERED] and len(numbers):
        since, numbers = int(numbers[0]), numbers[1:]
    if len(numbers) % 2 or (kind != RESCHEDULED and kind not in _ENDS):
        raise _impossible(kind, message)
    pairs = numbers.reshape(-1, 2)
    if kind == RESCHEDULED:
        return Rescheduled(pairs[:, 0], pairs[:, 1])
    return Settled(_ENDS[kind], pairs[:, 0], pairs[:, 1], since)


def _impossible(kind: str, message: frame.Message) -> FrameInvalid:
    return FrameInvalid(f"no record {quoted(kind)} of {len(message.value)} bytes belongs into a delayed log")
