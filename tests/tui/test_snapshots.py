"""Every screen as it is drawn, at the smallest size and at a usual one, from answers that never change."""

import asyncio
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest
from textual.pilot import Pilot

from goqueue_admin.dashboard.broker.service import VERSION
from goqueue_admin.dashboard.screens.routes import HOME, Location
from tests.tui.backup_fakes import (
    DAMAGED,
    SOUND,
    BackupClient,
    IdleBackupClient,
    NoBackupClient,
    NoTargetClient,
    UnsureBackupClient,
)
from tests.tui.cluster_fakes import ClusterClient
from tests.tui.delayed_fakes import DelayedClient
from tests.tui.fakes import DOCTOR, FakeClient, dashboard
from tests.tui.group_fakes import GroupClient
from tests.tui.pilots import press, text, until
from tests.tui.schema_fakes import BareSchemaClient, SchemaClient
from tests.tui.screenshots import settle
from tests.tui.trace_fakes import TraceClient
from tests.tui.transaction_fakes import TransactionClient

SMALL, USUAL = (80, 24), (160, 48)
SIZES = {"80x24": SMALL, "160x48": USUAL}

Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal with all colors, wherever the tests run."""
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


class Screen(NamedTuple):
    """A screen, what it shows before the keys are pressed, and what it shows after them."""

    client: type[FakeClient]
    place: Location
    first: str
    keys: tuple[str, ...] = ()
    last: str = ""


MESSAGES = Location("messages", ("orders",))
VOUCHER = Location("letters", ("payments.dlq", "no rule for the method 'voucher'"))
ERRORS = Location("errors", ("payments.dlq",))
BILLING = Location("group", ("billing",))
SCHEDULE = Location("schedule", ("reminders",))
SUBJECT = Location("schema", ("orders-value",))

SCREENS = {
    "overview": Screen(GroupClient, HOME, "audit.log"),
    "topics": Screen(GroupClient, Location("topics"), "shipments"),
    "topic": Screen(GroupClient, Location("topic", ("orders",)), "a write"),
    "messages": Screen(GroupClient, MESSAGES, "two\\nlines"),
    "message": Screen(GroupClient, MESSAGES, "two\\nlines", ("up", "up", "up", "enter"), "header source"),
    "bytes": Screen(GroupClient, MESSAGES, "two\\nlines", ("up", "enter"), "00000000"),
    "groups": Screen(GroupClient, Location("groups"), "statistics"),
    "group": Screen(GroupClient, BILLING, "payments/3"),
    "rebalance-under-way": Screen(GroupClient, Location("group", ("fraud",)), "must give up payments/1-2"),
    "rebalances": Screen(GroupClient, Location("rebalances"), "18m53s"),
    "dlq": Screen(GroupClient, Location("dlq"), "1,518"),
    "errors": Screen(GroupClient, ERRORS, "23:57:12"),
    "letters": Screen(GroupClient, VOUCHER, "order-000030"),
    "redrive": Screen(GroupClient, ERRORS, "23:57:12", ("down", "d", "enter"), "send 20 back? (y)"),
    "delayed": Screen(DelayedClient, Location("delayed"), "21m"),
    "schedule": Screen(DelayedClient, SCHEDULE, "order-000004"),
    "topic-with-priorities": Screen(DelayedClient, Location("topic", ("orders",)), "background"),
    "group-with-priorities": Screen(DelayedClient, BILLING, "background"),
    "logs": Screen(GroupClient, Location("logs"), "log fenced"),
    "transactions": Screen(TransactionClient, Location("transactions"), "returns-2"),
    "transaction": Screen(TransactionClient, Location("transaction", ("checkout-eu-7",)), "reminders/2"),
    "traces": Screen(TraceClient, Location("traces"), "transaction.aborted"),
    "trace": Screen(TraceClient, Location("trace", ("orders/0@17",)), "dlq.redriven"),
    "schemas": Screen(SchemaClient, Location("schemas"), "lines-value"),
    "schema": Screen(SchemaClient, SUBJECT, '"shop"', ("down",), "referred to by"),
    "schema-differences": Screen(SchemaClient, SUBJECT, '"shop"', ("d",), "may not follow"),
    "backups": Screen(BackupClient, Location("backups"), SOUND),
    "backup": Screen(IdleBackupClient, Location("backup", (SOUND,)), "payments/2"),
    "backup-damaged": Screen(IdleBackupClient, Location("backup", (DAMAGED,)), "payments/2"),
    "replicas": Screen(ClusterClient, Location("replicas"), "orders/5"),
    "nodes": Screen(ClusterClient, Location("nodes"), "n5"),
    "moves": Screen(ClusterClient, Location("moves"), "completed"),
}
TOPICS = Screen(GroupClient, Location("topics"), "shipments")
WINDOWS = {
    "help": TOPICS._replace(keys=("question_mark",), last="esc closes"),
    "prompt": TOPICS._replace(keys=("colon", *"topic", "space", "p"), last="topic payments"),
    "filter": TOPICS._replace(keys=("slash", "exclamation_mark", "r"), last="of 10"),
    "letter": Screen(GroupClient, VOUCHER, "order-000030", ("enter",), "header source"),
    "publish": Screen(
        GroupClient, Location("topics"), "shipments", ("w", *"paid", "down", *"order-17", "enter"), "(y)"
    ),
    "reset": Screen(GroupClient, BILLING, "payments/3", ("o", *"latest", "enter"), "reset billing? (y)"),
    "delete": Screen(GroupClient, Location("groups"), "statistics", ("x",), "members: stop them first"),
    "scheduled": Screen(DelayedClient, SCHEDULE, "order-000004", ("down", "down", "enter"), "header version"),
    "reschedule": Screen(
        DelayedClient, SCHEDULE, "order-000004", ("down", "space", "space", "e", "2", "h", "enter"), "(y)"
    ),
    "cancel-all": Screen(
        DelayedClient, Location("delayed"), "21m", ("x", *"key=a", "enter"), "cancel 61 delayed messages? (y)"
    ),
    "event": Screen(
        TraceClient, Location("trace", ("orders/0@17",)), "dlq.redriven", (*["down"] * 4, "enter"), "seconds"
    ),
    "schema-level": Screen(
        SchemaClient, Location("schemas"), "lines-value", ("space", "e", *"none", "enter"), "to NONE? (y)"
    ),
    "schema-not-compared": Screen(BareSchemaClient, SUBJECT, '"shop"', ("d",), "is not installed"),
    "backups-unsure": Screen(UnsureBackupClient, Location("backups"), "rate unknown"),
    "backups-empty": Screen(NoBackupClient, Location("backups"), "n makes one"),
    "backups-without-target": Screen(NoTargetClient, Location("backups"), "no target for backups"),
    "backup-log": Screen(
        IdleBackupClient, Location("backup", (SOUND,)), "payments/2", (*["down"] * 4, "enter"), "checksum"
    ),
    "backup-problems": Screen(IdleBackupClient, Location("backup", (DAMAGED,)), "payments/2", ("i",), "esc closes"),
    "backup-prune": Screen(IdleBackupClient, Location("backups"), SOUND, ("X",), "delete 1 backup? (y)"),
    "backup-delete": Screen(IdleBackupClient, Location("backups"), SOUND, ("down", "down", "x"), "(y)"),
    "backup-busy": Screen(BackupClient, Location("backups"), SOUND, ("n",), "wait for"),
    "backup-restore": Screen(
        IdleBackupClient,
        Location("backup", (SOUND,)),
        "payments/2",
        (*["down"] * 3, "R", "down", *"before", "down", "minus", *"1h", "down", *"0=12", "enter"),
        "(y)",
    ),
    "node": Screen(ClusterClient, Location("nodes"), "n5", ("down", "down", "down", "enter"), "esc closes"),
    "abort": Screen(TransactionClient, Location("transactions"), "returns-2", ("x", *"till", "enter"), "(y)"),
}
"""Windows and lines over a screen: their layout does not depend on the size."""


@pytest.mark.parametrize(("name", "size"), [*product(SCREENS, SIZES), *product(WINDOWS, ["80x24"])])
def test_a_screen_looks_as_it_did(snap_compare: Compare, name: str, size: str) -> None:
    client, place, first, keys, last = (SCREENS | WINDOWS)[name]
    app = dashboard(client(), start=place)
    assert snap_compare(app, terminal_size=SIZES[size], run_before=ready(first, keys, last))


@pytest.mark.parametrize("name", ["group", "redrive"])
def test_a_screen_looks_as_it_did_on_paper(snap_compare: Compare, name: str) -> None:
    client, place, first, keys, last = SCREENS[name]
    app = dashboard(client(), start=place, theme="goqueue-light")
    assert snap_compare(app, terminal_size=(200, 60), run_before=ready(first, keys, last))


@pytest.mark.parametrize(("theme", "size"), [("goqueue-light", (200, 60)), ("textual-light", SMALL)])
def test_the_overview_looks_as_it_did_in_other_colours(
    snap_compare: Compare, theme: str, size: tuple[int, int]
) -> None:
    assert snap_compare(dashboard(GroupClient(), theme=theme), terminal_size=size, run_before=ready("audit.log"))


def test_where_nothing_is_open_it_says_so(snap_compare: Compare) -> None:
    client = TransactionClient()
    client.open, client.total = [], 0
    app = dashboard(client, start=Location("transactions"))
    assert snap_compare(app, terminal_size=SMALL, run_before=ready("No transaction is open."))


def test_a_broker_that_is_well_shows_what_it_does(snap_compare: Compare) -> None:
    client = FakeClient()
    client.answers["doctor"] = {**DOCTOR, "status": "ok", "findings": []}
    assert snap_compare(dashboard(client), terminal_size=SMALL, run_before=ready("all is well"))


def test_a_broker_that_is_away_is_told_from_the_first_moment(snap_compare: Compare) -> None:
    client = FakeClient()
    client.is_away = True

    async def wait(pilot: "Pilot[Any]") -> None:
        await until(pilot, lambda: "broker is away since 00:00:00, trying again in 1 s" in text(pilot.app))
        await settle(pilot)

    assert snap_compare(dashboard(client, start=Location("topics")), terminal_size=SMALL, run_before=wait)


def test_colours_that_are_changed_while_it_runs_are_those_of_a_start_with_them() -> None:
    async def drawn(theme: str, later: str) -> str:
        app = dashboard(theme=theme, start=Location("topics"))
        async with app.run_test(size=SMALL) as pilot:
            await ready("shipments")(pilot)
            app.theme = later
            await settle(pilot)
            return app.export_screenshot(simplify=True)

    changed = asyncio.run(drawn("goqueue-dark", "goqueue-light"))
    assert changed == asyncio.run(drawn("goqueue-light", "goqueue-light"))
