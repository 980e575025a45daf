"""The two lines at the top: who, where and how the broker is, and its rates."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text

from goqueue.console.terminal import visible
from goqueue_admin.dashboard.views import chart
from goqueue_admin.dashboard.views.status import Health, Meter
from goqueue_admin.dashboard.widgets.tones import Toned

_SPARK_CELLS = 12
_SPARK_CELLS_MAX = 24
_GAP = 3


class Head(Toned):
    """Both lines are cut to the width from the least important end."""

    def __init__(self) -> None:
        super().__init__()
        self._address = ""
        self._named = ""
        self._about: Sequence[str] = ()
        self._health = Health("○", "asking", "muted")
        self._meters: Sequence[Meter] = ()

    def place(self, address: str, context: str) -> None:
        """Where the broker is, and what its context is called; both never change."""
        self._address, self._named = address, context
        self.refresh()

    def show(self, health: Health, about: Sequence[str], meters: Sequence[Meter]) -> None:
        self._health, self._about, self._meters = health, about, meters
        self.refresh()

    def render(self) -> Text:
        width = self.content_size.width
        return Text("\n").join((self._first(width), self._second(width)))

    def _first(self, width: int) -> Text:
        mark, word, tone = self._health
        line = Text("GoQueue", self.tone("title") + Style(bold=True), no_wrap=True)
        line.append(f"  {mark} {word}", self.tone(tone) + Style(bold=True))
        line.append(f"  {visible(self._address)}")
        if self._named:
            line.append(f"  {visible(self._named)}", self.tone("accent"))
        right = Text("  ".join(self._about), self.tone("muted"))
        space = width - line.cell_len - right.cell_len
        if space >= 2:
            line.append(" " * space)
            line.append_text(right)
        line.truncate(width, overflow="ellipsis")
        return line

    def _second(self, width: int) -> Text:
        line = Text(no_wrap=True)
        if not self._meters:
            return line
        wide = _SPARK_CELLS if width < 140 else _SPARK_CELLS_MAX
        for meter in self._meters:
            piece = Text(f"{meter.title} ", self.tone("muted"))
            piece.append(f"{meter.text:>7} ", Style(bold=True))
            piece.append(chart.spark(meter.points, wide), self.tone("spark"))
            gap = _GAP if line.cell_len else 0
            if line.cell_len + gap + piece.cell_len > width:
                break
            line.append(" " * gap)
            line.append_text(piece)
        return line
