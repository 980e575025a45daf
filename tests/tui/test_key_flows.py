"""API keys are listed and revoked in the dashboard, with a real broker that needs keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue_admin.dashboard.screens.routes import Location
from tests.api.keys import SecuredBroker, secured
from tests.tui.pilots import press, see, shown, table, text, until


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SecuredBroker]:
    with secured(tmp_path) as found:
        monkeypatch.setenv("GOQUEUE_API_KEY", found.admin)
        yield found


async def test_key_is_revoked_after_its_rules_were_shown(broker: SecuredBroker) -> None:
    key = broker.new_key("billing", "consumer", rules=[{"kind": "topic", "pattern": "orders", "actions": ["write"]}])
    async with shown(broker.url, Location("keys"), size=(80, 24)) as pilot:
        await see(pilot, "billing", "consumer", "bootstrap", "valid")
        await until(pilot, lambda: len(table(pilot.app).records) == 2)
        await press(pilot, "home", "x")
        await see(pilot, "allow write on topic orders", "1 rule of it will be deleted", "(y)")
        assert key not in text(pilot.app)
        assert broker.ask("GET", "/topics", key=key).status == 200
        await press(pilot, "y")
        await see(pilot, "billing is revoked")
        await press(pilot, "escape")
        await until(pilot, lambda: len(table(pilot.app).records) == 1)
    assert broker.ask("GET", "/topics", key=key).status == 401


async def test_refused_revocation_says_why(broker: SecuredBroker) -> None:
    async with shown(broker.url, Location("keys"), size=(80, 24)) as pilot:
        await until(pilot, lambda: len(table(pilot.app).records) == 1)
        await press(pilot, "home", "x")
        await see(pilot, "(y)")
        await press(pilot, "y")
        await see(pilot, "the last valid API key")


async def test_read_only_dashboard_revokes_nothing(broker: SecuredBroker) -> None:
    broker.new_key("billing")
    async with shown(broker.url, Location("keys"), size=(80, 24), read_only=True) as pilot:
        await until(pilot, lambda: len(table(pilot.app).records) == 2)
        await press(pilot, "home", "x")
        await see(pilot, "billing")
        assert "(y)" not in text(pilot.app)


async def test_screen_says_what_a_key_without_the_right_lacks(
    broker: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOQUEUE_API_KEY", broker.new_key("operator", "operator"))
    async with shown(broker.url, Location("keys"), size=(80, 24)) as pilot:
        await see(pilot, "may not alter the cluster")
