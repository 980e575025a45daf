"""The screens of groups and dead letters at work with a real broker."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.widgets.frame import StatusLine
from goqueue_admin.dashboard.widgets.table import RowTable
from tests.api.members import Member
from tests.brokers import ask, create, publish, read
from tests.tui.fakes import dashboard
from tests.tui.group_fakes import GroupClient
from tests.tui.pilots import press, see, see_news, see_page, shown, table, text, until

_POISON = "no rule for the method 'voucher'"


def recorded_kinds(url: str) -> set[str]:
    return {one["kind"] for one in ask(url, "GET", "/operations").json["operations"]}


def recorded(url: str, kind: str) -> Any:
    """The only operation of a kind."""
    (found,) = ask(url, "GET", f"/operations?kind={kind}").json["operations"]
    return ask(url, "GET", f"/operations/{found['id']}").json


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


async def test_a_poison_message_is_found_and_sent_back(broker: LocalBroker) -> None:
    _poisoned(broker.url)
    async with shown(broker.url, Location("dlq")) as pilot:
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
    assert _left(broker.url) == 0
    assert [message["value"] for message in read(broker.url, "orders")][-1] == '{"method": "voucher"}'
    (moved,) = recorded(broker.url, "redrive")["changes"]["moves"]
    assert (moved["first"], moved["end"], moved["target_topic"]) == (0, 1, "orders")


async def test_finding_opens_its_subject_and_names_the_key_that_repairs_it() -> None:
    app = dashboard(GroupClient())
    async with app.run_test(size=(80, 24)) as pilot:
        await see(pilot, "takes no messages", "restart the broker", "opens     topic invoices")
        await press(pilot, "enter")
        await see_page(pilot, "topic")
        await until(pilot, lambda: table(app).current_key == "2")
        await see_news(pilot, "the partition takes no messages since a write failed")
        await press(pilot, "left_square_bracket", "down")
        await see(pilot, "lower retention_bytes", "opens     topics: e shortens a retention")
        await press(pilot, "enter")
        await see_page(pilot, "topics")
        await see_news(pilot, "e shortens a retention, x deletes a topic")


async def test_finding_is_shown_in_full_and_a_late_group_opens_with_two_keys() -> None:
    app = dashboard(GroupClient())
    async with app.run_test(size=(80, 24)) as pilot:
        await see(pilot, "takes no messages", "statistics")
        await press(pilot, "down", "i")
        await see(pilot, "disk_filling", "free_bytes")
        await press(pilot, "escape", "end", "enter")
        await see(pilot, "topic_idle")  # it has no screen
        await press(pilot, "escape", "tab", "enter")
        await until(pilot, lambda: app.page is not None and app.page.place == Location("group", ("archive",)))


async def test_the_last_column_ends_before_the_scrollbar() -> None:
    app = dashboard(GroupClient(), start=Location("letters", ("payments.dlq",)))
    async with app.run_test(size=(120, 20)) as pilot:
        await see(pilot, "order-000003")
        await until(pilot, lambda: text(app).splitlines()[6][-2] == "…")


async def test_news_stay_as_long_as_they_should_whatever_was_said_before() -> None:
    app = dashboard(GroupClient(), start=Location("groups"))
    async with app.run_test() as pilot:
        await see(pilot, "statistics")
        flash = app.screen.query_one(StatusLine)
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


async def test_the_cursor_begins_at_the_top_even_where_a_line_has_no_name() -> None:
    app = dashboard(GroupClient(), start=Location("errors", ("payments.dlq",)))
    async with app.run_test() as pilot:
        await see(pilot, "no error given")
        assert table(app).current_key == _POISON


async def test_what_does_not_fit_the_fields_is_not_sent_back(broker: LocalBroker) -> None:
    _poisoned(broker.url)
    async with shown(broker.url, Location("errors", ("orders",))) as pilot:
        await see(pilot, _POISON)
        await press(pilot, "d", "down", *"shipping", "enter")
        await see(pilot, "nothing to send back: 1 looked at")
        await press(pilot, "down", "down", *"many", "enter")
        await see(pilot, "the limit is 'many'")
        await press(pilot, "ctrl+y", "escape")
    assert _left(broker.url) == 1
    assert not recorded_kinds(broker.url) & {"redrive", "group_reset"}


async def test_a_redrive_with_a_rate_stops_when_it_is_told_to(broker: LocalBroker) -> None:
    _poisoned(broker.url)
    member = Member(broker.url).join()
    publish(broker.url, "orders", "again")
    (message,) = member.poll()
    ask(broker.url, "POST", "/messages/reject", {"receipt_handle": message["receipt_handle"], "reason": _POISON})
    async with shown(broker.url, Location("errors", ("orders",))) as pilot:
        await see(pilot, _POISON)
        await press(pilot, "d", "down", "down", "down", "down", *"0.2", "enter")
        await see(pilot, "send 2 back? (y)")
        await press(pilot, "y")
        await see(pilot, "1 of 2")
        await press(pilot, "escape")
        await see(pilot, "1 dead letter sent back, then stopped")
    assert _left(broker.url) == 1
    assert [one["end"] for one in recorded(broker.url, "redrive")["changes"]["moves"]] == [1]


async def test_a_group_is_reset_to_an_hour_ago_and_the_way_back_is_written_down(broker: LocalBroker) -> None:
    _poisoned(broker.url)
    async with shown(broker.url, Location("groups")) as pilot:
        await see(pilot, "billing", "○ empty")
        await press(pilot, "enter")
        await see(pilot, "orders/0", "no order")
        await press(pilot, "o", "minus", "1", "h", "enter")
        await see(pilot, "orders/0", "4 again", "reset billing? (y)")
        assert _committed(broker.url) == 4
        await press(pilot, "y")
        await see(pilot, "billing is reset: at most 4 messages read again", "goqueue-cli undo")
        await press(pilot, "escape")
        await until(pilot, lambda: pilot.app.screen.query_one("#places", RowTable).records[0].lag["messages"] == 4)
    assert _committed(broker.url) == 0
    found = recorded(broker.url, "group_reset")
    assert found["changes"]["offsets"] == [{"topic": "orders", "partition": 0, "before": 4, "after": 0}]


def _committed(url: str) -> int:
    offsets: dict[str, dict[str, int]] = ask(url, "GET", "/groups/billing/offsets").json["offsets"]
    return offsets["orders"]["0"]


async def test_a_plan_whose_fields_were_changed_is_none_any_more(broker: LocalBroker) -> None:
    _poisoned(broker.url)
    async with shown(broker.url, Location("group", ("billing",))) as pilot:
        await see(pilot, "orders/0")
        await press(pilot, "o", *"earliest", "enter")
        await see(pilot, "reset billing? (y)")
        await press(pilot, "up", "up", "up", "backspace")
        await until(pilot, lambda: "(y)" not in text(pilot.app))
        await press(pilot, "enter")
        await see(pilot, "is not a time")
    assert _committed(broker.url) == 4
    assert not recorded_kinds(broker.url) & {"redrive", "group_reset"}


async def test_group_is_deleted_once_it_has_no_member_and_after_a_y(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    member = Member(broker.url).join()
    async with shown(broker.url, Location("groups")) as pilot:
        await see(pilot, "billing")
        await press(pilot, "x")
        await see(pilot, "has 1 member: stop them first")
        assert "(y)" not in text(pilot.app)
        member.leave()
        await press(pilot, "escape", "x")
        await see(pilot, "is empty", "forget what was read? (y)")
        await press(pilot, "y")
        await see(pilot, "billing is deleted")
        await press(pilot, "escape")
        await see(pilot, "there are no groups")
    assert ask(broker.url, "GET", "/groups").json["groups"] == []


async def test_in_a_protected_context_a_y_is_not_enough(broker: LocalBroker) -> None:
    _poisoned(broker.url)
    async with shown(broker.url, Location("groups"), protected=True) as pilot:
        await see(pilot, "billing")
        await press(pilot, "x")
        await see(pilot, "(type billing)")
        await press(pilot, "y", "enter")
        await see(pilot, "nothing is changed")
        assert ask(broker.url, "GET", "/groups").json["groups"] == ["billing"]
        await press(pilot, "backspace", *"billing", "enter")
        await see(pilot, "billing is deleted")


async def test_a_rebalance_under_way_shows_who_must_give_up_what(broker: LocalBroker) -> None:
    create(broker.url, "orders", partitions=2)
    first = Member(broker.url, cooperative=True).join()
    async with shown(broker.url, Location("group", ("billing",))) as pilot:
        await see(pilot, "● stable", "orders/0-1")
        Member(broker.url, cooperative=True).join()
        await see(pilot, "◐ rebalancing", f"{first.id} must give up orders/", "GIVES UP")
        asked = first.say("/heartbeat/cooperative", generation=first.generation)
        first.say("/revoke", revoked_partitions=asked["partitions_to_revoke"], generation=asked["generation"])
        await until(pilot, lambda: "must give up" not in text(pilot.app))


async def test_rebalances_of_all_groups_are_counted(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    for group in ("billing", "shipping"):
        Member(broker.url, group).join()
    async with shown(broker.url, Location("rebalances")) as pilot:
        await see(pilot, "2 rebalances", "2 join", "join 1", "shipping")
        await press(pilot, "down", "enter")
        await see_page(pilot, "group")
        await see(pilot, "shipping", "1 member")


async def test_a_broker_that_was_away_is_seen_again(broker: LocalBroker, tmp_path: Path) -> None:
    _poisoned(broker.url)
    async with shown(broker.url, Location("groups")) as pilot:
        await see(pilot, "billing")
        broker.stop()
        await see(pilot, "broker is away since")
        assert "billing" in text(pilot.app)
        assert pilot.app.screen.has_class("-away")
        await press(pilot, "o", *"latest", "enter")
        await see(pilot, "no broker answers")
        await press(pilot, "escape")
        with LocalBroker(str(tmp_path / "data"), server__port=str(urlsplit(broker.url).port)):
            await until(pilot, lambda: "broker is away" not in text(pilot.app))
            await see(pilot, "billing")
