"""Each screen with answers that never change: its shell command, and no key for changes in read-only mode."""

import pytest

from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.routes import Location
from tests.tui.backup_fakes import SOUND, IdleBackupClient
from tests.tui.cluster_fakes import ClusterClient
from tests.tui.delayed_fakes import DelayedClient
from tests.tui.fakes import FakeClient, dashboard
from tests.tui.group_fakes import GroupClient
from tests.tui.pilots import press, see, see_news, text
from tests.tui.schema_fakes import SchemaClient
from tests.tui.transaction_fakes import TransactionClient

_VOUCHER = "no rule for the method 'voucher'"
_CHANGES = (
    "Reset offsets",
    "Delete",
    "Send back",
    "Cancel",
    "Reschedule",
    "Deliver",
    "Abort",
    "Edit",
    "Publish",
    "Compatibility",
    "Back up",
    "Verify",
    "Restore",
    "Prune",
)

_ADMIN = ("rebalance", "broker", "backup", "reassign")


@pytest.mark.parametrize(
    ("client", "place", "mark", "keys", "command"),
    [
        (GroupClient, Location("topics"), "orders", "newx", "topic describe audit.log"),
        (GroupClient, Location("topic", ("orders",)), "a write", "ew", "topic describe orders"),
        (GroupClient, Location("messages", ("orders",)), "customer-4", "w", "consume orders --follow"),
        (GroupClient, Location("logs"), "log fenced", "", "broker logs --level info"),
        (GroupClient, Location("groups"), "billing", "ox", "group describe archive"),
        (GroupClient, Location("group", ("billing",)), "payments/0", "ox", "group describe billing"),
        (GroupClient, Location("rebalances"), "billing", "", "rebalance list"),
        (GroupClient, Location("dlq"), "1,518", "d", "dlq list payments"),
        (GroupClient, Location("errors", ("payments.dlq",)), _VOUCHER, "d", "dlq errors payments"),
        (GroupClient, Location("letters", ("payments", _VOUCHER)), "order-000030", "d", "dlq browse payments --error"),
        (DelayedClient, Location("delayed"), "21m", "xed", "delayed timeline reminders"),
        (DelayedClient, Location("schedule", ("reminders",)), "order-000004", "xedXED", "delayed list reminders"),
        (SchemaClient, Location("schemas"), "TrackingEvent", "eEx", "schema list"),
        (SchemaClient, Location("schema", ("orders-value",)), '"shop"', "exad", "schema describe orders-value"),
        (IdleBackupClient, Location("backups"), SOUND, "nvRxX", "backup list"),
        (IdleBackupClient, Location("backup", (SOUND,)), "payments/2", "vRx", f"backup describe {SOUND}"),
        (ClusterClient, Location("replicas"), "orders/5", "", "cluster partitions"),
        (ClusterClient, Location("nodes"), "n5", "", "cluster nodes"),
        (ClusterClient, Location("moves"), "completed", "", "reassign list"),
        (TransactionClient, Location("transactions"), "checkout-eu-7", "x", "transaction list"),
        (TransactionClient, Location("transaction", ("till",)), "till", "x", "transaction describe till"),
    ],
    ids=lambda value: value.page if isinstance(value, Location) else "",
)
async def test_read_only_screen_has_its_command_and_no_key_for_changes(
    client: type[FakeClient], place: Location, mark: str, keys: str, command: str
) -> None:
    async with dashboard(client(), start=place, read_only=True).run_test(size=(160, 48)) as pilot:
        await see(pilot, mark)
        await press(pilot, "y")
        await see_news(
            pilot,
            f"{'goqueue-admin' if command.startswith(_ADMIN) else 'goqueue-cli'} {command}",
        )
        await press(pilot, *keys)
        await pilot.pause()
        assert isinstance(pilot.app.screen, DashboardScreen)
        assert not any(word in text(pilot.app) for word in _CHANGES)
        await press(pilot, "question_mark")
        await see(pilot, "esc closes", "Everywhere")
        assert not any(word in text(pilot.app) for word in _CHANGES)
