"""Plots: lines over time, a sparkline, and the timeline of delayed messages."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from goqueue.clock import NANOSECONDS
from goqueue.drawing.bars import ColumnBar, TonedText, column_bars, sparkline
from goqueue.drawing.chart import Series, line_chart
from goqueue_admin.dashboard.widgets.tones import TonedWidget

SECONDS_MAX = 300


class PlotRange(NamedTuple):
    """The time that plots show, in seconds, and the seconds of one point."""

    name: str
    seconds: int
    step: int

    @property
    def points(self) -> int:
        return self.seconds // self.step


RANGES = (
    PlotRange("5 minutes", SECONDS_MAX, 1),
    PlotRange("hour", 3_600, 10),
    PlotRange("6 hours", 21_600, 60),
    PlotRange("24 hours", 86_400, 300),
)
"""As many points as a wide terminal has dots."""


def history_series(history: Mapping[str, Any], lines: Sequence[tuple[str, str]], tones: Sequence[str]) -> list[Series]:
    """Return the lines of a plot from an answer of the broker: names and labels of its series."""
    known = history.get("series") or {}
    return [
        Series(label, known[name], tone) for (name, label), tone in zip(lines, tones, strict=False) if name in known
    ]


class SampledTrend:
    """A number sampled at each answer, one point per second; it is constant in between."""

    def __init__(self, seconds: int = SECONDS_MAX) -> None:
        self._points: deque[float | None] = deque(maxlen=seconds)
        self._second = 0

    def begin(self, points: Sequence[float | None], step: int, at_ns: int) -> None:
        """Take what was before the first sample: points of `step` seconds."""
        if not self._points:
            self._points.extend(one for one in points for _ in range(step))
            self._second = at_ns // NANOSECONDS

    def add(self, value: float, at_ns: int) -> None:
        second = at_ns // NANOSECONDS
        if self._points:
            between = min(second - self._second, self._points.maxlen or 0)
            if between <= 0:
                self._points[-1] = value
                return
            self._points.extend([self._points[-1]] * (between - 1))
        self._points.append(value)
        self._second = second

    @property
    def points(self) -> Sequence[float | None]:
        return list(self._points)


class LinePlot(TonedWidget):
    """A line plot; its first line is the legend with the last numbers."""

    def __init__(self, title: str, show: Callable[[float], str], *, id: str, base: int = 1000) -> None:  # noqa: A002
        super().__init__(id=id)
        self._title = title
        self._format = show
        self._base = base
        self._series: Sequence[Series] = ()
        self._range = RANGES[0]
        self._lines: list[Strip] = []
        self._drawn: tuple[int, int] = (0, 0)

    def show(self, series: Sequence[Series], time: PlotRange = RANGES[0]) -> None:
        if (series, time) != (self._series, self._range):
            self._series, self._range = series, time
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
        legend = [TonedText(self._title, "title")]
        for one in self._series:
            legend += [
                TonedText("  ━ ", one.tone),
                TonedText(f"{one.label} ", "muted"),
                TonedText(self._format(one.last), ""),
            ]
        lines = [legend]
        if self._series and height > 1:
            span, step = self._range.points, self._range.step
            if self._range is RANGES[0]:
                span = _span(max(len(one.points) for one in self._series))
            lines += line_chart(self._series, width, height - 1, self._format, self._base, span, step)
        return [self._strip(line, width) for line in lines]

    def _strip(self, pieces: Sequence[TonedText], width: int) -> Strip:
        base = self.rich_style
        bold = Style(bold=True)
        segments = [
            Segment(piece.text, base + self.tone(piece.tone) + (bold if piece.tone == "title" else Style.null()))
            for piece in pieces
        ]
        return Strip(segments).adjust_cell_length(width, base)


def _span(seconds: int) -> int:
    """Round up to whole minutes, at most five."""
    return 60 * min(5, max(1, -(-seconds // 60)))


class SparklinePlot(TonedWidget):
    """A plot of one line, for low screens."""

    def __init__(self, title: str, show: Callable[[float], str], *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._title = title
        self._format = show
        self._points: Sequence[float] = ()

    def show(self, series: Sequence[float | None]) -> None:
        points = [one for one in series if one is not None]
        if points != self._points:
            self._points = points
            self.refresh()

    def render(self) -> Text:
        line = Text(f"{self._title} ", self.tone("title"), no_wrap=True)
        if self._points:
            most = f" most {self._format(max(self._points))}"
            width = self.content_size.width - line.cell_len - len(most)
            line.append(sparkline(self._points, max(width, 1)), self.tone("first"))
            line.append(most, self.tone("muted"))
        line.truncate(self.content_size.width, overflow="ellipsis")
        return line


class TimelineChart(TonedWidget):
    """Vertical bars, one per bucket."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: Sequence[ColumnBar] = ()

    def show(self, bars: Sequence[ColumnBar]) -> None:
        if bars != self._bars:
            self._bars = bars
            self.refresh()

    def render(self) -> Text:
        width, height = self.content_size
        lines = [
            Text.assemble(*((piece.text, self.tone(piece.tone)) for piece in line))
            for line in column_bars(self._bars, width, height)
        ]
        text = Text("\n").join(lines)
        text.no_wrap = True
        return text
