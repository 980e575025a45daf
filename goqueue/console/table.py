"""A table as lines: columns as wide as what stands in them, and no wider than there is room.

Widths are counted as terminals count: an East Asian character takes two cells, an accent that is put on
another character takes none. Text without any of those, which is nearly all of it, is counted by its length.
"""

from collections.abc import Sequence
from typing import NamedTuple

_GAP = "  "
_CUT = "…"
_TEXT_CELLS_MIN = 6  # what is left of a column of text that has to make room


class Cell(NamedTuple):
    """Text without control characters, and the name of its colour, if it has one."""

    text: str
    style: str = ""


Line = Sequence[Cell]


def cells(text: str) -> int:
    """How much of a line `text` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # noqa: PLC0415 - only where a character may need it

    return sum(0 if category(one) in {"Mn", "Me"} else 2 if east_asian_width(one) in {"W", "F"} else 1 for one in text)


def cut(text: str, room: int) -> str:
    """As much of `text` as there is room for, with a sign that there was more."""
    if cells(text) <= room:
        return text
    kept, left = "", room - 1
    for character in text:
        left -= cells(character)
        if left < 0:
            break
        kept += character
    return f"{kept}{_CUT}" if room > 0 else ""


def widths(lines: Sequence[Line], right: Sequence[bool], room: int | None) -> list[int]:
    """The cells that each column gets. Where there is too little room, the widest texts give way, and all alike.

    Numbers are never cut: half of one is another number.
    """
    wanted = [max(map(cells, (cell.text for cell in column))) for column in zip(*lines, strict=True)]
    if room is None:
        return wanted
    left = room - len(_GAP) * (len(wanted) - 1)

    def capped(cap: int) -> list[int]:
        return [width if at_right else min(width, cap) for width, at_right in zip(wanted, right, strict=True)]

    low, high = _TEXT_CELLS_MIN, max(wanted, default=0)
    while low < high:  # the largest cap that fits lies between them
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(capped(middle)) <= left else (low, middle - 1)
    return capped(low)


def drawn(line: Line, columns: Sequence[int], right: Sequence[bool], room: int | None) -> list[Cell]:
    """The pieces of one line from left to right, which end with the last thing to be seen and within the room."""
    pieces: list[Cell] = []
    for number, (cell, width, at_right) in enumerate(zip(line, columns, right, strict=True)):
        text = cut(cell.text, width)
        blank = " " * (width - cells(text))
        before = (_GAP if number else "") + (blank if at_right else "")
        pieces += [Cell(before), Cell(text, cell.style), Cell("" if at_right else blank)]
    while pieces and not pieces[-1].text.strip(" "):
        pieces.pop()
    if pieces:
        pieces[-1] = pieces[-1]._replace(text=pieces[-1].text.rstrip(" "))
    return pieces if room is None else _within(pieces, room)


def _within(pieces: list[Cell], room: int) -> list[Cell]:
    """The last resort of a line that no column could make short enough."""
    if sum(cells(piece.text) for piece in pieces) <= room:
        return pieces
    kept: list[Cell] = []
    for piece in pieces:
        taken = cells(piece.text)
        if taken >= room:
            return [*kept, Cell(cut(f"{piece.text}{_CUT}", room), piece.style)]
        kept.append(piece)
        room -= taken
    return kept
