"""Windows over a screen that show text: a message, a finding, the help."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from goqueue.console.dead_letters import SUFFIX
from goqueue.console.terminal import escape_unprintable
from goqueue_admin.dashboard.screens.base import MUTED, app_of
from goqueue_admin.dashboard.screens.routes import EVERYWHERE_KEYS, ROUTES
from goqueue_admin.dashboard.views import dead_letters, delayed, message
from goqueue_admin.dashboard.views.dead_letters import DeadLetterJson
from goqueue_admin.dashboard.widgets.message_tail import TAIL_KEYS, MessageTail
from goqueue_admin.dashboard.widgets.table import TABLE_KEYS, RowTable

if TYPE_CHECKING:
    from goqueue_admin.dashboard.screens.base import DashboardScreen


Fact = tuple[str, str, str]
"""A name, a text and a tone."""
TONE_STYLES = {
    "": "",
    "muted": MUTED,
    "title": "$primary",
    "good": "$success",
    "accent": "$accent",
    "second": "$secondary",
    "warn": "$warning",
    "bad": "$error",
}


def fact_lines(found: Sequence[Fact]) -> list[Content]:
    wide = max((len(name) for name, _, _ in found), default=0)
    return [
        Content.assemble(
            (f"{escape_unprintable(name):<{wide}}  ", MUTED), (escape_unprintable(text), TONE_STYLES[tone])
        )
        for name, text, tone in found
    ]


def value_content(found: Sequence[Fact], value: message.RenderedValue, command: str) -> Content:
    """Show facts with a value below them; `command` prints the value in full."""
    lines = [*fact_lines(found), Content(""), Content.styled(value.kind, MUTED)]
    lines += [Content.assemble(*((span.text, TONE_STYLES[span.tone]) for span in line)) for line in value.lines]
    if value.is_cut:
        lines.append(Content.styled(f"… there is more; {command} shows all of it", "$warning"))
    return Content("\n").join(lines)


class DetailWindow(ModalScreen[None]):
    """Text, what `c` copies, and for a message the words of the command that prints it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,enter", "dismiss", "Close"),
        ("c", "copy", "Copy"),
        ("y", "copy_command", "Copy as command"),
    ]

    def __init__(self, title: str, content: Content, copied: str = "", words: Sequence[str] = ()) -> None:
        super().__init__()
        self._title = title
        self._content = content
        self._copied = copied
        self._words = words

    def compose(self) -> ComposeResult:
        copies = "c copies the value" if self._words else "c copies"
        keys = [copies if self._copied else "", "y the command" if self._words else "", "esc closes"]
        with VerticalScroll(id="window") as window:
            window.border_title = Content(self._title)
            window.border_subtitle = " · ".join(key for key in keys if key)
            yield Static(self._content, id="text")

    async def action_copy(self) -> None:
        if self._copied:
            await app_of(self).copy(self._copied)

    async def action_copy_command(self) -> None:
        if self._words:
            await app_of(self).copy(app_of(self).shell_command(*self._words))


def _message_window(
    title: str, facts: Iterable[Fact], value: message.RenderedValue, words: Sequence[str]
) -> DetailWindow:
    content = value_content(list(facts), value, " ".join(words[:3]))
    return DetailWindow(title, content, value.plain, words)


def dead_letter_window(topic: str, letter: DeadLetterJson) -> DetailWindow:
    position = dead_letters.position_text(letter)
    words = ("goqueue-cli", "dlq", "describe", topic.removesuffix(SUFFIX), position)
    value = message.render_value(message.value_bytes(letter))
    return _message_window(f"{topic}/{position}", dead_letters.facts(letter), value, words)


def delayed_message_window(topic: str, told: Mapping[str, Any], now_ns: int) -> DetailWindow:
    position = delayed.place_text((told["partition"], told["offset"]))
    words = ("goqueue-cli", "delayed", "describe", topic, position)
    value = message.render_value(message.value_bytes(told))
    return _message_window(f"{topic} {position}", delayed.facts(told, now_ns), value, words)


_KEY_NAMES = {
    "colon": ":",
    "question_mark": "?",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "slash": "/",
    "enter": "⏎",
    "space": "space",
    "up": "↑",
    "down": "↓",
    "pageup": "page up",
    "pagedown": "page down",
}


class HelpDialog(ModalScreen[None]):
    """A window over the screen that it is about."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,question_mark,f1", "dismiss", "Close")]

    def __init__(self, focused: Widget | None, page: "DashboardScreen") -> None:
        super().__init__()
        self._focused = focused
        self._page = page

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="window") as window:
            window.border_title = "Help"
            window.border_subtitle = "esc closes"
            yield Static(self._text())

    def _text(self) -> Content:
        own = Binding.make_bindings(vars(type(self._page)).get("BINDINGS", ()))
        here = [one for one in own if self._page.check_action(one.action.partition("(")[0], ()) is not False]
        parts = []
        if isinstance(self._focused, MessageTail):
            parts.append(_keys_section("Messages", TAIL_KEYS))
        elif isinstance(self._focused, RowTable) or self._page.query(RowTable):
            parts.append(_keys_section("Table", TABLE_KEYS))
        if here:
            parts.append(_keys_section("This screen", here))
        parts += [_keys_section("Everywhere", [*EVERYWHERE_KEYS, Binding("ctrl+p", "", "Palette")]), _screens_section()]
        return Content("\n\n").join(parts)


def _keys_section(title: str, bindings: Iterable[BindingType]) -> Content:
    lines = [Content.styled(title, "bold $primary")]
    keys_of: dict[str, list[str]] = {}
    for binding in Binding.make_bindings(bindings):
        keys_of.setdefault(binding.description, []).append(_KEY_NAMES.get(binding.key, binding.key))
    lines += [Content.assemble((f"  {' '.join(names):<16}", "$accent"), words) for words, names in keys_of.items()]
    return Content("\n").join(lines)


def _screens_section() -> Content:
    lines = [Content.styled("Screens", "bold $primary")]
    for row in ROUTES:
        typed = " ".join((f":{row.name}", *(part.upper() for part in row.about)))
        name = (f"  {row.key.upper():<4}", "$accent")
        lines.append(Content.assemble(name, f"{typed:<28}", (row.help, "$foreground 62%")))
    lines.append(Content(""))
    hint = "  / filters, /!text leaves out what fits; with the mouse: click, twice to open"
    lines.append(Content.styled(hint, "$foreground 62%"))
    return Content("\n").join(lines)
