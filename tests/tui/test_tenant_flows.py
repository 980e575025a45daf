"""Tenants are listed, suspended and activated in the dashboard, with a real broker."""

from pathlib import Path

import pytest

from goqueue_admin.dashboard.screens.routes import Location
from tests.api.keys import secured
from tests.tui.pilots import press, see, shown, table, until


async def test_tenant_is_suspended_and_activated_after_its_contents_were_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:
        monkeypatch.setenv("GOQUEUE_API_KEY", broker.admin)
        broker.do("POST", "/admin/tenants", {"name": "Team A"})
        broker.do("POST", "/topics", {"name": "team-a.orders", "num_partitions": 1})
        async with shown(broker.url, Location("tenants"), size=(80, 24)) as pilot:
            await see(pilot, "team-a", "Team A", "active")
            await until(pilot, lambda: len(table(pilot.app).records) == 1)
            for action, status in (("suspend", "suspended"), ("activate", "active")):
                await press(pilot, "home", "x")
                await see(pilot, "1 topic, 0 groups", f"{action} the tenant team-a", "(y)")
                await press(pilot, "y")
                await see(pilot, f"team-a is {status}")
                await press(pilot, "escape")
                await until(pilot, lambda: table(pilot.app).records[0].status == status)  # noqa: B023 - awaited here
                assert broker.do("GET", "/admin/tenants/team-a")["status"] == status
