"""Tenants are listed, suspended and activated in the dashboard, with a real broker."""

from pathlib import Path

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.broker.service import DOCTOR, STATS, broker_call
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
            for action, status, reason in (
                ("suspend", "suspended", "unpaid_since_May"),
                ("activate", "active", ""),
                ("disable", "disabled", "left"),
            ):
                await press(pilot, "home", "x")
                await see(pilot, "Change the status")
                await press(pilot, "ctrl+u", *status, "down", *reason, "enter")
                await see(pilot, "1 topic, 0 groups", f"{action} the tenant team-a", "(y)")
                await press(pilot, "y")
                await see(pilot, f"team-a is {status}")
                await press(pilot, "escape")
                await until(pilot, lambda: table(pilot.app).records[0].status == status)  # noqa: B023 - awaited here
                found = broker.do("GET", "/admin/tenants/team-a")
                assert (found["status"], found["reason"]) == (status, reason)
            await press(pilot, "x", "ctrl+u", *"gone", "enter")
            await see(pilot, "must be active, suspended or disabled")


async def test_key_of_a_tenant_begins_with_what_it_may_see_and_asks_no_more_for_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:
        broker.do("POST", "/admin/tenants", {"name": "Team A"})
        broker.do("POST", "/topics", {"name": "team-a.orders", "num_partitions": 1})
        key = broker.do("POST", "/admin/keys", {"name": "app", "roles": ["admin"], "tenant": "team-a"})["key"]
        monkeypatch.setenv("GOQUEUE_API_KEY", key)
        async with shown(broker.url, size=(80, 24)) as pilot:
            await see(pilot, "belongs to the tenant team-a", "1 topic, 0 groups", ":topics", ":tenant team-a")
            known = pilot.app.service.known
            await until(pilot, lambda: known.error(STATS) is not None and known.error(DOCTOR) is not None)
            rounds = known.at_ns(broker_call("tenant_stats", "team-a"))
            asked = [known.at_ns(one) for one in (STATS, DOCTOR)]
            await until(pilot, lambda: known.at_ns(broker_call("tenant_stats", "team-a")) > rounds)
            assert [known.at_ns(one) for one in (STATS, DOCTOR)] == asked
            await press(pilot, "f3")
            await see(pilot, "orders")
            pilot.app.go_to("tenant team-a")
            await see(pilot, "max_topics", "unlimited")


async def test_broker_without_tenants_is_asked_once_and_says_so(broker: LocalBroker) -> None:
    async with shown(broker.url, Location("tenants"), size=(80, 24)) as pilot:
        await see(pilot, "multi-tenancy not enabled: start the broker with")
        known = pilot.app.service.known

        async def one_round() -> object:
            began = known.at_ns(STATS)
            await until(pilot, lambda: known.at_ns(STATS) > began)
            return known.at_ns(broker_call("tenants"))

        asked = await one_round()
        assert await one_round() == asked
