"""Failures that simulated lives have found, each as a short scenario."""

from typing import Any, TypeVar

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.work import Job, Promise
from goqueue.broker.groups.records import Group
from goqueue.errors import GenerationStale, GoQueueError
from goqueue.testing.disk import Crashed
from tests.broker.brokers import going_on
from tests.broker.groupwork import GATHERED, ORDERS, Team, offsets_of

T = TypeVar("T")

NEVER = 7200.0
"""A session, or a lease, that outlasts the test."""

GROUP_LOGS = "*/__consumer_offsets/*"


def decide(team: Team) -> None:
    """Have the rebalance decided that was called for. Nothing of it is durable yet."""
    team.running.clock.advance(GATHERED)
    team.coordinator.deadlines.call_due(team.coordinator.clock.now_ns())


def partitions_of(group: Group) -> list[int]:
    return sorted(number for places in group.assignment.values() for _, number in places)


# --- rebalances ---


def test_revocation_by_eager_member_moves_no_partition() -> None:
    team = Team(partitions=2)
    one = team.join("one", protocol="eager", session=NEVER)
    told = team.ask_to_join("two", session=NEVER)
    team.due(GATHERED)
    team.revoke(one, *team.group.partitions_to_revoke(one))
    assert told.all == []
    assert team.ask_to_join("one", member_id=one, session=NEVER).all == []
    team.running.flush()
    assert partitions_of(told.result[1]) == [0, 1]


def test_eager_member_waiting_for_others_does_not_expire() -> None:
    team = Team()
    one = team.join("one", protocol="eager", session=NEVER)
    told = team.ask_to_join("two", session=5.0)
    team.due(GATHERED)
    for _ in range(12):  # no client hears of `one`, until its time to answer is over
        team.due(5.0)
    two, group = told.result
    assert one not in group.members
    assert team.has(two) == [ORDERS]
    team.due(4.0)
    assert team.has(two) == [ORDERS]


@pytest.mark.parametrize("kept", range(0, 1200, 60))
def test_assigned_partitions_are_readable_after_crash_during_rebalance(kept: int) -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.running.create("prices", 2)
    team.ask_to_join("one", ("orders", "prices"), member_id=one, session=NEVER)
    decide(team)
    team.coordinator.commit()
    disk = team.running.disk
    disk.crash_at(disk.operations + 1, after_bytes=kept)
    with pytest.raises(Crashed):
        team.running.store.flush()
    assert " write " in disk.journal[-1], "it died while the records were written"
    team = team.crash("everything")
    assert team.has(one) in ([ORDERS], [ORDERS, PartitionRef("prices", 0), PartitionRef("prices", 1)])
    team.due(GATHERED)
    assert set(team.has(one)) <= team.coordinator.store.cursors(team.name).keys()


def test_generation_is_reported_only_when_durable() -> None:
    team = Team(partitions=2)
    one = team.join("one", session=NEVER)
    before = team.group.generation
    team.ask_to_join("two", session=NEVER)
    decide(team)
    assert team.group.generation > before  # decided, and not durable
    assert team.coordinator.membership.heartbeat(team.name, one, None)[0].generation == before
    assert team.coordinator.membership.assignment(team.name, one).generation == before
    assert team.ask_poll(one).group.generation == before
    team.running.flush()
    assert team.coordinator.membership.heartbeat(team.name, one, None)[0].generation > before


def test_rejoin_is_refused_with_the_rebalance_it_depends_on() -> None:
    team = Team(partitions=2)
    one = team.join("one", session=NEVER)
    team.ask_to_join("two", session=NEVER)
    decide(team)
    again = team.ask_to_join("one", member_id=one, session=NEVER)
    team.running.refuse_writes(GROUP_LOGS)
    team.running.flush()
    assert isinstance(again.all[0], GoQueueError)


# --- topics that come and go ---


def test_topic_creation_refused_by_group_log_is_noticed_later() -> None:
    team = Team()
    one = team.join("one", topics=("orders",), session=NEVER)
    team.running.delete("orders")
    team.due(GATHERED)
    team.running.create("orders")
    team.running.refuse_writes(GROUP_LOGS)
    team.due(GATHERED)
    team.due(1.0)
    team.publish("a")
    assert offsets_of(team.take(one)) == [0]


def test_topic_recreated_with_fewer_partitions_in_eager_group() -> None:
    team = Team(partitions=3)
    one = team.join("one", protocol="eager", session=NEVER)
    team.running.delete("orders")
    team.running.create("orders", 1)
    team.due(GATHERED)
    team.ask_to_join("one", member_id=one, session=NEVER)
    team.running.flush()
    assert team.has(one) == [ORDERS]


