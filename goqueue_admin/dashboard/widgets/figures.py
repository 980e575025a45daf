"""A line of numbers, each with its noun."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text

from goqueue_admin.dashboard.views.figure import Figure
from goqueue_admin.dashboard.widgets.tones import Toned

_GAP = 3


class Figures(Toned):
    """What does not fit any more is left out."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._figures: Sequence[Figure] = ()

    def show(self, figures: Sequence[Figure]) -> None:
        if figures != self._figures:
            self._figures = figures
            self.refresh()

    def render(self) -> Text:
        line = Text(no_wrap=True)
        for text, noun, tone in self._figures:
            piece = Text.assemble(
                (text, self.tone(tone) + Style(bold=True)), (f" {noun}" if noun else "", self.tone("muted"))
            )
            gap = _GAP if line.cell_len else 0
            if line.cell_len + gap + piece.cell_len > self.content_size.width:
                break
            line.append(" " * gap)
            line.append_text(piece)
        return line
