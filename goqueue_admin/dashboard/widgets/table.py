"""A table that draws only its visible lines.

Textual's `DataTable` holds a cell object for every value and needs 1.6 s for ten thousand lines. Here, records stay as
the broker sent them, and a line becomes text when it is visible.
"""

import textwrap
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from goqueue_admin.dashboard.views.table import (
    GAP,
    RowFilter,
    SortOrder,
    TableCell,
    TableColumn,
    arrange,
    column_widths,
    fit,
    fitting_columns,
)
from goqueue_admin.dashboard.widgets.lines import MOVING_KEYS, LineWidget, key_binding

R = TypeVar("R")


TABLE_KEYS: list[BindingType] = [
    key_binding("enter", "choose", "Open", "table.open", show=True, display="⏎"),
    key_binding("slash", "screen.prompt_filter", "Filter", "table.filter", show=True, display="/"),
    key_binding("s", "sort", "Sort", "table.sort", show=True),
    key_binding("S", "turn", "Sort the other way", "table.turn"),
    key_binding("space", "mark", "Mark", "table.mark", show=True, display="␣"),
    *MOVING_KEYS,
    key_binding("end,G", "last", "Last line", "table.last"),
]

_GUTTER = 2  # for the mark
_FALLING = {"good": "warn", "bad": "good"}


