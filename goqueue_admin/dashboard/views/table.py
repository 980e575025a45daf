"""A list of records as a table shows it: filtered, sorted, marked, and cut to the width there is.

Only the lines that are seen are made into text, so ten thousand records cost no more than the screen is high.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from rich.cells import cell_len, set_cell_size

from goqueue.console.terminal import visible
from goqueue_admin.dashboard.views.numbers import NOTHING, arrow

R = TypeVar("R")

GAP = 2
NAME_WIDTH_MAX = 60


class Cell(NamedTuple):
    """Text, the tone it is in, and where its number went since the answer before."""

    text: str
    tone: str = ""
    arrow: str = ""


@dataclass(frozen=True)
class Column(Generic[R]):
    """One column: `value` is what is sorted by, `show` what is read.

    Where space is short, the columns with the highest `rank` go first; one of rank 0 always stays. A column that
    `grows` is as wide as its longest text, within what is left and `most`. One that `moves` has an arrow when its
    number changed.
    """

    title: str
    value: Callable[[R], Any]
    show: Callable[[Any], str] = str
    width: int = 8
    right: bool = False
    rank: int = 0
    grows: bool = False
    most: int = NAME_WIDTH_MAX
    moves: bool = False
    rising: str = "good"
    """The tone of an arrow that goes up."""
    tone: Callable[[R], str] = lambda _: ""

    def cell(self, record: R, before: R | None) -> Cell:
        value = self.value(record)
        if value is None:
            return Cell(NOTHING, "muted", " " if self.moves else "")
        direction = arrow(value, None if before is None else self.value(before)) if self.moves else ""
        return Cell(visible(self.show(value)), self.tone(record), direction)

    @property
    def cells(self) -> int:
        """The least width, with its arrow, and room for the mark of the order."""
        return max(self.width, len(self.title) + 1) + (2 if self.moves else 0)


@dataclass(frozen=True)
class Sorting:
    """Which column decides the order; without one it is that of the answer."""

    column: str = ""
    falling: bool = False


@dataclass(frozen=True)
class Filter:
    """What a line must contain, or with `!` in front must not. Case does not matter."""

    text: str = ""

    def matches(self, text: str) -> bool:
        wanted = self.text.removeprefix("!").lower()
        return not wanted or (wanted in text.lower()) != self.text.startswith("!")


def arranged(
    records: Sequence[R], columns: Sequence[Column[R]], key: Callable[[R], str], chosen: Filter, sorting: Sorting
) -> list[R]:
    """The records that fit, in their order. What has no value comes last, whichever way it is sorted."""
    found = [record for record in records if chosen.matches(key(record))] if chosen.text else list(records)
    column = next((one for one in columns if one.title == sorting.column), None)
    if column is None:
        return found
    value = column.value
    there = [record for record in found if value(record) is not None]
    there.sort(key=value, reverse=sorting.falling)
    return there + [record for record in found if value(record) is None]


def fitting(columns: Sequence[Column[R]], width: int) -> list[Column[R]]:
    """The columns that there is space for."""
    chosen = list(columns)
    while sum(column.cells + GAP for column in chosen) > width + GAP:
        last = max(chosen, key=lambda column: column.rank)
        if last.rank == 0:
            break
        chosen.remove(last)
    return chosen


def widths(columns: Sequence[Column[R]], records: Sequence[R], width: int) -> list[int]:
    """How wide each column is, with its arrow. What grows takes what is left, and no more than it needs."""
    found = [column.cells for column in columns]
    left = width - sum(found) - GAP * (len(columns) - 1)
    for index, column in enumerate(columns):
        if column.grows:
            longest = max((len(str(column.value(record))) for record in records), default=0)
            more = max(min(longest, column.most) - found[index], min(left, 0))
            found[index] += min(more, left)
            left -= min(more, left)
    return found


def fit(text: str, width: int, *, right: bool) -> str:
    """Exactly `width` cells, with an ellipsis where something is left out."""
    if not text.isascii():
        return _fit_cells(text, width, right=right)
    if len(text) > width:
        text = f"{text[: max(0, width - 1)]}…"[:width]
    return text.rjust(width) if right else text.ljust(width)


def _fit_cells(text: str, width: int, *, right: bool) -> str:
    """The same for characters that may take two cells, or none."""
    if cell_len(text) > width:
        text = f"{set_cell_size(text, width - 1)}…" if width else ""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
