"""One dead letter: how it failed, where it came from, what it says."""

from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.host import host_of
from goqueue_admin.dashboard.screens import document
from goqueue_admin.dashboard.screens.window import Window
from goqueue_admin.dashboard.views import content
from goqueue_admin.dashboard.views import letters as views
from goqueue_admin.dashboard.views.letters import Letter


class LetterWindow(Window):
    """To be read; what sends it back is a key of the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "copy_command", "Copy as command")]

    def __init__(self, topic: str, letter: Letter) -> None:
        value = content.value(letter)
        place = views.place_of(letter)
        super().__init__(f"{topic}/{place}", _content(letter), value.plain)
        self._words = ("goqueue-cli", "dlq", "describe", topic.removesuffix(views.SUFFIX), place)

    def on_mount(self) -> None:
        self.query_one("#window").border_subtitle = "c copies the value · y the command · esc closes"

    async def action_copy_command(self) -> None:
        dashboard = host_of(self)
        await dashboard.copy(commands.line(*self._words, server=dashboard.service.address))


def _content(letter: Letter) -> Content:
    return document.written(list(views.facts(letter)), content.value(letter), "goqueue-cli dlq describe")
