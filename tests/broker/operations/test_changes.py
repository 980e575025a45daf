"""Recorded changes: what is recorded when, and what the start makes of an interrupted one."""

import errno
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from goqueue.broker.core.topic import TopicSpec
from goqueue.broker.core.work import Promise, Work, run_work
from goqueue.broker.groups.offsets import ResetOptions
from goqueue.broker.operations.records import Author, DueChange, OffsetChange, Operation, OperationKind, SettingChange
from goqueue.errors import DiskFull, GroupNotEmpty, GroupNotFound, OperationNotFound, RequestInvalid, TopicExists
from goqueue.limits import OPERATION_CHANGES_MAX, OPERATION_RETENTION_SECONDS, OPERATIONS_MAX
from tests.broker.brokers import Running
from tests.broker.delay.delaywork import SECOND, Scene
from tests.broker.groupwork import Team, team_with

ANA = Author("goqueue-cli ana@web1", "10.0.0.7")
TO_START = ResetOptions("orders", "earliest")
LOG = "*__operations*.log"


def only(running: Running) -> Operation:
    (found,) = running.broker.operations.newest()
    return found


def advance(running: Running, work: Work[Any], promises: int) -> None:
    """Run work until it waits for so many things, of which the last is not durable yet."""
    job = next(work)
    while True:
        if isinstance(job, Promise):
            promises -= 1
            if not promises:
                return
            running.flush()
            job = work.send(job.result())
        else:
            job = work.send(job())


def reader(*values: str) -> Team:
    """A group without members that has read three of five messages."""
    team, member = team_with(*(values or "abcde"))
    team.commit(member, 3)
    team.leave(member)
    return team


def reset(team: Team) -> Work[Any]:
    return team.running.broker.changes.reset_offsets(ANA, team.name, TO_START)


def test_reset_is_recorded_with_what_was_before_and_who_did_it() -> None:
    team = reader()
    number, _ = team.do(reset(team))
    found = only(team.running)
    assert (found.id, found.kind, found.subject, found.state) == (number, "group_reset", "team", "done")
    assert found.author == ANA
    assert found.summary == "reset to earliest in orders, 1 partition"
    assert found.offsets == [OffsetChange("orders", 0, 3, 0)]
    team.do(team.running.broker.changes.reset_offsets(ANA, team.name, ResetOptions("orders", "latest", is_dry=True)))
    assert only(team.running) == found, "a dry run is no change"


def test_reset_of_two_topics_is_one_operation() -> None:
    team = reader()
    team.running.create("payments")
    changes = team.running.broker.changes
    number, _ = team.do(reset(team))
    assert team.do(changes.reset_offsets(ANA, team.name, ResetOptions("payments", "latest"), number))[0] == number
    assert [one.topic for one in only(team.running).offsets] == ["orders", "payments"]
    with pytest.raises(OperationNotFound, match="operation 7"):
        team.do(changes.reset_offsets(ANA, team.name, ResetOptions("payments", "latest"), 7))


@pytest.mark.parametrize(("promises", "flushes", "floor"), [(1, False, 3), (1, True, 3), (2, False, 3), (2, True, 0)])
def test_operation_tells_the_truth_after_a_crash_at_any_step(promises: int, flushes: bool, floor: int) -> None:
    team = reader()
    advance(team.running, reset(team), promises)
    if flushes:
        team.running.flush()
    after = team.crash()
    assert after.cursor().floor == floor
    found = after.running.broker.operations.newest()
    assert [one.state for one in found] == (["done"] if floor == 0 else [])


def test_operation_without_a_trace_of_its_outcome_is_unknown() -> None:
    team = reader()
    advance(team.running, reset(team), 1)
    team.commit(team.join(), 4)
    assert only(team.crash().running).state == "unknown"


def test_operations_and_their_ids_survive_restarts() -> None:
    team = reader()
    team.do(reset(team))
    again = team.restart()
    assert only(again.running).id == 1
    again.running.flush()
    again.do(again.running.broker.changes.delete_group(ANA, again.name))
    assert [one.id for one in again.restart().running.broker.operations.newest()] == [2, 1]


