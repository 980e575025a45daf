"""Undoing operations: what is restored, and what is refused because it would do harm."""

from typing import Any

import numpy as np
import pytest

from goqueue.broker.core.delivery_settings import DeliverySettings
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.topic import TopicSpec
from goqueue.broker.core.work import Work, run_work
from goqueue.broker.groups.offsets import ResetOptions
from goqueue.broker.operations.records import Author, OffsetChange
from goqueue.broker.operations.undo import UndoPlan, why_final
from goqueue.errors import GroupNotEmpty, OperationNotFound, OperationNotUndoable, OperationOutdated
from tests.broker.brokers import Running
from tests.broker.delay.delaywork import SECOND, Scene
from tests.broker.groupwork import Team, team_with

ANA = Author("ana", "")
LATER = PartitionRef("orders", 1)


def do(running: Running, work: Work[Any]) -> Any:
    result = run_work(work, running.flush)
    running.flush()
    return result


def plan(running: Running, number: int, *, force: bool = False) -> UndoPlan:
    found: UndoPlan = do(running, running.broker.undo.plan(number, force=force))
    return found


def undo(running: Running, number: int, *, force: bool = False) -> int:
    done: int = do(running, running.broker.undo.undo(ANA, plan(running, number, force=force)))
    return done


def reader() -> Team:
    """A group that has left, with 3 of 5 messages read."""
    team, member = team_with(*"abcde", partitions=2)
    team.commit(member, 3)
    team.leave(member)
    return team


def delivery_of(team: Team) -> DeliverySettings:
    return team.coordinator.membership.group(team.name).delivery


def reset(team: Team, to: Any = "earliest", value: int = 0) -> int:
    options = ResetOptions("orders", to, value, (0,))
    return int(do(team.running, team.running.broker.changes.reset_offsets(ANA, team.name, options))[0])


def test_undone_reset_restores_offsets_and_can_be_undone() -> None:
    team = reader()
    number = reset(team)
    assert plan(team.running, number).offsets == [OffsetChange("orders", 0, 0, 3)]
    assert team.cursor().floor == 0, "a plan changes nothing"
    second = undo(team.running, number)
    assert team.cursor().floor == 3
    assert team.running.broker.operations.operation(number).undone_by == second
    undo(team.running, second)
    assert team.cursor().floor == 0
    with pytest.raises(OperationNotUndoable, match=f"operation {second} has undone it"):
        plan(team.running, number, force=True)


def test_undo_is_possible_after_a_restart() -> None:
    team = reader()
    number = reset(team)
    after = team.restart()
    undo(after.running, number)
    assert after.cursor().floor == 3


def test_undo_is_refused_when_the_group_has_read_on_unless_forced() -> None:
    team = reader()
    number = reset(team, "offset", 4)
    team.publish("f", "g")
    team.commit(team.join(), 6)
    with pytest.raises(OperationOutdated, match="would make group team read 2 messages again that it has read since"):
        plan(team.running, number)
    undo(team.running, number, force=True)
    assert team.cursor().floor == 3


def test_undo_goes_on_while_a_group_reads_what_it_had_read_before() -> None:
    team = reader()
    number = reset(team)
    team.commit(team.join(), 2)
    undo(team.running, number)
    assert team.cursor().floor == 3


def test_undo_is_refused_when_a_later_operation_changed_the_same_offsets() -> None:
    team = reader()
    first, second = reset(team), reset(team, "latest")
    with pytest.raises(OperationOutdated, match=f"operation {second} has changed the same offsets") as refused:
        plan(team.running, first)
    assert refused.value.hint == f"undo {second} first; `force` undoes it all the same"
    undo(team.running, second)
    undo(team.running, first)
    assert team.cursor().floor == 3


def test_offsets_that_retention_removed_become_the_earliest() -> None:
    team = reader()
    number = reset(team, "latest")
    team.expire()
    found = plan(team.running, number)
    assert found.offsets == [OffsetChange("orders", 0, 5, 5)]
    assert found.notes == ["1 offset removed by retention since: the earliest one instead"]


def test_reset_in_a_deleted_topic_is_not_undone() -> None:
    team = reader()
    number = reset(team)
    team.running.delete("orders")
    team.running.create("orders", 2)
    with pytest.raises(OperationNotUndoable, match="there are no offsets to go back to"):
        plan(team.running, number)


def test_reset_that_created_the_group_is_listed_as_final() -> None:
    team = Team(partitions=2)
    number = reset(team)
    operation = team.running.broker.changes.recorder.operation(number)
    assert why_final(operation) == "there are no offsets to go back to"
    with pytest.raises(OperationNotUndoable, match="there are no offsets to go back to") as refused:
        plan(team.running, number)
    assert refused.value.hint == "deleting group team takes it back"


