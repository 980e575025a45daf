"""Waiting for what a screen will show: for a condition, never for a time."""

import asyncio
from collections.abc import Callable
from typing import Any

from textual.app import ScreenStackError
from textual.css.query import NoMatches
from textual.events import Key
from textual.keys import key_to_character
from textual.pilot import Pilot

from goqueue_admin.dashboard.app import Dashboard
from goqueue_admin.dashboard.widgets.flash import Flash
from goqueue_admin.dashboard.widgets.table import Table

SECONDS_MAX = 60.0


async def until(pilot: "Pilot[Any]", holds: Callable[[], bool], what: str = "it never happened") -> None:
    """Let the dashboard run until something holds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SECONDS_MAX
    while not _tried(holds):
        assert loop.time() < deadline, f"{what}\n{text(pilot.app)}"
        await pilot.pause(0.01)


async def press(pilot: "Pilot[Any]", *keys: str) -> None:
    """Type faster than anybody can, and wait until all of it is done."""
    app = pilot.app
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else "-" if key == "minus" else key_to_character(key)))
    typed = asyncio.Event()
    app.call_later(typed.set)
    await typed.wait()
    await until(pilot, lambda: app.keyboard.is_idle)  # type: ignore[attr-defined]


def _tried(holds: Callable[[], bool]) -> bool:
    """A screen on its way has no widgets yet."""
    try:
        return holds()
    except (NoMatches, ScreenStackError):
        return False


def text(app: Any) -> str:
    """What stands on the screen."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line) for line in lines)


def table(app: Dashboard) -> "Table[Any]":
    return app.screen.query_one(Table)


def news(app: Dashboard) -> str:
    return app.screen.query_one(Flash).text


def page_name(app: Dashboard) -> str:
    return app.page.place.page if app.page else ""
