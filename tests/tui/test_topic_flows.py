"""Topics are created, changed and deleted, and messages published, from the screens of a real broker."""

import json
from typing import Any

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.brokers import ask, create, publish, read
from tests.tui.pilots import press, see, see_page, shown, table, text, until


def _config(url: str, topic: str) -> dict[str, Any]:
    config: dict[str, Any] = ask(url, "GET", f"/topics/{topic}").json["config"]
    return config


def _typed(words: str) -> list[str]:
    return ["space" if one == " " else one for one in words]


async def test_topic_is_created_with_settings_after_its_plan(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    async with shown(broker.url, Location("topics"), size=(80, 24)) as pilot:
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        await press(pilot, "n", *"orders", "enter")
        await see(pilot, "topic orders exists already")
        await press(pilot, "end", *"-eu", "down", *"3", "down", *_typed("retention_hour=24"), "enter")
        await see(pilot, "'retention_hour' is not a setting of a topic", "did you mean retention_hours?")
        await press(pilot, *["left"] * 3, *"s", "enter")
        await see(pilot, "orders-eu, with 3 partitions", "retention_hours=24", "create topic orders-eu? (y)")
        assert ask(broker.url, "GET", "/topics/orders-eu").status == 404
        await press(pilot, "y")
        await see(pilot, "orders-eu is created with 3 partitions")
        await press(pilot, "escape")
        await until(pilot, lambda: len(table(pilot.app).records) == 2)
    assert _config(broker.url, "orders-eu")["retention_hours"] == 24


async def test_lossy_change_of_a_topic_says_so_and_needs_its_name_in_a_protected_context(broker: LocalBroker) -> None:
    create(broker.url, "orders", retention_hours=100)
    publish(broker.url, "orders", "a")
    async with shown(broker.url, Location("topic", ("orders",)), size=(80, 24), protected=True) as pilot:
        await until(pilot, lambda: len(table(pilot.app).records) == 1)
        await press(pilot, "e")
        await see(pilot, "Settings of orders", "retention_hours")
        await press(pilot, "enter")
        await see(pilot, "no setting is different")
        await press(pilot, "ctrl+u", *"1d", "enter")
        await see(pilot, "is not a number of hours", "retention_hours=24?")
        await press(pilot, "ctrl+u", *"24", "enter")
        await see(pilot, "100.0 → 24  loses messages", "change topic orders and lose messages to", "(type orders)")
        await press(pilot, "y", "enter")
        await see(pilot, "nothing is changed")
        assert _config(broker.url, "orders")["retention_hours"] == 100
        await press(pilot, "backspace", *"orders", "enter")
        await see(pilot, "orders is changed: retention_hours is 24")
    assert _config(broker.url, "orders")["retention_hours"] == 24


async def test_change_of_a_topic_is_refused_when_it_was_changed_since_its_plan(broker: LocalBroker) -> None:
    create(broker.url, "orders", retention_hours=100)
    async with shown(broker.url, Location("topic", ("orders",))) as pilot:
        await until(pilot, lambda: len(table(pilot.app).records) == 1)
        await press(pilot, "e")
        await see(pilot, "Settings of orders")
        await press(pilot, "ctrl+u", *"200", "enter")
        await see(pilot, "change topic orders? (y)")
        ask(broker.url, "PATCH", "/admin/topics/orders", {"retention_hours": 50})
        await press(pilot, "y")
        await see(pilot, "retention_hours was changed elsewhere")
    assert _config(broker.url, "orders")["retention_hours"] == 50


async def test_message_is_published_with_all_of_its_fields(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    async with shown(broker.url, Location("messages", ("orders",)), size=(80, 24)) as pilot:
        await see(pilot, "no message yet")
        await press(pilot, "w", *_typed('{"id": 17}'), "down", *"customer-4", "down", *"source", "enter")
        await see(pilot, "'source' is not a header: write it as in source=shop")
        await press(pilot, *"=shop", "down", *"urgent", "enter")
        await see(pilot, "'urgent'")
        await press(pilot, *["backspace"] * 6, *"high", "enter")
        await see(
            pilot, '{"id": 17}', "key customer-4", "priority high", "headers source=shop", "publish to orders? (y)"
        )
        assert read(broker.url, "orders") == []
        await press(pilot, "y")
        await see(pilot, "published as orders/0@0")
        await press(pilot, "escape")
        await see(pilot, "customer-4")
    (message,) = read(broker.url, "orders")
    assert (json.loads(message["value"]), message["key"]) == ({"id": 17}, "customer-4")
    assert (message["headers"], message["priority"]) == ({"source": "shop"}, 1)


async def test_delayed_message_is_scheduled_from_the_list_of_topics(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    async with shown(broker.url, Location("topics")) as pilot:
        await until(pilot, lambda: table(pilot.app).current_key == "orders")
        await press(pilot, "w", *"later", *["down"] * 4, *"5m", "enter")
        await see(pilot, "delivered from", "publish to orders? (y)")
        await press(pilot, "y")
        await see(pilot, "scheduled as 0@0, due at")
    assert ask(broker.url, "GET", "/topics/orders/delayed").json["total"] == 1


async def test_topics_are_deleted_after_their_plan(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    create(broker.url, "payments")
    publish(broker.url, "payments", "a", "b")
    async with shown(broker.url, Location("topics"), size=(80, 24)) as pilot:
        await until(pilot, lambda: len(table(pilot.app).records) == 2)
        await press(pilot, "down", "x")
        await see(pilot, "payments  2 messages", "delete topic payments with all messages? (y)")
        await press(pilot, "y")
        await see(pilot, "payments is deleted")
        await press(pilot, "escape")
        await see_page(pilot, "topics")
        await until(pilot, lambda: len(table(pilot.app).records) == 1 and "payments" not in text(pilot.app))
    assert ask(broker.url, "GET", "/topics").json["topics"] == ["orders"]


async def test_partitions_are_added_after_a_plan(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", "a", key="k")
    async with shown(broker.url, Location("topic", ("orders",)), size=(100, 24)) as pilot:
        await until(pilot, lambda: len(table(pilot.app).records) == 2)
        await press(pilot, "a", *"3", "enter")
        await see(pilot, "does not keep their order")
        await press(pilot, "ctrl+u", *"4", "enter")
        await see(pilot, "orders: 2 → 4 partitions", "cannot be removed", "give topic orders 4 partitions? (y)")
        await press(pilot, "y")
        await see(pilot, "orders has 2 partitions more")
        await press(pilot, "escape")
        await until(pilot, lambda: len(table(pilot.app).records) == 4)
