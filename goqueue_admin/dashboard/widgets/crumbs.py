"""Where we are, from the top down, and what the list below is limited to."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message

from goqueue.console.terminal import visible
from goqueue_admin.dashboard.widgets.tones import Toned

_ARROW = " › "


class Crumbs(Toned):
    """A click on a crumb goes there."""

    class Chosen(Message):
        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self._titles: Sequence[str] = ()
        self._note = ""

    def show(self, titles: Sequence[str]) -> None:
        self._titles = [visible(title) for title in titles]
        self.refresh()

    def note(self, text: str) -> None:
        """What stands at the right: how many lines, which filter, which order."""
        if text != self._note:
            self._note = text
            self.refresh()

    def render(self) -> Text:
        width = self.content_size.width
        line = Text(no_wrap=True)
        for index, title in enumerate(self._shown()):
            line.append(_ARROW if index else "", self.tone("line"))
            is_last = index == len(self._titles) - 1
            line.append(title, Style(bold=True) + self.tone("title") if is_last else self.tone("muted"))
        note = Text(visible(self._note), self.tone("muted"))
        note.truncate(max(0, width - line.cell_len - 2), overflow="ellipsis")
        line.append(" " * max(0, width - line.cell_len - note.cell_len))
        line.append_text(note)
        line.truncate(width, overflow="ellipsis")
        return line

    def _shown(self) -> list[str]:
        """The titles; where the note needs their space, those at the top shrink first."""
        titles, width = list(self._titles), self.content_size.width - len(self._note) - 2
        for index in range(len(titles) - 1):
            if sum(map(len, titles)) + len(_ARROW) * (len(titles) - 1) <= width:
                break
            titles[index] = "…"
        return titles

    def on_click(self, event: events.Click) -> None:
        end = self.styles.padding.left
        for index, title in enumerate(self._shown()):
            end += len(title) + (len(_ARROW) if index else 0)
            if event.x < end:
                self.post_message(self.Chosen(index))
                return
