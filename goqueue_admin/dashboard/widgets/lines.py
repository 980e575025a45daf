"""The base of widgets that draw only their visible lines, below a title."""

from typing import ClassVar

from textual.binding import Binding
from textual.scroll_view import ScrollView

from goqueue_admin.dashboard.widgets.tones import TONES, TonedWidget


def key_binding(
    key: str,
    action: str,
    help_text: str,
    id: str,  # noqa: A002
    *,
    show: bool = False,
    display: str | None = None,
) -> Binding:
    return Binding(key, action, help_text, show=show, key_display=display, id=id)


MOVING_KEYS = [
    key_binding("up,k", "move(-1)", "Line up", "table.up"),
    key_binding("down,j", "move(1)", "Line down", "table.down"),
    key_binding("pageup", "leaf(-1)", "Page up", "table.pageup"),
    key_binding("pagedown", "leaf(1)", "Page down", "table.pagedown"),
    key_binding("home,g", "first", "First line", "table.first"),
]


class LineWidget(ScrollView, TonedWidget):
    """Lines below a title, and a cursor that is always visible."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tone--{tone}" for tone in TONES} | {
        "table--head",
        "table--cursor",
        "table--hover",
        "table--marked",
    }

    @property
    def body_height(self) -> int:
        return max(1, self.size.height - 1)

    def scroll_to_line(self, index: int) -> None:
        """Scroll as little as makes a line visible."""
        top = self.scroll_offset.y
        if index < top:
            self.scroll_to(y=index, animate=False, force=True)
        elif index >= top + self.body_height:
            self.scroll_to(y=index - self.body_height + 1, animate=False, force=True)
        self.refresh()