def test_deleted_group_is_restored_with_its_settings() -> None:
    team, member = team_with(*"abcde", partitions=2, strategy="range")
    team.commit(member, 3)
    team.leave(member)
    number = do(team.running, team.running.broker.changes.delete_group(ANA, team.name))
    restored = undo(team.running, number)
    assert (team.cursor().floor, team.cursor(LATER).floor, team.group.strategy) == (3, 0, "range")
    undo(team.running, restored)
    assert team.coordinator.store.group(team.name) is None


def test_deleted_group_that_exists_again_is_not_reset_unless_forced() -> None:
    team = reader()
    number = do(team.running, team.running.broker.changes.delete_group(ANA, team.name))
    team.join()
    with pytest.raises(OperationOutdated, match="group team exists again"):
        plan(team.running, number)
    undo(team.running, number, force=True)
    assert team.cursor().floor == 3


def test_restored_group_with_members_is_not_deleted() -> None:
    team = reader()
    number = do(team.running, team.running.broker.changes.delete_group(ANA, team.name))
    restored = undo(team.running, number)
    team.join()
    with pytest.raises(GroupNotEmpty):
        plan(team.running, restored)


def test_settings_are_restored_unless_they_were_changed_again() -> None:
    running = Running()
    running.create("orders")
    changes = running.broker.changes
    number, _ = do(
        running, changes.alter_topic(ANA, "orders", {"retention_hours": 24.0, "lane_weights": (9, 1, 1, 1, 1)})
    )
    do(running, changes.alter_topic(ANA, "orders", {"retention_hours": 48.0}))
    with pytest.raises(OperationOutdated, match="retention_hours of topic orders is 48 now"):
        plan(running, number)
    undo(running, number, force=True)
    settings = running.broker.topic("orders").settings
    assert (settings.retention_hours, settings.lane_weights) == (168, (50, 25, 15, 7, 3))


def test_settings_of_a_group_are_restored_unless_they_were_changed_again() -> None:
    team = reader()
    changes = team.running.broker.changes
    first = do(team.running, changes.alter_group(ANA, team.name, {"max_retries": 5, "retry_delay": 2.0}))
    second = do(team.running, changes.alter_group(ANA, team.name, {"max_retries": "unlimited"}))
    with pytest.raises(OperationOutdated, match="max_retries of group team is unlimited now, and operation 1 left it"):
        plan(team.running, first)
    again = undo(team.running, second)
    assert delivery_of(team) == DeliverySettings(max_retries=5, retry_delay=2.0)
    undo(team.running, first)
    assert delivery_of(team) == DeliverySettings()
    undo(team.running, again, force=True)
    assert delivery_of(team) == DeliverySettings(max_retries="unlimited")


def test_settings_of_a_deleted_group_are_not_restored() -> None:
    team = reader()
    changes = team.running.broker.changes
    number = do(team.running, changes.alter_group(ANA, team.name, {"max_retries": 5}))
    deletion = do(team.running, changes.delete_group(ANA, team.name))
    with pytest.raises(OperationNotUndoable, match="group team was deleted since"):
        plan(team.running, number)
    undo(team.running, deletion)
    undo(team.running, number)
    assert delivery_of(team) == DeliverySettings()


def test_due_times_of_messages_that_are_still_pending_are_restored() -> None:
    scene = Scene()
    offsets = scene.schedule((b"a", 60.0), (b"b", 70.0), (b"c", 80.0))
    before = [scene.now_ns + seconds * SECOND for seconds in (60, 70, 80)]
    changes = scene.running.broker.changes
    bulk = changes.delayed_bulk(ANA, "delayed_rescheduled", "orders")
    do(scene.running, bulk.reschedule(lambda dues: dues * 0 + before[0] + SECOND, scene.delivery, np.array(offsets)))
    number = bulk.end("rescheduled")
    assert number is not None
    do(scene.running, changes.cancel_delayed(ANA, scene.delivery, offsets[1]))
    found = plan(scene.running, number)
    assert found.notes == ["1 message delivered, cancelled or rescheduled since: left out"]
    undo(scene.running, number)
    assert scene.delays.schedule.dues_of(np.array(offsets)).tolist() == [before[0], -1, before[2]]
    with pytest.raises(OperationNotUndoable, match="a cancelled message is not delivered any more"):
        plan(scene.running, 2)


def test_what_cannot_be_undone_says_why() -> None:
    running = Running()
    number, _ = do(running, running.broker.changes.create_topic(ANA, TopicSpec(name="orders")))
    with pytest.raises(OperationNotUndoable, match="deleting the topic would delete its messages"):
        plan(running, number)
    with pytest.raises(OperationNotFound, match="there is no operation 7"):
        plan(running, 7)


def test_interrupted_undo_tells_the_truth() -> None:
    team = reader()
    number = reset(team)
    found = plan(team.running, number)
    work = team.running.broker.undo.undo(ANA, found)
    next(work)
    team.running.flush()
    after = team.crash()
    assert after.cursor().floor == 0
    assert [one.id for one in after.running.broker.operations.newest()] == [number]
    assert after.running.broker.operations.operation(number).undone_by is None
