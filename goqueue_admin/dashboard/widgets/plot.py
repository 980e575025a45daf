"""A plot with its legend: lines over time."""

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from goqueue_admin.dashboard.views.chart import Piece, Series, chart
from goqueue_admin.dashboard.widgets.tones import Toned


class Plot(Toned):
    """The legend is the first line: what each line is, and its last number."""

    def __init__(self, title: str, show: Callable[[float], str], *, id: str, base: int = 1000) -> None:  # noqa: A002
        super().__init__(id=id)
        self._title = title
        self._format = show
        self._base = base
        self._series: Sequence[Series] = ()
        self._lines: list[Strip] = []
        self._drawn: tuple[int, int] = (0, 0)

    def show(self, series: Sequence[Series]) -> None:
        if series != self._series:
            self._series = series
            self._drawn = (0, 0)
            self.refresh()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._drawn = (0, 0)

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        if self._drawn != (width, height):
            self._lines = self._draw(width, height)
            self._drawn = (width, height)
        return self._lines[y] if y < len(self._lines) else Strip.blank(width, self.rich_style)

    def _draw(self, width: int, height: int) -> list[Strip]:
        legend = [Piece(self._title, "title")]
        for one in self._series:
            legend += [Piece("  ━ ", one.tone), Piece(f"{one.label} ", "muted"), Piece(self._format(one.last), "")]
        lines = [legend]
        if self._series and height > 1:
            span = _span(max(len(one.points) for one in self._series))
            lines += chart(self._series, width, height - 1, self._format, self._base, span)
        return [self._strip(line, width) for line in lines]

    def _strip(self, pieces: Sequence[Piece], width: int) -> Strip:
        base = self.rich_style
        bold = Style(bold=True)
        segments = [
            Segment(piece.text, base + self.tone(piece.tone) + (bold if piece.tone == "title" else Style.null()))
            for piece in pieces
        ]
        return Strip(segments).adjust_cell_length(width, base)


def _span(seconds: int) -> int:
    """Whole minutes, so that what was looked at for a short time is not a corner of an empty plot."""
    return 60 * min(5, max(1, -(-seconds // 60)))
