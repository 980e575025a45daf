"""A screen of the dashboard as an SVG: for the documentation, and for tests that compare."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input

from goqueue_admin.dashboard.widgets.frame import Breadcrumbs, HeaderBar, KeyBar, ScreenBar
from goqueue_admin.dashboard.widgets.plots import LinePlot, TimelineChart
from goqueue_admin.dashboard.widgets.table import RowTable

_CELL_WIDTH = 12.2
"""Of a character in an exported SVG."""
_SVG_TEXT = re.compile(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*clip-path=[^>]*>([^<]*)</text>')
"""A piece of a line; the title of the window has no clip path."""


async def settle(pilot: "Pilot[None]") -> None:
    """Until everything that is known is drawn, with cursors that do not blink."""
    for field in pilot.app.screen.query(Input):
        field.cursor_blink = False
        field._pause_blink(visible=field.has_focus)
    for _ in range(3):
        await pilot.pause()
    await pilot.wait_for_scheduled_animations()


def without_fonts(svg: str) -> str:
    """Remove the font rules, so that viewers use their own fonts."""
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def outline(app: Any) -> list[str]:
    """Return what a screen shows whatever the broker holds: each part with its first cell and width, and its titles,
    column headings or keys."""
    lines = ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]
    found = []
    for widget in app.screen.walk_children():
        place = app.screen._compositor.visible_widgets.get(widget)
        is_fixed = isinstance(widget, (*_WRITTEN, HeaderBar, Breadcrumbs, TimelineChart)) and widget.id != _LATE_GROUPS
        if place is not None and is_fixed:
            region = place[0]
            own = [line[region.x : region.right] for line in lines[region.y : region.bottom]]
            words = " | ".join(_fixed_texts(widget, own))
            found.append(f"{type(widget).__name__} {region.x}+{region.width}{': ' if words else ''}{words}")
    return found


_LATE_GROUPS = "late"
"""A table of the overview that is there only while a group is late; the screen of the groups has its columns."""
_WRITTEN = (ScreenBar, KeyBar, RowTable, LinePlot)
"""Widgets with texts that do not depend on what the broker holds."""


def _fixed_texts(widget: Widget, lines: list[str]) -> Iterator[str]:
    if isinstance(widget, ScreenBar | KeyBar):
        yield from map(_one_space, lines)
    elif isinstance(widget, RowTable):
        yield _one_space(lines[0])
    elif isinstance(widget, LinePlot):
        yield _one_space(lines[0].partition("━")[0])
        yield from (f"━ {label}" for label in re.findall(r"━ ([a-z]\w*(?: [a-z]+)*)", lines[0]))


def described_texts(outlined: list[str]) -> list[str]:
    """Return the texts of an outline."""
    return [text for line in outlined for text in line.partition(": ")[2].split(" | ") if text]


def svg_lines(svg: str) -> list[str]:
    """Return the text of an exported SVG, line by line, with one space between words."""
    rows: dict[float, dict[float, str]] = {}
    for x, y, text in _SVG_TEXT.findall(svg):
        rows.setdefault(float(y), {})[float(x)] = unescape(text).replace("\xa0", " ")
    return [_one_space(_row(cells)) for _, cells in sorted(rows.items())]


def _row(cells: dict[float, str]) -> str:
    line = ""
    for x, text in sorted(cells.items()):
        line = line.ljust(round(x / _CELL_WIDTH)) + text
    return line


def _one_space(text: str) -> str:
    return " ".join(text.split())
