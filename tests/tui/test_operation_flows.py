"""Changes of operators are listed and undone with a real broker."""

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.brokers import ask, create, publish
from tests.cli.letterbox import settle
from tests.tui.pilots import press, see, see_page, shown, table, text, until


def _retention(url: str) -> float:
    hours: float = ask(url, "GET", "/topics/orders").json["config"]["retention_hours"]
    return hours


async def test_change_of_another_operator_is_undone_after_its_plan(broker: LocalBroker) -> None:
    create(broker.url, "orders", retention_hours=100)
    ask(broker.url, "PATCH", "/admin/topics/orders", {"retention_hours": 50})
    async with shown(broker.url, Location("topics"), size=(80, 24)) as pilot:
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        await press(pilot, "u")
        await see_page(pilot, "operations")
        await see(pilot, "retention_hours 100 -> 50")
        await press(pilot, "home", "u")
        await see(pilot, "retention_hours", "→ 100", "(y)")
        assert _retention(broker.url) == 50
        await press(pilot, "y")
        await see(pilot, "is undone", "undoes this")
        await press(pilot, "escape")
        await until(pilot, lambda: len(table(pilot.app).records) == 3)
    assert _retention(broker.url) == 100


async def test_retry_policy_of_a_group_is_undone(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a")
    settle(broker.url, lambda message: message.ack())
    ask(broker.url, "PATCH", "/groups/billing", {"max_retries": 5})
    async with shown(broker.url, Location("operations"), size=(80, 24)) as pilot:
        await see(pilot, "billing", "max_retries null -> 5")
        await press(pilot, "home", "u")
        await see(pilot, "5 → -", "(y)")
        await press(pilot, "y")
        await see(pilot, "is undone", "undoes this")
    assert ask(broker.url, "GET", "/groups/billing").json["settings"] == {}


async def test_undo_of_what_has_changed_since_says_so(broker: LocalBroker) -> None:
    create(broker.url, "orders", retention_hours=100)
    for hours in (50, 20):
        ask(broker.url, "PATCH", "/admin/topics/orders", {"retention_hours": hours})
    async with shown(broker.url, Location("operations")) as pilot:
        await until(pilot, lambda: len(table(pilot.app).records) == 3)
        await press(pilot, "home", "down", "enter")
        await see(pilot, "→ 100", "all the same? (y)")
        await press(pilot, "y")
        await see(pilot, "is undone")
    assert _retention(broker.url) == 100


async def test_what_cannot_be_undone_has_no_question(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a")
    async with shown(broker.url, Location("operations")) as pilot:
        await see(pilot, "created with 1 partition")
        await press(pilot, "u")
        await see(pilot, "it cannot be undone: ")
        assert "(y)" not in text(pilot.app)
