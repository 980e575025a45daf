"""Rebalances as members live through them: who is asked, who goes on, who waits, and what becomes of topics."""

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.errors import GoQueueError, LeaseExpired, MemberUnknown
from goqueue.limits import JOIN_BATCH_SECONDS, REVOCATION_SECONDS
from tests.broker.brokers import KEEPS, Running, Told
from tests.broker.crashes import crash_points
from tests.broker.groupwork import GATHERED, ORDERS, Team, values_of

PLACES = [PartitionRef("orders", number) for number in range(4)]


def team_of_four() -> Team:
    team = Team(partitions=4)
    for ref in PLACES:
        team.publish("a", "b", ref=ref)
    return team


def check(team: Team) -> None:
    """Check that only the owner of a partition has messages of it in flight."""
    given = [ref for refs in team.group.assignment.values() for ref in refs]
    assert len(given) == len(set(given))
    owners = team.group.owners()
    for ref, cursor in team.coordinator.store.cursors("team").items():
        assert {lease.grant.member for lease in cursor.leases.values()} <= {owners.get(ref)}
    for ref in given:
        assert team.coordinator.store.cursor("team", ref) is not None


# --- many at once ---


def test_concurrent_joins_move_partitions_in_one_generation() -> None:
    team = Team(partitions=60)
    for number in range(30):
        team.ask_to_join(f"old-{number}")
    team.due(GATHERED)
    before = team.group.generation
    for number in range(30):
        team.ask_to_join(f"new-{number}")
    team.due(GATHERED)
    assert (team.group.phase, team.group.generation) == ("complete", before + 2)
    assert {len(refs) for refs in team.group.assignment.values()} == {1}
    check(team)


# --- cooperative, members that confirm ---


def test_rebalance_revokes_only_moving_partitions() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True)
    in_hand = {(batch.topic, batch.partition): batch for batch in team.poll(one, 4)}
    two = team.join("two", confirms=True)
    asked, kept = team.group.partitions_to_revoke(one), team.has(one)
    assert (len(asked), len(kept), team.has(two)) == (2, 2, [])
    for batch in in_hand.values():
        team.ack(batch, (batch.grant.first, batch.grant.first + 1))
    assert {(batch.topic, batch.partition) for batch in team.poll(one)} <= set(kept)
    team.revoke(one, *asked)
    assert (team.has(one), sorted(team.has(two))) == (kept, sorted(asked))
    check(team)


def test_revoked_partition_releases_messages_without_failure() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True)
    batches = {(batch.topic, batch.partition): batch for _ in range(4) for batch in team.poll(one, 2)}
    two = team.join("two", confirms=True)
    asked = team.group.partitions_to_revoke(one)
    team.revoke(one, *asked)
    with pytest.raises(LeaseExpired):
        team.ack(batches[asked[0]])
    again = team.poll(two)
    assert {(batch.grant.deliveries, batch.grant.failures) for batch in again} == {(2, 0)}
    check(team)


def test_partial_revocation_asks_for_the_rest() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True)
    two = team.join("two", confirms=True)
    first, second = team.group.partitions_to_revoke(one)
    group = team.revoke(one, first)
    assert (group.partitions_to_revoke(one), team.has(two)) == ([second], [first])
    assert team.heartbeat(one)


def test_revoking_unrequested_partition_changes_nothing() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True)
    group = team.revoke(one, *PLACES)
    assert group.assignment == {one: PLACES}


def test_late_member_loses_requested_partitions() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True, session=1800.0)
    team.poll(one, 4, visibility=1000.0)
    two = team.join("two", confirms=True, session=1800.0)
    deadline_ns = team.coordinator.rebalancer.revocation_deadline("team", one)
    assert deadline_ns == team.coordinator.clock.now_ns() + round(REVOCATION_SECONDS * 10**9)
    team.due(REVOCATION_SECONDS - 0.001)
    assert team.has(two) == []
    team.due(0.001)
    assert (len(team.has(one)), len(team.has(two))) == (2, 2)
    assert (team.coordinator.rebalancer.totals.timeouts, team.group.phase) == (1, "complete")
    check(team)


def test_restart_restarts_revocation_timeout() -> None:
    team = team_of_four()
    one = team.join("one", confirms=True, session=1800.0)
    two = team.join("two", confirms=True, session=1800.0)
    team.due(REVOCATION_SECONDS - 1)
    team = team.crash()
    team.due(REVOCATION_SECONDS - 1)
    assert (len(team.group.partitions_to_revoke(one)), team.has(two)) == (2, [])
    team.due(1.0)
    assert len(team.has(two)) == 2


# --- cooperative, members that do not confirm ---


def test_unconfirming_member_releases_idle_partition_at_once() -> None:
    team = team_of_four()
    one = team.join("one")
    two = team.join("two")
    assert (len(team.has(one)), len(team.has(two)), team.group.phase) == (2, 2, "complete")


@pytest.mark.parametrize("way", ["ack", "nack", "reject", "release", "expiry", "commit", "reset"])
def test_unconfirming_member_releases_partition_after(way: str) -> None:
    team = Team(partitions=2)
    for number in (0, 1):
        team.publish("a", ref=PartitionRef("orders", number))
    one = team.join("one")
    batches = {(batch.topic, batch.partition): batch for batch in team.poll(one, visibility=10.0)}
    two = team.join("two")
    (asked,) = team.group.partitions_to_revoke(one)
    assert team.has(two) == []
    match way:
        case "expiry":
            team.due(10.0)
        case "commit":
            team.commit(one, 1, asked)
        case "reset":
            team.reset("earliest", partitions=(asked[1],))
        case _:
            team.settle(way, batches[asked])  # type: ignore[arg-type]
    team.running.flush()
    assert (team.has(two), team.group.phase) == ([asked], "complete")
    check(team)


