"""Tones: names of colors by meaning; the stylesheet defines their colors."""

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual.widget import Widget

TONES = ("muted", "line", "title", "good", "warn", "bad", "accent", "first", "second", "spark")


class TonedWidget(Widget):
    """A widget that draws its lines in tones."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tone--{tone}" for tone in TONES}

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._mixed: dict[str, Style] = {}

    @property
    def base(self) -> Style:
        """The widget's own style."""
        return self._kept("", lambda: self.rich_style)

    def _kept(self, name: str, make: Callable[[], Style]) -> Style:
        """Cache a style until styles change: mixing takes as long as drawing a line."""
        if not hasattr(self, "_mixed"):
            self._mixed = {}
        if name not in self._mixed:
            self._mixed[name] = make()
        return self._mixed[name]

    def tone(self, name: str) -> Style:
        """Return the foreground style of a tone."""
        return self.part(f"tone--{name}") if name else Style.null()

    def part(self, name: str) -> Style:
        """Return the style of a component, with transparency mixed in."""
        return self._kept(name, lambda: self._mix(name))

    def _mix(self, name: str) -> Style:
        styles = self.get_component_styles(name)
        _, background = self.background_colors
        if styles.has_rule("background"):
            background += styles.background
        mixed = Style(bgcolor=background.rich_color) if styles.has_rule("background") else Style.null()
        if styles.has_rule("color"):
            mixed += Style(color=(background + styles.color).rich_color)
        return mixed + styles.text_style
