"""Transaction markers: the control records that end a transaction in each of its partitions.

The flags say whether it was committed; the value says whose transaction it was and which offsets of this log were its
messages:

    producer i64, epoch i16, count u32, then for each range its first offset and the one behind its last, as u64

So a reader of the log needs nothing else to know what was aborted, even where compaction has taken the marks of
producers. A transaction with very many ranges has several of them, each of which holds for itself.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goqueue.errors import FrameInvalid
from goqueue.limits import FRAME_HEADER_BYTES, MARKER_RANGES_MAX
from goqueue.storage import frame, scan
from goqueue.storage.scan import Frames

OffsetRange = tuple[int, int]
"""The first offset, and the one behind the last."""

_WHOSE = struct.Struct(">qhI")
_AT_COUNT = 10
_OFFSET = np.dtype(">u8")
_RANGE_BYTES = 2 * _OFFSET.itemsize
_KINDS = frame.CONTROL | frame.TRANSACTIONAL


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """The end of a transaction, or of a part of it."""

    producer: int
    epoch: int
    is_commit: bool
    ranges: tuple[OffsetRange, ...]
    """Of its messages in this log; they rise."""

    def encode(self) -> list[bytes]:
        """As frames."""
        starts = range(0, len(self.ranges), MARKER_RANGES_MAX)
        return [self._frame(self.ranges[at : at + MARKER_RANGES_MAX]) for at in starts]

    def _frame(self, ranges: Sequence[OffsetRange]) -> bytes:
        value = _WHOSE.pack(self.producer, self.epoch, len(ranges)) + np.array(ranges, _OFFSET).tobytes()
        return frame.encode(value, flags=_KINDS | (frame.COMMIT if self.is_commit else 0))


def decode_marker(message: frame.StoredMessage) -> TransactionMarker:
    value = message.value
    if len(value) < _WHOSE.size:
        raise _impossible(message)
    producer, epoch, count = _WHOSE.unpack_from(value)
    if len(value) != _WHOSE.size + count * 2 * _OFFSET.itemsize:
        raise _impossible(message)
    edges = np.frombuffer(value, _OFFSET, offset=_WHOSE.size).astype(np.int64).tolist()
    ranges = tuple(zip(edges[::2], edges[1::2], strict=True))
    return TransactionMarker(producer, epoch, bool(message.flags & frame.COMMIT), ranges)


def is_marker(flags: int) -> bool:
    return flags & _KINDS == _KINDS


def classify_transactional(frames: Frames) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which of these are messages of transactions, and which are markers."""
    kinds = frames.flags & np.uint8(_KINDS)
    return kinds == frame.TRANSACTIONAL, kinds == _KINDS


def markers_in(frames: Frames) -> Iterator[tuple[int, TransactionMarker]]:
    """The markers among these, each with its offset."""
    for position in frames.positions[classify_transactional(frames)[1]].tolist():
        message = frame.decode(frames.buffer.data, position)
        yield message.offset, decode_marker(message)


def ranges_in(frames: Frames) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The ranges that the markers among these name, a row for each, and which of them were committed.

    It is `markers_in` without an object for each marker: a log of small transactions has one for every few messages.
    A marker that says nothing possible is as good as none.
    """
    places = frames.positions[classify_transactional(frames)[1]]
    content = frames.buffer
    starts = places + FRAME_HEADER_BYTES + scan.column(content, ">u2", frame.AT_KEY_LENGTH)[places]
    sizes = scan.column(content, ">u4", frame.AT_VALUE_LENGTH)[places].astype(np.int64)
    counts = (sizes - _WHOSE.size) // _RANGE_BYTES
    wrong = sizes < _WHOSE.size
    wrong[~wrong] = scan.column(content, ">u4", _AT_COUNT)[starts[~wrong]] != counts[~wrong]
    wrong |= sizes != _WHOSE.size + counts * _RANGE_BYTES
    places, starts, counts = places[~wrong], starts[~wrong], counts[~wrong]
    before = np.cumsum(counts) - counts
    at = np.repeat(starts + _WHOSE.size - before * _RANGE_BYTES, counts) + np.arange(counts.sum()) * _RANGE_BYTES
    numbers = scan.column(content, ">u8", 0)
    rows = np.stack((numbers[at], numbers[at + _OFFSET.itemsize]), axis=1).astype(np.int64)
    commits = (scan.column(content, "u1", frame.AT_FLAGS)[places] & frame.COMMIT) != 0
    return rows, np.repeat(commits, counts)


def _impossible(message: frame.StoredMessage) -> FrameInvalid:
    return FrameInvalid(
        f"the marker at offset {message.offset} is impossible: its value has {len(message.value)} bytes"
    )
