"""Checks of what clients publish: frames, sizes, headers and producer marks.

Clients may not set the flags of control records, and header names that begin with `__` are reserved. The one mark
that a producer may set is the first header of the first frame.
"""

from collections.abc import Iterable

import numpy as np

from goqueue import delay
from goqueue.broker.core.delay_headers import headers_without_deliver_time, take_deliver_time
from goqueue.broker.core.producers import ProducerMark, mark_of
from goqueue.errors import FrameInvalid, MessageTooLarge
from goqueue.limits import BATCH_MESSAGES_MAX, FRAME_HEADER_BYTES, MESSAGE_HEADERS_MAX, SEQUENCE_COUNT
from goqueue.quantities import quoted
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames
from goqueue.wire.sections import PRODUCER_HEADER, PRODUCER_HEADER_BYTES

RESERVED_HEADER_PREFIX = "__"
_CLIENT_FLAGS = frame.COMPRESSED | frame.HAS_HEADERS | frame.TOMBSTONE


def decode_batch(
    content: bytearray | memoryview,
    message_bytes_max: int,
    now_ns: int | None = None,
    *,
    is_transactional: bool = False,
    walked: Frames | None = None,
) -> tuple[Frames, ProducerMark | None]:
    """Decode a client's bytes to checked frames and their mark. May run on any thread.

    With `now_ns` the frames are for a delayed log: each must then say when it is due. With `is_transactional` each
    must have the transactional flag. `walked` is for `check_batch`.
    """
    frames = scan.check_batch(content, walked)
    return frames, validate_batch(frames, message_bytes_max, now_ns, is_transactional=is_transactional)


def validate_batch(
    frames: Frames, message_bytes_max: int, now_ns: int | None = None, *, is_transactional: bool = False
) -> ProducerMark | None:
    """Check that all frames may be stored; return their producer mark, if they have one."""
    if not len(frames):
        raise FrameInvalid("a batch needs at least one message, this one has none")
    if len(frames) > BATCH_MESSAGES_MAX:
        raise FrameInvalid(
            f"a batch has {len(frames):,} messages, at most {BATCH_MESSAGES_MAX:,} are allowed", hint="send several"
        )
    flags = frames.flags
    _check_flags(flags, is_transactional=is_transactional)
    tombstones = frames.positions[(flags & frame.TOMBSTONE) != 0]
    if len(tombstones) and not scan.column(frames.buffer, ">u2", frame.AT_KEY_LENGTH)[tombstones].all():
        raise FrameInvalid(TOMBSTONE_NEEDS_KEY)
    if now_ns is None:
        first, *others = _headers(frames) if flags[0] & frame.HAS_HEADERS else (frame.NO_HEADERS, *_headers(frames))
    else:
        first, others = (
            next(iter(_headers(frames.first(1))), frame.NO_HEADERS),
            headers_without_deliver_time(frames, now_ns),
        )
    headers = frame.decode_headers(first)
    if (mark := mark_of(headers)) is not None:
        _check_count(mark, len(frames))
        del headers[0]
    elif is_transactional:
        raise FrameInvalid(
            f"a batch of a transaction has no header {PRODUCER_HEADER}",
            hint="it must be the first header of the first message and name the transaction's producer",
        )
    mark_bytes = PRODUCER_HEADER_BYTES if mark is not None else 0
    if now_ns is None:
        _check_sizes(frames, mark_bytes, message_bytes_max)
    else:
        take_deliver_time(headers, now_ns)
        _check_sizes(frames, mark_bytes, message_bytes_max + delay.HEADER_BYTES)
    _check_header_count(len(headers))
    check_header_names(name for name, _ in headers)
    for encoded in set(others):  # most messages of a batch have the same headers, or none
        _check_header_count(int.from_bytes(encoded[: len(frame.NO_HEADERS)], "big"))
        check_header_names(name for name, _ in frame.decode_headers(encoded))
    return mark


TOMBSTONE_NEEDS_KEY = "a tombstone needs a key: it deletes the value of its key"


def header_count_problem(count: int) -> str | None:
    """Return what is wrong with the number of headers of a message, if anything."""
    return f"has {count:,} headers, at most {MESSAGE_HEADERS_MAX} are allowed" if count > MESSAGE_HEADERS_MAX else None


