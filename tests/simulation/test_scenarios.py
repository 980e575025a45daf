"""What random lives have found, each as the short story that it comes down to."""

import errno
from typing import Any, TypeVar

import pytest

from goqueue.broker.groups.group import Group
from goqueue.broker.work import Job, Promise, Work
from goqueue.errors import GenerationStale, GoQueueError, MemberUnknown, TopicNotFound
from goqueue.storage.compaction import plan_compaction
from goqueue.testing.disk import Crashed
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


def test_a_member_of_an_eager_group_that_revokes_by_hand_takes_nothing_from_anybody() -> None:
    team = Team(partitions=2)
    one = team.join("one", protocol="eager", session=NEVER)
    told = team.ask_to_join("two", session=NEVER)
    team.due(GATHERED)
    team.revoke(one, *team.group.to_give_up(one))
    assert told.all == []
    assert team.ask_to_join("one", member_id=one, session=NEVER).all == []
    team.running.flush()
    assert partitions_of(told.result[1]) == [0, 1]


def test_a_member_that_waits_for_the_others_of_an_eager_group_is_alive() -> None:
    team = Team()
    one = team.join("one", protocol="eager", session=NEVER)
    told = team.ask_to_join("two", session=5.0)
    team.due(GATHERED)
    for _ in range(12):  # nobody hears of `one`, until its time to answer is over
        team.due(5.0)
    two, group = told.result
    assert one not in group.members
    assert team.has(two) == [ORDERS]
    team.due(4.0)
    assert team.has(two) == [ORDERS]


def test_a_member_that_leaves_while_it_waits_for_the_others_is_told_that_it_is_none() -> None:
    team = Team()
    one = team.join("one", protocol="eager", session=NEVER)
    two = team.ask_to_join("two", session=NEVER)
    team.due(GATHERED)
    (waiting,) = team.group.members.keys() - {one}
    team.leave(waiting)
    team.ask_to_join("one", member_id=one, session=NEVER)
    team.running.flush()
    assert isinstance(two.refusal, MemberUnknown)


@pytest.mark.parametrize("kept", range(0, 1200, 60))
def test_whatever_a_crash_keeps_of_a_rebalance_its_places_can_be_read(kept: int) -> None:
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
    assert team.has(one) in ([ORDERS], [ORDERS, ("prices", 0), ("prices", 1)])
    team.due(GATHERED)
    assert set(team.has(one)) <= team.coordinator.ledger.cursors(team.name).keys()


def test_a_generation_that_was_told_is_never_another_one_after_a_crash() -> None:
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


def test_who_joins_again_is_told_nothing_that_is_not_durable() -> None:
    team = Team(partitions=2)
    one = team.join("one", session=NEVER)
    team.ask_to_join("two", session=NEVER)
    decide(team)
    again = team.ask_to_join("one", member_id=one, session=NEVER)
    team.running.disk.fail("write", errno.ENOSPC, path=GROUP_LOGS)
    team.running.flush()
    assert isinstance(again.all[0], GoQueueError)


# --- topics that come and go ---


def test_a_topic_whose_arrival_the_disk_refused_to_record_is_read_all_the_same() -> None:
    team = Team()
    one = team.join("one", topics=("orders",), session=NEVER)
    team.running.delete("orders")
    team.due(GATHERED)
    team.running.create("orders")
    team.running.disk.fail("write", errno.ENOSPC, path=GROUP_LOGS)
    team.due(GATHERED)
    team.due(1.0)
    team.publish("a")
    assert offsets_of(team.take(one)) == [0]


def test_a_topic_that_has_fewer_partitions_than_before_goes_through_an_eager_rebalance() -> None:
    team = Team(partitions=3)
    one = team.join("one", protocol="eager", session=NEVER)
    team.running.delete("orders")
    team.running.create("orders", 1)
    team.due(GATHERED)
    team.ask_to_join("one", member_id=one, session=NEVER)
    team.running.flush()
    assert team.has(one) == [ORDERS]


def test_a_new_topic_under_an_old_name_is_read_from_its_beginning() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("a", "b")
    team.ack(team.take(one))
    team.running.delete("orders")
    team.running.clock.advance(0.001)
    team.running.create("orders")
    team.publish("c", "d", "e")
    assert team.poll(one) == []  # the group has yet to hear of it
    team.due(GATHERED)
    assert offsets_of(team.take(one)) == [0, 1, 2]


def test_of_a_topic_that_is_gone_nothing_can_be_committed() -> None:
    team = Team()
    one = team.join("one", session=NEVER, confirms=True)
    team.running.delete("orders")
    with pytest.raises(TopicNotFound):
        team.ask_to_commit(one, 0)
    team.due(GATHERED)
    team.running.create("orders")
    with pytest.raises(GenerationStale):
        team.ask_to_commit(one, 0)


# --- messages ---


def test_a_commit_beyond_a_message_on_its_way_to_the_dead_letters_does_not_lose_it() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("a", "b", "c", "d")
    portion = team.take(one)
    team.say("reject", portion, (1, 2))
    team.commit(one, 4)
    assert team.cursor().floor == 1
    team = team.crash()
    team.carry()
    assert [message.value for message in team.messages()] == [b"b"]
    assert team.cursor().floor == 4