# --- eager ---


def test_eager_rebalance_waits_for_all_members() -> None:
    team = team_of_four()
    one = team.join("one", protocol="eager")
    batch = team.poll(one, 1)[0]
    told = team.ask_to_join("two")
    team.due(JOIN_BATCH_SECONDS)
    assert told.all == []
    assert team.heartbeat(one)
    assert team.poll(one) == []
    team.ack(batch)
    again = team.ask_to_join("one", member_id=one)
    team.running.flush()
    assert told.result[1].generation == again.result[1].generation == 2
    assert len(team.has(one)) == len(team.has(told.result[0])) == 2
    check(team)


def test_eager_rejoin_releases_messages() -> None:
    team = team_of_four()
    one, other = team.ask_to_join("one", protocol="eager"), team.ask_to_join("other")
    team.due(JOIN_BATCH_SECONDS)
    batch = team.poll(one.result[0], 1)[0]
    team.ask_to_join("two")
    team.due(JOIN_BATCH_SECONDS)
    team.ask_to_join("one", member_id=one.result[0])
    team.running.flush()
    assert team.group.awaited == [other.result[0]]
    with pytest.raises(LeaseExpired):
        team.ack(batch)
    check(team)


def test_eager_member_that_does_not_rejoin_is_removed() -> None:
    team = team_of_four()
    one = team.join("one", protocol="eager", session=1800.0)
    told = team.ask_to_join("two", session=1800.0)
    team.due(JOIN_BATCH_SECONDS)
    team.due(REVOCATION_SECONDS)
    two, group = told.result
    assert group.assignment == {two: PLACES}
    with pytest.raises(MemberUnknown):
        team.heartbeat(one)


def test_eager_member_that_leaves_while_waiting_is_refused() -> None:
    team = team_of_four()
    one = team.join("one", protocol="eager")
    told = team.ask_to_join("two")
    team.due(JOIN_BATCH_SECONDS)
    (two,) = team.group.members.keys() - {one}
    team.leave(two)
    team.ask_to_join("one", member_id=one)
    team.running.flush()
    assert isinstance(told.refusal, MemberUnknown)
    assert team.has(one) == PLACES


def test_eager_rebalance_continues_after_crash() -> None:
    team = team_of_four()
    one = team.join("one", protocol="eager", session=1800.0)
    team.ask_to_join("two", session=1800.0)
    team.due(JOIN_BATCH_SECONDS)
    team = team.crash()
    assert (team.group.awaited, team.has(one)) == ([one], [])
    team.ask_to_join("one", member_id=one, session=1800.0)
    team.running.flush()
    assert len(team.has(one)) == 2


# --- topics ---


@pytest.mark.parametrize("meanwhile", ["member_reads", "group_is_empty", "broker_is_down"])
def test_recreated_topic_is_read_from_its_start(team: Team, meanwhile: str) -> None:
    team.publish("old")
    one = team.join()
    team.ack(team.take(one))
    if meanwhile == "group_is_empty":
        team.leave(one)
    team.running.delete()
    team.running.clock.advance(1.0)
    team.running.create()
    team.publish("new")
    if meanwhile == "broker_is_down":
        team = team.crash()
    team.due(GATHERED)
    assert values_of(team.poll(one if one in team.group.members else team.join())) == ["new"]
    assert team.crash().cursor().floor == 0


def test_topic_recreated_with_fewer_partitions_is_read() -> None:
    team = Team(partitions=3)
    one = team.join(confirms=True)
    team.running.delete()
    team.running.clock.advance(1.0)
    team.running.create(partitions=1)
    team.publish("new")
    team.due(GATHERED)
    assert team.has(one) == [ORDERS]
    assert values_of(team.poll(one)) == ["new"]
    team.revoke(one, *team.group.partitions_to_revoke(one))
    assert team.group.assignment == {one: [ORDERS]}


def test_deleted_topic_removes_cursors_and_leases(team: Team) -> None:
    team.running.create("letters")
    team.publish("a")
    one = team.join(topics=["orders", "letters"])
    batch = team.take(one)
    team.running.delete("orders")
    team.due(GATHERED)
    assert (team.group.assignment[one], team.group.phase) == ([PartitionRef("letters", 0)], "complete")
    assert ORDERS not in team.coordinator.store.cursors("team")
    with pytest.raises(LeaseExpired):
        team.ack(batch)


# --- the disk ---


def test_topic_change_refused_by_disk_is_repeated(team: Team) -> None:
    team.running.create("letters")
    one = team.join(topics=["orders", "letters"])
    team.running.delete("letters")
    team.running.refuse_writes()
    team.due(GATHERED)
    assert len(team.has(one)) == 2
    team.due(1.0)
    assert team.has(one) == [ORDERS]


def test_crash_during_rebalance_leaves_one_owner_per_partition() -> None:
    for point in crash_points():
        team = team_of_four()
        one = team.join("one")
        team.poll(one, 3)
        left: list[Told[GoQueueError | None]] = []
        joined = team.ask_to_join("two")
        with point.during(team.running.disk):
            team.due(GATHERED)
            left.append(team.ask_to_leave(one))
            team.due(GATHERED)
        for keep in KEEPS:
            after = team.after_crash(keep)
            after.due(GATHERED)
            check(after)
            if joined.all:
                assert joined.result[0] in after.group.members
            if left and left[0].all:
                assert one not in after.group.members
            assert {ref for refs in after.group.assignment.values() for ref in refs} == set(PLACES)


# --- what is counted ---


def test_rebalance_statistics_are_counted() -> None:
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
