"""Committed offsets and resets: another way to say what is done."""

import errno

import pytest

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
from tests.broker.groupwork import ORDERS, Team, values_of


def team_with(*values: str) -> tuple[Team, str]:
    team = Team()
    team.publish(*values)
    return team, team.join()


def committed(team: Team) -> dict[str, dict[int, int]]:
    return team.coordinator.offsets.committed("team")


# --- commit ---


def test_everything_below_a_committed_offset_is_done_and_stays_so_after_a_crash() -> None:
    team, one = team_with("a", "b", "c")
    team.commit(one, 2)
    team = team.crash()
    assert committed(team) == {"orders": {0: 2}}
    assert values_of(team.poll(one)) == ["c"]


def test_what_was_in_hand_or_failed_below_it_is_done() -> None:
    team, one = team_with("a", "b", "c", "d")
    portion = team.take(one, 3)
    team.nack(portion, (0, 1))
    team.commit(one, 2)
    assert (team.cursor().waiting.count, team.cursor().leased) == (0, 1)
    team.ack(portion, (0, 3))
    assert committed(team) == {"orders": {0: 3}}


def test_acknowledgements_and_commits_are_one_state() -> None:
    team, one = team_with("a", "b", "c")
    team.ack(team.take(one), (1, 3))
    assert committed(team) == {"orders": {0: 0}}
    team.commit(one, 1)
    assert committed(team) == {"orders": {0: 3}}


def test_a_commit_never_goes_back() -> None:
    team, one = team_with("a", "b", "c")
    team.commit(one, 3)
    team.commit(one, 1)
    assert committed(team) == {"orders": {0: 3}}


def test_what_is_not_there_yet_cannot_be_done() -> None:
    team, one = team_with("a")
    with pytest.raises(OffsetOutOfRange):
        team.commit(one, 2)
    team.commit(one, 1)


def test_only_the_owner_commits() -> None:
    team = Team(partitions=2)
    team.publish("a", place=("orders", 1))
    one, two = team.ask_to_join("one"), team.ask_to_join("two")
    team.due(0.03)
    owner = next(told.result[0] for told in (one, two) if team.has(told.result[0]) == [("orders", 1)])
    other = next(told.result[0] for told in (one, two) if told.result[0] != owner)
    with pytest.raises(PartitionNotOwned):
        team.commit(other, 1, ("orders", 1))
    with pytest.raises(PartitionNotOwned):
        team.commit(owner, 0, ("nothing", 0))
    team.commit(owner, 1, ("orders", 1))


def test_who_has_places_of_a_topic_that_is_gone_is_told_so() -> None:
    team = Team()
    one = team.join(confirms=True)
    team.running.delete()
    team.due(0.03)
    assert team.group.assignment[one] == [ORDERS]
    with pytest.raises(TopicNotFound):
        team.commit(one, 0)


def test_who_has_places_of_a_topic_that_is_smaller_now_is_told_so() -> None:
    team = Team(partitions=2)
    one = team.join(confirms=True)
    team.running.delete()
    team.running.clock.advance(1.0)
    team.running.create()
    team.due(0.03)
    with pytest.raises(PartitionNotFound):
        team.commit(one, 0, ("orders", 1))


def test_a_commit_that_the_disk_refuses_did_not_happen() -> None:
    team, one = team_with("a")
    told = team.ask_to_commit(one, 1)
    team.running.disk.fail("write", errno.ENOSPC)
    team.running.flush()
    assert isinstance(told.refusal, DiskFull)
    assert committed(team) == {"orders": {0: 0}}


def test_the_offsets_of_one_topic_can_be_asked_for() -> None:
    team = Team(partitions=2)
    team.running.create("letters")
    team.join(topics=["orders", "letters"])
    assert committed(team) == {"letters": {0: 0}, "orders": {0: 0, 1: 0}}
    assert team.coordinator.offsets.committed("team", "letters") == {"letters": {0: 0}}
    with pytest.raises(GroupNotFound):
        team.coordinator.offsets.committed("nobody")


