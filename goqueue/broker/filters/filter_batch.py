"""A batch of frames for filters: fields as columns, and values unpacked once, up to a limit."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from goqueue.compression import decompress
from goqueue.errors import FrameInvalid
from goqueue.limits import FILTER_DECOMPRESSED_BYTES, FRAME_HEADER_BYTES, MIB
from goqueue.storage import frame, scan

_REFUSED_BYTES = MIB  # counted for a value that cannot be unpacked

FrameNumber = int
"""The index of a frame in its batch."""
FrameColumn = tuple[list[FrameNumber], list[Any]]

_CUT = frame.COMPRESSED | frame.TOMBSTONE  # flags of values that are not plain bytes


class FilterBatch:
    """Valid frames in one copied buffer, which makes byte searches fast."""

    def __init__(self, buffers: Iterable[memoryview]) -> None:
        self.content = b"".join(buffers)
        self.frames = scan.walk(self.content)
        self.end: FrameNumber = len(self.frames)
        """Frames from here on are not examined."""
        self.unpacked_bytes = 0
        self._flags = self.frames.flags
        self._unpacked: dict[FrameNumber, bytes | None] = {}

    def cut(self, end: FrameNumber) -> None:
        self.end = min(self.end, end)

    def cut_behind(self, time_ns: int) -> None:
        """Examine nothing that was appended later."""
        self.cut(int(np.searchsorted(self.frames.timestamps, time_ns, "right")))

    @cached_property
    def messages(self) -> list[FrameNumber]:
        """Indexes of messages, without control records."""
        found: list[FrameNumber] = np.flatnonzero((self._flags & frame.CONTROL) == 0).tolist()
        return found

    def __len__(self) -> int:
        return len(self.frames)

    def offset_at(self, place: FrameNumber) -> int:
        return frame.offset_at(self.content, self.edges[place])

    def time_at(self, place: FrameNumber) -> int:
        return frame.timestamp_at(self.content, self.edges[place])

    def joined(self, places: list[FrameNumber]) -> bytes:
        content, edges = self.content, self.edges
        return b"".join([content[edges[place] : edges[place + 1]] for place in places])

    @cached_property
    def edges(self) -> list[int]:
        """Start of each frame, and the end of the last one."""
        return [*self.frames.positions.tolist(), self.frames.end]

    @cached_property
    def _value_starts(self) -> list[int]:
        starts: list[int] = (self.frames.positions + FRAME_HEADER_BYTES + self.frames.key_lengths).tolist()
        return starts

    @cached_property
    def _value_ends(self) -> list[int]:
        lengths = scan.column(self.frames.buffer, ">u4", frame.AT_VALUE_LENGTH)[self.frames.positions]
        ends: list[int] = (np.array(self._value_starts, np.int64) + lengths).tolist()
        return ends

    @cached_property
    def has_packed(self) -> bool:
        """True if a byte search may miss compressed values."""
        return bool((self._flags & frame.COMPRESSED).any())

    def lacks(self, needle: bytes) -> bool:
        return self.content.find(needle) < 0

    # --- columns: places, and what a filter looks at of each ---

    def priorities(self, places: list[FrameNumber]) -> FrameColumn:
        priorities = scan.column(self.frames.buffer, "u1", frame.AT_PRIORITY)
        return places, priorities[self.frames.positions[places]].tolist()

    def keys(self, places: list[FrameNumber]) -> FrameColumn:
        content, edges, ends = self.content, self.edges, self._value_starts
        return places, [content[edges[place] + FRAME_HEADER_BYTES : ends[place]] for place in places]

    def headers(self, places: list[FrameNumber]) -> FrameColumn:
        content, starts, edges = self.content, self._value_ends, self.edges
        present = (self._flags & frame.HAS_HEADERS).tolist()
        return places, [
            frame.decode_headers(content[starts[place] : edges[place + 1]]) if present[place] else ()
            for place in places
        ]

    def values(self, places: list[FrameNumber]) -> FrameColumn:
        """Return the values. Cuts the batch when the limit of unpacked bytes is reached; the first value is always
        returned.
        """
        content, starts, ends = self.content, self._value_starts, self._value_ends
        if not (self._flags & _CUT).any():
            return places, [content[starts[place] : ends[place]] for place in places]
        given, found = [], []
        for place, flags in zip(places, self._flags[places].tolist(), strict=True):
            if flags & frame.TOMBSTONE:
                continue
            if flags & frame.COMPRESSED and self._is_too_much(place):
                break
            value = self._unpack(place) if flags & frame.COMPRESSED else content[starts[place] : ends[place]]
            if value is not None:
                given.append(place)
                found.append(value)
        return given, found

    def value_bytes(self, place: FrameNumber) -> int | None:
        """Return the unpacked size of a value; None, with a cut, at the limit of unpacked bytes."""
        if not self._flags[place] & frame.COMPRESSED:
            return self._value_ends[place] - self._value_starts[place]
        return None if self._is_too_much(place) else len(self._unpack(place) or b"")

    def _is_too_much(self, place: FrameNumber) -> bool:
        """Return whether unpacking this value exceeds the limit; if so, cut the batch there."""
        is_too_much = place not in self._unpacked and self.unpacked_bytes >= FILTER_DECOMPRESSED_BYTES
        if is_too_much:
            self.cut(place)
        return is_too_much

    def _unpack(self, place: FrameNumber) -> bytes | None:
        """Unpack a value; None if that fails."""
        if place not in self._unpacked:
            packed = self.content[self._value_starts[place] : self._value_ends[place]]
            try:
                value = decompress(packed)
            except FrameInvalid:
                value = None
            self._unpacked[place] = value
            self.unpacked_bytes += _REFUSED_BYTES if value is None else len(value)
        return self._unpacked[place]
