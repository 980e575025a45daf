"""One line of bars: a number over the time that somebody looked at it."""

from collections.abc import Callable, Sequence

from rich.text import Text

from goqueue_admin.dashboard.views import chart
from goqueue_admin.dashboard.widgets.tones import Toned


class Spark(Toned):
    """Where there is no room for a plot."""

    def __init__(self, title: str, show: Callable[[float], str], *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._title = title
        self._format = show
        self._points: Sequence[float] = ()

    def show(self, points: Sequence[float]) -> None:
        if points != self._points:
            self._points = points
            self.refresh()

    def render(self) -> Text:
        line = Text(f"{self._title} ", self.tone("title"), no_wrap=True)
        if self._points:
            most = f" most {self._format(max(self._points))}"
            width = self.content_size.width - line.cell_len - len(most)
            line.append(chart.spark(self._points, max(width, 1)), self.tone("first"))
            line.append(most, self.tone("muted"))
        line.truncate(self.content_size.width, overflow="ellipsis")
        return line
