"""Another broker is shown without leaving the dashboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.brokers import create
from tests.tui.pilots import press, see, see_news, see_page, shown, table, text, until


@pytest.fixture
def others(tmp_path: Path, broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Contexts: this broker, a protected one with another topic, and one whose broker does not answer."""
    path = tmp_path / "contexts.yaml"
    monkeypatch.setenv("GOQUEUE_CONFIG", str(path))
    create(broker.url, "orders")
    with LocalBroker(str(tmp_path / "other")) as other:
        create(other.url, "parcels")
        path.write_text(
            f"contexts:\n  local:\n    server: {broker.url}\n"
            f"  production:\n    server: {other.url}\n    protected: true\n"
            "  stopped:\n    server: http://127.0.0.1:9\n"
        )
        yield broker.url


async def test_context_is_switched_and_its_protection_is_shown(others: str) -> None:
    async with shown(others, Location("topic", ("orders",)), size=(80, 24), context="local") as pilot:
        await until(pilot, lambda: len(table(pilot.app).records) == 1)
        await press(pilot, "colon", *"context", "space", *"prod", "enter")
        await see(pilot, "production  ◆ protected")
        await see_page(pilot, "topics")
        await until(pilot, lambda: [one.name for one in table(pilot.app).records] == ["parcels"])
        await press(pilot, "n", *"new", "enter")
        await see(pilot, "create topic new? (type new)")
        await press(pilot, "escape", "C")
        await see(pilot, "http://127.0.0.1:9")
        await until(pilot, lambda: table(pilot.app).current_key == "local")
        await press(pilot, "enter")
        await until(pilot, lambda: pilot.app.context == "local" and "protected" not in text(pilot.app))
        await see_page(pilot, "overview")


@pytest.mark.parametrize(
    ("name", "why"),
    [("stopped", "no broker answers at http://127.0.0.1:9"), ("productoin", "did you mean production?")],
)
async def test_failed_switch_keeps_the_broker(others: str, name: str, why: str) -> None:
    async with shown(others, Location("topics"), context="local") as pilot:
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        await press(pilot, "colon", *"context", "space", *name, "enter")
        await see_news(pilot, "still connected to local: ")
        await see_news(pilot, why)
        assert pilot.app.service.address == others
        assert "orders" in text(pilot.app)


async def test_command_that_creates_the_first_context_is_not_cut(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOQUEUE_CONFIG", str(tmp_path / "contexts.yaml"))
    async with shown(broker.url, Location("contexts"), size=(60, 24)) as pilot:
        await until(pilot, lambda: "NAME --server URL` creates one" in " ".join(text(pilot.app).split()))


async def test_broken_file_of_contexts_is_told(others: str, tmp_path: Path) -> None:
    (tmp_path / "contexts.yaml").write_text("contexts: [1]\n")
    async with shown(others, Location("contexts")) as pilot:
        await see(pilot, "is not a mapping of names to contexts")
