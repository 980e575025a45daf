"""The line that says what has just happened, or what keeps on being wrong."""

from rich.text import Text
from textual.timer import Timer

from goqueue.console.terminal import visible
from goqueue_admin.dashboard.widgets.tones import Toned


class Flash(Toned):
    """What lasts is shown until it is over; what happened is shown for some seconds, and goes before it."""

    SECONDS = 6.0

    def __init__(self) -> None:
        super().__init__()
        self._lasting = ("", "")
        self._passing = ("", "")
        self._timer: Timer | None = None

    def last(self, text: str, tone: str = "bad") -> None:
        if (text, tone) != self._lasting:
            self._lasting = (text, tone)
            self._draw()

    def say(self, text: str, tone: str = "") -> None:
        self._passing = (text, tone)
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(self.SECONDS, self.clear, name="flash")
        self._draw()

    def clear(self) -> None:
        self._passing = ("", "")
        self._draw()

    @property
    def text(self) -> str:
        return (self._passing if self._passing[0] else self._lasting)[0]

    def _draw(self) -> None:
        self.set_class(self._lasting[1] == "bad" and not self._passing[0], "-away")
        self.refresh()

    def render(self) -> Text:
        text, tone = self._passing if self._passing[0] else self._lasting
        line = Text(visible(text), self.tone(tone), no_wrap=True)
        line.truncate(self.content_size.width, overflow="ellipsis")
        return line
