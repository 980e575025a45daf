"""Rebalances as members live through them: who is asked, who goes on, who waits, and what becomes of topics."""

import errno

import pytest

from goqueue.errors import DiskFull, GoQueueError, LeaseExpired, MemberUnknown
from goqueue.limits import JOIN_GATHER_SECONDS, REVOCATION_SECONDS
from goqueue.testing.disk import Crashed, Keep
from tests.broker.brokers import Running, Told
from tests.broker.groupwork import GATHERED, ORDERS, Team, values_of

PLACES = [("orders", number) for number in range(4)]


def team_of_four() -> Team:
    team = Team(partitions=4)
    for place in PLACES:
        team.publish("a", "b", place=place)
    return team


def check(team: Team) -> None:
    """A place has one owner, and whoever has messages of it in hand is that owner."""
    given = [place for places in team.group.assignment.values() for place in places]
    assert len(given) == len(set(given))
    owners = team.group.owners()
    for place, cursor in team.coordinator.ledger.cursors("team").items():
        assert {lease.grant.member for lease in cursor.leases.values()} <= {owners.get(place)}
    for place in given:
        assert team.coordinator.ledger.cursor("team", place) is not None


# --- many at once ---


def test_however_many_come_at_once_what_moves_goes_to_them_in_one_generation() -> None:
    team = Team(partitions=60)
    for number in range(30):
        team.ask_to_join(f"old-{number}")
    team.due(GATHERED)
    before = team.group.generation
    for number in range(30):
        team.ask_to_join(f"new-{number}")
    team.due(GATHERED)
    assert (team.group.phase, team.group.generation) == ("complete", before + 2)
    assert {len(places) for places in team.group.assignment.values()} == {1}
    check(team)


# --- cooperative, members that confirm ---


def test_what_moves_is_asked_for_and_the_rest_goes_on() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True)
    in_hand = {(portion.topic, portion.partition): portion for portion in team.poll(one, 4)}
    two = team.join("two", confirms=True)
    asked, kept = team.group.to_give_up(one), team.has(one)
    assert (len(asked), len(kept), team.has(two)) == (2, 2, [])
    for portion in in_hand.values():
        team.ack(portion, (portion.grant.first, portion.grant.first + 1))
    assert {(portion.topic, portion.partition) for portion in team.poll(one)} <= set(kept)
    team.revoke(one, *asked)
    assert (team.has(one), sorted(team.has(two))) == (kept, sorted(asked))
    check(team)


def test_what_is_in_hand_where_a_place_is_given_up_is_released_and_that_is_no_failure() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True)
    portions = {(portion.topic, portion.partition): portion for _ in range(4) for portion in team.poll(one, 2)}
    two = team.join("two", confirms=True)
    asked = team.group.to_give_up(one)
    team.revoke(one, *asked)
    with pytest.raises(LeaseExpired):
        team.ack(portions[asked[0]])
    again = team.poll(two)
    assert {(portion.grant.deliveries, portion.grant.failures) for portion in again} == {(2, 0)}
    check(team)


def test_who_gives_up_only_a_part_is_asked_for_the_rest() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True)
    two = team.join("two", confirms=True)
    first, second = team.group.to_give_up(one)
    group = team.revoke(one, first)
    assert (group.to_give_up(one), team.has(two)) == ([second], [first])
    assert team.heartbeat(one)


def test_what_nobody_asked_for_stays() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True)
    group = team.revoke(one, *PLACES)
    assert group.assignment == {one: PLACES}


def test_who_does_not_give_up_in_time_loses_what_was_asked_for() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True, session=1800.0)
    team.poll(one, 4, visibility=1000.0)
    two = team.join("two", confirms=True, session=1800.0)
    deadline_ns = team.coordinator.rebalancer.deadline_of("team", one)
    assert deadline_ns == team.coordinator.clock.now_ns() + round(REVOCATION_SECONDS * 10**9)
    team.due(REVOCATION_SECONDS - 0.001)
    assert team.has(two) == []
    team.due(0.001)
    assert (len(team.has(one)), len(team.has(two))) == (2, 2)
    assert (team.coordinator.rebalancer.totals.timeouts, team.group.phase) == (1, "complete")
    check(team)


def test_after_a_restart_there_is_all_the_time_for_it_again() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True, session=1800.0)
    two = team.join("two", confirms=True, session=1800.0)
    team.due(REVOCATION_SECONDS - 1)
    team = team.crash()
    team.due(REVOCATION_SECONDS - 1)
    assert (len(team.group.to_give_up(one)), team.has(two)) == (2, [])
    team.due(1.0)
    assert len(team.has(two)) == 2


