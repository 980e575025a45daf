"""The screens of groups and dead letters at work with a real broker."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from textual.pilot import Pilot

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.app import Dashboard
from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.screens.page import Page
from goqueue_admin.dashboard.service import connect
from goqueue_admin.dashboard.widgets.flash import Flash
from goqueue_admin.dashboard.widgets.table import Table
from tests.api.members import Member
from tests.brokers import ask, broker, create, publish, read
from tests.tui.fakes import dashboard
from tests.tui.group_fakes import GroupClient
from tests.tui.pilots import news, page_name, press, table, text, until

__all__ = ["broker"]

_POISON = "no rule for the method 'voucher'"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what would undo something is written."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def undo_file(home: Path) -> Any:
    (path,) = (home / ".goqueue" / "undo").iterdir()
    return json.loads(path.read_text())


@asynccontextmanager
async def shown(url: str, place: Place, **options: Any) -> "AsyncIterator[Pilot[Any]]":
    app = Dashboard(connect(url, 5.0), every=0.1, start=place, **options)
    async with app.run_test(size=(160, 48)) as pilot:
        yield pilot


async def see(pilot: "Pilot[Any]", *parts: str) -> None:
    for part in parts:
        await until(pilot, partial(_is_there, pilot, part), f"{part!r} is not there")


def _is_there(pilot: "Pilot[Any]", part: str) -> bool:
    return part in text(pilot.app)


def _poisoned(url: str) -> None:
    """Three messages, and one that cannot be worked with; all are settled."""
    create(url, "orders")
    publish(url, "orders", "a", '{"method": "voucher"}', "c", "d", key="order-1")
    member = Member(url).join()
    for message in member.poll():
        way, why = ("reject", {"reason": _POISON}) if message["offset"] == 1 else ("ack", {})
        answer = ask(url, "POST", f"/messages/{way}", {"receipt_handle": message["receipt_handle"], **why})
        assert answer.status == 200, answer.body
    member.leave()


def _left(url: str) -> int:
    return sum(ask(url, "GET", "/topics/orders/dead-letters/errors").json["errors"].values())


def test_a_poison_message_is_found_and_sent_back(broker: LocalBroker, home: Path) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("dlq")) as pilot:
            await see(pilot, "orders.dlq", _POISON)
            await press(pilot, "enter")
            await see(pilot, "100%", "billing")
            await press(pilot, "enter")
            await see(pilot, "order-1", "orders/0@1")
            await press(pilot, "enter")
            await see(pilot, "attempts", '"method": "voucher"')
            await press(pilot, "escape")
            await press(pilot, "d")
            await see(pilot, "Send back dead letters of orders")
            await press(pilot, "enter")
            await see(pilot, "send 1 back? (y)")
            assert _left(broker.url) == 1
            await press(pilot, "y")
            await see(pilot, "1 dead letter sent back")
            await press(pilot, "escape")
            await see(pilot, "there are no such dead letters")

    _poisoned(broker.url)
    asyncio.run(flow())
    assert _left(broker.url) == 0
    assert [message["value"] for message in read(broker.url, "orders")][-1] == '{"method": "voucher"}'
    moved = [{"source": "orders.dlq/0", "target": "orders/0", "ranges": [[0, 1]]}]
    assert undo_file(home) | {"made_at": ""} == {
        "kind": "redrive", "name": "orders.dlq", "made_at": "", "server": broker.url, "moved": moved,
    }  # fmt: skip


def test_the_overview_leads_to_a_finding_and_to_a_group_that_is_late() -> None:
    async def flow() -> None:
        app = dashboard(GroupClient())
        async with app.run_test(size=(80, 24)) as pilot:
            await see(pilot, "takes no messages", "restart the broker", "statistics")
            await press(pilot, "down")
            await see(pilot, "lower retention_bytes")
            await press(pilot, "enter")
            await see(pilot, "disk_filling", "free_bytes")
            await press(pilot, "escape", "tab", "down", "enter")
            await until(pilot, lambda: app.page is not None and app.page.place == Place("group", ("statistics",)))

    asyncio.run(flow())


def test_the_last_column_ends_before_the_scrollbar() -> None:
    async def flow() -> None:
        app = dashboard(GroupClient(), start=Place("letters", ("payments.dlq",)))
        async with app.run_test(size=(120, 20)) as pilot:
            await see(pilot, "order-000003")
            await until(pilot, lambda: text(app).splitlines()[6][-2] == "…")

    asyncio.run(flow())


def test_news_stay_as_long_as_they_should_whatever_was_said_before() -> None:
    async def flow() -> None:
        app = dashboard(GroupClient(), start=Place("groups"))
        async with app.run_test() as pilot:
            await see(pilot, "statistics")
            flash = app.screen.query_one(Flash)
            flash.SECONDS = 0.01
            flash.say("first")
            later = asyncio.Event()
            flash.set_timer(2 * flash.SECONDS, later.set)
            flash.SECONDS = 3_600.0
            flash.say("second")
            await later.wait()
            assert flash.text == "second"
            flash.SECONDS = 0.01
            flash.say("third")
            await until(pilot, lambda: flash.text == "")

    asyncio.run(flow())


def test_the_cursor_begins_at_the_top_even_where_a_line_has_no_name() -> None:
    async def flow() -> None:
        app = dashboard(GroupClient(), start=Place("errors", ("payments.dlq",)))
        async with app.run_test() as pilot:
            await see(pilot, "nobody has said why")
            assert table(app).current_key == _POISON

    asyncio.run(flow())


def test_what_does_not_fit_the_fields_is_not_sent_back(broker: LocalBroker, home: Path) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("errors", ("orders",))) as pilot:
            await see(pilot, _POISON)
            await press(pilot, "d", "down", *"shipping", "enter")
            await see(pilot, "nothing to send back: 1 looked at")
            await press(pilot, "down", "down", *"many", "enter")
            await see(pilot, "the limit is 'many'")
            await press(pilot, "ctrl+y", "escape")

    _poisoned(broker.url)
    asyncio.run(flow())
    assert _left(broker.url) == 1
    assert not home.exists()


def test_a_redrive_with_a_rate_stops_when_it_is_told_to(broker: LocalBroker, home: Path) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("errors", ("orders",))) as pilot:
            await see(pilot, _POISON)
            await press(pilot, "d", "down", "down", "down", "down", *"0.2", "enter")
            await see(pilot, "send 2 back? (y)")
            await press(pilot, "y")
            await see(pilot, "1 of 2")
            await press(pilot, "escape")
            await see(pilot, "1 dead letter sent back, then stopped")

    _poisoned(broker.url)
    member = Member(broker.url).join()
    publish(broker.url, "orders", "again")
    (message,) = member.poll()
    ask(broker.url, "POST", "/messages/reject", {"receipt_handle": message["receipt_handle"], "reason": _POISON})
    asyncio.run(flow())
    assert _left(broker.url) == 1
    assert undo_file(home)["moved"][0]["ranges"] == [[0, 1]]


def test_a_group_is_reset_to_an_hour_ago_and_the_way_back_is_written_down(broker: LocalBroker, home: Path) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("groups")) as pilot:
            await see(pilot, "billing", "○ empty")
            await press(pilot, "enter")
            await see(pilot, "orders/0", "no order")
            await press(pilot, "o", "minus", "1", "h", "enter")
            await see(pilot, "orders/0", "4 again", "reset billing? (y)")
            assert _committed(broker.url) == 4
            await press(pilot, "y")
            await see(pilot, "billing is reset: at most 4 messages read again", "goqueue-cli undo")
            await press(pilot, "escape")
            await until(pilot, lambda: pilot.app.screen.query_one("#places", Table).records[0].lag == 4)

    _poisoned(broker.url)
    asyncio.run(flow())
    assert _committed(broker.url) == 0
    found = undo_file(home)
    assert (found["kind"], found["name"], found["server"]) == ("group-reset", "billing", broker.url)
    assert (found["offsets"], found["after"]) == ({"orders": {"0": 4}}, {"orders": {"0": 0}})


def _committed(url: str) -> int:
    offsets: dict[str, dict[str, int]] = ask(url, "GET", "/groups/billing/offsets").json["offsets"]
    return offsets["orders"]["0"]


def test_a_plan_whose_fields_were_changed_is_none_any_more(broker: LocalBroker, home: Path) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("group", ("billing",))) as pilot:
            await see(pilot, "orders/0")
            await press(pilot, "o", *"earliest", "enter")
            await see(pilot, "reset billing? (y)")
            await press(pilot, "up", "up", "up", "backspace")
            await until(pilot, lambda: "(y)" not in text(pilot.app))
            await press(pilot, "enter")
            await see(pilot, "is not a time")

    _poisoned(broker.url)
    asyncio.run(flow())
    assert _committed(broker.url) == 4
    assert not home.exists()


def test_an_empty_group_is_deleted_after_a_y(broker: LocalBroker) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("groups")) as pilot:
            await see(pilot, "billing")
            await press(pilot, "x")
            await see(pilot, "is empty", "forget what was read? (y)")
            await press(pilot, "y")
            await see(pilot, "billing is deleted")
            await press(pilot, "escape")
            await see(pilot, "there are no groups")

    _poisoned(broker.url)
    asyncio.run(flow())
    assert ask(broker.url, "GET", "/groups").json["groups"] == []


def test_a_group_with_members_is_not_offered_to_be_deleted(broker: LocalBroker) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("groups")) as pilot:
            await see(pilot, "billing")
            await press(pilot, "x")
            await see(pilot, "has 1 member: stop them first")
            assert "(y)" not in text(pilot.app)

    create(broker.url, "orders")
    Member(broker.url).join()
    asyncio.run(flow())


def test_in_a_protected_context_a_y_is_not_enough(broker: LocalBroker) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("groups"), protected=True) as pilot:
            await see(pilot, "billing")
            await press(pilot, "x")
            await see(pilot, "(type billing)")
            await press(pilot, "y", "enter")
            await see(pilot, "nothing is changed")
            assert ask(broker.url, "GET", "/groups").json["groups"] == ["billing"]
            await press(pilot, "backspace", *"billing", "enter")
            await see(pilot, "billing is deleted")

    _poisoned(broker.url)
    asyncio.run(flow())


@pytest.mark.parametrize(
    ("place", "keys", "mark"),
    [
        (Place("groups"), "ox", "billing"),
        (Place("group", ("billing",)), "ox", "orders/0"),
        (Place("dlq"), "d", _POISON),
        (Place("errors", ("orders",)), "d", _POISON),
        (Place("letters", ("orders",)), "d", "order-1"),
    ],
)
def test_where_nothing_may_be_changed_there_is_no_key_for_it(
    broker: LocalBroker, place: Place, keys: str, mark: str
) -> None:
    async def flow() -> None:
        async with shown(broker.url, place, read_only=True) as pilot:
            await see(pilot, mark)
            await press(pilot, *keys)
            await pilot.pause()
            assert isinstance(pilot.app.screen, Page)
            assert not any(word in text(pilot.app) for word in ("Reset offsets", "Delete", "Send back"))
            await press(pilot, "question_mark")
            await see(pilot, "esc closes", "Everywhere")
            assert not any(word in text(pilot.app) for word in ("Reset offsets", "Delete", "Send back"))

    _poisoned(broker.url)
    asyncio.run(flow())


def test_a_rebalance_under_way_shows_who_must_give_up_what(broker: LocalBroker) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("group", ("billing",))) as pilot:
            await see(pilot, "● stable", "orders/0-1")
            Member(broker.url, cooperative=True).join()
            await see(pilot, "◐ rebalancing", f"{first.id} must give up orders/", "GIVES UP")
            asked = first.say("/heartbeat/cooperative", generation=first.generation)
            first.say("/revoke", revoked_partitions=asked["partitions_to_revoke"], generation=asked["generation"])
            await until(pilot, lambda: "must give up" not in text(pilot.app))

    create(broker.url, "orders", partitions=2)
    first = Member(broker.url, cooperative=True).join()
    asyncio.run(flow())


def test_rebalances_of_all_groups_are_counted(broker: LocalBroker) -> None:
    async def flow() -> None:
        async with shown(broker.url, Place("rebalances")) as pilot:
            await see(pilot, "2 rebalances", "2 join", "join 1", "shipping")
            await press(pilot, "down", "enter")
            await until(pilot, lambda: page_name(pilot.app) == "group")  # type: ignore[arg-type]
            await see(pilot, "shipping", "1 member")

    create(broker.url, "orders")
    for group in ("billing", "shipping"):
        Member(broker.url, group).join()
    asyncio.run(flow())


@pytest.mark.parametrize(
    ("place", "mark", "command"),
    [
        (Place("groups"), "billing", "goqueue-cli group describe billing"),
        (Place("group", ("billing",)), "orders/0", "goqueue-cli group describe billing"),
        (Place("rebalances"), "billing", "goqueue-admin rebalance list"),
        (Place("dlq"), _POISON, "goqueue-cli dlq list orders"),
        (Place("errors", ("orders.dlq",)), _POISON, "goqueue-cli dlq errors orders"),
        (Place("letters", ("orders", _POISON)), "order-1", "goqueue-cli dlq browse orders --error"),
    ],
)
def test_every_screen_has_its_command(broker: LocalBroker, place: Place, mark: str, command: str) -> None:
    async def flow() -> None:
        async with shown(broker.url, place) as pilot:
            await see(pilot, mark)
            await press(pilot, "y")
            await until(pilot, lambda: command in news(pilot.app))  # type: ignore[arg-type]

    _poisoned(broker.url)
    asyncio.run(flow())


def test_a_broker_that_was_away_is_seen_again(tmp_path: Path) -> None:
    async def flow(url: str) -> None:
        async with shown(url, Place("groups")) as pilot:
            await see(pilot, "billing")
            first.stop()
            await see(pilot, "broker is away since")
            assert "billing" in text(pilot.app)
            await press(pilot, "o", *"latest", "enter")
            await see(pilot, "nobody answers")
            await press(pilot, "escape")
            with LocalBroker(data, server__port=str(urlsplit(url).port)):
                await until(pilot, lambda: "broker is away" not in text(pilot.app))
                await see(pilot, "billing")

    data = str(tmp_path / "data")
    with LocalBroker(data) as first:
        _poisoned(first.url)
        asyncio.run(flow(first.url))
