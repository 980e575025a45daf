"""Quotas of a tenant are shown and changed in the dashboard, with a real broker."""

from pathlib import Path

import pytest

from goqueue_admin.dashboard.screens.routes import Location
from tests.api.keys import secured
from tests.tui.pilots import press, see, shown, table, until


async def test_quota_is_changed_after_its_plan_was_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:
        monkeypatch.setenv("GOQUEUE_API_KEY", broker.admin)
        broker.do("POST", "/admin/tenants", {"name": "a"})
        broker.do("POST", "/topics", {"name": "a.orders", "num_partitions": 3})
        limits = {"max_topics": 2, "max_storage_bytes": 2**30, "soft_limits": {"max_topics": 1}}
        broker.do("PUT", "/admin/tenants/a/quotas", limits)
        async with shown(broker.url, Location("tenants"), size=(100, 40)) as pilot:
            await until(pilot, lambda: len(table(pilot.app).records) == 1)
            await press(pilot, "enter")
            await see(pilot, "max_topics", "50%", "1GiB", "1 topic ")
            quotas = [one.quota for one in table(pilot.app).records]
            await press(pilot, "home", *["down"] * sorted(quotas).index("max_topics"), "e")
            await see(pilot, "Change max_topics")
            await press(pilot, "ctrl+u", *"x", "enter")
            await see(pilot, "is not a whole number")
            await press(pilot, "ctrl+u", *"1", "enter")
            await see(pilot, "2 → 1", "requests are refused at once", "set max_topics of a")
            await press(pilot, "y")
            await see(pilot, "max_topics is 1")
            found = broker.do("GET", "/admin/tenants/a/quotas")
            assert (found["max_topics"], found["soft_limits"]) == (1, {"max_topics": 1})
