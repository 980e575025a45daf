"""Metrics of groups."""

import asyncio

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.records import Group
from goqueue.observe.state_metrics import GroupMetricsInput, GroupMetricValues
from goqueue.runtime.metrics_scraper import collect_group_metrics
from tests.broker.groupwork import ORDERS, Team


def numbers(team: Team) -> GroupMetricsInput:
    return asyncio.run(collect_group_metrics(team.running.broker))


def one(team: Team) -> GroupMetricValues:
    return numbers(team).groups[team.name]


def test_lag_excludes_acked_messages() -> None:
    team = Team()
    team.publish("a", "b", "c", "d", "e")
    portion = team.take(team.join(), 4)
    assert one(team).lag == {"orders": 5}
    team.ack(portion, (0, 1), (2, 3))
    assert (one(team).lag, one(team).in_flight) == ({"orders": 3}, 2)


def test_lag_is_summed_over_partitions() -> None:
    team = Team(partitions=2)
    team.publish("a", "b", ref=PartitionRef("orders", 0))
    team.publish("c", ref=PartitionRef("orders", 1))
    team.join()
    assert one(team).lag == {"orders": 3}


def test_lag_excludes_messages_removed_by_retention() -> None:
    team = Team()
    team.publish("a", "b", "c")
    portion = team.take(team.join())
    team.ack(portion, (1, 2))
    team.expire()
    team.publish("d")
    assert one(team).lag == {"orders": 1}


def test_messages_lost_to_retention_are_counted() -> None:
    team = Team()
    team.publish("a", "b", "c")
    member = team.join()
    team.expire()
    team.publish("d")
    created_ns = team.cursor().topic_ns
    assert one(team).lost == {(*ORDERS, created_ns): 3}
    team.poll(member)
    assert one(team).lost == {(*ORDERS, created_ns): 3}


def test_messages_removed_before_the_group_existed_are_not_lost() -> None:
    team = Team()
    team.publish("a", "b", "c")
    team.expire()
    team.publish("d")
    team.join()
    assert one(team).lost == {}


def test_group_state_is_stable_rebalancing_or_empty() -> None:
    team = Team(partitions=2)
    first = team.join("one")
    assert one(team) == GroupMetricValues("stable", 1, 0, {"orders": 0})
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


def test_internal_groups_have_no_metrics() -> None:
    team = Team()
    team.coordinator.store.record("__dead_letters", [Group(group="__dead_letters")])
    team.running.flush()
    assert numbers(team).groups == {}


def test_settled_messages_are_counted_by_outcome() -> None:
    team = Team()
    team.publish(*"abcdef")
    portion = team.take(team.join(), 5, visibility=10)
    team.ack(portion, (0, 1))
    team.nack(portion, (1, 2))
    team.settle("release", portion, (2, 3))
    team.settle("reject", portion, (3, 4))
    team.due(11)
    found = numbers(team).settled
    assert found == {
        "acked": 1,
        "nacked": 1,
        "released": 1,
        "rejected": 1,
        "expired": 1,
        "dead_lettered": 1,
        "dropped": 0,
    }


def test_rebalances_are_counted_by_reason_with_duration() -> None:
    team = Team()
    took: list[int] = []
    team.coordinator.rebalancer.on_complete.subscribe(took.append)
    team.leave(team.join())
    assert numbers(team).rebalances == {"join": 1, "leave": 1}
    assert [nanoseconds // 1_000_000 for nanoseconds in took] == [30, 30]
