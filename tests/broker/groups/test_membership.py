"""Who is in a group: joining, signs of life, giving up, leaving, and the end of groups."""

import errno
from typing import Any

import pytest

from goqueue.broker.groups import membership
from goqueue.errors import (
    DiskFull,
    GenerationStale,
    GoQueueError,
    GroupFull,
    GroupMismatch,
    GroupNameInvalid,
    GroupNotEmpty,
    GroupNotFound,
    MemberUnknown,
    TopicNotFound,
)
from goqueue.limits import CLOCK_DOUBT_SECONDS, GROUP_MEMBERS_MAX, GROUP_RETENTION_SECONDS, JOIN_GATHER_SECONDS
from tests.broker.brokers import Running, Told
from tests.broker.groupwork import ORDERS, Team, values_of

DAY = 24 * 3600.0


def delete(team: Team) -> Told[GoQueueError | None]:
    told: Told[GoQueueError | None] = Told()
    team.coordinator.membership.delete("team", told)
    return told


# --- joining ---


def test_whoever_joins_first_makes_the_group_and_has_everything() -> None:
    team = Team(partitions=2)
    told = team.ask_to_join()
    assert told.all == []
    team.due(JOIN_GATHER_SECONDS)
    member, group = told.result
    assert (group.generation, group.assignment) == (1, {member: [("orders", 0), ("orders", 1)]})
    assert team.crash().group == group


def test_a_member_is_told_when_it_is_durable_that_it_is_one() -> None:
    team = Team()
    told = team.ask_to_join()
    team.running.clock.advance(JOIN_GATHER_SECONDS)
    team.coordinator.deadlines.call_due(team.coordinator.clock.now_ns())
    assert told.all == []
    assert list(team.crash().coordinator.ledger.groups()) == []


def test_joins_that_come_together_are_one_rebalance() -> None:
    team = Team(partitions=3)
    told = [team.ask_to_join(name) for name in "abc"]
    team.due(JOIN_GATHER_SECONDS)
    assert [one.result[1].generation for one in told] == [1, 1, 1]
    assert team.coordinator.rebalancer.totals.total == 1


def test_a_join_that_the_disk_refuses_made_no_member() -> None:
    team = Team()
    told = team.ask_to_join()
    team.running.disk.fail("write", errno.ENOSPC)
    team.due(JOIN_GATHER_SECONDS)
    assert isinstance(told.refusal, DiskFull)
    assert list(team.coordinator.ledger.groups()) == []
    team.join()


def test_only_topics_that_are_there_and_are_of_clients_can_be_read() -> None:
    team = Team()
    for topic in ("nothing", "__consumer_offsets", "__metadata"):
        with pytest.raises(TopicNotFound):
            team.ask_to_join(topics=[topic])


@pytest.mark.parametrize("name", ["", ".", "..", "__mine", "with space", "a/b", "ü", "x" * 300])
def test_a_group_has_a_name_like_a_topic(name: str) -> None:
    team = Team(Team().running, name)
    with pytest.raises(GroupNameInvalid):
        team.ask_to_join()


def test_the_id_of_a_member_begins_with_its_name_as_far_as_that_is_fit() -> None:
    assert Team().join("Jürgen's laptop/1").startswith("J-rgen-s-laptop-1-")


def test_a_group_has_only_so_many_members() -> None:
    team = Team()
    for _ in range(GROUP_MEMBERS_MAX):
        team.ask_to_join()
    with pytest.raises(GroupFull):
        team.ask_to_join()
    team.due(JOIN_GATHER_SECONDS)
    with pytest.raises(GroupFull):
        team.ask_to_join()


def test_groups_that_begin_at_the_same_time_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "GROUPS_MAX", 3)
    running = Team().running
    teams = [Team(running, f"team-{number}") for number in range(4)]
    for team in teams[:3]:
        team.ask_to_join()
        team.ask_to_join()
    with pytest.raises(GroupFull):
        teams[3].ask_to_join()
    teams[0].due(JOIN_GATHER_SECONDS)
    with pytest.raises(GroupFull):
        teams[3].ask_to_join()
    assert len(list(teams[0].coordinator.ledger.groups())) == 3


def test_group_that_is_reset_while_it_begins_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "GROUPS_MAX", 2)
    running = Team().running
    first, second = Team(running, "first"), Team(running, "second")
    first.ask_to_join()
    first.coordinator.offsets.open("first", {ORDERS: 0})
    second.ask_to_join()
    first.due(JOIN_GATHER_SECONDS)
    assert {group.group for group in first.coordinator.ledger.groups()} == {"first", "second"}


def test_who_wishes_otherwise_than_the_group_works_is_refused() -> None:
    team = Team()
    team.join("one", protocol="eager")
    wishes: tuple[dict[str, Any], ...] = ({"protocol": "cooperative"}, {"strategy": "range"}, {"order": "key"})
    for wish in wishes:
        with pytest.raises(GroupMismatch):
            team.ask_to_join("two", **wish)
    team.ask_to_join("two", start="latest")


