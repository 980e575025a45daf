"""Membership of groups: join, heartbeat, revoke, leave, expiry and deletion."""

from typing import Any

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups import membership
from goqueue.errors import (
    DiskFull,
    GenerationStale,
    GroupFull,
    GroupMismatch,
    GroupNameInvalid,
    GroupNotEmpty,
    GroupNotFound,
    MemberUnknown,
    TopicNotFound,
)
from goqueue.limits import CLOCK_JUMP_HOLD_SECONDS, GROUP_MEMBERS_MAX, GROUP_RETENTION_SECONDS, JOIN_BATCH_SECONDS
from tests.broker.brokers import Running
from tests.broker.groupwork import ORDERS, Team, values_of

DAY = 24 * 3600.0


# --- joining ---


def test_first_join_creates_group_with_all_partitions() -> None:
    team = Team(partitions=2)
    told = team.ask_to_join()
    assert told.all == []
    team.due(JOIN_BATCH_SECONDS)
    member, group = told.result
    assert (group.generation, group.assignment) == (1, {member: [PartitionRef("orders", 0), PartitionRef("orders", 1)]})
    assert team.crash().group == group


def test_join_is_answered_after_it_is_durable(team: Team) -> None:
    told = team.ask_to_join()
    team.running.clock.advance(JOIN_BATCH_SECONDS)
    team.coordinator.deadlines.call_due(team.coordinator.clock.now_ns())
    assert told.all == []
    assert list(team.crash().coordinator.store.groups()) == []


def test_join_refused_by_disk_adds_no_member(team: Team) -> None:
    told = team.ask_to_join()
    team.running.refuse_writes()
    team.due(JOIN_BATCH_SECONDS)
    assert isinstance(told.refusal, DiskFull)
    assert (list(team.coordinator.store.groups()), team.coordinator.rebalancer.totals.failed) == ([], 1)
    team.join()


def test_join_is_refused_for_missing_and_internal_topics(team: Team) -> None:
    for topic in ("nothing", "__consumer_offsets", "__metadata"):
        with pytest.raises(TopicNotFound):
            team.ask_to_join(topics=[topic])


@pytest.mark.parametrize("name", ["", ".", "..", "__mine", "with space", "a/b", "ü", "x" * 300])
def test_join_with_invalid_group_name_is_refused(name: str) -> None:
    team = Team(Team().running, name)
    with pytest.raises(GroupNameInvalid):
        team.ask_to_join()


def test_member_id_starts_with_sanitized_client_id() -> None:
    assert Team().join("Jürgen's laptop/1").startswith("J-rgen-s-laptop-1-")


def test_join_beyond_member_limit_is_refused(team: Team) -> None:
    for _ in range(GROUP_MEMBERS_MAX):
        team.ask_to_join()
    with pytest.raises(GroupFull):
        team.ask_to_join()
    team.due(JOIN_BATCH_SECONDS)
    with pytest.raises(GroupFull):
        team.ask_to_join()


def test_group_limit_counts_groups_that_are_being_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "GROUPS_MAX", 3)
    running = Team().running
    teams = [Team(running, f"team-{number}") for number in range(4)]
    for team in teams[:3]:
        team.ask_to_join()
        team.ask_to_join()
    with pytest.raises(GroupFull):
        teams[3].ask_to_join()
    teams[0].due(JOIN_BATCH_SECONDS)
    with pytest.raises(GroupFull):
        teams[3].ask_to_join()
    assert len(list(teams[0].running.broker.groups.groups())) == 3


def test_group_reset_during_creation_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "GROUPS_MAX", 2)
    running = Team().running
    first, second = Team(running, "first"), Team(running, "second")
    first.ask_to_join()
    first.coordinator.offsets.open_cursors("first", {ORDERS: 0})
    second.ask_to_join()
    first.due(JOIN_BATCH_SECONDS)
    assert {group.group for group in first.running.broker.groups.groups()} == {"first", "second"}


def test_join_with_other_group_settings_is_refused(team: Team) -> None:
    team.join("one", protocol="eager")
    conflicting: tuple[dict[str, Any], ...] = ({"protocol": "cooperative"}, {"strategy": "range"}, {"order": "key"})
    for options in conflicting:
        with pytest.raises(GroupMismatch):
            team.ask_to_join("two", **options)
    team.ask_to_join("two", start="latest")


