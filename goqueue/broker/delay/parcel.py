"""Messages on their way: fetched from the delayed log in as few reads as may be, and made into frames of the topic.

Both are work for a thread; what is decided between them takes little. A frame that has lost its place to damage is
not there: whoever asks for it learns that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from goqueue.broker.delay.columns import leading, readdress
from goqueue.broker.delay.wheel import Numbers
from goqueue.broker.partition import Partition
from goqueue.broker.producers import MARK_NAME
from goqueue.broker.work import Work
from goqueue.delay import DELIVER_AT, DELIVER_IN, delayed_of
from goqueue.errors import OffsetOutOfRange
from goqueue.limits import DELAY_FETCH_GAP_BYTES, READ_BYTES
from goqueue.storage import frame, scan
from goqueue.storage.extent import Extent, Read
from goqueue.storage.scan import Frames

_SCHEDULING = frozenset({MARK_NAME, DELIVER_AT, DELIVER_IN})
_LOCATED = 500  # stretches in one go: a millisecond or two of the event loop
_FEW = 32  # picked out on the spot where they are in memory: a thread costs more


@dataclass(slots=True)
class Fetched:
    """Frames by their offsets."""

    asked: Numbers
    """Those that were wanted; they rise."""
    frames: dict[int, memoryview] = field(default_factory=dict)
    size: int = 0
    is_over: bool = False
    """Whether it stopped because that was enough."""

    def covers(self, offsets: Numbers) -> bool:
        """Whether all that can be had of these is here."""
        return not self.is_over and bool(np.isin(offsets, self.asked).all())


@dataclass(slots=True)
class _Stretch:
    """Neighbours, read in one go."""

    next: int
    end: int


def fetch(partition: Partition, offsets: Numbers, bytes_max: int) -> Work[Fetched]:
    """Those of these messages that can be read; the offsets rise."""
    fetched = Fetched(offsets)
    gap = max(1, DELAY_FETCH_GAP_BYTES // partition.message_bytes)
    stretches = _stretches(offsets[offsets >= partition.earliest], gap)
    while stretches and not fetched.is_over:
        some, others = stretches[:_LOCATED], stretches[_LOCATED:]
        located = [(stretch, _locate(partition, stretch)) for stretch in some]
        job = partial(_load, located, offsets, fetched, bytes_max)
        if len(offsets) <= _FEW and all(isinstance(found, Read) for _, found in located):
            job()
        else:
            yield job
        stretches = [stretch for stretch in some if stretch.next < stretch.end] + others
    return fetched


def _stretches(offsets: Numbers, gap: int) -> list[_Stretch]:
    if not len(offsets):
        return []
    breaks = np.flatnonzero(np.diff(offsets) > gap) + 1
    firsts, lasts = offsets[[0, *breaks]].tolist(), offsets[[*(breaks - 1), -1]].tolist()
    return [_Stretch(first, last + 1) for first, last in zip(firsts, lasts, strict=True)]


def _locate(partition: Partition, stretch: _Stretch) -> Read | Extent:
    stretch.next = max(stretch.next, partition.earliest)
    size = min(READ_BYTES, 4096 + 2 * partition.message_bytes * (stretch.end - stretch.next))
    try:
        found = partition.log.locate(stretch.next, size, skip_damage=True)
    except OffsetOutOfRange:
        return Read((), stretch.end)
    return replace(found, limit=min(found.limit, stretch.end)) if isinstance(found, Extent) else found


def _load(located: list[tuple[_Stretch, Read | Extent]], offsets: Numbers, fetched: Fetched, bytes_max: int) -> None:
    """Read, and pick out what was wanted."""
    for stretch, found in located:
        read = found.load() if isinstance(found, Extent) else found
        ends_here = not read.buffers and read.next_offset <= stretch.next
        stretch.next = stretch.end if ends_here else read.next_offset
        for buffer in read.buffers:
            _pick(buffer, offsets, fetched)
        if fetched.size > bytes_max:
            fetched.is_over = True
            return


def _pick(buffer: memoryview, offsets: Numbers, fetched: Fetched) -> None:
    frames = scan.walk(buffer)
    rows = np.flatnonzero(np.isin(frames.offsets, offsets, assume_unique=True))
    starts, lengths = frames.positions[rows].tolist(), frames.lengths[rows].tolist()
    for offset, start, length in zip(frames.offsets[rows].tolist(), starts, lengths, strict=True):
        if offset not in fetched.frames:
            fetched.frames[offset] = buffer[start : start + length]
            fetched.size += length


def readdressed(contents: Iterable[memoryview]) -> Frames:
    """These frames of a delayed log, in this order, as the topic has them; what they are stamped with comes later."""
    frames = scan.walk(bytearray(b"".join(contents)))
    everything = np.ones(len(frames), np.bool_)
    plain = leading(frames, everything, DELIVER_AT)[0] | leading(frames, everything, DELIVER_IN)[0]
    if not plain.all():  # a producer's mark is in the way
        buffer = frames.buffer.data
        places = zip(frames.positions.tolist(), frames.lengths.tolist(), plain.tolist(), strict=True)
        parts = [buffer[at : at + size] if is_plain else _encoded_anew(buffer, at) for at, size, is_plain in places]
        frames = scan.walk(bytearray(b"".join(parts)))
    readdress(frames, np.flatnonzero(plain))
    _sum_again(frames)
    return frames


def _encoded_anew(buffer: memoryview, position: int) -> bytes:
    message = frame.decode(buffer, position)
    own = [pair for pair in message.headers if pair[0] not in _SCHEDULING]
    headers = frame.encode_headers([delayed_of(message.offset), *own])
    return frame.encode(
        message.value,
        message.key,
        headers,
        priority=message.priority,
        flags=message.flags & ~frame.HAS_HEADERS,
        offset=message.offset,
    )


def _sum_again(frames: Frames) -> None:
    ends = frames.positions + frames.lengths
    found = frame.checksums_of(frames.buffer.data, frames.positions.tolist(), ends.tolist(), frames.flags.tolist())
    scan.column(frames.buffer, ">u4", frame.AT_CRC)[frames.positions] = found
