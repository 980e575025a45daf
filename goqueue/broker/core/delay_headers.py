"""Delivery times in the headers of delayed messages: read, checked and replaced for many frames at once.

The delivery time is the first header of its frame, so its sixteen constant bytes are compared as two numbers. A frame
with a producer mark has it as the second header and is decoded alone.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from goqueue import delay
from goqueue.clock import NANOSECONDS
from goqueue.delay import DELAYED_OF, DELIVER_AT, DELIVER_IN, HEADER_BYTES, PREFIX_BYTES, PREFIXES, due_time
from goqueue.errors import FrameInvalid
from goqueue.limits import DELAY_SECONDS_MAX, FRAME_HEADER_BYTES
from goqueue.quantities import format_duration
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames
from goqueue.wire.sections import PRODUCER_HEADER

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_COUNT_BYTES = len(frame.NO_HEADERS)
_WORDS = {
    name: (int.from_bytes(prefix[:8], "big"), int.from_bytes(prefix[8:], "big")) for name, prefix in PREFIXES.items()
}
_SCHEDULING = (DELIVER_AT, DELIVER_IN)
_AHEAD_NS_MAX = round(DELAY_SECONDS_MAX * NANOSECONDS)


def find_leading_header(frames: Frames, chosen: Mask, name: str) -> tuple[Mask, Numbers]:
    """Return which frames have this header as their first, and its values."""
    starts = header_starts(frames)[chosen]
    lengths = scan.column(frames.buffer, ">u2", frame.AT_HEADERS_LENGTH)[frames.positions[chosen]]
    words, (one, two) = scan.column(frames.buffer, ">u8", 0), _WORDS[name]
    found = lengths >= _COUNT_BYTES + HEADER_BYTES
    found[found] = (words[starts[found]] == one) & (words[starts[found] + 8] == two)
    return found, words[starts[found] + PREFIX_BYTES].astype(np.int64)


def header_starts(frames: Frames) -> Numbers:
    """Return where the first header of each frame begins, if it has one."""
    values = scan.column(frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[frames.positions]
    starts: Numbers = frames.positions + frames.key_lengths + values + (FRAME_HEADER_BYTES + _COUNT_BYTES)
    return starts


def deliver_times(frames: Frames, chosen: Mask) -> Numbers:
    """Return delivery times; the append time where there is none."""
    positions, times = frames.positions[chosen], frames.timestamps[chosen]
    dues = times.copy()
    at, values = find_leading_header(frames, chosen, DELIVER_AT)
    dues[at] = values
    after, values = find_leading_header(frames, chosen, DELIVER_IN)
    dues[after] += values
    for row in np.flatnonzero(~(at | after)).tolist():  # after a producer mark
        message = frame.decode(frames.buffer.data, int(positions[row]))
        due = due_time(message.headers, message.timestamp_ns)
        dues[row] = message.timestamp_ns if due is None else due
    return dues


def longest_delay_ns(frames: Frames, now_ns: int) -> int:
    """Return how far the last delivery time of frames that a client sent is from now; 0 without any."""
    chosen = (frames.flags & frame.HAS_HEADERS) != 0
    longest_ns, found = 0, np.zeros(int(chosen.sum()), np.bool_)
    for name in _SCHEDULING:
        here, values = find_leading_header(frames, chosen, name)
        found |= here
        if len(values):
            longest_ns = max(longest_ns, int(values.max()) - (now_ns if name == DELIVER_AT else 0))
    for position in frames.positions[chosen][~found].tolist():  # after a producer mark
        due_ns = due_time(frame.decode(frames.buffer.data, position).headers, now_ns)
        longest_ns = max(longest_ns, 0 if due_ns is None else due_ns - now_ns)
    return longest_ns


def write_origin_headers(frames: Frames, chosen: Numbers) -> None:
    """Overwrite the delivery-time header with `__delayed_of`. The buffer is ours.

    Clears the transactional flag: the end of a transaction is recorded in the delayed log only.
    """
    scan.column(frames.buffer, "u1", frame.AT_FLAGS)[frames.positions] &= ~np.uint8(frame.TRANSACTIONAL)
    starts = header_starts(frames)[chosen]
    words, (one, two) = scan.column(frames.buffer, ">u8", 0), _WORDS[DELAYED_OF]
    words[starts], words[starts + 8] = one, two
    words[starts + PREFIX_BYTES] = frames.offsets[chosen]


def delivered_origins(buffers: Iterable[memoryview]) -> Numbers:
    """Return the delayed-log offsets of the delivered messages among these frames of a topic."""
    found: list[Numbers] = [np.empty(0, np.int64)]
    for buffer in buffers:
        frames = scan.walk(buffer)
        found.append(find_leading_header(frames, np.ones(len(frames), np.bool_), DELAYED_OF)[1])
    return np.concatenate(found)


def take_deliver_time(headers: list[tuple[str, bytes]], now_ns: int) -> None:
    """Remove the delivery time from the first message's headers and check it."""
    if not headers or headers[0][0] not in _SCHEDULING:
        raise _missing_deliver_time(0)
    name, value = headers.pop(0)
    check_deliver_time(name, delay.decode_number(name, value), now_ns)


def headers_without_deliver_time(frames: Frames, now_ns: int) -> list[bytes]:
    """Check the delivery time of all messages but the first; return their encoded headers without it."""
    others = (frames.flags & frame.HAS_HEADERS) != 0
    if not others.all():
        raise _missing_deliver_time(int(np.argmin(others)))
    others[0] = False
    said = ~others[1:]
    for name in _SCHEDULING:
        found, values = find_leading_header(frames, others, name)
        said |= found
        if len(values):
            check_deliver_time(name, int(values.astype(np.uint64).max()), now_ns)
    if not said.all():
        raise _missing_deliver_time(1 + int(np.argmin(said)))
    positions, lengths = frames.positions[1:], frames.lengths[1:]
    sizes = scan.column(frames.buffer, ">u2", frame.AT_HEADERS_LENGTH)[positions]
    counts = scan.column(frames.buffer, ">u2", 0)[positions + lengths - sizes]
    if not counts.all():
        raise FrameInvalid("the headers are malformed: there are some, and their count is 0")
    longer = np.flatnonzero((sizes > len(frame.NO_HEADERS) + HEADER_BYTES) | (counts > 1))
    ends = (positions + lengths)[longer]
    content = frames.buffer.data
    return [
        _without_first_header(content[end - size : end])
        for end, size in zip(ends.tolist(), sizes[longer].tolist(), strict=True)
    ]


def _without_first_header(encoded: memoryview) -> bytes:
    start = len(frame.NO_HEADERS)
    count = int.from_bytes(encoded[:start], "big") - 1
    return count.to_bytes(start, "big") + bytes(encoded[start + HEADER_BYTES :])


def due_problem(ahead_ns: int) -> str | None:
    """Return what is wrong with a delivery time so far from now, if anything."""
    return f"is more than {format_duration(DELAY_SECONDS_MAX)} from now" if ahead_ns > _AHEAD_NS_MAX else None


def check_deliver_time(name: str, number: int, now_ns: int) -> None:
    if problem := due_problem(number - now_ns if name == DELIVER_AT else number):
        raise FrameInvalid(f"the header {name} is {number}, which {problem}", hint="the unit is nanoseconds")


def _missing_deliver_time(number: int) -> FrameInvalid:
    return FrameInvalid(
        f"message {number} of a delayed section has no delivery time",
        hint=f"its first header after {PRODUCER_HEADER} must be {DELIVER_AT} or {DELIVER_IN}",
    )