def test_empty_group_takes_settings_of_next_member(team: Team) -> None:
    team.leave(team.join(protocol="eager"))
    team.join(protocol="cooperative", strategy="range", order="key")
    assert (team.group.protocol, team.group.strategy, team.group.order) == ("cooperative", "range", "key")


def test_concurrent_first_joins_must_agree_on_settings(team: Team) -> None:
    team.ask_to_join("one", protocol="eager")
    with pytest.raises(GroupMismatch):
        team.ask_to_join("two", protocol="cooperative")


def test_new_partition_starts_at_requested_position(team: Team) -> None:
    team.publish("old")
    one = team.join(start="latest")
    assert team.poll(one) == []
    team.publish("new")
    assert values_of(team.poll(one)) == ["new"]


# --- joining again ---


def test_rejoin_with_member_id_keeps_member(team: Team) -> None:
    one = team.join()
    told = team.ask_to_join(member_id=one)
    team.running.flush()
    assert told.result == (one, team.group)
    assert team.group.generation == 1


def test_join_with_unknown_member_id_gets_new_id(team: Team) -> None:
    assert team.join(member_id="stranger") != "stranger"


def test_fenced_member_rejoins_by_client_id(team: Team) -> None:
    one = team.join("laptop")
    team.reset("earliest")
    with pytest.raises(GenerationStale):
        team.heartbeat(one, 1)
    told = team.ask_to_join("laptop")
    team.running.flush()
    assert told.result[0] == one


def test_same_client_id_makes_two_members(team: Team) -> None:
    assert team.join("laptop") != team.join("laptop")
    assert len(team.group.members) == 2


def test_rejoin_with_other_topics_is_answered_after_rebalance(team: Team) -> None:
    team.running.create("letters")
    one = team.join()
    told = team.ask_to_join(topics=["letters"], member_id=one)
    assert told.all == []
    team.due(JOIN_BATCH_SECONDS)
    assert told.result[0] == one
    assert team.has(one) == [PartitionRef("letters", 0)]


def test_rejoin_with_other_limits_takes_effect_and_survives_crash(team: Team) -> None:
    team.publish("a", "b", "c")
    one = team.join()
    team.ask_to_join(member_id=one, in_flight_max=2)
    team.running.flush()
    team = team.crash()
    assert values_of(team.poll(one)) == ["a", "b"]


# --- signs of life ---


def test_expired_session_removes_member_and_fails_its_messages(team: Team) -> None:
    team.publish("a")
    one, two = team.join("one", session=10.0), team.join("two", session=60.0)
    holder = one if team.has(one) else two
    assert holder == one
    team.take(one, visibility=60.0)
    team.due(9.9)
    assert one in team.group.members
    team.due(0.1)
    team.due(JOIN_BATCH_SECONDS)
    assert list(team.group.members) == [two]
    assert team.take(two).grant.failures == 1
    with pytest.raises(MemberUnknown):
        team.heartbeat(one)


def test_heartbeat_poll_and_commit_extend_session(team: Team) -> None:
    one = team.join(session=10.0)
    for sign in (team.heartbeat, team.poll, lambda member: team.commit(member, 0)):
        team.due(9.0)
        sign(one)
    team.due(9.0)
    team.due(0.5)
    assert one in team.group.members


def test_waiting_poll_extends_session(team: Team) -> None:
    one = team.join(session=10.0)
    team.coordinator.membership.session("team", one).polls = 1
    for _ in range(5):
        team.due(10.0)
    assert one in team.group.members


def test_restart_gives_every_member_a_full_session(team: Team) -> None:
    one = team.join(session=10.0)
    team.running.clock.advance(100.0)
    team = team.crash()
    team.due()
    team.heartbeat(one)
    team.due(10.0)
    team.due(JOIN_BATCH_SECONDS)
    assert team.group.members == {}


def test_expiry_refused_by_disk_is_repeated(team: Team) -> None:
    one = team.join(session=10.0)
    team.due(10.0)
    team.running.refuse_writes()
    team.due(JOIN_BATCH_SECONDS)
    with pytest.raises(MemberUnknown):
        team.heartbeat(one)
    team.due(1.0)
    assert team.group.members == {}


# --- stale members ---


