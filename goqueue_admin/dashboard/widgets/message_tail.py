"""The list of incoming messages: a ring of the newest ones, of which only visible lines are drawn."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_size
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.message import one_line_text
from goqueue_admin.dashboard.views.table import fit
from goqueue_admin.dashboard.widgets.lines import MOVING_KEYS, LineWidget, key_binding

if TYPE_CHECKING:
    from goqueue.client import Message as ClientMessage


RING_LINES = 50_000
PREVIEW_BYTES = 400
"""Bytes of a value kept for its line; opening the message reads all of it."""


class TailMessage(NamedTuple):
    partition: int
    offset: int
    time_ns: int
    key: bytes | None
    value: bytes | None
    size: int


def tail_message(message: "ClientMessage") -> TailMessage:
    value, key = message.value, message.key
    return TailMessage(
        message.partition,
        message.offset,
        message.timestamp_ns,
        key[:PREVIEW_BYTES] if key else key,
        value[:PREVIEW_BYTES] if value else value,
        len(value or b""),
    )


class MessageRing:
    """The newest messages. Numbers count from 0 and never change; `first` is the oldest kept."""

    def __init__(self, most: int = RING_LINES) -> None:
        self._lines: list[TailMessage] = []
        self._most = most
        self.end = 0

    @property
    def first(self) -> int:
        return max(0, self.end - self._most)

    def __len__(self) -> int:
        return self.end - self.first

    def add(self, lines: Iterable[TailMessage]) -> None:
        for line in lines:
            if self.end < self._most:
                self._lines.append(line)
            else:
                self._lines[self.end % self._most] = line
            self.end += 1

    def __getitem__(self, number: int) -> TailMessage:
        if not self.first <= number < self.end:
            raise IndexError(f"line {number} is not among {self.first} to {self.end}")
        return self._lines[number % self._most]

    def clear(self) -> None:
        self._lines.clear()
        self.end = 0


class RateCounter:
    """Counts events and their rate over the last second."""

    def __init__(self) -> None:
        self.total = 0
        self._marks: deque[tuple[int, int]] = deque([(0, 0)], maxlen=32)

    def add(self, count: int) -> None:
        self.total += count

    def mark(self, now_ns: int) -> None:
        self._marks.append((now_ns, self.total))

    @property
    def per_second(self) -> float:
        """The rate over about the last second."""
        now, total = self._marks[-1]
        then, before = next(
            (mark for mark in reversed(self._marks) if mark[0] and now - mark[0] >= NANOSECONDS), self._marks[0]
        )
        passed = now - then
        return (total - before) * NANOSECONDS / passed if then and passed else 0.0


def rate_summary(received: RateCounter, shown: RateCounter, scanned: int | None) -> str:
    """Summarize received, shown and dropped messages."""
    if scanned is not None:
        return f"{received.total:,} of {scanned:,} fit"
    dropped = received.total - shown.total
    if not dropped:
        return f"{received.total:,} shown, {formats.count(received.per_second)}/s"
    pace = f"shown {formats.count(shown.per_second)}/s of {formats.count(received.per_second)}/s"
    return f"{pace}, dropped {formats.short(dropped)}"


class MessageCells(NamedTuple):
    time: str
    partition: str
    offset: str
    key: str
    value: str
    is_tombstone: bool


def message_cells(line: TailMessage) -> MessageCells:
    is_tombstone = line.value is None
    value = "(tombstone)" if is_tombstone else one_line_text(line.value) if line.value else f"({format_size(0)})"
    return MessageCells(
        formats.format_clock_ms(line.time_ns),
        str(line.partition),
        str(line.offset),
        one_line_text(line.key),
        value,
        is_tombstone,
    )


TAIL_KEYS: list[BindingType] = [
    key_binding("enter", "choose", "Open", "tail.open", show=True, display="⏎"),
    key_binding("slash", "screen.prompt_filter", "Filter", "tail.filter", show=True, display="/"),
    key_binding("t", "screen.prompt_time", "Time", "tail.time", show=True),
    key_binding("space,p", "screen.pause", "Pause", "tail.pause", show=True, display="␣"),
    key_binding("n", "screen.partition", "Partition", "tail.partition", show=True),
    key_binding("l", "screen.live", "Live", "tail.live", show=True),
    *MOVING_KEYS,
    key_binding("end,G", "last", "Newest", "tail.last"),
]

_TIME, _PARTITION, _OFFSET, _KEY = 12, 4, 11, 16
_KEY_WIDE = 28


class MessageTail(LineWidget, can_focus=True):
    """Appends new messages and follows them until the user scrolls up."""

    BINDINGS: ClassVar = TAIL_KEYS

    class Chosen(Message):
        """A row was opened."""

        def __init__(self, line: TailMessage) -> None:
            super().__init__()
            self.line = line

    class AtEnd(Message):
        """The cursor was moved beyond the last line."""

    def __init__(self, ring: MessageRing | None = None) -> None:
        super().__init__(id="tail")
        self.ring = ring or MessageRing()
        self.follows = True
        self._cursor = 0  # the number of a line of the ring
        self._empty = ""

    def add(self, lines: Sequence[TailMessage]) -> None:
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
        """Update the scrollbar only: a layout of the screen takes longer than drawing."""
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
        """Set the text shown without messages."""
        if text != self._empty:
            self._empty = text
            self.refresh()

    @property
    def current(self) -> TailMessage | None:
        return self.ring[self._cursor] if self.ring.first <= self._cursor < self.ring.end else None

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
        line = message_cells(self.ring[number])
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
        self.scroll_to_line(self._cursor - self.ring.first)

    def action_move(self, lines: int) -> None:
        if self._cursor + lines >= self.ring.end:
            self.post_message(self.AtEnd())
        self.follows = False
        self._place(self._cursor + lines)

    def action_leaf(self, pages: int) -> None:
        self.action_move(pages * self.body_height)

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
