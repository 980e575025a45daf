"""Waiting for what a screen will show: for a condition, never for a time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.app import ScreenStackError
from textual.css.query import NoMatches
from textual.events import Key
from textual.keys import key_to_character
from textual.pilot import Pilot

from goqueue_admin.dashboard.app import Dashboard
from goqueue_admin.dashboard.broker.service import connect
from goqueue_admin.dashboard.screens.routes import HOME, Location
from goqueue_admin.dashboard.widgets.frame import StatusLine
from goqueue_admin.dashboard.widgets.table import RowTable

SECONDS_MAX = 120.0


async def until(pilot: "Pilot[Any]", holds: Callable[[], bool], what: str = "it never happened") -> None:
    """Let the dashboard run until something holds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SECONDS_MAX
    while not _tried(holds):
        assert loop.time() < deadline, f"{what}\n{text(pilot.app)}"
        await pilot.pause(0.01)


async def press(pilot: "Pilot[Any]", *keys: str) -> None:
    """Type keys at once and wait until all are processed."""
    app = pilot.app
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else "-" if key == "minus" else key_to_character(key)))
    typed = asyncio.Event()
    app.call_later(typed.set)
    async with asyncio.timeout(SECONDS_MAX):  # a dashboard that has crashed processes nothing
        await typed.wait()
    await until(pilot, lambda: app.keyboard.is_idle)  # type: ignore[attr-defined]


def _tried(holds: Callable[[], bool]) -> bool:
    """A screen on its way has no widgets yet."""
    try:
        return holds()
    except (NoMatches, ScreenStackError):
        return False


def text(app: Any) -> str:
    """Return the text on the screen."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line) for line in lines)


def table(app: Any) -> "RowTable[Any]":
    found: RowTable[Any] = app.screen.query_one(RowTable)
    return found


def news(app: Any) -> str:
    """Return the text of the status line."""
    return str(app.screen.query_one(StatusLine).text)


def page_name(app: Any) -> str:
    return str(app.page.place.page) if app.page else ""


@asynccontextmanager
async def shown(
    url: str, place: Location = HOME, *, size: tuple[int, int] = (160, 48), **options: Any
) -> AsyncIterator[Any]:
    """Yield the pilot of a dashboard that shows a real broker."""
    async with Dashboard(connect(url, 60), start=place, every=0.25, **options).run_test(size=size) as pilot:
        yield pilot


async def see(pilot: "Pilot[Any]", *parts: str) -> None:
    """Wait until all these texts are on the screen."""
    for part in parts:
        await until(pilot, lambda wanted=part: wanted in text(pilot.app), f"{part!r} is not there")  # type: ignore[misc]


async def see_news(pilot: "Pilot[Any]", part: str) -> None:
    """Wait until the status line has this text."""
    await until(pilot, lambda: part in news(pilot.app), f"{part!r} is no news")


async def see_page(pilot: "Pilot[Any]", name: str) -> None:
    await until(pilot, lambda: page_name(pilot.app) == name, f"{name} was not opened")