def test_member_with_revoked_partitions_is_stale_until_informed() -> None:
    team = Team(partitions=2)
    team.publish("a", ref=ORDERS)
    one = team.join("one")
    team.join("two")
    assert len(team.has(one)) == 1
    for says in (
        lambda: team.heartbeat(one, 1),
        lambda: team.poll(one, generation=1),
        lambda: team.ask_to_commit(one, 1, ORDERS, 1),
        lambda: team.revoke(one, ORDERS, generation=1),
    ):
        with pytest.raises(GenerationStale) as refusal:
            says()
        assert refusal.value.details == {"generation": team.group.generation}
    team.heartbeat(one, team.group.generation)


def test_future_generation_is_refused(team: Team) -> None:
    one = team.join()
    with pytest.raises(GenerationStale):
        team.heartbeat(one, 2)


def test_member_with_unchanged_partitions_is_not_stale(team: Team) -> None:
    one = team.join("one")
    team.join("two")
    assert team.group.generation == 2
    assert not team.heartbeat(one, 1)


def test_heartbeat_reports_new_assignment() -> None:
    team = Team(partitions=2)
    one, two = team.ask_to_join("one"), team.ask_to_join("two")
    team.due(JOIN_BATCH_SECONDS)
    team.leave(two.result[0])
    assert team.heartbeat(one.result[0], 1)
    assert not team.heartbeat(one.result[0], 2)


def test_unknown_member_is_refused_everywhere(team: Team) -> None:
    team.join()
    before = team.group
    for says in (
        lambda: team.heartbeat("stranger"),
        lambda: team.poll("stranger"),
        lambda: team.ask_to_commit("stranger", 0),
        lambda: team.revoke("stranger", ORDERS),
        lambda: team.ask_to_leave("stranger"),
    ):
        with pytest.raises(MemberUnknown):
            says()
    assert team.group is before


# --- leaving ---


def test_leaving_member_is_refused(team: Team) -> None:
    one = team.join()
    told = team.ask_to_leave(one)
    for says in (lambda: team.heartbeat(one), lambda: team.ask_to_leave(one)):
        with pytest.raises(MemberUnknown):
            says()
    assert told.all == []
    team.due(JOIN_BATCH_SECONDS)
    assert told.all == [None]


# --- the end of a group ---


def test_only_empty_group_can_be_deleted(team: Team) -> None:
    one = team.join()
    with pytest.raises(GroupNotEmpty):
        team.ask_to_delete()
    team.leave(one)
    assert team.delete() is None
    with pytest.raises(GroupNotFound):
        team.coordinator.membership.group("team")
    assert list(team.crash().coordinator.store.groups()) == []


def test_group_with_pending_join_cannot_be_deleted(team: Team) -> None:
    team.leave(team.join())
    team.ask_to_join()
    with pytest.raises(GroupNotEmpty):
        team.ask_to_delete()


def test_recreated_group_starts_without_old_progress(team: Team) -> None:
    team.publish("a")
    one = team.join()
    team.ack(team.take(one))
    team.leave(one)
    team.delete()
    assert values_of(team.poll(team.join())) == ["a"]


def test_empty_group_is_deleted_after_retention(team: Team) -> None:
    team.leave(team.join())
    team.due(GROUP_RETENTION_SECONDS - 1)
    assert team.group.members == {}
    team.due(1.0)
    assert list(team.coordinator.store.groups()) == []


def test_empty_group_is_kept_for_an_hour_after_long_downtime(team: Team) -> None:
    team.leave(team.join())
    team.running.clock.advance(GROUP_RETENTION_SECONDS)
    team = team.crash()
    team.due(CLOCK_JUMP_HOLD_SECONDS - 1)
    assert team.group.members == {}
    team.due(60)
    assert list(team.coordinator.store.groups()) == []


def test_group_joined_before_retention_ends_is_kept(team: Team) -> None:
    team.leave(team.join())
    team.due(6 * DAY)
    one = team.join(session=1800.0)
    team.coordinator.membership.session("team", one).polls = 1
    team.due(2 * DAY)
    assert list(team.group.members) == [one]


def test_group_deletion_refused_by_disk_is_repeated(running: Running, team: Team) -> None:
    team.leave(team.join())
    running.refuse_writes()
    team.due(GROUP_RETENTION_SECONDS)
    assert team.group.members == {}
    team.due(GROUP_RETENTION_SECONDS)
    assert list(team.coordinator.store.groups()) == []
