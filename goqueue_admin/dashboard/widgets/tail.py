"""Messages, a line each, over a ring: only the lines that are seen are made into text."""

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from goqueue_admin.dashboard import keys
from goqueue_admin.dashboard.views.table import fit
from goqueue_admin.dashboard.views.tail import Ring, Seen, cells
from goqueue_admin.dashboard.widgets.tones import TONES, Toned

_TIME, _PARTITION, _OFFSET, _KEY = 12, 4, 11, 16
_KEY_WIDE = 28


class Tail(ScrollView, Toned, can_focus=True):
    """New lines appear at the end, and the view goes with them until somebody scrolls up."""

    BINDINGS: ClassVar = keys.TAIL
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tone--{tone}" for tone in TONES} | {"table--head", "table--cursor"}

    class Chosen(Message):
        """A line was opened."""

        def __init__(self, line: Seen) -> None:
            super().__init__()
            self.line = line

    class AtEnd(Message):
        """Somebody went beyond the last line."""

    def __init__(self, ring: Ring | None = None) -> None:
        super().__init__(id="tail")
        self.ring = ring or Ring()
        self.follows = True
        self._cursor = 0  # the number of a line of the ring
        self._empty = ""

    def add(self, lines: Sequence[Seen]) -> None:
        first = self.ring.first
        self.ring.add(lines)
        gone = self.ring.first - first
        self._grow()
        if self.follows:
            self._place(self.ring.end - 1)
        else:
            self._cursor = max(self._cursor, self.ring.first)
            if gone:
                self.scroll_to(y=max(0, self.scroll_offset.y - gone), animate=False, force=True)
        self.refresh()

    def _grow(self) -> None:
        """Tell the scrollbar how much there is; a layout of the whole screen for it would take longer than to draw."""
        size = Size(self.size.width, len(self.ring) + 1)
        if self.show_vertical_scrollbar:
            self.set_reactive(ScrollView.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        else:
            self.virtual_size = size

    def clear(self) -> None:
        self.ring.clear()
        self._cursor = 0
        self.follows = True
        self.virtual_size = Size(self.size.width, 1)
        self.scroll_to(y=0, animate=False, force=True)
        self.refresh()

    def excuse(self, text: str) -> None:
        """What to say where there is no line."""
        if text != self._empty:
            self._empty = text
            self.refresh()

    @property
    def current(self) -> Seen | None:
        return self.ring[self._cursor] if self.ring.first <= self._cursor < self.ring.end else None

    @property
    def _body_height(self) -> int:
        return max(1, self.size.height - 1)

    # --- lines ---

    def render_line(self, y: int) -> Strip:
        width = self.size.width - int(self.show_vertical_scrollbar)
        base = self.base
        key_width = _KEY if width < 120 else _KEY_WIDE
        if y == 0:
            head = base + self.part("table--head")
            titles = f"  {'TIME':<{_TIME}}  {'PART':>{_PARTITION}}  {'OFFSET':>{_OFFSET}}  {'KEY':<{key_width}}  VALUE"
            return Strip([Segment(titles, head)]).adjust_cell_length(width, head)
        number = self.ring.first + y - 1 + self.scroll_offset.y
        if number >= self.ring.end:
            text = f"  {self._empty}" if y == 2 and not len(self.ring) else ""
            return Strip([Segment(text, base + self.tone("muted"))]).adjust_cell_length(width, base)
        return self._line(number, width, key_width)

    def _line(self, number: int, width: int, key_width: int) -> Strip:
        line = cells(self.ring[number])
        base = self.base
        if number == self._cursor and not self.follows:
            base += self.part("table--cursor")
        muted = base + self.tone("muted")
        room = max(0, width - _TIME - _PARTITION - _OFFSET - key_width - 10)
        segments = [
            Segment(f"  {line.time}  {line.partition:>{_PARTITION}}  ", muted),
            Segment(f"{line.offset:>{_OFFSET}}  ", base),
            Segment(f"{fit(line.key, key_width, right=False)}  ", base + self.tone("title")),
            Segment(fit(line.value[: room + 1], room, right=False), muted if line.is_tombstone else base),
        ]
        return Strip(segments).adjust_cell_length(width, base)

    # --- moving ---

    def _place(self, number: int) -> None:
        self._cursor = max(self.ring.first, min(number, self.ring.end - 1))
        index, top = self._cursor - self.ring.first, self.scroll_offset.y
        if index < top:
            self.scroll_to(y=index, animate=False, force=True)
        elif index >= top + self._body_height:
            self.scroll_to(y=index - self._body_height + 1, animate=False, force=True)
        self.refresh()

    def action_move(self, lines: int) -> None:
        if self._cursor + lines >= self.ring.end:
            self.post_message(self.AtEnd())
        self.follows = False
        self._place(self._cursor + lines)

    def action_leaf(self, pages: int) -> None:
        self.action_move(pages * self._body_height)

    def action_first(self) -> None:
        self.follows = False
        self._place(self.ring.first)

    def action_last(self) -> None:
        self.follows = True
        self._place(self.ring.end - 1)
        self.post_message(self.AtEnd())

    def action_choose(self) -> None:
        line = self.current
        if line is not None:
            self.follows = False
            self.refresh()
            self.post_message(self.Chosen(line))

    def on_click(self, event: events.Click) -> None:
        self.focus()
        number = self.ring.first + event.y - 1 + self.scroll_offset.y
        if event.y and number < self.ring.end:
            was = self._cursor if not self.follows else -1
            self.follows = False
            self._place(number)
            if number == was or event.chain > 1:
                self.action_choose()

    def on_mouse_scroll_up(self) -> None:
        self.follows = False
