"""Shards of groups: each is closed and opened while the others go on."""

import gc
import weakref
from typing import Any

import pytest

from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.settle_commands import ReceiptHandle, SettleCommand
from goqueue.broker.groups.settlement import SettleCommandReply, SettleCommandResult
from goqueue.errors import GoQueueError, LogClosed
from tests.broker.brokers import Told, begin
from tests.broker.groups.dead_letter_setup import add_dead_letters, contents_of, redrive_steps, settle, with_orders
from tests.broker.groupwork import GATHERED, ORDERS, Team, offsets_of, team_with

ACK = SettleCommand("ack", "", 0, "")


def number_of(team: Team) -> int:
    return team.running.broker.groups.number(team.name)


def close(team: Team) -> None:
    closed = team.running.broker.groups.close(number_of(team))
    team.running.flush()
    assert closed.is_kept


def reopen(team: Team) -> None:
    close(team)
    team.running.broker.groups.open(number_of(team))


def other_than(team: Team) -> Team:
    """A group of another shard."""
    shards = team.running.broker.groups
    names = (f"g-{number}" for number in range(99))
    return Team(team.running, next(name for name in names if shards.number(name) != number_of(team)))


def test_reopened_shard_continues_from_its_log() -> None:
    team, one = team_with("a", "b", "c", "d")
    batch = team.take(one, 2)
    team.ack(batch, (0, 1))
    retried = team.take(one, 1)
    team.nack(retried, delay=5)
    generation, cursor = team.group.generation, team.cursor()
    before = cursor.snapshot()
    reopen(team)
    assert team.cursor() is not cursor
    assert team.cursor().snapshot() == before
    assert not team.heartbeat(one, generation), "a member notices a pause, not a rebalance"
    team.due(6)
    again = team.take(one, 1)
    assert (offsets_of(again), again.grant.deliveries, again.grant.failures) == ([2], 2, 1)
    team.ack(batch, (1, 2))
    assert team.group.generation == generation


def test_deadlines_of_reopened_shard_are_kept() -> None:
    team, one = team_with("a")
    team.take(one, visibility=10.0)
    reopen(team)
    team.due(11)
    assert team.take(one).grant.failures == 1
    team.due(60)
    team.due(GATHERED)
    assert not team.group.members, "sessions time out"


def test_closing_answers_all_who_wait_with_one_error() -> None:
    team, one = team_with("a", "b")
    batch = team.take(one, 1)
    told: list[Told[Any]] = [
        team.ask_to_settle(one, team.command("ack", batch)),
        team.ask_to_commit(one, 1),
        team.ask_to_join("two"),
        team.ask_to_leave(one),
        team.ask_to_ack_in_transaction(one, team.command("ack", batch)),
    ]
    woken = team.watch(one)
    close(team)
    assert {type(one.refusal) for one in told} == {LogClosed}
    assert {one.refusal.details["retry_after"] for one in told} == {1}
    assert woken == [one]


def test_request_for_group_of_closed_shard_is_refused() -> None:
    team, one = team_with("a")
    coordinator = team.coordinator
    other = other_than(team)
    member = other.join()
    close(team)
    for ask in (lambda: team.coordinator, lambda: coordinator.membership.heartbeat(team.name, one, None)):
        with pytest.raises(LogClosed, match="will be opened again"):
            ask()
    with pytest.raises(LogClosed):
        coordinator.store.record(team.name, [])
    assert offsets_of(other.take(member)) == [0], "other shards go on"


def test_ack_under_way_takes_effect_although_its_shard_is_closed() -> None:
    team, one = team_with("a", "b")
    team.ask_to_settle(one, team.command("ack", team.take(one, 1)))
    reopen(team)
    assert team.cursor().floor == 1


def test_lease_of_poll_that_is_not_answered_is_returned() -> None:
    team, one = team_with("a")
    work = team.polling(one)
    begin(work)
    reopen(team)
    with pytest.raises(LogClosed):
        work.throw(LogClosed("closed"))
    again = team.take(one)
    assert (again.grant.deliveries, again.grant.failures) == (2, 0)


def test_move_of_closed_shard_continues_when_it_is_opened() -> None:
    team, one = team_with("a")
    moved: list[str] = []
    team.settle("reject", team.take(one))
    team.coordinator.dead_letter_mover.call_when_moved(team.name, ORDERS, 0, lambda: moved.append("a"))
    moving = team.coordinator.dead_letter_mover.move_all()
    begin(moving)
    close(team)
    assert moved == ["a"], "the reject is durable: its answer waits no longer"
    team.running.broker.groups.open(number_of(team))
    team.move_dead_letters()
    assert [message.value for message in team.messages()] == [b"a"]


def test_redrive_is_told_that_its_shard_was_closed() -> None:
    running = with_orders()
    add_dead_letters(running, b"a")
    shards, work = running.broker.groups, redrive_steps(running)
    begin(work)
    closed = shards.close(shards.number(REDRIVE_GROUP))
    running.flush()
    assert closed.is_kept
    with pytest.raises(StopIteration) as ended:
        work.throw(LogClosed("closed"))
    (result,) = ended.value.value.results
    assert isinstance(result.failure, LogClosed)
    shards.open(shards.number(REDRIVE_GROUP))
    settle(running)
    assert contents_of(running) == [b"a"], "its move has started, and continues"


def test_receipts_of_closed_shard_are_refused_and_others_settled() -> None:
    team, one = team_with("a")
    other = other_than(team)
    told: Told[list[SettleCommandReply]] = Told()
    receipts = []
    for group, member in ((team, one), (other, other.join())):
        grant = group.take(member).grant
        receipts.append(str(ReceiptHandle("orders", 0, 0, grant.deliveries, grant.id)))
    close(team)
    team.running.broker.groups.settle_receipts(receipts, None, ACK, told)
    team.running.flush()
    assert [type(reply) for reply in told.result] == [LogClosed, SettleCommandResult]


def test_closed_shard_leaves_nothing_in_memory() -> None:
    team, one = team_with("a", "b", "c")
    team.take(one, 1)
    team.ask_to_join("two")
    coordinator = team.coordinator
    partition = team.running.broker.groups.partitions[number_of(team)]
    left = [
        weakref.ref(found) for found in (coordinator, coordinator.store, coordinator.journal, coordinator.deadlines)
    ]
    close(team)
    assert coordinator.deadlines.next_ns is None
    assert partition.derived == []
    del coordinator
    gc.collect()
    assert [found() for found in left] == [None] * len(left)


def test_stop_closes_all_shards() -> None:
    team, _ = team_with("a")
    told = team.ask_to_join("two")
    team.running.broker.close()
    assert told.refusal.code == "broker_stopping"
    with pytest.raises(GoQueueError, match="is stopping"):
        team.running.broker.groups.of(team.name)
