"""Bars beside the numbers of a table: for people, and as wide as there is room."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.console import terminal
from goqueue.console.rows import Column, Row, seen_columns, shown
from goqueue.console.table import cells

if TYPE_CHECKING:
    from goqueue.commands.inspect.inquiry import Inquiry

FIELD = "bar"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"
_CELLS_MIN, _CELLS_MAX = 8, 60
_CELLS = 40  # where nobody says how wide a line is
_GAP = 2


def bar(value: float, most: float, width: int, *, blocks: bool = True) -> str:
    """So much of `width` cells as `value` is of `most`; what is not nothing is seen."""
    if most <= 0 or value <= 0:
        return ""
    if not blocks:
        return "#" * max(1, round(value / most * width))
    eighths = max(1, round(value / most * width * 8))
    return _FULL * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def with_bars(
    rows: Sequence[Row], columns: Sequence[Column], of: str, inquiry: "Inquiry"
) -> tuple[Sequence[Row], Sequence[Column]]:
    """A last column with a bar for the field `of`; programs get none."""
    if not inquiry.for_people:
        return rows, columns
    most = max((row[of] or 0 for row in rows), default=0)
    width = _room(rows, seen_columns(columns, inquiry.output))
    blocks = can_draw()
    drawn = [{**row, FIELD: bar(row[of] or 0, most, width, blocks=blocks)} for row in rows]
    return drawn, [*columns, Column(" ", FIELD, style=lambda _: "label")]


def can_draw() -> bool:
    """Whether stdout has the characters; an old terminal is drawn on with `#`."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        (_FULL + _EIGHTHS).encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _room(rows: Sequence[Row], columns: Sequence[Column]) -> int:
    """What the other columns leave of a line."""
    room = terminal.width()
    if room is None:
        return _CELLS
    taken = sum(max(map(cells, [column.title, *(shown(row, column).text for row in rows)])) for column in columns)
    return max(_CELLS_MIN, min(_CELLS_MAX, room - taken - _GAP * len(columns)))