class RowTable(LineWidget, Generic[R], can_focus=True):
    """A table of records. The cursor stays on its record when rows move."""

    BINDINGS: ClassVar = TABLE_KEYS

    class Chosen(Message):
        """A row was opened."""

        def __init__(self, table: "RowTable[Any]", key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

        @property
        def control(self) -> "RowTable[Any]":
            return self.table

    class Rearranged(Message):
        """Filter, order, marks or rows changed."""

    class Pointed(Message):
        """The cursor moved."""

        def __init__(self, table: "RowTable[Any]") -> None:
            super().__init__()
            self.table = table

    def __init__(
        self,
        columns: Sequence[TableColumn[R]],
        key: Callable[[R], str],
        sorting: SortOrder = SortOrder(),  # noqa: B008 - it is frozen
        empty: str = "nothing",
        *,
        id: str = "table",  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self.columns = columns
        self.sorting = sorting
        self.chosen = RowFilter()
        self.marked: set[str] = set()
        self.records: Sequence[R] = ()
        self._key = key
        self.empty = empty
        self._waiting = "asking …"
        self._lines: list[R] = []
        self._before: dict[str, R] = {}
        self._cursor = 0
        self._hover = -1
        self._sought = ""
        self._is_filled = False
        self._layout: tuple[list[TableColumn[R]], list[int]] = ([], [])
        self._wide = 0
        """The width of the layout."""

    # --- what is shown ---

    def fill(self, records: Sequence[R] | None, before: Sequence[R] | None = None) -> None:
        """Show records; arrows compare with `before`. None means no answer yet."""
        if records is None or (self._is_filled and records is self.records):
            return  # another call was answered
        self._before = {self._key(record): record for record in before or ()}
        self.records = records
        self._is_filled = True
        self._arrange()
        if self._sought:
            self.seek(self._sought)

    def filter(self, text: str) -> None:
        self.chosen = RowFilter(text)
        self._arrange()

    def refuse(self, text: str) -> None:
        """Remove the rows and show a text instead."""
        self._is_filled = False
        if self._lines:
            self.records = ()
            self._arrange()
        self.excuse(text)

    def excuse(self, text: str) -> None:
        """Set the text shown without rows."""
        if text != self._waiting:
            self._waiting = text
            self.refresh()

    @property
    def summary(self) -> str:
        """Row count, marks, filter and order."""
        if not self._is_filled:
            return ""
        shown, of = len(self._lines), len(self.records)
        parts = [f"{shown:,} of {of:,}" if shown != of else f"{of:,}"]
        if self.marked:
            parts.append(f"{len(self.marked)} marked")
        if self.chosen.text:
            parts.append(f"/{self.chosen.text}")
        if self.sorting.column:
            parts.append(f"by {self.sorting.column} {'↓' if self.sorting.falling else '↑'}")
        return " · ".join(parts)

    @property
    def current(self) -> R | None:
        return self._lines[self._cursor] if self._lines else None

    @property
    def current_key(self) -> str:
        current = self.current
        return "" if current is None else self._key(current)

    @property
    def picked(self) -> list[str]:
        """The keys of the marked rows, or of the row under the cursor."""
        marked = [self._key(record) for record in self.records if self._key(record) in self.marked]
        return marked or ([self.current_key] if self._lines else [])

    @property
    def seen_keys(self) -> list[str]:
        """The keys of the visible rows."""
        top = self.scroll_offset.y
        return [self._key(record) for record in self._lines[top : top + self.body_height]]

    @property
    def is_at_top(self) -> bool:
        return self._cursor == 0

    def seek(self, key: str) -> None:
        """Move the cursor to a row, or once there are rows."""
        self._sought = "" if self._is_filled else key
        for index, record in enumerate(self._lines):
            if self._key(record) == key:
                self._place(index)
                return

    def _arrange(self) -> None:
        was_empty, key, offset = not self._lines, self.current_key, self._cursor - self.scroll_offset.y
        self._lines = arrange(self.records, self.columns, self._key, self.chosen, self.sorting)
        if self.marked:
            self.marked &= {self._key(record) for record in self.records}
        self._measure()
        index = next((index for index, record in enumerate(self._lines) if self._key(record) == key), None)
        if index is None or was_empty:
            self._place(min(self._cursor, max(0, len(self._lines) - 1)))
        else:
            self._cursor = index
            if 0 <= offset < self.body_height:
                self.scroll_to(y=index - offset, animate=False, force=True)
            else:
                self._place(index)
        self.refresh()
        self.post_message(self.Rearranged())
        self.post_message(self.Pointed(self))

    def _measure(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._lines) + 1)
        self._wide = 0

    def _lay_out(self, width: int) -> None:
        """Lay out columns for a width, known only when a line is drawn."""
        if width != self._wide:
            self._wide = width
            room = max(1, width - _GUTTER)
            chosen = fitting_columns(self.columns, room)
            self._layout = (chosen, column_widths(chosen, self._lines, room))

    def on_resize(self) -> None:
        self._measure()
        self._place(self._cursor)

    # --- lines ---

    def render_line(self, y: int) -> Strip:
        width = self.size.width - int(self.show_vertical_scrollbar)
        self._lay_out(width)
        if y == 0:
            return self._head(width)
        index = y - 1 + self.scroll_offset.y
        if not self._lines and y >= 2:
            return self._told(y - 2, width)
        if index >= len(self._lines):
            return Strip.blank(width, self.base)
        return self._line(index, width)

    def _told(self, number: int, width: int) -> Strip:
        """Draw a line of the text that is shown instead of rows."""
        text = self._waiting if not self._is_filled else self.empty if not self.records else "no line fits the filter"
        lines = textwrap.wrap(text, max(1, width - 2 * _GUTTER), break_on_hyphens=False)
        told = " " * _GUTTER + lines[number] if number < len(lines) else ""
        return Strip([Segment(told, self.base + self.tone("muted"))]).adjust_cell_length(width, self.base)

    def _head(self, width: int) -> Strip:
        base = self.base + self.part("table--head")
        segments = [Segment(" " * _GUTTER, base)]
        for column, wide in zip(*self._layout, strict=True):
            title = column.title
            if title and title == self.sorting.column:
                title = f"{title}{'↓' if self.sorting.falling else '↑'}"
            text = fit(title, wide - (2 if column.moves else 0), right=column.right) + ("  " if column.moves else "")
            segments.append(Segment(text + " " * GAP, base))
        return Strip(segments).adjust_cell_length(width, base)

    def _line(self, index: int, width: int) -> Strip:
        record = self._lines[index]
        key = self._key(record)
        base, is_cursor = self.base, index == self._cursor
        if is_cursor and self.has_focus:
            base += self.part("table--cursor")
        elif is_cursor or index == self._hover:
            base += self.part("table--hover")
        is_marked = key in self.marked
        mark = self.part("table--marked")
        segments = [Segment("▌ " if is_marked else "  ", base + mark)]
        before = self._before.get(key)
        for number, (column, wide) in enumerate(zip(*self._layout, strict=True)):
            style = base + mark if is_marked and not number else base
            segments += self._cell(column.cell(record, before), column, wide, style)
        return Strip(segments).adjust_cell_length(width, base)

    def _cell(self, cell: TableCell, column: TableColumn[R], wide: int, base: Style) -> list[Segment]:
        room = wide - (2 if column.moves else 0)
        segments = [Segment(fit(cell.text, room, right=column.right), base + self.tone(cell.tone))]
        if column.moves:
            tone = column.rising if cell.arrow == "↑" else _FALLING[column.rising]
            segments.append(Segment(f" {cell.arrow or ' '}", base + self.tone(tone)))
        segments.append(Segment(" " * GAP, base))
        return segments

    # --- moving ---

    def _place(self, index: int) -> None:
        self._cursor = max(0, min(index, len(self._lines) - 1))
        self.scroll_to_line(self._cursor)
        self.post_message(self.Pointed(self))

    def action_move(self, lines: int) -> None:
        self._place(self._cursor + lines)

    def action_leaf(self, pages: int) -> None:
        self._place(self._cursor + pages * self.body_height)

    def action_first(self) -> None:
        self._place(0)

    def action_last(self) -> None:
        self._place(len(self._lines) - 1)

    def action_choose(self) -> None:
        if self._lines:
            self.post_message(self.Chosen(self, self.current_key))

    def action_mark(self) -> None:
        if self._lines:
            self.marked ^= {self.current_key}
            self._place(self._cursor + 1)
            self.post_message(self.Rearranged())

    def action_sort(self) -> None:
        """Sort by the next column."""
        titles = [column.title for column in self._layout[0] if column.title]
        index = titles.index(self.sorting.column) + 1 if self.sorting.column in titles else 0
        if titles:
            self._sort(titles[index % len(titles)])

    def action_turn(self) -> None:
        self.sorting = SortOrder(self.sorting.column, not self.sorting.falling)
        self._arrange()

    def _sort(self, title: str) -> None:
        """Sort numbers descending, names ascending."""
        column = next(column for column in self.columns if column.title == title)
        falling = not self.sorting.falling if title == self.sorting.column else column.right
        self.sorting = SortOrder(title, falling)
        self._arrange()

    # --- the mouse ---

    def on_click(self, event: events.Click) -> None:
        self.focus()
        if event.y == 0:
            self._click_head(event.x)
            return
        index = event.y - 1 + self.scroll_offset.y
        if index < len(self._lines):
            was = self._cursor
            self._place(index)
            if index == was or event.chain > 1:
                self.action_choose()

    def _click_head(self, x: int) -> None:
        end = _GUTTER
        for column, wide in zip(*self._layout, strict=True):
            end += wide + GAP
            if x < end:
                if column.title:
                    self._sort(column.title)
                return

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point(event.y - 1 + self.scroll_offset.y if event.y else -1)

    def on_leave(self) -> None:
        self._point(-1)

    def _point(self, index: int) -> None:
        if index != self._hover:
            self._hover = index
            self.refresh(Region(0, 0, *self.size))