def test_data_without_the_log_of_operations_opens() -> None:
    team = reader()
    disk = team.running.disk
    team.running.broker.close()
    team.running.store.close()
    for path in [one for one in disk.paths() if "__operations" in one]:
        disk.remove(path)
    running = Running(disk.crash("everything"), team.running.clock)
    assert running.broker.operations.newest() == []
    assert running.broker.unclaimed == []


def test_refused_change_leaves_no_operation() -> None:
    team, _ = team_with("a")
    changes = team.running.broker.changes
    with pytest.raises(GroupNotEmpty):
        team.do(changes.delete_group(ANA, team.name))
    with pytest.raises(TopicExists):
        team.do(changes.create_topic(ANA, TopicSpec(name="orders")))
    team.running.disk.fail("write", errno.ENOSPC, path="*__consumer_offsets*.log")
    with pytest.raises(DiskFull):
        team.do(reset(team))
    team.running.flush()
    assert team.running.broker.operations.newest() == []


def test_undoable_change_needs_its_record_and_a_deletion_does_not() -> None:
    team = reader()
    team.running.disk.fail("write", errno.ENOSPC, path=LOG)
    with pytest.raises(DiskFull) as refused:
        team.do(reset(team))
    assert "only if it can be recorded" in str(refused.value.hint)
    assert team.cursor().floor == 3
    team.running.disk.fail("write", errno.ENOSPC, path=LOG)
    team.do(team.running.broker.changes.delete_topic(ANA, "orders"))
    assert team.running.names() == set()


def test_topic_changes_are_recorded() -> None:
    running = Running()
    changes = running.broker.changes

    def do(work: Work[Any]) -> None:
        run_work(work, running.flush)
        running.flush()

    do(changes.create_topic(ANA, TopicSpec(name="orders", partitions=2)))
    do(changes.alter_topic(ANA, "orders", {"retention_hours": 24.0, "cleanup": "delete"}))
    do(changes.delete_topic(ANA, "orders"))
    deleted, altered, created = running.broker.operations.newest()
    assert [one.kind for one in (created, altered, deleted)] == ["topic_created", "topic_altered", "topic_deleted"]
    assert created.summary == "created with 2 partitions"
    assert altered.settings == [SettingChange("retention_hours", 168, 24.0)]
    assert altered.summary == "retention_hours 168 -> 24"


def test_settings_of_a_group_are_recorded() -> None:
    team = reader()
    changes = team.running.broker.changes
    team.do(changes.alter_group(ANA, team.name, {"max_retries": 5, "retry_delay": None, "dead_letter_topic": "none"}))
    found = only(team.running)
    assert (found.kind, found.subject, found.state) == ("group_altered", "team", "done")
    assert found.settings == [SettingChange("max_retries", None, 5), SettingChange("dead_letter_topic", None, "none")]
    assert found.summary == "max_retries null -> 5, dead_letter_topic null -> none"
    with pytest.raises(RequestInvalid):
        team.do(changes.alter_group(ANA, team.name, {"retry_delay": 9.0, "max_retry_delay": 1.0}))
    with pytest.raises(GroupNotFound):
        team.do(changes.alter_group(ANA, "absent", {"max_retries": 5}))
    assert only(team.running) == found, "a refused change leaves no operation"


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("kind", ["topic_created", "topic_altered", "topic_deleted", "group_altered", "group_deleted"])
def test_other_changes_tell_the_truth_after_a_crash(kind: OperationKind, is_durable: bool) -> None:
    team = reader()
    changes = team.running.broker.changes
    works: dict[str, Callable[[], Work[Any]]] = {
        "topic_created": lambda: changes.create_topic(ANA, TopicSpec(name="new")),
        "topic_altered": lambda: changes.alter_topic(ANA, "orders", {"retention_hours": 1.0}),
        "topic_deleted": lambda: changes.delete_topic(ANA, "orders"),
        "group_altered": lambda: changes.alter_group(ANA, team.name, {"max_retries": 5}),
        "group_deleted": lambda: changes.delete_group(ANA, team.name),
    }
    work = works[kind]()
    advance(team.running, work, 2)
    if is_durable:
        team.running.flush()
    running = team.running.crash()
    assert [one.kind for one in running.broker.operations.newest()] == ([kind] if is_durable else [])


