"""What is due when, as bars."""

from collections.abc import Sequence

from rich.text import Text

from goqueue_admin.dashboard.views.timeline import Bar, drawn
from goqueue_admin.dashboard.widgets.tones import Toned


class Timeline(Toned):
    """As many bars as there are buckets, as high as there is space."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: Sequence[Bar] = ()

    def show(self, bars: Sequence[Bar]) -> None:
        if bars != self._bars:
            self._bars = bars
            self.refresh()

    def render(self) -> Text:
        width, height = self.content_size
        lines = [
            Text.assemble(*((piece.text, self.tone(piece.tone)) for piece in line))
            for line in drawn(self._bars, width, height)
        ]
        text = Text("\n").join(lines)
        text.no_wrap = True
        return text
