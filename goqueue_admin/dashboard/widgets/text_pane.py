"""Long texts in tones, such as schemas: only visible lines are drawn."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from textual.geometry import Size
from textual.strip import Strip

from goqueue.console.terminal import escape_unprintable
from goqueue_admin.dashboard.views.message import TonedSpan
from goqueue_admin.dashboard.views.table import fit
from goqueue_admin.dashboard.widgets.lines import MOVING_KEYS, LineWidget, key_binding

Line = Sequence[TonedSpan]
_MARGIN = 1


class TextPane(LineWidget, can_focus=True):
    """Lines below a title. Long lines continue on the next; the keys of tables scroll."""

    BINDINGS: ClassVar = [*MOVING_KEYS, key_binding("end,G", "last", "Last line", "pane.last")]

    def __init__(self) -> None:
        super().__init__()
        self._title = ""
        self._lines: Sequence[Line] = ()
        self._wrapped: list[Line] = []

    def show(self, title: str, lines: Sequence[Line]) -> None:
        """Show another text from its beginning; an equal one stays where it is."""
        if (title, lines) != (self._title, self._lines):
            self._title, self._lines = title, lines
            self._wrap()
            self.scroll_to(y=0, animate=False, force=True)
            self.refresh()

    def on_resize(self) -> None:
        self._wrap()

    def _wrap(self) -> None:
        width = max(1, self.size.width - 2 * _MARGIN - 1)
        self._wrapped = [part for line in self._lines for part in _wrapped_lines(line, width)]
        self.virtual_size = Size(self.size.width, len(self._wrapped) + 1)

    def render_line(self, y: int) -> Strip:
        width = self.size.width - int(self.show_vertical_scrollbar)
        if y == 0:
            title = fit(escape_unprintable(self._title), width - _MARGIN, right=False)
            style = self.base + self.part("table--head") + (self.tone("title") if self.has_focus else self.tone(""))
            return Strip([Segment(" " * _MARGIN + title, style)]).adjust_cell_length(width, self.base)
        index = y - 1 + self.scroll_offset.y
        spans = self._wrapped[index] if index < len(self._wrapped) else ()
        segments = [Segment(span.text, self.base + self.tone(span.tone)) for span in spans]
        return Strip([Segment(" " * _MARGIN, self.base), *segments]).adjust_cell_length(width, self.base)

    def action_move(self, lines: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def action_leaf(self, pages: int) -> None:
        self.action_move(pages * self.body_height)

    def action_first(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_last(self) -> None:
        self.scroll_to(y=len(self._wrapped), animate=False)


def _head(text: str, width: int) -> str:
    """Return what of a text fits, up to a space if there is one in its second half."""
    head = chop_cells(text, width)[0] if width else ""
    space = head.rfind(" ") + 1
    return head[:space] if space > len(head) // 2 else head


def _wrapped_lines(line: Line, width: int) -> Iterator[Line]:
    """Cut a line into lines of a width."""
    spans = [TonedSpan(escape_unprintable(span.text), span.tone) for span in line]
    if sum(cell_len(span.text) for span in spans) <= width:
        yield spans
        return
    found: list[TonedSpan] = []
    left = width
    for span in spans:
        text = span.text
        while cell_len(text) > left:
            head = _head(text, left)
            yield [*found, TonedSpan(head, span.tone)]
            found, left, text = [], width, text[len(head) :]
        found.append(TonedSpan(text, span.tone))
        left -= cell_len(text)
    yield found
