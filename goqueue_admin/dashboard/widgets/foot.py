"""The last line: which keys work here."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.dom import DOMNode

from goqueue_admin.dashboard.widgets.tones import Toned

_GAP = 2


class Foot(Toned):
    """Those of the screen at the left, those that work everywhere at the right; a click presses one.

    Where there is no room for all, what every table can do goes first: it is in the help.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: Sequence[tuple[int, int, Binding]] = ()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def render(self) -> Text:
        width = self.content_size.width
        own, everywhere = self._keys()
        pieces, right = [self._piece(one) for _, one in own], [self._piece(one) for one in everywhere]
        least = [index for index, (node, _) in enumerate(own) if node is not self.screen]
        while least and _wide(pieces) + _wide(right) + _GAP > width:
            index = least.pop()
            del pieces[index], own[index]
        space = max(_GAP, width - _wide(pieces) - _wide(right))
        line = Text(" " * _GAP).join(pieces) + Text(" " * space) + Text(" " * _GAP).join(right)
        line.no_wrap = True
        line.truncate(width)
        self._shown = _places(pieces, right, space, [*(one for _, one in own), *everywhere])
        return line

    def _keys(self) -> tuple[list[tuple[DOMNode, Binding]], list[Binding]]:
        found = {
            (one.binding.action, one.binding.description): (one.node, one.binding)
            for one in self.screen.active_bindings.values()
            if one.binding.show and one.enabled
        }
        own = [(node, binding) for node, binding in found.values() if node is not self.app]
        return own, [binding for node, binding in found.values() if node is self.app]

    def _piece(self, binding: Binding) -> Text:
        key = (self.app.get_key_display(binding), self.tone("title") + Style(bold=True))
        return Text.assemble(key, (f" {binding.description}", self.tone("muted")))

    def on_click(self, event: events.Click) -> None:
        x = event.x - self.styles.padding.left
        for begin, end, binding in self._shown:
            if begin <= x < end:
                self.app.simulate_key(binding.key)


def _wide(pieces: Sequence[Text]) -> int:
    return sum(piece.cell_len for piece in pieces) + _GAP * max(0, len(pieces) - 1)


def _places(
    left: Sequence[Text], right: Sequence[Text], space: int, bindings: Sequence[Binding]
) -> list[tuple[int, int, Binding]]:
    """Where each begins and ends."""
    found, x = [], 0
    for index, (piece, binding) in enumerate(zip([*left, *right], bindings, strict=True)):
        x += space if index == len(left) else _GAP if index else 0
        found.append((x, x + piece.cell_len, binding))
        x += piece.cell_len
    return found