# --- messages ---


def test_commit_beyond_a_moving_dead_letter_does_not_lose_it() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("a", "b", "c", "d")
    portion = team.take(one)
    team.settle("reject", portion, (1, 2))
    team.commit(one, 4)
    assert team.cursor().floor == 1
    team = team.crash()
    team.move_dead_letters()
    assert [message.value for message in team.messages()] == [b"b"]
    assert team.cursor().floor == 4


def test_lease_refused_by_disk_is_not_delivered_with_later_leases() -> None:
    team = Team(partitions=2)
    one = team.join("one", session=NEVER)
    team.publish("a")
    team.publish("b", ref=PartitionRef("orders", 1))
    polling = team.polling(one)
    job = next(polling)
    while not any(cursor.leased for cursor in team.coordinator.store.cursors(team.name).values()):
        assert not isinstance(job, Promise), "it is not told before it has looked at both"
        job = polling.send(job())
    team.running.refuse_writes(GROUP_LOGS)
    team.running.flush()
    handed = team.do(going_on(polling, job))
    assert len(handed.batches) == 1
    assert all(team.coordinator.store.lease(portion.grant.id) for portion in handed.batches)
    assert len(team.poll(one)) == 1


def test_ack_of_leases_keeps_messages_held_back_by_key() -> None:
    team = Team()
    one = team.join("one", order="key", session=NEVER)
    team.publish("a", key="k")
    team.nack(team.take(one), delay=60)
    for key in ("other", "k", "other"):
        team.publish("b", key=key)
    batches = team.poll(one)
    assert [offset for portion in batches for offset in offsets_of(portion)] == [1, 3]
    team = team.restart()
    for portion in batches:
        team.ack(portion, (portion.grant.first, portion.grant.end))
    team.due(60)
    assert [offsets_of(portion) for portion in team.poll(one)] == [[0]]
    assert team.cursor().waiting.count == 1


def test_ack_can_cover_compacted_offsets() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("a", "b", "c", key="k")
    team.running.partition().log.roll()
    team.publish("d", key="k")
    team.running.compact()
    portion = team.take(one)
    assert offsets_of(portion) == [2]
    assert portion.grant.first == 0
    team.ack(portion, (0, 3))
    assert not team.cursor().leases


def test_dead_letter_moves_after_its_rejection_is_durable() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("a", "b")
    portion = team.take(one)
    team.settle("reject", portion, (0, 1))
    carrying = team.coordinator.dead_letter_mover.move_all()
    job: Job | Promise[Any] = next(carrying)
    team.running.flush()
    team.ask_to_settle(one, team.command("reject", portion, ((1, 2),)))
    while not isinstance(job, Promise) or job.is_kept:
        job = carrying.send(job.result() if isinstance(job, Promise) else job())
        team.running.store.flush()  # and no client has committed what was decided last
    team = team.crash()
    assert [message.value for message in team.messages()] == [b"a"]
    assert team.cursor().leased == 1


def test_dead_letter_move_ignores_messages_of_a_recreated_topic() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("old")
    team.settle("reject", team.take(one))
    carrying = team.coordinator.dead_letter_mover.move_all()
    job = next(carrying)
    team.running.flush()
    assert isinstance(job, Promise)
    job = carrying.send(job.result())  # the topic of dead letters is being made
    team.running.delete("orders")
    team.running.clock.advance(0.001)
    team.running.create("orders")
    team.publish("new")
    team.do(going_on(carrying, job))
    team.due(GATHERED)
    assert team.messages() == []
    assert offsets_of(team.take(one)) == [0]


def test_commit_for_deleted_topic_does_not_apply_to_recreated_one() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.running.delete("orders")
    team.running.clock.advance(0.001)
    team.running.create("orders")
    team.publish("new")
    with pytest.raises(GenerationStale):
        team.ask_to_commit(one, 1)
    team.due(GATHERED)
    assert offsets_of(team.take(one)) == [0]


def test_dead_letter_is_found_in_a_recreated_dlq_topic() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("a", "b", "c")
    portion = team.take(one)
    team.settle("reject", portion, (0, 2))
    team.move_dead_letters()
    team.settle("reject", portion, (2, 3))
    team.running.delete("orders.dlq")
    carrying = team.coordinator.dead_letter_mover.move_all()
    job: Job | Promise[Any] = next(carrying)
    while "orders.dlq" not in team.running.names() or not team.messages():
        team.running.flush()
        job = carrying.send(job.result() if isinstance(job, Promise) else job())
    team = team.crash()
    assert team.cursor().moving
    team.move_dead_letters()
    assert [message.value for message in team.messages()] == [b"c"]
