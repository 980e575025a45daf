"""What a client may put into a topic: frames that are sound are looked at for what they say.

The flags that end transactions and the header names that begin with `__` are the broker's own; the one mark that
a producer may set stands on the first frame, as its first header.
"""

from collections.abc import Iterable

import numpy as np

from goqueue import delay
from goqueue.broker.delay.columns import leading
from goqueue.broker.producers import MARK_BYTES, MARK_NAME, Mark, mark_of
from goqueue.clock import NANOSECONDS
from goqueue.errors import FrameInvalid, MessageTooLarge
from goqueue.limits import (
    BATCH_MESSAGES_MAX,
    DELAY_SECONDS_MAX,
    FRAME_HEADER_BYTES,
    MESSAGE_HEADERS_MAX,
    SEQUENCE_COUNT,
)
from goqueue.quantities import format_duration, quoted
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

RESERVED_HEADER_PREFIX = "__"
_SCHEDULING = (delay.DELIVER_AT, delay.DELIVER_IN)
_AHEAD_NS_MAX = round(DELAY_SECONDS_MAX * NANOSECONDS)
_CLIENT_FLAGS = frame.COMPRESSED | frame.HAS_HEADERS | frame.TOMBSTONE


def understand(
    content: bytearray | memoryview,
    message_bytes_max: int,
    now_ns: int | None = None,
    *,
    is_transactional: bool = False,
) -> tuple[Frames, Mark | None]:
    """A client's bytes as frames that may be stored, and their mark. Touches nothing else, so any thread may do it.

    With `now_ns` they are for a delayed log: then each says when it is due. In a transaction each says so, too.
    """
    frames = scan.batch(content)
    return frames, admit(frames, message_bytes_max, now_ns, is_transactional=is_transactional)


def admit(
    frames: Frames, message_bytes_max: int, now_ns: int | None = None, *, is_transactional: bool = False
) -> Mark | None:
    """The producer's mark, if these frames have one, once all of them may be stored."""
    if not len(frames):
        raise FrameInvalid("a batch has at least one message, this one has none")
    if len(frames) > BATCH_MESSAGES_MAX:
        raise FrameInvalid(
            f"a batch has {len(frames):,} messages, at most {BATCH_MESSAGES_MAX:,} are allowed", hint="send several"
        )
    flags = frames.flags
    _check_flags(flags, is_transactional=is_transactional)
    tombstones = frames.positions[(flags & frame.TOMBSTONE) != 0]
    if len(tombstones) and not scan.column(frames.buffer, ">u2", frame.AT_KEY_LENGTH)[tombstones].all():
        raise FrameInvalid("a tombstone needs a key: it says that what this key had is gone")
    if now_ns is None:
        first, *others = _headers(frames) if flags[0] & frame.HAS_HEADERS else (frame.NO_HEADERS, *_headers(frames))
    else:
        first, others = next(iter(_headers(frames.first(1))), frame.NO_HEADERS), _beside_dues(frames, now_ns)
    headers = frame.decode_headers(first)
    if (mark := mark_of(headers)) is not None:
        _check_count(mark, len(frames))
        del headers[0]
    elif is_transactional:
        raise FrameInvalid(
            f"a batch of a transaction has no header {MARK_NAME}",
            hint="it is the first header of the first message, and says whose transaction it is",
        )
    mark_bytes = MARK_BYTES if mark is not None else 0
    if now_ns is None:
        _check_sizes(frames, mark_bytes, message_bytes_max)
    else:
        _take_due(headers, now_ns)
        _check_sizes(frames, mark_bytes, message_bytes_max + delay.HEADER_BYTES)
    _check_header_count(len(headers))
    check_header_names(name for name, _ in headers)
    for encoded in set(others):  # most messages of a batch have the same ones, or none
        _check_header_count(int.from_bytes(encoded[: len(frame.NO_HEADERS)], "big"))
        check_header_names(name for name, _ in frame.decode_headers(encoded))
    return mark


