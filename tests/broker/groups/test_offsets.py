"""Committed offsets and resets: another way to say what is done."""

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.clock import NANOSECONDS
from goqueue.errors import (
    DiskFull,
    GenerationStale,
    GoQueueError,
    GroupNameInvalid,
    GroupNotFound,
    LeaseExpired,
    OffsetOutOfRange,
    PartitionNotFound,
    PartitionNotOwned,
    TopicNotFound,
)
from goqueue.limits import GROUP_RETENTION_SECONDS
from tests.broker.groupwork import ORDERS, Team, team_with, values_of


def committed(team: Team) -> dict[str, dict[int, int]]:
    return team.coordinator.offsets.committed("team")


# --- commit ---


def test_commit_beyond_log_end_is_refused() -> None:
    team, one = team_with("a")
    with pytest.raises(OffsetOutOfRange):
        team.commit(one, 2)
    team.commit(one, 1)


def test_commit_by_non_owner_is_refused() -> None:
    team = Team(partitions=2)
    team.publish("a", ref=PartitionRef("orders", 1))
    one, two = team.ask_to_join("one"), team.ask_to_join("two")
    team.due(0.03)
    owner = next(told.result[0] for told in (one, two) if team.has(told.result[0]) == [PartitionRef("orders", 1)])
    other = next(told.result[0] for told in (one, two) if told.result[0] != owner)
    with pytest.raises(PartitionNotOwned):
        team.commit(other, 1, PartitionRef("orders", 1))
    with pytest.raises(PartitionNotOwned):
        team.commit(owner, 0, PartitionRef("nothing", 0))
    team.commit(owner, 1, PartitionRef("orders", 1))


def test_commit_for_deleted_topic_is_refused(team: Team) -> None:
    one = team.join(confirms=True)
    team.running.delete()
    team.due(0.03)
    assert team.group.assignment[one] == [ORDERS]
    with pytest.raises(TopicNotFound):
        team.commit(one, 0)


def test_commit_for_removed_partition_is_refused() -> None:
    team = Team(partitions=2)
    one = team.join(confirms=True)
    team.running.delete()
    team.running.clock.advance(1.0)
    team.running.create()
    team.due(0.03)
    with pytest.raises(PartitionNotFound):
        team.commit(one, 0, PartitionRef("orders", 1))


def test_commit_without_a_member_settles_what_members_hold(team: Team) -> None:
    team.publish(*"abcdefghij")
    one = team.join(in_flight_max=8)
    batch = team.take(one)
    assert team.poll(one) == []
    woken = team.watch(one)
    team.commit(None, 2)
    assert (woken, values_of(team.poll(one))) == ([one], ["i", "j"])
    team.commit(None, 1)
    assert committed(team) == {"orders": {0: 2}}, "a commit never moves backward"
    team.ack(batch, (2, 5))
    assert committed(team) == {"orders": {0: 5}}


def test_commit_without_a_member_creates_the_group_or_nothing(team: Team) -> None:
    team.publish("a", "b")
    for ref, offset, error in (
        (ORDERS, 3, OffsetOutOfRange),
        (PartitionRef("orders", 7), 0, PartitionNotFound),
        (PartitionRef("nothing", 0), 0, TopicNotFound),
    ):
        with pytest.raises(error):
            team.commit(None, offset, ref)
    with pytest.raises(GroupNotFound):
        committed(team)
    team.commit(None, 1)
    team = team.crash()
    assert committed(team) == {"orders": {0: 1}}
    assert values_of(team.poll(team.join())) == ["b"]


def test_committed_offsets_can_be_filtered_by_topic() -> None:
    team = Team(partitions=2)
    team.running.create("letters")
    team.join(topics=["orders", "letters"])
    assert committed(team) == {"letters": {0: 0}, "orders": {0: 0, 1: 0}}
    assert team.coordinator.offsets.committed("team", "letters") == {"letters": {0: 0}}
    with pytest.raises(GroupNotFound):
        team.coordinator.offsets.committed("unknown")


# --- reset ---


@pytest.mark.parametrize(
    ("to", "value", "after"),
    [("earliest", 0, 0), ("latest", 0, 5), ("offset", 2, 2), ("shift", 1, 4), ("shift", -2, 1), ("shift", -99, 0)],
)
def test_reset_moves_group_to_target(to: str, value: int, after: int) -> None:
    team, one = team_with(*"abcde")
    team.commit(one, 3)
    (reset,) = team.reset(to, value)  # type: ignore[arg-type]
    assert (reset.before, reset.after) == (3, after)
    assert values_of(team.crash().poll(one)) == list("abcde")[after:]


def test_reset_to_time_moves_group_to_first_later_message() -> None:
    team, _ = team_with("a", "b")
    team.running.clock.advance(60.0)
    team.publish("c")
    (reset,) = team.reset("time", team.running.clock.now_ns() - 30 * NANOSECONDS)
    assert reset.after == 2


def test_reset_dry_run_changes_nothing() -> None:
    team, one = team_with("a", "b")
    team.commit(one, 1)
    (reset,) = team.reset("earliest", is_dry=True)
    assert (reset.before, reset.after, team.cursor().floor, team.group.generation) == (1, 0, 1, 1)


def test_reset_revokes_leases_and_fences_members() -> None:
    team, one = team_with("a", "b")
    batch = team.take(one)
    team.reset("earliest")
    with pytest.raises(LeaseExpired):
        team.ack(batch)
    with pytest.raises(GenerationStale):
        team.heartbeat(one, 1)
    again = team.take(one)
    assert (values_of([again]), again.grant.deliveries) == (["a", "b"], 1)


def test_reset_creates_group_before_first_join(team: Team) -> None:
    team.publish("a", "b", "c")
    (reset,) = team.reset("offset", 2)
    assert (reset.before, reset.after) == (None, 2)
    team = team.crash()
    assert values_of(team.poll(team.join())) == ["c"]


def test_group_created_by_reset_expires_when_unused(team: Team) -> None:
    team.reset("latest")
    team.due(GROUP_RETENTION_SECONDS)
    assert list(team.coordinator.store.groups()) == []


@pytest.mark.parametrize("value", [-1, 3])
def test_reset_to_missing_offset_is_refused(value: int) -> None:
    team, _ = team_with("a", "b")
    with pytest.raises(OffsetOutOfRange):
        team.reset("offset", value)


def test_reset_of_missing_or_internal_topic_is_refused(team: Team) -> None:
    with pytest.raises(TopicNotFound):
        team.reset("earliest", topic="nothing")
    with pytest.raises(PartitionNotFound):
        team.reset("earliest", partitions=(0, 7))
    with pytest.raises(GroupNameInvalid):
        Team(team.running, "__dead_letters").reset("earliest")


def test_reset_refused_by_disk_keeps_leases() -> None:
    team, one = team_with("a")
    batch = team.take(one)
    team.running.refuse_writes()
    with pytest.raises(GoQueueError):
        team.reset("earliest")
    assert team.group.generation == 1
    team.ack(batch)


def test_lease_from_before_refused_reset_expires_on_time() -> None:
    team, one = team_with("a")
    team.take(one, visibility=5.0)
    team.running.refuse_writes()
    with pytest.raises(DiskFull):
        team.reset("earliest")
    team.due(5.0)
    team.due(1.0)
    assert team.take(one).grant.failures == 1
