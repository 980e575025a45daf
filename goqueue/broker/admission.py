"""What a client may put into a topic: frames that are sound are looked at for what they say.

The flags that end transactions and the header names that begin with `__` are the broker's own; the one mark that
a producer may set stands on the first frame, as its first header.
"""

from collections.abc import Iterable

import numpy as np

from goqueue import delay
from goqueue.broker.producers import MARK_BYTES, MARK_NAME, Mark, mark_of
from goqueue.clock import NANOSECONDS
from goqueue.errors import FrameInvalid, MessageTooLarge
from goqueue.limits import DELAY_SECONDS_MAX, FRAME_HEADER_BYTES, SEQUENCE_COUNT
from goqueue.quantities import format_duration, quoted
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

RESERVED_HEADER_PREFIX = "__"
_SCHEDULING = (delay.DELIVER_AT, delay.DELIVER_IN)
_SCHEDULING_PREFIXES = {delay.PREFIXES[name]: name for name in _SCHEDULING}
_AHEAD_NS_MAX = round(DELAY_SECONDS_MAX * NANOSECONDS)
_CLIENT_FLAGS = frame.COMPRESSED | frame.HAS_HEADERS | frame.TOMBSTONE


def understand(
    content: bytearray | memoryview, message_bytes_max: int, now_ns: int | None = None
) -> tuple[Frames, Mark | None]:
    """A client's bytes as frames that may be stored, and their mark. Touches nothing else, so any thread may do it.

    With `now_ns` they are for a delayed log: then each says when it is due.
    """
    frames = scan.batch(content)
    return frames, admit(frames, message_bytes_max, now_ns)


def admit(frames: Frames, message_bytes_max: int, now_ns: int | None = None) -> Mark | None:
    """The producer's mark, if these frames have one, once all of them may be stored."""
    if not len(frames):
        raise FrameInvalid("a batch has at least one message, this one has none")
    flags = frames.flags
    if (flags & ~np.uint8(_CLIENT_FLAGS)).any():
        raise FrameInvalid("a client may not set the flags of control records and transactions")
    tombstones = frames.positions[(flags & frame.TOMBSTONE) != 0]
    if len(tombstones) and not scan.column(frames.buffer, ">u2", frame.AT_KEY_LENGTH)[tombstones].all():
        raise FrameInvalid("a tombstone needs a key: it says that what this key had is gone")
    first, *others = _headers(frames) if flags[0] & frame.HAS_HEADERS else (frame.NO_HEADERS, *_headers(frames))
    headers = frame.decode_headers(first)
    if (mark := mark_of(headers)) is not None:
        _check_count(mark, len(frames))
        del headers[0]
    due_bytes = 0
    if now_ns is not None:
        others = _without_dues(frames, headers, others, now_ns)
        due_bytes = delay.HEADER_BYTES
    _check_sizes(frames, MARK_BYTES if mark is not None else 0, message_bytes_max + due_bytes)
    check_header_names(name for name, _ in headers)
    for encoded in set(others):  # most messages of a batch have the same ones, or none
        check_header_names(name for name, _ in frame.decode_headers(encoded))
    return mark


def _without_dues(frames: Frames, first: list[tuple[str, bytes]], others: list[bytes], now_ns: int) -> list[bytes]:
    """What the headers say besides when each message is due, which all of them have to say, and reasonably."""
    if len(others) + 1 < len(frames):
        raise _without_due(len(others))
    if not first or first[0][0] not in _SCHEDULING:
        raise _without_due(0)
    most = {delay.DELIVER_AT: now_ns + _AHEAD_NS_MAX, delay.DELIVER_IN: _AHEAD_NS_MAX}
    check_due(*first[0], most[first[0][0]])
    del first[0]
    rest: list[bytes] = []
    for number, encoded in enumerate(others, 1):
        name = _SCHEDULING_PREFIXES.get(encoded[2 : 2 + delay.PREFIX_BYTES])
        value = encoded[2 + delay.PREFIX_BYTES : 2 + delay.HEADER_BYTES]
        if name is None:
            raise _without_due(number)
        check_due(name, value, most[name])
        count = int.from_bytes(encoded[:2], "big") - 1
        if count or len(encoded) > 2 + delay.HEADER_BYTES:
            rest.append(count.to_bytes(2, "big") + encoded[2 + delay.HEADER_BYTES :])
    return rest


def check_due(name: str, value: bytes, most: int) -> None:
    """Refuse what is further ahead than anybody plans."""
    if delay.number_of(name, value) > most:
        raise FrameInvalid(
            f"the header {name} says {delay.number_of(name, value)}, which is too far ahead",
            hint=f"a message is scheduled for at most {format_duration(DELAY_SECONDS_MAX)} from now, in nanoseconds",
        )


def _without_due(number: int) -> FrameInvalid:
    return FrameInvalid(
        f"message {number} of a delayed section does not say when it is due",
        hint=f"its first header, behind {MARK_NAME}, is {delay.DELIVER_AT} or {delay.DELIVER_IN}",
    )


def _check_sizes(frames: Frames, mark_bytes: int, most: int) -> None:
    """What a message may have is the same wherever in a batch it stands: the mark is not its own."""
    sizes = frames.lengths - FRAME_HEADER_BYTES
    sizes[0] -= mark_bytes
    if (largest := int(sizes.max())) > most:
        raise too_large(largest, most)


def _headers(frames: Frames) -> list[bytes]:
    """The encoded headers of those frames that have any."""
    chosen = np.flatnonzero(frames.flags & frame.HAS_HEADERS)
    positions = frames.positions[chosen]
    ends = positions + frames.lengths[chosen]
    starts = ends - scan.column(frames.buffer, ">u2", frame.AT_HEADERS_LENGTH)[positions]
    content = frames.buffer.data
    return [bytes(content[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def too_large(size: int, most: int) -> MessageTooLarge:
    return MessageTooLarge(
        f"a message has {size} bytes, at most {most} are allowed in this topic",
        hint="send less, or raise max_message_bytes of the topic",
    )


def check_header_names(names: Iterable[str]) -> None:
    """Refuse those that are the broker's own."""
    for name in names:
        if name.startswith(RESERVED_HEADER_PREFIX):
            raise FrameInvalid(f"header {quoted(name)} begins with __, which is kept for the broker", hint="rename it")


def _check_count(mark: Mark, count: int) -> None:
    if mark.count != count:
        raise FrameInvalid(f"the header {MARK_NAME} speaks of {mark.count} messages, {count} are there")


def remainder(frames: Frames, mark: Mark, missing: int) -> tuple[Frames, Mark]:
    """The last `missing` frames, the first of them with the mark that tells them apart."""
    done = len(frames) - missing
    rest = Mark(mark.producer, mark.epoch, (mark.sequence + done) % SEQUENCE_COUNT, missing)
    first = frame.decode(frames.buffer.data, int(frames.positions[done]))
    content = bytearray(
        frame.encode(
            first.value,
            first.key,
            frame.encode_headers([(MARK_NAME, rest.encode()), *first.headers]),
            priority=first.priority,
            flags=first.flags & ~frame.HAS_HEADERS,
        )
    )
    if missing > 1:
        content += frames.buffer.data[int(frames.positions[done + 1]) : frames.end]
    return scan.batch(content), rest