# --- cooperative, members that do not confirm ---


def test_a_plain_member_gives_up_at_once_what_it_has_nothing_in_hand_of() -> None:
    team = team_of_four()
    one = team.join("one")
    two = team.join("two")
    assert (len(team.has(one)), len(team.has(two)), team.group.phase) == (2, 2, "complete")


def test_a_plain_member_gives_a_place_up_as_soon_as_it_is_idle() -> None:
    team = Team(partitions=2)
    team.publish("a", place=("orders", 0))
    team.publish("b", place=("orders", 1))
    one = team.join("one")
    portions = {portion.partition: portion for portion in team.poll(one)}
    two = team.join("two")
    (asked,) = team.group.to_give_up(one)
    assert team.has(two) == []
    team.ack(portions[asked[1]])
    assert team.has(two) == [asked]
    assert team.group.phase == "complete"
    check(team)


@pytest.mark.parametrize("way", ["nack", "reject", "release", "expiry", "commit", "reset"])
def test_whatever_made_it_idle(way: str) -> None:
    team = Team(partitions=2)
    for number in (0, 1):
        team.publish("a", place=("orders", number))
    one = team.join("one")
    portions = {(portion.topic, portion.partition): portion for portion in team.poll(one, visibility=10.0)}
    two = team.join("two")
    (asked,) = team.group.to_give_up(one)
    match way:
        case "expiry":
            team.due(10.0)
        case "commit":
            team.commit(one, 1, asked)
        case "reset":
            team.reset("earliest", partitions=(asked[1],))
        case _:
            team.say(way, portions[asked])  # type: ignore[arg-type]
    team.running.flush()
    assert team.has(two) == [asked]


# --- eager ---


def test_eager_everybody_stops_and_waits_for_the_last_one() -> None:
    team = team_of_four()
    one = team.join("one", protocol="eager")
    portion = team.poll(one, 1)[0]
    told = team.ask_to_join("two")
    team.due(JOIN_GATHER_SECONDS)
    assert told.all == []
    assert team.heartbeat(one)
    assert team.poll(one) == []
    team.ack(portion)
    again = team.ask_to_join("one", member_id=one)
    team.running.flush()
    assert told.result[1].generation == again.result[1].generation == 2
    assert len(team.has(one)) == len(team.has(told.result[0])) == 2
    check(team)


def test_eager_what_was_in_hand_when_a_member_joined_again_is_released() -> None:
    team = team_of_four()
    one, other = team.ask_to_join("one", protocol="eager"), team.ask_to_join("other")
    team.due(JOIN_GATHER_SECONDS)
    portion = team.poll(one.result[0], 1)[0]
    team.ask_to_join("two")
    team.due(JOIN_GATHER_SECONDS)
    team.ask_to_join("one", member_id=one.result[0])
    team.running.flush()
    assert team.group.awaited == [other.result[0]]
    with pytest.raises(LeaseExpired):
        team.ack(portion)
    check(team)


def test_eager_who_does_not_come_back_in_time_is_no_member_any_more() -> None:
    team = team_of_four()
    one = team.join("one", protocol="eager", session=1800.0)
    told = team.ask_to_join("two", session=1800.0)
    team.due(JOIN_GATHER_SECONDS)
    team.due(REVOCATION_SECONDS)
    two, group = told.result
    assert group.assignment == {two: PLACES}
    with pytest.raises(MemberUnknown):
        team.heartbeat(one)


def test_eager_who_leaves_while_the_others_are_awaited_is_told_that_it_is_none() -> None:
    team = team_of_four()
    one = team.join("one", protocol="eager")
    told = team.ask_to_join("two")
    team.due(JOIN_GATHER_SECONDS)
    (two,) = team.group.members.keys() - {one}
    team.leave(two)
    team.ask_to_join("one", member_id=one)
    team.running.flush()
    assert isinstance(told.refusal, MemberUnknown)
    assert team.has(one) == PLACES


def test_eager_a_rebalance_goes_on_after_a_crash() -> None:
    team = team_of_four()
    one = team.join("one", protocol="eager", session=1800.0)
    team.ask_to_join("two", session=1800.0)
    team.due(JOIN_GATHER_SECONDS)
    team = team.crash()
    assert (team.group.awaited, team.has(one)) == ([one], [])
    team.ask_to_join("one", member_id=one, session=1800.0)
    team.running.flush()
    assert len(team.has(one)) == 2


# --- topics ---


def test_a_topic_that_is_created_again_is_another_one_and_read_from_its_beginning() -> None:
    team = Team()
    team.publish("old")
    one = team.join()
    team.ack(team.take(one))
    team.running.delete()
    team.running.clock.advance(1.0)
    team.running.create()
    team.publish("new")
    team.due(GATHERED)
    assert values_of(team.poll(one)) == ["new"]
    assert team.crash().cursor().floor == 0


