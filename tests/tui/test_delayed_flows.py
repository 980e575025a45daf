"""The screens of delayed messages and priorities at work with a real broker."""

import asyncio
import shlex
import time
from typing import Any

import pytest
from textual.pilot import Pilot

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_time
from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from tests.api.members import Member
from tests.brokers import ask, create, publish, read
from tests.cli.programs import cli
from tests.tui.delayed_fakes import DelayedClient
from tests.tui.fakes import FrozenClock, dashboard
from tests.tui.pilots import page_name, press, see, see_news, see_page, shown, table, text, until

_SCHEDULE = Location("schedule", ("reminders",))


def with_reminders(url: str) -> str:
    """Publish five delayed messages, an hour apart, in one partition."""
    create(url, "reminders")
    for number in range(1, 6):
        value = f'{{"number": {number}}}'
        publish(url, "reminders", value, key=f"order-{number}", headers={"source": "shop"}, delay=f"{number}h")
    return url


@pytest.fixture
def url(broker: LocalBroker) -> str:
    return with_reminders(broker.url)


@pytest.fixture(scope="module")
def read_only_url(module_broker: LocalBroker) -> str:
    """A broker with reminders for tests that leave them as they are."""
    return with_reminders(module_broker.url)


def pending(url: str, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(url, "GET", f"/topics/reminders/delayed?{query}").json["messages"]
    return found


def keys(url: str) -> list[str]:
    return [one["key"] for one in pending(url)]


async def see_lines(pilot: "Pilot[Any]", *places: str) -> None:
    await until(pilot, lambda: tuple(table(pilot.app).seen_keys) == places, f"it never was {places}")


async def test_a_delayed_message_is_found_read_moved_and_delivered(url: str) -> None:
    async with shown(url, Location("overview")) as pilot:
        await press(pilot, "f7")
        await see(pilot, "5 pending", "until the next", "reminders", "<6h")
        await press(pilot, "enter")
        await see(pilot, "order-5", "0@4")
        await press(pilot, "end", "enter")
        await see(pilot, "scheduled", "header source  shop", '"number": 5')
        await press(pilot, "escape", "e", *"30m", "enter")
        await see(pilot, "order-5", "reschedule 0@4? (y)")
        assert keys(url)[-1] == "order-5"
        await press(pilot, "y")
        await see(pilot, "1 delayed message rescheduled")
        await press(pilot, "escape")
        await see_lines(pilot, "0@4", "0@0", "0@1", "0@2", "0@3")
        await press(pilot, "home", "d")
        await see(pilot, "deliver 0@4? (y)")
        await press(pilot, "y")
        await see(pilot, "1 delayed message delivered")
        await press(pilot, "escape")
        await see_lines(pilot, "0@0", "0@1", "0@2", "0@3")
    assert [message["value"] for message in read(url, "reminders")] == ['{"number": 5}']


async def test_marked_messages_are_cancelled_after_a_y(url: str) -> None:
    async with shown(url, _SCHEDULE) as pilot:
        await see_lines(pilot, "0@0", "0@1", "0@2", "0@3", "0@4")
        await press(pilot, "space", "down", "space", "x")
        await see(pilot, "never delivered", "cancel 2 delayed messages? (y)")
        await press(pilot, "ctrl+y")
        await see(pilot, "goqueue-cli delayed cancel reminders 0@0 0@2 --dry-run")
        told = await asyncio.to_thread(cli, url, *shlex.split(pilot.app.clipboard)[1:])
        assert told.out.count("would be cancelled") == 2
        assert len(keys(url)) == 5
        await press(pilot, "y")
        await see(pilot, "2 delayed messages cancelled")
        await press(pilot, "escape")
        await see_lines(pilot, "0@1", "0@3", "0@4")
        await press(pilot, "v", "v")
        await see_lines(pilot, "0@0", "0@2")
        await see(pilot, "cancelled · 2")
        await press(pilot, "x")
        await see_news(pilot, "what is cancelled stays so")
    assert keys(url) == ["order-2", "order-4", "order-5"]


async def test_all_that_fit_a_filter_are_made_earlier(url: str) -> None:
    before = [one["deliver_at"] for one in pending(url)]
    async with shown(url, _SCHEDULE) as pilot:
        await see_lines(pilot, "0@0", "0@1", "0@2", "0@3", "0@4")
        await press(pilot, "slash", *"json.number", "greater_than_sign", "3", "enter")
        await see_lines(pilot, "0@3", "0@4")
        await press(pilot, "E", *"shift", "space", "minus", *"30m", "enter")
        await see(pilot, "2 of 5 that were looked at", "reschedule 2 delayed messages? (y)")
        await press(pilot, "ctrl+y")
        told = await asyncio.to_thread(cli, url, *shlex.split(pilot.app.clipboard)[1:])
        assert "2 delayed messages of reminders would be rescheduled" in told.err
        await press(pilot, "y")
        await see(pilot, "2 delayed messages rescheduled")
        await press(pilot, "escape")
        await see(pilot, "3h30m")
    assert keys(url) == [f"order-{number}" for number in range(1, 6)]
    after = [one["deliver_at"] for one in pending(url)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, True, False, False]


async def test_what_was_delivered_meanwhile_is_not_decided_any_more(url: str) -> None:
    async with shown(url, _SCHEDULE) as pilot:
        await see_lines(pilot, "0@0", "0@1", "0@2", "0@3", "0@4")
        await press(pilot, "space", "space", "p")
        await see_news(pilot, "paused")
        await asyncio.to_thread(ask, url, "POST", "/topics/reminders/delayed/0/0/deliver", {})
        await press(pilot, "x")
        await see(pilot, "is delivered already", "cancel 0@1? (y)")
        await asyncio.to_thread(ask, url, "DELETE", "/topics/reminders/delayed/0/1")
        await press(pilot, "y")
        await see(pilot, "0 delayed messages cancelled; the rest was left", "0@1:")


async def test_the_messages_of_a_whole_topic_are_delivered_as_far_as_the_fields_say(url: str) -> None:
    async with shown(url, Location("delayed")) as pilot:
        await see(pilot, "reminders")
        await press(pilot, "d", "down", "down", "down", *"+150m", "enter")
        await see(pilot, "2 of 2 that were looked at", "deliver 2 delayed messages? (y)")
        await press(pilot, "ctrl+y")
        await see(pilot, "goqueue-cli delayed deliver reminders --to +150m --dry-run")
        await press(pilot, "y")
        await see(pilot, "2 delayed messages delivered")
    assert [message["key"] for message in read(url, "reminders")] == ["order-1", "order-2"]


@pytest.mark.parametrize(
    ("keys_", "why"),
    [
        (("e", "enter"), "say when"),
        (("e", *"400d", "enter"), "too far ahead"),
        (("E", *"1h", "down", *"json", "full_stop", "equals_sign", "enter"), "filter"),
        (("X", "down", *"7", "enter"), "partition"),
        (("D", *"key=unknown", "enter"), "nothing to deliver: 5 looked at"),
    ],
)
async def test_what_cannot_be_meant_has_no_plan(read_only_url: str, keys_: tuple[str, ...], why: str) -> None:
    async with shown(read_only_url, _SCHEDULE) as pilot:
        await see_lines(pilot, "0@0", "0@1", "0@2", "0@3", "0@4")
        await press(pilot, *keys_)
        await see(pilot, why)
        assert "(y)" not in text(pilot.app)
    assert len(keys(read_only_url)) == 5


async def test_a_filter_that_is_none_is_refused_and_another_is_looked_for(read_only_url: str) -> None:
    async with shown(read_only_url, _SCHEDULE) as pilot:
        await see(pilot, "order-5")
        await press(pilot, "slash", *"priority=urgent", "enter")
        await see(pilot, "'urgent' is not a priority")
        await until(pilot, lambda: not table(pilot.app).records)
        await press(pilot, "slash", *["backspace"] * 15, *"header.source=shop", "enter")
        await see(pilot, "order-5")
        await press(pilot, "y")
        told = "goqueue-cli delayed list reminders --where header.source=shop"
        await see_news(pilot, told)


async def test_what_fits_a_filter_is_looked_for_again_but_not_with_each_round() -> None:
    client, clock = DelayedClient(), FrozenClock()

    def searches() -> int:
        return sum("key=a" in call for call in client.asked)

    async with dashboard(client, clock, start=_SCHEDULE, every=0.05).run_test(size=(120, 34)) as pilot:
        await see(pilot, "order-000004")
        await press(pilot, "slash", *"key=a", "enter")
        await until(pilot, lambda: searches() == 1)
        rounds = len(client.asked)
        await until(pilot, lambda: len(client.asked) > rounds + 20)
        assert searches() == 1
        clock.pass_seconds(11)
        await until(pilot, lambda: searches() == 2)


async def test_the_list_begins_with_what_is_due_from_a_time_on(read_only_url: str) -> None:
    async with shown(read_only_url, _SCHEDULE) as pilot:
        await see(pilot, "order-5")
        await press(pilot, "t", *"+210m", "enter")
        await see_lines(pilot, "0@3", "0@4")
        await see(pilot, "due from")
        await press(pilot, "t", *"soon", "enter")
        await see_news(pilot, "is not a time")
        await press(pilot, "t", "enter")
        await see_lines(pilot, "0@0", "0@1", "0@2", "0@3", "0@4")


async def test_a_page_follows_a_page(broker: LocalBroker) -> None:
    create(broker.url, "reminders")
    later = format_time(time.time_ns() + 3_600 * NANOSECONDS)
    publish(broker.url, "reminders", *map(str, range(205)), deliver_at=later)
    async with shown(broker.url, _SCHEDULE) as pilot:
        await see(pilot, "page; n shows the next", "0@0")
        await press(pilot, "n")
        await until(pilot, lambda: [line.place[1] for line in table(pilot.app).records] == [*range(200, 205)])
        await press(pilot, "n", "b")
        await until(pilot, lambda: len(table(pilot.app).records) == 200)


async def test_in_a_protected_context_the_name_of_the_topic_is_typed(url: str) -> None:
    async with shown(url, _SCHEDULE, protected=True) as pilot:
        await see(pilot, "order-5")
        await press(pilot, "x")
        await see(pilot, "cancel 0@0? (type reminders)")
        await press(pilot, "y", "enter")
        await see(pilot, "nothing is changed")
        await press(pilot, "backspace", *"reminders", "enter")
        await see(pilot, "1 delayed message cancelled")
    assert len(keys(url)) == 4


async def test_a_topic_leads_to_what_is_delayed_and_back(read_only_url: str) -> None:
    async with shown(read_only_url, Location("topic", ("reminders",))) as pilot:
        await see(pilot, "● ok")
        await press(pilot, "d")
        await see(pilot, "order-5")
        await press(pilot, "y")
        await see_news(pilot, "goqueue-cli delayed list reminders")
        await press(pilot, "escape")
        await see_page(pilot, "delayed")
        await see(pilot, "reminders")
        await press(pilot, "y")
        await see_news(pilot, "goqueue-cli delayed timeline reminders")
        await press(pilot, "colon", *"delayed", "space", *"rem", "tab", "enter")
        await see_page(pilot, "schedule")


async def test_priorities_are_shown_where_there_are_several(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a", "b")
    Member(broker.url).join().poll()
    async with shown(broker.url, Location("topic", ("orders",))) as pilot:
        await see(pilot, "● ok")
        await asyncio.to_thread(publish, broker.url, "orders", "now", priority="critical")
        await see(pilot, "critical", "AVG WAIT")
        await press(pilot, "tab", "enter")
        assert page_name(pilot.app) == "topic"
        await press(pilot, "colon", *"group", "space", *"billing", "enter")
        await see(pilot, "orders/0", "critical", "IN FLIGHT")
