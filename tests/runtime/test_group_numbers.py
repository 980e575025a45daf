"""What the metrics are told of groups."""

import asyncio

from goqueue.broker.groups.group import Group
from goqueue.observe.group_metrics import GroupNumbers, OneGroup
from goqueue.runtime.group_numbers import group_numbers
from tests.broker.groupwork import ORDERS, Team


def numbers(team: Team) -> GroupNumbers:
    return asyncio.run(group_numbers(team.running.broker))


def one(team: Team) -> OneGroup:
    return numbers(team).groups[team.name]


def test_lag_is_what_is_neither_below_the_floor_nor_acked_above_it() -> None:
    team = Team()
    team.publish("a", "b", "c", "d", "e")
    portion = team.take(team.join(), 4)
    assert one(team).lag == {"orders": 5}
    team.ack(portion, (0, 1), (2, 3))
    assert (one(team).lag, one(team).in_flight) == ({"orders": 3}, 2)


def test_lag_is_summed_over_the_partitions_of_a_topic() -> None:
    team = Team(partitions=2)
    team.publish("a", "b", place=("orders", 0))
    team.publish("c", place=("orders", 1))
    team.join()
    assert one(team).lag == {"orders": 3}


def test_what_retention_has_removed_is_no_lag() -> None:
    team = Team()
    team.publish("a", "b", "c")
    portion = team.take(team.join())
    team.ack(portion, (1, 2))
    team.expire()
    team.publish("d")
    assert one(team).lag == {"orders": 1}


def test_a_poll_behind_retention_finds_what_was_lost() -> None:
    team = Team()
    team.publish("a", "b", "c")
    member = team.join()
    team.expire()
    team.publish("d")
    team.poll(member)
    assert one(team).lost == {ORDERS: 3}


def test_a_group_is_stable_once_everybody_knows_what_it_has() -> None:
    team = Team(partitions=2)
    first = team.join("one")
    assert one(team) == OneGroup("stable", 1, 0, {"orders": 0})
    team.publish("a")
    portion = team.take(first)
    second = team.join("two")
    team.ack(portion)
    assert one(team).state == "rebalancing"
    team.heartbeat(first)
    team.heartbeat(second)
    assert one(team).state == "stable"
    team.leave(first)
    team.leave(second)
    assert one(team).state == "empty"


def test_a_group_of_the_broker_itself_has_no_numbers() -> None:
    team = Team()
    team.coordinator.ledger.record("__dead_letters", [Group(group="__dead_letters")])
    team.running.flush()
    assert numbers(team).groups == {}


def test_what_became_of_messages_is_told_by_outcome() -> None:
    team = Team()
    team.publish(*"abcdef")
    portion = team.take(team.join(), 5, visibility=10)
    team.ack(portion, (0, 1))
    team.nack(portion, (1, 2))
    team.say("release", portion, (2, 3))
    team.say("reject", portion, (3, 4))
    team.due(11)
    found = numbers(team).settled
    assert found == {"acked": 1, "nacked": 1, "released": 1, "rejected": 1, "expired": 1, "dead_lettered": 1}


def test_rebalances_are_told_by_reason_and_each_that_ends_by_its_duration() -> None:
    team = Team()
    took: list[int] = []
    team.coordinator.rebalancer.on_complete = took.append
    team.leave(team.join())
    assert numbers(team).rebalances == {"join": 1, "leave": 1}
    assert [nanoseconds // 1_000_000 for nanoseconds in took] == [30, 30]