def header_bytes(frames: Frames) -> int:
    """How many bytes of headers there are: looking at each of them is what takes time in `admit`."""
    return int(scan.column(frames.buffer, ">u2", frame.AT_HEADERS_LENGTH)[frames.positions].sum(dtype=np.int64))


def _check_header_count(count: int) -> None:
    if count > MESSAGE_HEADERS_MAX:
        raise FrameInvalid(
            f"a message has {count:,} headers, at most {MESSAGE_HEADERS_MAX} are allowed", hint="send fewer headers"
        )


def _check_flags(flags: scan.Bytes, *, is_transactional: bool) -> None:
    if (flags & ~np.uint8(_CLIENT_FLAGS | frame.TRANSACTIONAL)).any():
        raise FrameInvalid("a client may not set the flags of control records")
    said = (flags & frame.TRANSACTIONAL) != 0
    if said.any() and not is_transactional:
        raise FrameInvalid(
            "a message has the flag of transactions, and is not published in one",
            hint="say whose transaction it is with producer_id and epoch",
        )
    if is_transactional and not said.all():
        raise FrameInvalid(
            f"message {int(np.argmin(said))} of a transaction does not have the flag of transactions",
            hint=f"set {frame.TRANSACTIONAL:#x} in the flags of each frame",
        )


def _take_due(headers: list[tuple[str, bytes]], now_ns: int) -> None:
    """Of the first message, whose own headers stay."""
    if not headers or headers[0][0] not in _SCHEDULING:
        raise _without_due(0)
    name, value = headers.pop(0)
    check_due(name, delay.number_of(name, value), now_ns)


def _beside_dues(frames: Frames, now_ns: int) -> list[bytes]:
    """What the headers of the other messages say besides when those are due, which all of them have to say."""
    others = (frames.flags & frame.HAS_HEADERS) != 0
    if not others.all():
        raise _without_due(int(np.argmin(others)))
    others[0] = False
    said = ~others[1:]
    for name in _SCHEDULING:
        found, values = leading(frames, others, name)
        said |= found
        if len(values):
            check_due(name, int(values.astype(np.uint64).max()), now_ns)
    if not said.all():
        raise _without_due(1 + int(np.argmin(said)))
    positions, lengths = frames.positions[1:], frames.lengths[1:]
    sizes = scan.column(frames.buffer, ">u2", frame.AT_HEADERS_LENGTH)[positions]
    counts = scan.column(frames.buffer, ">u2", 0)[positions + lengths - sizes]
    if not counts.all():
        raise FrameInvalid("the headers are malformed: there are some, and their count is 0")
    longer = np.flatnonzero((sizes > len(frame.NO_HEADERS) + delay.HEADER_BYTES) | (counts > 1))
    ends = (positions + lengths)[longer]
    content = frames.buffer.data
    return [_rest(content[end - size : end]) for end, size in zip(ends.tolist(), sizes[longer].tolist(), strict=True)]


def _rest(encoded: memoryview) -> bytes:
    """Headers without the first of them, which is one that says when."""
    start = len(frame.NO_HEADERS)
    count = int.from_bytes(encoded[:start], "big") - 1
    return count.to_bytes(start, "big") + bytes(encoded[start + delay.HEADER_BYTES :])


def check_due(name: str, number: int, now_ns: int) -> None:
    """Refuse what is further ahead than anybody plans."""
    if number > _AHEAD_NS_MAX + (now_ns if name == delay.DELIVER_AT else 0):
        raise FrameInvalid(
            f"the header {name} says {number}, which is too far ahead",
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
    content = bytearray(marked(frame.decode(frames.buffer.data, int(frames.positions[done])), rest))
    if missing > 1:
        content += frames.buffer.data[int(frames.positions[done + 1]) : frames.end]
    return scan.batch(content), rest


def marked(first: frame.Message, mark: Mark) -> bytes:
    """The first message of a batch with its mark, as a frame."""
    headers = frame.encode_headers([(MARK_NAME, mark.encode()), *first.headers])
    flags = first.flags & ~frame.HAS_HEADERS
    return frame.encode(first.value, first.key, headers, priority=first.priority, flags=flags)
