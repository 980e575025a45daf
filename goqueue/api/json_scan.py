"""Finds the structure of a JSON text before any value is decoded.

Decoding may cost a hundred times the bytes: `[],` is a list of 56 bytes. So a large body is looked at with numpy
first, a piece at a time, for the characters outside of strings that separate values. numpy lets other threads
run meanwhile, so nothing waits for it. What must stay true: up to the first place where a text stops being JSON all
counts are exact, and no decoder goes beyond that place.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goqueue.limits import JSON_DEPTH_MAX, KIB, LONG_STRING_BYTES

_PIECE_BYTES = 256 * KIB
_QUOTE, _BACKSLASH = 0x22, 0x5C
_OPENING, _CLOSING, _SEPARATING = b"{[", b"}]", b",:"
_STRUCTURAL = np.zeros(256, bool)
_STRUCTURAL[list(_OPENING + _CLOSING + _SEPARATING)] = True
_STEPS = np.zeros(256, np.int8)
_STEPS[list(_OPENING)] = 1
_STEPS[list(_CLOSING)] = -1

_Flags = NDArray[np.bool_]


class TooManyValues(ValueError):
    """A text has too many values."""


class TooDeep(ValueError):
    """A text nests deeper than `JSON_DEPTH_MAX`."""


@dataclass(slots=True)
class Structure:
    """Positions of braces, brackets, commas and colons outside of strings, and of long strings."""

    places: NDArray[np.int64]
    marks: NDArray[np.uint8]
    depths: NDArray[np.int32]
    """The number of open lists and objects after each position."""
    long_strings: list[tuple[int, int]]
    """Strings of more than `LONG_STRING_BYTES`, without their quotes."""

    def first_list(self) -> NDArray[np.int64] | None:
        """Return the brackets and commas of the first list in the outermost object."""
        opened = np.flatnonzero((self.marks == ord("[")) & (self.depths == 2))
        if not len(opened):
            return None
        first = int(opened[0])
        closed = np.flatnonzero(self.depths[first:] == 1)
        if not len(closed):
            return None
        last = first + int(closed[0])
        inner = slice(first + 1, last)
        commas = self.places[inner][(self.marks[inner] == ord(",")) & (self.depths[inner] == 2)]
        return np.concatenate((self.places[first : first + 1], commas, self.places[last : last + 1]))


@dataclass(slots=True)
class _Scan:
    """State that is carried from one piece to the next."""

    is_inside: bool = False
    """The previous piece ended inside a string."""
    is_escaped: bool = False
    """The previous piece ended with a backslash that escapes the first byte of this one."""
    quote: int = -1
    """The position of the last quote."""
    long_strings: list[tuple[int, int]] = field(default_factory=list)

    def structural(self, piece: NDArray[np.uint8], base: int) -> _Flags:
        """Return flags of the structural bytes of a piece."""
        quotes = piece == _QUOTE
        if self.is_escaped:
            quotes[0] = False
        self._unmark_escaped(quotes, piece)
        inside: _Flags = np.logical_xor.accumulate(quotes)
        if self.is_inside:
            inside = ~inside
        self._note_long_strings(np.flatnonzero(quotes), base)
        self.is_inside = bool(inside[-1])
        return _STRUCTURAL[piece] & ~inside

    def _unmark_escaped(self, quotes: _Flags, piece: NDArray[np.uint8]) -> None:
        """Clear the flags of escaped quotes: in a run of backslashes every other one escapes the next byte."""
        found = np.flatnonzero(piece == _BACKSLASH)
        was_escaped, self.is_escaped = self.is_escaped, False
        if not len(found):
            return
        starts = np.flatnonzero(np.diff(found, prepend=-2) != 1)
        begins = np.repeat(found[starts], np.diff(starts, append=len(found)))
        if was_escaped:  # then the run at the very beginning has lost its first backslash
            begins[begins == 0] = 1
        escaped = found[((found - begins) & 1 == 0) & (found >= begins)] + 1
        self.is_escaped = bool(len(escaped)) and int(escaped[-1]) == len(piece)
        quotes[escaped[:-1] if self.is_escaped else escaped] = False

    def _note_long_strings(self, quotes: NDArray[np.int64], base: int) -> None:
        if not len(quotes):
            return
        edges = np.concatenate(([self.quote], quotes + base))
        opens = not self.is_inside  # whether the first quote of this piece opens a string
        for index in np.flatnonzero(np.diff(edges) > LONG_STRING_BYTES).tolist():
            if (index % 2 == 0) != opens:
                self.long_strings.append((int(edges[index]) + 1, int(edges[index + 1])))
        self.quote = int(edges[-1])


def scan(body: bytes | bytearray, values_max: int) -> Structure:
    """Scan a text. Raises TooManyValues or TooDeep."""
    content, state = np.frombuffer(body, np.uint8), _Scan()
    places: list[NDArray[Any]] = []
    depths: list[NDArray[Any]] = []
    values = depth = 0
    for base in range(0, len(content), _PIECE_BYTES):
        piece = content[base : base + _PIECE_BYTES]
        found = np.flatnonzero(state.structural(piece, base))
        marks = piece[found]
        steps = _STEPS[marks]
        values += int(np.count_nonzero(steps >= 0))
        if values > values_max:
            raise TooManyValues
        levels = np.cumsum(steps, dtype=np.int32) + np.int32(depth)
        if len(levels):
            depth = int(levels[-1])
            if levels.max() > JSON_DEPTH_MAX:
                raise TooDeep
        places.append(found + base)
        depths.append(levels)
    where = np.concatenate(places)
    return Structure(where, content[where], np.concatenate(depths), state.long_strings)
