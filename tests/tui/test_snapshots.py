"""Every screen as it is drawn, at the smallest size and at a usual one, from answers that never change."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.picture import settle
from goqueue_admin.dashboard.questions import VERSION
from tests.tui.fakes import FakeClient, dashboard
from tests.tui.group_fakes import GroupClient
from tests.tui.pilots import press, text, until

SMALL, USUAL = (80, 24), (160, 48)
SIZES = {"80x24": SMALL, "160x48": USUAL}

Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal with all colours, whoever runs this."""
    for name in ("NO_COLOR", "TEXTUAL_ANIMATIONS", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


def ready(first: str, keys: tuple[str, ...] = (), last: str = "") -> Callable[["Pilot[Any]"], Any]:
    """Wait for the last answer of a round, and for what must be on the screen before the keys and after them."""

    async def wait(pilot: "Pilot[Any]") -> None:
        service = pilot.app.service  # type: ignore[attr-defined]
        await until(pilot, lambda: bool(service.known.get(VERSION)) and "node 0" in text(pilot.app))
        await until(pilot, lambda: first in text(pilot.app), f"{first!r} is not there")
        for key in keys:
            await press(pilot, key)
        await until(pilot, lambda: last in text(pilot.app), f"{last!r} is not there")
        await settle(pilot)

    return wait


MESSAGES = Place("messages", ("orders",))
SCREENS: dict[str, tuple[Place, str, tuple[str, ...], str]] = {
    "overview": (Place("overview"), "audit.log", (), ""),
    "topics": (Place("topics"), "shipments", (), ""),
    "topic": (Place("topic", ("orders",)), "a write", (), ""),
    "messages": (MESSAGES, "two\\nlines", (), ""),
    "message": (MESSAGES, "two\\nlines", ("up", "up", "up", "enter"), "header source"),
    "bytes": (MESSAGES, "two\\nlines", ("up", "enter"), "00000000"),
    "help": (Place("topics"), "shipments", ("question_mark",), "esc closes"),
    "prompt": (Place("topics"), "shipments", ("colon", "t", "o", "p", "i", "c", "space", "p"), "topic payments"),
    "filter": (Place("topics"), "shipments", ("slash", "exclamation_mark", "r"), "of 10"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_looks_as_it_did(snap_compare: Compare, screen: str, size: str) -> None:
    place, first, keys, last = SCREENS[screen]
    assert snap_compare(
        dashboard(GroupClient(), start=place), terminal_size=SIZES[size], run_before=ready(first, keys, last)
    )


@pytest.mark.parametrize(("theme", "size"), [("goqueue-light", (200, 60)), ("textual-light", SMALL)])
def test_the_overview_looks_as_it_did_in_other_colours(
    snap_compare: Compare, theme: str, size: tuple[int, int]
) -> None:
    assert snap_compare(dashboard(GroupClient(), theme=theme), terminal_size=size, run_before=ready("audit.log"))


def test_a_broker_that_is_well_shows_what_it_does(snap_compare: Compare) -> None:
    class Well(FakeClient):
        async def doctor(self) -> dict[str, Any]:
            return {**await super().doctor(), "status": "ok", "findings": []}

    assert snap_compare(dashboard(Well()), terminal_size=SMALL, run_before=ready("all is well"))


def test_a_broker_that_is_away_is_told_from_the_first_moment(snap_compare: Compare) -> None:
    client = FakeClient()
    client.is_away = True

    async def wait(pilot: "Pilot[Any]") -> None:
        await until(pilot, lambda: "broker is away since 00:00:00, trying again in 1 s" in text(pilot.app))
        await settle(pilot)

    assert snap_compare(dashboard(client, start=Place("topics")), terminal_size=SMALL, run_before=wait)


def test_colours_that_are_changed_while_it_runs_are_those_of_a_start_with_them() -> None:
    async def drawn(theme: str, later: str) -> str:
        app = dashboard(theme=theme, start=Place("topics"))
        async with app.run_test(size=SMALL) as pilot:
            await ready("shipments")(pilot)
            app.theme = later
            await settle(pilot)
            return app.export_screenshot(simplify=True)

    changed = asyncio.run(drawn("goqueue-dark", "goqueue-light"))
    assert changed == asyncio.run(drawn("goqueue-light", "goqueue-light"))
