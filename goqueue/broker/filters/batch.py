"""Frames that filters look at together: fields as columns, and values unpacked once, up to a bound."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from goqueue.compression import decompress
from goqueue.errors import FrameInvalid
from goqueue.limits import FILTER_UNPACKED_BYTES, FRAME_HEADER_BYTES, MIB
from goqueue.storage import frame, scan

_REFUSED_BYTES = MIB  # that a value counts as which cannot be unpacked: it may have been much before that showed

Place = int
"""The number of a frame in its batch."""
Column = tuple[list[Place], list[Any]]

_CUT = frame.COMPRESSED | frame.TOMBSTONE  # a value that is not simply the bytes that stand there


class Batch:
    """Sound frames, copied: a search over one piece of memory is worth more than the copy costs."""

    def __init__(self, buffers: Iterable[memoryview]) -> None:
        self.content = b"".join(buffers)
        self.frames = scan.walk(self.content)
        self.end: Place = len(self.frames)
        """What stands here and behind is not looked at."""
        self.unpacked_bytes = 0
        self._flags = self.frames.flags
        self._unpacked: dict[Place, bytes | None] = {}

    def cut(self, end: Place) -> None:
        """Look at nothing from there on."""
        self.end = min(self.end, end)

    def cut_behind(self, time_ns: int) -> None:
        """Look at nothing that was appended later."""
        self.cut(int(np.searchsorted(self.frames.timestamps, time_ns, "right")))

    @cached_property
    def messages(self) -> list[Place]:
        """Where there are messages, and not what the broker notes for itself."""
        found: list[Place] = np.flatnonzero((self._flags & frame.CONTROL) == 0).tolist()
        return found

    def __len__(self) -> int:
        return len(self.frames)

    def offset_at(self, place: Place) -> int:
        return frame.offset_at(self.content, self.edges[place])

    def time_at(self, place: Place) -> int:
        return frame.timestamp_at(self.content, self.edges[place])

    def joined(self, places: list[Place]) -> bytes:
        """These frames, back to back."""
        content, edges = self.content, self.edges
        return b"".join([content[edges[place] : edges[place + 1]] for place in places])

    @cached_property
    def edges(self) -> list[int]:
        """Where each frame starts, and behind them where the last one ends."""
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
        """Whether a search in the bytes may miss what a value holds."""
        return bool((self._flags & frame.COMPRESSED).any())

    def lacks(self, needle: bytes) -> bool:
        """Whether these bytes are in none of the frames."""
        return self.content.find(needle) < 0

    # --- columns: places, and what a filter looks at of each ---

    def priorities(self, places: list[Place]) -> Column:
        priorities = scan.column(self.frames.buffer, "u1", frame.AT_PRIORITY)
        return places, priorities[self.frames.positions[places]].tolist()

    def keys(self, places: list[Place]) -> Column:
        content, edges, ends = self.content, self.edges, self._value_starts
        return places, [content[edges[place] + FRAME_HEADER_BYTES : ends[place]] for place in places]

    def headers(self, places: list[Place]) -> Column:
        content, starts, edges = self.content, self._value_ends, self.edges
        present = (self._flags & frame.HAS_HEADERS).tolist()
        return places, [
            frame.decode_headers(content[starts[place] : edges[place + 1]]) if present[place] else ()
            for place in places
        ]

    def values(self, places: list[Place]) -> Column:
        """Of those that have one. Ends early, and cuts, when enough was unpacked; the first is always given."""
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

    def value_bytes(self, place: Place) -> int | None:
        """How long a value is, unpacked where that can be done. None, and a cut, where enough was unpacked."""
        if not self._flags[place] & frame.COMPRESSED:
            return self._value_ends[place] - self._value_starts[place]
        return None if self._is_too_much(place) else len(self._unpack(place) or b"")

    def _is_too_much(self, place: Place) -> bool:
        """Whether enough was unpacked without this one; then nothing from there on is looked at."""
        is_too_much = place not in self._unpacked and self.unpacked_bytes >= FILTER_UNPACKED_BYTES
        if is_too_much:
            self.cut(place)
        return is_too_much

    def _unpack(self, place: Place) -> bytes | None:
        """None where it cannot be unpacked."""
        if place not in self._unpacked:
            packed = self.content[self._value_starts[place] : self._value_ends[place]]
            try:
                value = decompress(packed)
            except FrameInvalid:
                value = None
            self._unpacked[place] = value
            self.unpacked_bytes += _REFUSED_BYTES if value is None else len(value)
        return self._unpacked[place]

    def __repr__(self) -> str:
        return f"<Batch {self.end} of {len(self.frames)} frames>"
