"""Layout of tables: columns as wide as their content, within the width of the terminal.

Widths are those of a terminal: an East Asian character takes two cells, a combining accent takes none.
"""

from collections.abc import Sequence
from typing import NamedTuple

_GAP = "  "
_CUT = "…"
_TEXT_CELLS_MIN = 6  # minimum width of a text column that is cut


class Cell(NamedTuple):
    """Text without control characters, and the name of its color."""

    text: str
    style: str = ""


CellLine = Sequence[Cell]


def text_width(text: str) -> int:
    """Return the number of cells that `text` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width  # noqa: PLC0415 - only where a character may need it

    return sum(0 if category(one) in {"Mn", "Me"} else 2 if east_asian_width(one) in {"W", "F"} else 1 for one in text)


def truncate(text: str, room: int) -> str:
    """Cut `text` to `room` cells, with an ellipsis at the end."""
    if text_width(text) <= room:
        return text
    kept, left = "", room - 1
    for character in text:
        left -= text_width(character)
        if left < 0:
            break
        kept += character
    return f"{kept}{_CUT}" if room > 0 else ""


def column_widths(lines: Sequence[CellLine], right: Sequence[bool], room: int | None) -> list[int]:
    """Return the width of each column; if there is too little room, the widest text columns are cut to one width.

    Numbers are never cut: half a number is another number.
    """
    wanted = [max(map(text_width, (cell.text for cell in column))) for column in zip(*lines, strict=True)]
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


def layout_line(line: CellLine, columns: Sequence[int], right: Sequence[bool], room: int | None) -> list[Cell]:
    """Return the pieces of one line, without trailing blanks and within the room."""
    pieces: list[Cell] = []
    for number, (cell, width, at_right) in enumerate(zip(line, columns, right, strict=True)):
        text = truncate(cell.text, width)
        blank = " " * (width - text_width(text))
        before = (_GAP if number else "") + (blank if at_right else "")
        pieces += [Cell(before), Cell(text, cell.style), Cell("" if at_right else blank)]
    while pieces and not pieces[-1].text.strip(" "):
        pieces.pop()
    if pieces:
        pieces[-1] = pieces[-1]._replace(text=pieces[-1].text.rstrip(" "))
    return pieces if room is None else _within(pieces, room)


def _within(pieces: list[Cell], room: int) -> list[Cell]:
    """Cut a line that is still too long."""
    if sum(text_width(piece.text) for piece in pieces) <= room:
        return pieces
    kept: list[Cell] = []
    for piece in pieces:
        taken = text_width(piece.text)
        if taken >= room:
            return [*kept, Cell(truncate(f"{piece.text}{_CUT}", room), piece.style)]
        kept.append(piece)
        room -= taken
    return kept


def fit(text: str, width: int, *, right: bool) -> str:
    """Cut or pad `text` to exactly `width` cells."""
    text = truncate(text, width)
    blank = " " * (width - text_width(text))
    return blank + text if right else text + blank
