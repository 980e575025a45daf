"""One delayed message: when it is due, what it says."""

from collections.abc import Mapping
from typing import Any, ClassVar

from textual.binding import BindingType

from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.host import host_of
from goqueue_admin.dashboard.screens import document
from goqueue_admin.dashboard.screens.window import Window
from goqueue_admin.dashboard.views import content
from goqueue_admin.dashboard.views import delayed as views


class ScheduledWindow(Window):
    """To be read; what decides about it is a key of the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "copy_command", "Copy as command")]

    def __init__(self, topic: str, told: Mapping[str, Any], now_ns: int) -> None:
        value = content.value(told)
        place = views.place_text((told["partition"], told["offset"]))
        shown = document.written(list(views.facts(told, now_ns)), value, "goqueue-cli delayed describe")
        super().__init__(f"{topic} {place}", shown, value.plain)
        self._words = ("goqueue-cli", "delayed", "describe", topic, place)

    def on_mount(self) -> None:
        copies = "c copies the value · " if self._copied else ""
        self.query_one("#window").border_subtitle = f"{copies}y the command · esc closes"

    async def action_copy_command(self) -> None:
        dashboard = host_of(self)
        await dashboard.copy(commands.line(*self._words, server=dashboard.service.address))
