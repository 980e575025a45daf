"""The screens of delayed messages and priorities as they are drawn, from answers that never change."""

from collections.abc import Callable

import pytest

from goqueue_admin.dashboard.pages import Place
from tests.tui.delayed_fakes import DelayedClient
from tests.tui.fakes import dashboard
from tests.tui.test_snapshots import SIZES, colours, ready

__all__ = ["colours"]

_SCHEDULE = Place("schedule", ("reminders",))

SCREENS: dict[str, tuple[Place, str, tuple[str, ...], str]] = {
    "delayed": (Place("delayed"), "21m", (), ""),
    "schedule": (_SCHEDULE, "order-000004", (), ""),
    "scheduled": (_SCHEDULE, "order-000004", ("down", "down", "enter"), "header version"),
    "reschedule": (_SCHEDULE, "order-000004", ("down", "space", "space", "e", "2", "h", "enter"), "(y)"),
    "cancel-all": (Place("delayed"), "21m", ("x", *"key=a", "enter"), "cancel 61 delayed messages? (y)"),
    "topic-with-priorities": (Place("topic", ("orders",)), "background", (), ""),
    "group-with-priorities": (Place("group", ("billing",)), "background", (), ""),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_looks_as_it_did(snap_compare: Callable[..., bool], screen: str, size: str) -> None:
    place, first, keys, last = SCREENS[screen]
    app = dashboard(DelayedClient(), start=place)
    assert snap_compare(app, terminal_size=SIZES[size], run_before=ready(first, keys, last))
