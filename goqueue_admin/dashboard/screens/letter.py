"""One dead letter: how it failed, where it came from, what it says."""

from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from goqueue.console.terminal import visible
from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.screens.document import STYLES
from goqueue_admin.dashboard.screens.window import Window
from goqueue_admin.dashboard.views import letters as views
from goqueue_admin.dashboard.views.letters import Letter


class LetterWindow(Window):
    """To be read; what sends it back is a key of the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "copy_command", "Copy as command")]

    def __init__(self, topic: str, letter: Letter) -> None:
        value = views.value_of(letter)
        place = views.place_of(letter)
        super().__init__(f"{topic}/{place}", _content(letter), value.plain)
        self._words = ("goqueue-cli", "dlq", "describe", topic.removesuffix(views.SUFFIX), place)

    def on_mount(self) -> None:
        self.query_one("#window").border_subtitle = "c copies the value · y the command · esc closes"

    async def action_copy_command(self) -> None:
        from goqueue_admin.dashboard.app import Dashboard  # noqa: PLC0415 - each needs the other

        if isinstance(self.app, Dashboard):
            await self.app.copy(commands.line(*self._words, server=self.app.service.address))


def _content(letter: Letter) -> Content:
    facts, value = list(views.facts(letter)), views.value_of(letter)
    wide = max(len(name) for name, _, _ in facts)
    lines = [
        Content.assemble((f"{visible(name):<{wide}}  ", STYLES["muted"]), (visible(text), STYLES[tone]))
        for name, text, tone in facts
    ]
    lines += [Content(""), Content.styled(value.kind, STYLES["muted"])]
    lines += [Content.assemble(*((span.text, STYLES[span.tone]) for span in line)) for line in value.lines]
    if value.is_cut:
        lines.append(Content.styled("… there is more; `goqueue-cli dlq describe` shows all of it", STYLES["warn"]))
    return Content("\n").join(lines)