def test_one_that_has_fewer_partitions_then_is_read_as_far_as_it_goes() -> None:
    team = Team(partitions=3)
    one = team.join(confirms=True)
    team.running.delete()
    team.running.clock.advance(1.0)
    team.running.create(partitions=1)
    team.publish("new")
    team.due(GATHERED)
    assert team.has(one) == [ORDERS]
    assert values_of(team.poll(one)) == ["new"]
    team.revoke(one, *team.group.to_give_up(one))
    assert team.group.assignment == {one: [ORDERS]}


def test_when_a_topic_is_gone_its_places_are_and_what_was_in_hand_keeps_nobody() -> None:
    team = Team()
    team.running.create("letters")
    team.publish("a")
    one = team.join(topics=["orders", "letters"])
    portion = team.take(one)
    team.running.delete("orders")
    team.due(GATHERED)
    assert (team.group.assignment[one], team.group.phase) == ([("letters", 0)], "complete")
    assert ORDERS not in team.coordinator.ledger.cursors("team")
    with pytest.raises(LeaseExpired):
        team.ack(portion)


def test_a_topic_that_comes_back_while_nobody_is_in_the_group_is_another_one_all_the_same() -> None:
    team = Team()
    team.publish("old")
    one = team.join()
    team.ack(team.take(one))
    team.leave(one)
    team.running.delete()
    team.running.clock.advance(1.0)
    team.running.create()
    team.publish("new")
    team.due(GATHERED)
    assert values_of(team.poll(team.join())) == ["new"]


def test_a_topic_that_went_and_came_while_the_broker_was_down_is_noticed_at_the_start() -> None:
    team = Team()
    team.publish("old")
    one = team.join()
    team.ack(team.take(one))
    team.running.delete()
    team.running.clock.advance(1.0)
    team.running.create()
    team.publish("new")
    team = team.crash()
    team.due(GATHERED)
    assert values_of(team.poll(one)) == ["new"]


# --- the disk ---


def test_a_change_of_topics_that_the_disk_refuses_is_noticed_a_moment_later() -> None:
    team = Team()
    team.running.create("letters")
    one = team.join(topics=["orders", "letters"])
    team.running.delete("letters")
    team.running.disk.fail("write", errno.ENOSPC)
    team.due(GATHERED)
    assert len(team.has(one)) == 2
    team.due(1.0)
    assert team.has(one) == [ORDERS]


def test_a_rebalance_that_the_disk_refuses_leaves_everything_as_it_was() -> None:
    team = team_of_four()
    one = team.join("one")
    before = team.group
    told = team.ask_to_join("two")
    team.running.disk.fail("write", errno.ENOSPC)
    team.due(GATHERED)
    assert isinstance(told.refusal, DiskFull)
    assert team.group == before
    assert team.coordinator.rebalancer.totals.failed == 1
    team.heartbeat(one, 1)


@pytest.mark.parametrize("keep", ["everything", "synced", "some"])
def test_a_crash_at_any_operation_of_a_rebalance_leaves_each_place_with_one_owner(keep: Keep) -> None:
    operation, is_over = 0, False
    while not is_over:
        team = team_of_four()
        one = team.join("one")
        team.poll(one, 3)
        operation += 1
        team.running.disk.crash_at(team.running.disk.operations + operation)
        told: Told[GoQueueError | None] | None = None
        joined = team.ask_to_join("two")
        try:
            team.due(GATHERED)
            told = team.ask_to_leave(one)
            team.due(GATHERED)
            is_over = True
        except Crashed:
            pass
        after = team.crash(keep)
        after.due(GATHERED)
        check(after)
        if joined.all:
            assert joined.result[0] in after.group.members
        if told is not None and told.all:
            assert one not in after.group.members
        assert {place for places in after.group.assignment.values() for place in places} == set(PLACES)


# --- what is counted ---


def test_what_rebalances_came_to_is_counted() -> None:
    team = team_of_four()
    team.join("one")
    team.due(10.0)
    two = team.join("two")
    team.leave(two)
    totals = team.coordinator.rebalancer.totals
    assert (totals.total, totals.successful, totals.failed) == (3, 3, 0)
    assert (totals.assigned, totals.revoked) == (4 + 2 + 2, 2 + 2)
    assert totals.by_reason == {"join": 2, "leave": 1}
    assert totals.average_ns == totals.sum_ns / 3
    running = Running()
    running.create()
    assert Team(running).coordinator.rebalancer.totals.average_ns == 0
