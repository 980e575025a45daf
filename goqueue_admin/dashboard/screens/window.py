"""A window over a screen, with something to read in it."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from goqueue_admin.dashboard.host import host_of


class Window(ModalScreen[None]):
    """Escape closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,enter", "dismiss", "Close"),
        ("c", "copy", "Copy"),
    ]

    def __init__(self, title: str, content: Content, copied: str = "") -> None:
        super().__init__()
        self._title = title
        self._content = content
        self._copied = copied

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="window") as window:
            window.border_title = Content(self._title)
            window.border_subtitle = "c copies · esc closes" if self._copied else "esc closes"
            yield Static(self._content, id="text")

    async def action_copy(self) -> None:
        if self._copied:
            await host_of(self).copy(self._copied)