# --- reset ---


@pytest.mark.parametrize(
    ("to", "value", "after"),
    [("earliest", 0, 0), ("latest", 0, 5), ("offset", 2, 2), ("shift", 1, 4), ("shift", -2, 1), ("shift", -99, 0)],
)
def test_a_group_reads_on_where_it_is_told_to(to: str, value: int, after: int) -> None:
    team, one = team_with(*"abcde")
    team.commit(one, 3)
    (reset,) = team.reset(to, value)  # type: ignore[arg-type]
    assert (reset.before, reset.after) == (3, after)
    assert values_of(team.crash().poll(one)) == list("abcde")[after:]


def test_a_group_reads_on_from_a_time() -> None:
    team, _ = team_with("a", "b")
    team.running.clock.advance(60.0)
    team.publish("c")
    (reset,) = team.reset("time", team.running.clock.now_ns() - 30 * NANOSECONDS)
    assert reset.after == 2


def test_a_dry_run_says_what_would_be_and_changes_nothing() -> None:
    team, one = team_with("a", "b")
    team.commit(one, 1)
    (reset,) = team.reset("earliest", is_dry=True)
    assert (reset.before, reset.after, team.cursor().floor, team.group.generation) == (1, 0, 1, 1)


def test_what_members_have_in_hand_is_theirs_no_more_and_they_are_told() -> None:
    team, one = team_with("a", "b")
    portion = team.take(one)
    team.reset("earliest")
    with pytest.raises(LeaseExpired):
        team.ack(portion)
    with pytest.raises(GenerationStale):
        team.heartbeat(one, 1)
    again = team.take(one)
    assert (values_of([again]), again.grant.deliveries) == (["a", "b"], 1)


def test_only_the_partitions_that_are_named_are_reset() -> None:
    team = Team(partitions=2)
    for number in (0, 1):
        team.publish("a", place=("orders", number))
    one = team.join()
    for portion in team.poll(one):
        team.ack(portion)
    team.reset("earliest", partitions=(1,))
    assert committed(team) == {"orders": {0: 1, 1: 0}}


def test_a_group_can_be_told_where_to_begin_before_anybody_joins_it() -> None:
    team = Team()
    team.publish("a", "b", "c")
    (reset,) = team.reset("offset", 2)
    assert (reset.before, reset.after) == (None, 2)
    team = team.crash()
    assert values_of(team.poll(team.join())) == ["c"]


def test_one_that_nobody_joins_then_is_forgotten_like_any_other() -> None:
    team = Team()
    team.reset("latest")
    team.due(GROUP_RETENTION_SECONDS)
    assert list(team.coordinator.ledger.groups()) == []


@pytest.mark.parametrize("value", [-1, 3])
def test_an_offset_that_is_not_there_is_refused(value: int) -> None:
    team, _ = team_with("a", "b")
    with pytest.raises(OffsetOutOfRange):
        team.reset("offset", value)


def test_what_is_not_there_or_not_theirs_cannot_be_reset() -> None:
    team = Team()
    with pytest.raises(TopicNotFound):
        team.reset("earliest", topic="nothing")
    with pytest.raises(PartitionNotFound):
        team.reset("earliest", partitions=(0, 7))
    with pytest.raises(GroupNameInvalid):
        Team(team.running, "__dead_letters").reset("earliest")


def test_a_reset_that_the_disk_refuses_leaves_everything_in_hand() -> None:
    team, one = team_with("a")
    portion = team.take(one)
    team.running.disk.fail("write", errno.ENOSPC)
    with pytest.raises(GoQueueError):
        team.reset("earliest")
    assert team.group.generation == 1
    team.ack(portion)


def test_a_lease_from_before_a_refused_reset_ends_in_its_time() -> None:
    team, one = team_with("a")
    team.take(one, visibility=5.0)
    team.running.disk.fail("write", errno.ENOSPC)
    with pytest.raises(DiskFull):
        team.reset("earliest")
    team.due(5.0)
    team.due(1.0)
    assert team.take(one).grant.failures == 1