def test_what_a_disk_has_refused_to_lease_is_not_handed_out_with_what_came_later() -> None:
    team = Team(partitions=2)
    one = team.join("one", session=NEVER)
    team.publish("a")
    team.publish("b", place=("orders", 1))
    polling = team.polling(one)
    job = next(polling)
    while not any(cursor.leased for cursor in team.coordinator.ledger.cursors(team.name).values()):
        assert not isinstance(job, Promise), "it is not told before it has looked at both"
        job = polling.send(job())
    team.running.disk.fail("write", errno.ENOSPC, path=GROUP_LOGS)
    team.running.flush()
    handed = team.do(_going_on(polling, job))
    assert len(handed.portions) == 1
    assert all(team.coordinator.ledger.lease(portion.grant.id) for portion in handed.portions)
    assert len(team.poll(one)) == 1


def _going_on(work: Work[T], job: Job | Promise[Any]) -> Work[T]:
    """The rest of it, from this job on."""
    while True:
        try:
            job = work.send((yield job))
        except StopIteration as end:
            value: T = end.value
            return value


def test_an_ack_of_whole_leases_leaves_what_was_held_back_for_its_key() -> None:
    team = Team()
    one = team.join("one", order="key", session=NEVER)
    team.publish("a", key="k")
    team.nack(team.take(one), delay=60)
    for key in ("other", "k", "other"):
        team.publish("b", key=key)
    portions = team.poll(one)
    assert [offset for portion in portions for offset in offsets_of(portion)] == [1, 3]
    team = team.restart()
    for portion in portions:
        team.ack(portion, (portion.grant.first, portion.grant.end))
    team.due(60)
    assert [offsets_of(portion) for portion in team.poll(one)] == [[0]]
    assert team.cursor().waiting.count == 1


def test_an_ack_may_cover_offsets_without_a_message() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("a", "b", "c", key="k")
    team.running.partition().log.roll()
    team.publish("d", key="k")
    compact(team)
    portion = team.take(one)
    assert offsets_of(portion) == [2]
    assert portion.grant.first == 0
    team.ack(portion, (0, 3))
    assert not team.cursor().leases


def compact(team: Team) -> None:
    job = plan_compaction(team.running.partition().log, team.running.disk, now_ns=team.running.clock.now_ns())
    while not job.is_done:
        job.run()
        job.apply()


def test_two_polls_of_one_member_at_the_same_time_stay_within_its_limit() -> None:
    team = Team(partitions=2)
    one = team.join("one", session=NEVER, in_flight_max=1)
    team.publish("a")
    team.publish("b", place=("orders", 1))
    first, second = team.polling(one), team.polling(one)
    jobs = [next(first), next(second)]
    handed = [team.do(_going_on(first, jobs[0])), team.do(_going_on(second, jobs[1]))]
    assert sum(len(one.portions) for one in handed) == 1
    assert sum(cursor.leased for cursor in team.coordinator.ledger.cursors(team.name).values()) == 1


def test_a_message_is_not_carried_away_before_it_is_durable_that_it_leaves() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("a", "b")
    portion = team.take(one)
    team.say("reject", portion, (0, 1))
    carrying = team.coordinator.undertaker.carry()
    job: Job | Promise[Any] = next(carrying)
    team.running.flush()
    team.ask_to_settle(one, team.statement("reject", portion, ((1, 2),)))
    while not isinstance(job, Promise) or job.is_kept:
        job = carrying.send(job.result() if isinstance(job, Promise) else job())
        team.running.store.flush()  # and nobody has committed what was decided last
    team = team.crash()
    assert [message.value for message in team.messages()] == [b"a"]
    assert team.cursor().leased == 1


def test_what_is_carried_away_is_never_a_message_of_a_new_topic_under_the_old_name() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("old")
    team.say("reject", team.take(one))
    carrying = team.coordinator.undertaker.carry()
    job = next(carrying)
    team.running.flush()
    assert isinstance(job, Promise)
    job = carrying.send(job.result())  # the topic of dead letters is being made
    team.running.delete("orders")
    team.running.clock.advance(0.001)
    team.running.create("orders")
    team.publish("new")
    team.do(_going_on(carrying, job))
    team.due(GATHERED)
    assert team.messages() == []
    assert offsets_of(team.take(one)) == [0]


def test_a_commit_of_a_topic_that_was_deleted_does_not_count_for_the_new_one() -> None:
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


def test_a_dead_letter_is_found_in_a_topic_that_was_deleted_and_made_again() -> None:
    team = Team()
    one = team.join("one", session=NEVER)
    team.publish("a", "b", "c")
    portion = team.take(one)
    team.say("reject", portion, (0, 2))
    team.carry()
    team.say("reject", portion, (2, 3))
    team.running.delete("orders.dlq")
    carrying = team.coordinator.undertaker.carry()
    job: Job | Promise[Any] = next(carrying)
    while "orders.dlq" not in team.running.names() or not team.messages():
        team.running.flush()
        job = carrying.send(job.result() if isinstance(job, Promise) else job())
    team = team.crash()
    assert team.cursor().moving
    team.carry()
    assert [message.value for message in team.messages()] == [b"c"]