def test_an_empty_group_works_as_the_next_one_wishes() -> None:
    team = Team()
    team.leave(team.join(protocol="eager"))
    team.join(protocol="cooperative", strategy="range", order="key")
    assert (team.group.protocol, team.group.strategy, team.group.order) == ("cooperative", "range", "key")


def test_what_two_wish_that_come_together_has_to_agree() -> None:
    team = Team()
    team.ask_to_join("one", protocol="eager")
    with pytest.raises(GroupMismatch):
        team.ask_to_join("two", protocol="cooperative")


def test_a_group_that_never_read_a_place_begins_where_it_wishes() -> None:
    team = Team()
    team.publish("old")
    one = team.join(start="latest")
    assert team.poll(one) == []
    team.publish("new")
    assert values_of(team.poll(one)) == ["new"]


# --- joining again ---


def test_who_joins_again_under_its_id_is_the_same_member_at_once() -> None:
    team = Team()
    one = team.join()
    told = team.ask_to_join(member_id=one)
    team.running.flush()
    assert told.result == (one, team.group)
    assert team.group.generation == 1


def test_an_id_that_is_not_known_is_that_of_nobody_and_another_is_given() -> None:
    team = Team()
    assert team.join(member_id="stranger") != "stranger"


def test_who_was_fenced_comes_back_under_its_name() -> None:
    team = Team()
    one = team.join("laptop")
    team.reset("earliest")
    with pytest.raises(GenerationStale):
        team.heartbeat(one, 1)
    told = team.ask_to_join("laptop")
    team.running.flush()
    assert told.result[0] == one


def test_two_of_the_same_name_are_two_members() -> None:
    team = Team()
    assert team.join("laptop") != team.join("laptop")
    assert len(team.group.members) == 2


def test_who_joins_again_for_other_topics_is_told_after_the_rebalance() -> None:
    team = Team()
    team.running.create("letters")
    one = team.join()
    told = team.ask_to_join(topics=["letters"], member_id=one)
    assert told.all == []
    team.due(JOIN_GATHER_SECONDS)
    assert told.result[0] == one
    assert team.has(one) == [("letters", 0)]


def test_other_wishes_of_a_member_hold_at_once_and_after_a_crash() -> None:
    team = Team()
    team.publish("a", "b", "c")
    one = team.join()
    team.ask_to_join(member_id=one, in_flight_max=2)
    team.running.flush()
    team = team.crash()
    assert values_of(team.poll(one)) == ["a", "b"]


# --- signs of life ---


def test_a_member_without_a_sign_of_life_is_none_and_what_it_had_has_failed() -> None:
    team = Team()
    team.publish("a")
    one, two = team.join("one", session=10.0), team.join("two", session=60.0)
    holder = one if team.has(one) else two
    assert holder == one
    team.take(one, visibility=60.0)
    team.due(9.9)
    assert one in team.group.members
    team.due(0.1)
    team.due(JOIN_GATHER_SECONDS)
    assert list(team.group.members) == [two]
    assert team.take(two).grant.failures == 1
    with pytest.raises(MemberUnknown):
        team.heartbeat(one)


def test_a_heartbeat_a_poll_and_a_commit_are_signs_of_life() -> None:
    team = Team()
    one = team.join(session=10.0)
    for sign in (team.heartbeat, team.poll, lambda member: team.commit(member, 0)):
        team.due(9.0)
        sign(one)
    team.due(9.0)
    team.due(0.5)
    assert one in team.group.members


def test_who_waits_for_messages_is_alive() -> None:
    team = Team()
    one = team.join(session=10.0)
    team.coordinator.membership.presence("team", one).polls = 1
    for _ in range(5):
        team.due(10.0)
    assert one in team.group.members


def test_who_waits_for_the_others_to_join_again_is_alive() -> None:
    team = Team(partitions=2)
    one = team.join("one", protocol="eager", session=300.0)
    told = team.ask_to_join("two", session=10.0)
    team.due(JOIN_GATHER_SECONDS)
    for _ in range(4):
        team.due(10.0)
        team.heartbeat(one)
    team.ask_to_join("one", member_id=one, session=300.0)
    team.running.flush()
    two, group = told.result
    assert set(group.members) == {one, two}


def test_after_a_restart_every_member_has_a_whole_session() -> None:
    team = Team()
    one = team.join(session=10.0)
    team.running.clock.advance(100.0)
    team = team.crash()
    team.due()
    team.heartbeat(one)
    team.due(10.0)
    team.due(JOIN_GATHER_SECONDS)
    assert team.group.members == {}


def test_who_has_vanished_stays_away_whatever_the_disk_says() -> None:
    team = Team()
    one = team.join(session=10.0)
    team.due(10.0)
    team.running.disk.fail("write", errno.ENOSPC)
    team.due(JOIN_GATHER_SECONDS)
    with pytest.raises(MemberUnknown):
        team.heartbeat(one)
    team.due(1.0)
    assert team.group.members == {}


