"""Columns, filter, order and widths of a table.

Only visible lines are turned into text, so ten thousand records cost no more than a screenful.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from rich.cells import cell_len, set_cell_size

from goqueue.console.terminal import escape_unprintable
from goqueue_admin.dashboard.views.formats import NO_VALUE, arrow

R = TypeVar("R")

GAP = 2
NAME_WIDTH_MAX = 60


class TableCell(NamedTuple):
    """Text, tone, and the direction in which its number changed."""

    text: str
    tone: str = ""
    arrow: str = ""


@dataclass(frozen=True)
class TableColumn(Generic[R]):
    """A column: `value` is sorted, `show` formats it.

    If space is short, columns with the highest `rank` are omitted first; rank 0 always stays. A column that `grows` is
    as wide as its longest text, up to `most`. One that `moves` shows an arrow when its number changed.
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
    """The tone of an upward arrow."""
    tone: Callable[[R], str] | str = ""

    def cell(self, record: R, before: R | None) -> TableCell:
        value = self.value(record)
        if value is None:
            return TableCell(NO_VALUE, "muted", " " if self.moves else "")
        direction = arrow(value, None if before is None else self.value(before)) if self.moves else ""
        tone = self.tone if isinstance(self.tone, str) else self.tone(record)
        return TableCell(escape_unprintable(self.show(value)), tone, direction)

    @property
    def cells(self) -> int:
        """The minimum width with arrow and sort mark."""
        return max(self.width, len(self.title) + 1) + (2 if self.moves else 0)


@dataclass(frozen=True)
class SortOrder:
    """The column to sort by; none keeps the order of the answer."""

    column: str = ""
    falling: bool = False


@dataclass(frozen=True)
class RowFilter:
    """A text that a row must contain, or must not after `!`; case-insensitive."""

    text: str = ""

    def matches(self, text: str) -> bool:
        wanted = self.text.removeprefix("!").lower()
        return not wanted or (wanted in text.lower()) != self.text.startswith("!")


def arrange(
    records: Sequence[R],
    columns: Sequence[TableColumn[R]],
    key: Callable[[R], str],
    chosen: RowFilter,
    sorting: SortOrder,
) -> list[R]:
    """Filter and sort records; those without a value come last."""
    found = [record for record in records if chosen.matches(key(record))] if chosen.text else list(records)
    column = next((one for one in columns if one.title == sorting.column), None)
    if column is None:
        return found
    value = column.value
    there = [record for record in found if value(record) is not None]
    there.sort(key=value, reverse=sorting.falling)
    return there + [record for record in found if value(record) is None]


def fitting_columns(columns: Sequence[TableColumn[R]], width: int) -> list[TableColumn[R]]:
    chosen = list(columns)
    while sum(column.cells + GAP for column in chosen) > width + GAP:
        last = max(chosen, key=lambda column: column.rank)
        if last.rank == 0:
            break
        chosen.remove(last)
    return chosen


def column_widths(columns: Sequence[TableColumn[R]], records: Sequence[R], width: int) -> list[int]:
    """Return column widths. Growing columns share the rest, up to what they need."""
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
    """Cut or pad a text to exactly `width` cells."""
    if not text.isascii():
        return _fit_cells(text, width, right=right)
    if len(text) > width:
        text = f"{text[: max(0, width - 1)]}…"[:width]
    return text.rjust(width) if right else text.ljust(width)


def _fit_cells(text: str, width: int, *, right: bool) -> str:
    """Do the same for characters of two cells or none."""
    if cell_len(text) > width:
        text = f"{set_cell_size(text, width - 1)}…" if width else ""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