def test_delayed_messages_are_recorded_in_bulk_and_singly() -> None:
    scene = Scene()
    offsets = scene.schedule(*((b"%d" % number, 60.0) for number in range(5)))
    due_ns, changes = scene.now_ns + 60 * SECOND, scene.running.broker.changes

    def do(work: Work[Any]) -> Any:
        return run_work(work, scene.running.flush)

    do(changes.cancel_delayed(ANA, scene.delivery, offsets[0]))
    do(changes.reschedule_delayed(ANA, scene.delivery, offsets[1], due_ns + SECOND))
    bulk = changes.delayed_bulk(ANA, "delayed_rescheduled", "orders")
    for first in (0, 3):
        do(bulk.reschedule(lambda dues: dues + SECOND, scene.delivery, np.array(offsets[first : first + 3])))
    assert bulk.end("rescheduled") == 3
    many, moved, cancelled = scene.running.broker.operations.newest()
    assert cancelled.dues == [DueChange(0, 0, due_ns, None)]
    assert moved.dues == [DueChange(0, 1, due_ns, due_ns + SECOND)]
    assert many.summary == "4 delayed messages rescheduled"
    assert many.dues[0] == DueChange(0, 1, due_ns + SECOND, due_ns + 2 * SECOND)


def test_interrupted_bulk_change_lists_the_messages_that_were_changed() -> None:
    scene = Scene()
    offsets = np.array(scene.schedule(*((b"%d" % number, 60.0) for number in range(4))))
    bulk = scene.running.broker.changes.delayed_bulk(ANA, "delayed_cancelled", "orders")
    run_work(bulk.cancel(scene.delivery, offsets[:2]), scene.running.flush)
    advance(scene.running, bulk.cancel(scene.delivery, offsets[2:]), 2)
    found = only(scene.running.crash())
    assert (found.state, [one.offset for one in found.dues]) == ("done", [0, 1])
    assert found.summary == "2 delayed messages cancelled, then the broker stopped"


def test_too_many_changes_are_counted() -> None:
    scene = Scene()
    bulk = scene.running.broker.changes.delayed_bulk(ANA, "delayed_cancelled", "orders")
    count = 0
    while count <= OPERATION_CHANGES_MAX:
        offsets = scene.schedule(*((b"", 60.0) for _ in range(1000)))
        count += run_work(bulk.cancel(scene.delivery, np.array(offsets)), scene.running.flush)
    bulk.end("cancelled")
    found = only(scene.running)
    assert (found.dues, found.omitted) == ([], count)


def filled(running: Running, kind: OperationKind, count: int) -> None:
    recorder = running.broker.operations
    for number in range(count):
        work = recorder.begin(Operation(id=0, kind=kind, subject=str(number), summary=""))
        recorder.finish(run_work(work, running.flush))
    running.flush()


def test_of_the_most_frequent_kind_the_oldest_are_forgotten() -> None:
    running = Running()
    filled(running, "group_reset", 3)
    filled(running, "delayed_cancelled", OPERATIONS_MAX + 20)
    found = running.restart().broker.operations.newest()
    assert OPERATIONS_MAX - 50 <= len(found) <= OPERATIONS_MAX
    assert [one.subject for one in found if one.kind == "group_reset"] == ["2", "1", "0"]
    assert found[0].id == OPERATIONS_MAX + 23


def test_operations_are_forgotten_after_a_month_and_ids_are_not_used_again() -> None:
    running = Running()
    filled(running, "group_reset", 2)
    running.clock.advance(OPERATION_RETENTION_SECONDS + 1)
    assert running.broker.operations.newest() == []
    with pytest.raises(OperationNotFound):
        running.broker.operations.operation(1)
    filled(running, "group_reset", 1)
    again = running.restart()
    assert list(again.broker.operations.state.by_id) == [3]
