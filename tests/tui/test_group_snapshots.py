"""The screens of groups and dead letters as they are drawn, from answers that never change."""

from collections.abc import Callable

import pytest

from goqueue_admin.dashboard.pages import Place
from tests.tui.fakes import dashboard
from tests.tui.group_fakes import GroupClient
from tests.tui.test_snapshots import SIZES, colours, ready

__all__ = ["colours"]

_VOUCHER = "no rule for the method 'voucher'"
_REDRIVE = ("down", "d", "enter")

SCREENS: dict[str, tuple[Place, str, tuple[str, ...], str]] = {
    "groups": (Place("groups"), "statistics", (), ""),
    "group": (Place("group", ("billing",)), "payments/3", (), ""),
    "rebalance-under-way": (Place("group", ("fraud",)), "must give up payments/1-2", (), ""),
    "rebalances": (Place("rebalances"), "18m53s", (), ""),
    "dlq": (Place("dlq"), "1,518", (), ""),
    "errors": (Place("errors", ("payments.dlq",)), "23:57:12", (), ""),
    "letters": (Place("letters", ("payments.dlq", _VOUCHER)), "order-000030", (), ""),
    "letter": (Place("letters", ("payments.dlq", _VOUCHER)), "order-000030", ("enter",), "header source"),
    "redrive": (Place("errors", ("payments.dlq",)), "23:57:12", _REDRIVE, "send 20 back? (y)"),
    "reset": (Place("group", ("billing",)), "payments/3", ("o", *"latest", "enter"), "reset billing? (y)"),
    "delete": (Place("groups"), "statistics", ("x",), "members: stop them first"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_looks_as_it_did(snap_compare: Callable[..., bool], screen: str, size: str) -> None:
    place, first, keys, last = SCREENS[screen]
    app = dashboard(GroupClient(), start=place)
    assert snap_compare(app, terminal_size=SIZES[size], run_before=ready(first, keys, last))


@pytest.mark.parametrize("screen", ["groups", "group", "errors", "redrive"])
def test_a_screen_looks_as_it_did_on_paper(snap_compare: Callable[..., bool], screen: str) -> None:
    place, first, keys, last = SCREENS[screen]
    app = dashboard(GroupClient(), start=place, theme="goqueue-light")
    assert snap_compare(app, terminal_size=(200, 60), run_before=ready(first, keys, last))
