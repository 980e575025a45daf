"""The screens of transactions as they are drawn, from answers that never change."""

from collections.abc import Callable

import pytest

from goqueue_admin.dashboard.pages import Place
from tests.tui.fakes import dashboard
from tests.tui.test_snapshots import SIZES, SMALL, colours, ready
from tests.tui.transaction_fakes import TransactionClient

__all__ = ["colours"]

_LIST = Place("transactions")
SCREENS: dict[str, tuple[Place, str, tuple[str, ...], str]] = {
    "transactions": (_LIST, "returns-2", (), ""),
    "transaction": (Place("transaction", ("checkout-eu-7",)), "reminders/2", (), ""),
    "abort": (_LIST, "returns-2", ("x", *"till", "enter"), "(y)"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_looks_as_it_did(snap_compare: Callable[..., bool], screen: str, size: str) -> None:
    place, first, keys, last = SCREENS[screen]
    app = dashboard(TransactionClient(), start=place)
    assert snap_compare(app, terminal_size=SIZES[size], run_before=ready(first, keys, last))


def test_it_looks_as_it_did_on_paper(snap_compare: Callable[..., bool]) -> None:
    app = dashboard(TransactionClient(), start=_LIST, theme="goqueue-light")
    assert snap_compare(app, terminal_size=SMALL, run_before=ready("returns-2"))


def test_where_nothing_is_open_it_says_so(snap_compare: Callable[..., bool]) -> None:
    client = TransactionClient()
    client.open, client.total = [], 0
    app = dashboard(client, start=_LIST)
    assert snap_compare(app, terminal_size=SMALL, run_before=ready("No transaction is open."))