# --- stale members ---


def test_a_member_that_lost_something_is_stale_until_it_knows() -> None:
    team = Team(partitions=2)
    team.publish("a", place=ORDERS)
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


def test_a_generation_that_has_not_come_yet_is_refused_as_well() -> None:
    team = Team()
    one = team.join()
    with pytest.raises(GenerationStale):
        team.heartbeat(one, 2)


def test_a_member_that_kept_everything_is_not_stale_and_has_no_news() -> None:
    team = Team()
    one = team.join("one")
    team.join("two")
    assert team.group.generation == 2
    assert not team.heartbeat(one, 1)


def test_who_is_given_something_hears_of_it_with_the_next_heartbeat() -> None:
    team = Team(partitions=2)
    one, two = team.ask_to_join("one"), team.ask_to_join("two")
    team.due(JOIN_GATHER_SECONDS)
    team.leave(two.result[0])
    assert team.heartbeat(one.result[0], 1)
    assert not team.heartbeat(one.result[0], 2)


def test_a_stranger_changes_nothing() -> None:
    team = Team()
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


def test_what_a_member_had_in_hand_when_it_left_is_handed_out_at_once_and_has_not_failed() -> None:
    team = Team()
    team.publish("a")
    one = team.join("one")
    two = team.join("two")
    team.take(one)
    team.leave(one)
    again = team.take(two)
    assert (again.grant.deliveries, again.grant.failures) == (2, 0)


def test_who_has_said_that_it_leaves_is_no_member_any_more() -> None:
    team = Team()
    one = team.join()
    told = team.ask_to_leave(one)
    for says in (lambda: team.heartbeat(one), lambda: team.ask_to_leave(one)):
        with pytest.raises(MemberUnknown):
            says()
    assert told.all == []
    team.due(JOIN_GATHER_SECONDS)
    assert told.all == [None]


def test_a_departure_that_the_disk_refuses_leaves_the_member_where_it_was() -> None:
    team = Team()
    one = team.join()
    told = team.ask_to_leave(one)
    team.running.disk.fail("write", errno.ENOSPC)
    team.due(JOIN_GATHER_SECONDS)
    assert isinstance(told.refusal, DiskFull)
    team.heartbeat(one)
    team.leave(one)


# --- the end of a group ---


def test_only_an_empty_group_can_be_deleted_and_then_it_is_gone() -> None:
    team = Team()
    one = team.join()
    with pytest.raises(GroupNotEmpty):
        delete(team)
    team.leave(one)
    told = delete(team)
    team.running.flush()
    assert told.all == [None]
    with pytest.raises(GroupNotFound):
        team.coordinator.membership.group("team")
    assert list(team.crash().coordinator.ledger.groups()) == []


def test_a_group_that_somebody_is_about_to_join_is_not_empty() -> None:
    team = Team()
    team.leave(team.join())
    team.ask_to_join()
    with pytest.raises(GroupNotEmpty):
        delete(team)


def test_a_deleted_group_of_the_same_name_begins_anew() -> None:
    team = Team()
    team.publish("a")
    one = team.join()
    team.ack(team.take(one))
    team.leave(one)
    delete(team)
    team.running.flush()
    assert values_of(team.poll(team.join())) == ["a"]


def test_a_group_that_nobody_joins_any_more_is_forgotten_after_a_week() -> None:
    team = Team()
    team.leave(team.join())
    team.due(GROUP_RETENTION_SECONDS - 1)
    assert team.group.members == {}
    team.due(1.0)
    assert list(team.coordinator.ledger.groups()) == []


def test_group_that_seems_abandoned_after_a_long_downtime_is_kept_for_an_hour() -> None:
    team = Team()
    team.leave(team.join())
    team.running.clock.advance(GROUP_RETENTION_SECONDS)
    team = team.crash()
    team.due(CLOCK_DOUBT_SECONDS - 1)
    assert team.group.members == {}
    team.due(60)
    assert list(team.coordinator.ledger.groups()) == []


def test_a_group_that_was_joined_in_time_stays() -> None:
    team = Team()
    team.leave(team.join())
    team.due(6 * DAY)
    one = team.join(session=1800.0)
    team.coordinator.membership.presence("team", one).polls = 1
    team.due(2 * DAY)
    assert list(team.group.members) == [one]


def test_a_group_that_could_not_be_forgotten_is_forgotten_later() -> None:
    running = Running()
    running.create()
    team = Team(running)
    team.leave(team.join())
    running.disk.fail("write", errno.ENOSPC)
    team.due(GROUP_RETENTION_SECONDS)
    assert team.group.members == {}
    team.due(GROUP_RETENTION_SECONDS)
    assert list(team.coordinator.ledger.groups()) == []
