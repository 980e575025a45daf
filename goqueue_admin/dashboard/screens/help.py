"""All keys, by where they work, and all screens."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from goqueue_admin.dashboard import keys
from goqueue_admin.dashboard.pages import PAGES
from goqueue_admin.dashboard.widgets.table import Table
from goqueue_admin.dashboard.widgets.tail import Tail

if TYPE_CHECKING:
    from goqueue_admin.dashboard.screens.page import Page

_NAMES = {
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


class HelpScreen(ModalScreen[None]):
    """A window over the screen that it is about."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q,question_mark,f1", "dismiss", "Close")]

    def __init__(self, focused: Widget | None, page: "Page") -> None:
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
        if isinstance(self._focused, Tail):
            parts.append(_section("Messages", keys.TAIL))
        elif isinstance(self._focused, Table) or self._page.query(Table):
            parts.append(_section("Table", keys.TABLE))
        if here:
            parts.append(_section("This screen", here))
        parts += [_section("Everywhere", [*keys.EVERYWHERE, Binding("ctrl+p", "", "Palette")]), _screens()]
        return Content("\n\n").join(parts)


def _section(title: str, bindings: Iterable[BindingType]) -> Content:
    lines = [Content.styled(title, "bold $primary")]
    keys_of: dict[str, list[str]] = {}
    for binding in Binding.make_bindings(bindings):
        keys_of.setdefault(binding.description, []).append(_NAMES.get(binding.key, binding.key))
    lines += [Content.assemble((f"  {' '.join(names):<16}", "$accent"), words) for words, names in keys_of.items()]
    return Content("\n").join(lines)


def _screens() -> Content:
    lines = [Content.styled("Screens", "bold $primary")]
    for row in PAGES:
        typed = " ".join((f":{row.name}", *(part.upper() for part in row.about)))
        name = (f"  {row.key.upper():<4}", "$accent")
        lines.append(Content.assemble(name, f"{typed:<28}", (row.help, "$foreground 62%")))
    lines.append(Content(""))
    hint = "  / filters, /!text leaves out what fits; with the mouse: click, twice to open"
    lines.append(Content.styled(hint, "$foreground 62%"))
    return Content("\n").join(lines)