def header_name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a header, if anything."""
    return "begins with __, which is reserved for the broker" if name.startswith(RESERVED_HEADER_PREFIX) else None


def encode_message(
    value: bytes,
    key: bytes | None,
    headers: list[tuple[str, bytes]],
    priority: int,
    flags: int,
    due_ns: int | None,
    message_bytes_max: int,
) -> bytes:
    """Return one message as a frame that may be stored. Raises MessageTooLarge."""
    if due_ns is not None:
        headers.insert(0, delay.deliver_at_header(due_ns))
        message_bytes_max += delay.HEADER_BYTES
    encoded = frame.encode_headers(headers) if headers else frame.NO_HEADERS
    content = frame.encode(value, key, encoded, priority=priority, flags=flags)
    if (size := len(content) - FRAME_HEADER_BYTES) > message_bytes_max:
        raise message_too_large(size, message_bytes_max)
    return content


def header_bytes(frames: Frames) -> int:
    """Return the total size of the frames' headers, which decides how long `validate_batch` takes."""
    return int(scan.column(frames.buffer, ">u2", frame.AT_HEADERS_LENGTH)[frames.positions].sum(dtype=np.int64))


def _check_header_count(count: int) -> None:
    if problem := header_count_problem(count):
        raise FrameInvalid(f"a message {problem}", hint="send fewer headers")


def _check_flags(flags: scan.Bytes, *, is_transactional: bool) -> None:
    if (flags & ~np.uint8(_CLIENT_FLAGS | frame.TRANSACTIONAL)).any():
        raise FrameInvalid("a client may not set the flags of control records")
    said = (flags & frame.TRANSACTIONAL) != 0
    if said.any() and not is_transactional:
        raise FrameInvalid(
            "a message has the transactional flag but is not published in a transaction",
            hint="name the transaction with producer_id and epoch",
        )
    if is_transactional and not said.all():
        raise FrameInvalid(
            f"message {int(np.argmin(said))} of a transaction does not have the transactional flag",
            hint=f"set {frame.TRANSACTIONAL:#x} in the flags of each frame",
        )


def _check_sizes(frames: Frames, mark_bytes: int, most: int) -> None:
    """Check the size of each message. The mark does not count, so the limit is the same anywhere in a batch."""
    sizes = frames.lengths - FRAME_HEADER_BYTES
    sizes[0] -= mark_bytes
    if (largest := int(sizes.max())) > most:
        raise message_too_large(largest, most)


def _headers(frames: Frames) -> list[bytes]:
    chosen = np.flatnonzero(frames.flags & frame.HAS_HEADERS)
    positions = frames.positions[chosen]
    ends = positions + frames.lengths[chosen]
    starts = ends - scan.column(frames.buffer, ">u2", frame.AT_HEADERS_LENGTH)[positions]
    content = frames.buffer.data
    return [bytes(content[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def message_too_large(size: int, most: int) -> MessageTooLarge:
    return MessageTooLarge(
        f"a message has {size} bytes, at most {most} are allowed in this topic",
        hint="send less, or raise max_message_bytes of the topic",
    )


def check_header_names(names: Iterable[str]) -> None:
    for name in names:
        if problem := header_name_problem(name):
            raise FrameInvalid(f"header {quoted(name)} {problem}", hint="rename it")


def _check_count(mark: ProducerMark, count: int) -> None:
    if mark.count != count:
        raise FrameInvalid(f"the header {PRODUCER_HEADER} says {mark.count} messages, the batch has {count}")


def remaining_frames(frames: Frames, mark: ProducerMark, missing: int) -> tuple[Frames, ProducerMark]:
    """Return the last `missing` frames, the first of them with a mark of its own."""
    done = len(frames) - missing
    rest = ProducerMark(mark.producer, mark.epoch, (mark.sequence + done) % SEQUENCE_COUNT, missing)
    content = bytearray(encode_marked(frame.decode(frames.buffer.data, int(frames.positions[done])), rest))
    if missing > 1:
        content += frames.buffer.data[int(frames.positions[done + 1]) : frames.end]
    return scan.check_batch(content), rest


def encode_marked(first: frame.StoredMessage, mark: ProducerMark) -> bytes:
    headers = frame.encode_headers([(PRODUCER_HEADER, mark.encode()), *first.headers])
    flags = first.flags & ~frame.HAS_HEADERS
    return frame.encode(first.value, first.key, headers, priority=first.priority, flags=flags)
