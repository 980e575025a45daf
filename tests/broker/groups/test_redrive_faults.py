"""Redrive with crashes, refusing disks and deleted topics: each message stays in exactly one topic."""

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.work import Work, run_work
from goqueue.broker.groups import dead_letters
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.redrive import RedriveReport
from goqueue.errors import (
    DiskFull,
    GoQueueError,
    LogFenced,
    TopicNotFound,
)
from goqueue.testing.disk import Crashed
from tests.broker.brokers import KEEPS, Running, begin, frames_of, offer_batch
from tests.broker.crashes import crash_points
from tests.broker.groups.dead_letter_setup import (
    add_dead_letters,
    contents_of,
    not_redriven,
    numbers,
    redrive,
    redrive_steps,
    settle,
    with_orders,
)

DAY = 24 * 3600


@pytest.fixture
def running() -> Running:
    return with_orders()


# --- what happens to the topics meanwhile ---


def test_redrive_skips_messages_removed_by_retention(running: Running) -> None:
    for first in range(0, 200, 10):
        add_dead_letters(running, *numbers(10, first))
    dead = running.broker.topics["orders.dlq"].partition(0)
    assert redrive(running, limit=3, start={0: 5}).moved == 3
    running.expire(8000, "orders.dlq")
    assert dead.earliest > 10
    assert redrive(running, limit=1000).moved == 200 - dead.earliest
    assert contents_of(running) == [*numbers(3, 5), *numbers(200 - dead.earliest, dead.earliest)]
    cursor = running.broker.groups.cursors(REDRIVE_GROUP)[PartitionRef("orders.dlq", 0)]
    assert (cursor.floor, cursor.run_count) == (200, 0)


def test_recreated_dlq_topic_starts_without_old_progress(running: Running) -> None:
    add_dead_letters(running, b"old", b"old too")
    assert redrive(running).moved == 2
    running.delete("orders.dlq")
    running.flush()
    running.store.settle()
    running.clock.advance(30 * DAY)
    add_dead_letters(running, b"new")
    running = running.crash()
    assert not_redriven(running) == [b"new"]
    assert redrive(running).moved == 1
    assert contents_of(running) == [b"old", b"old too", b"new"]


def months_later(running: Running) -> Running:
    for _ in range(3):
        running.clock.advance(30 * DAY)
        running.broker.groups.of(REDRIVE_GROUP).deadlines.call_due(
            running.broker.groups.of(REDRIVE_GROUP).clock.now_ns()
        )
        running.flush()
        running = running.restart()
    return running


def test_redrive_progress_is_kept_while_dlq_exists() -> None:
    for point in crash_points():
        running = with_orders()
        running.create("other")
        add_dead_letters(running, b"a", b"b")
        add_dead_letters(running, b"c", topic="other")
        assert redrive(running, limit=1).moved == redrive(running, "other").moved == 1
        with point.during(running.disk):
            running.delete("other.dlq")
            running.flush()
        running = months_later(running.crash())
        group = running.broker.groups.of(REDRIVE_GROUP).store.group(REDRIVE_GROUP)
        assert group is not None
        assert group.emptied_ns == 0, "it does not expire"
        assert not_redriven(running) == [b"b"]


def until_departed(work: Work[RedriveReport]) -> None:
    """The shell that asked goes away once it is decided what leaves."""
    begin(work)
    work.close()


def test_started_redrive_completes_without_a_waiting_caller(running: Running) -> None:
    add_dead_letters(running, b"a", b"b")
    until_departed(redrive_steps(running, limit=10))
    assert not_redriven(running) == []
    settle(running)
    assert contents_of(running) == [b"a", b"b"]
    assert redrive(running).scanned == 0


def test_target_deleted_during_move_keeps_dead_letters(running: Running) -> None:
    add_dead_letters(running, *numbers(150))
    running.create("repair", 1)
    until_departed(redrive_steps(running, limit=150, target="repair"))
    running.delete("repair")
    settle(running)
    assert not_redriven(running)[:100] == numbers(100)
    assert "repair" not in running.names()
    running = running.crash()
    assert redrive(running, limit=200).moved == 150
    assert contents_of(running) == numbers(150)


def test_caller_gets_error_when_target_is_deleted(running: Running) -> None:
    add_dead_letters(running, b"a")
    running.create("repair", 1)

    def meanwhile() -> None:
        if "repair" in running.names():
            running.delete("repair")
        settle(running)

    report = run_work(redrive_steps(running, limit=10, target="repair"), meanwhile)
    (result,) = report.results
    assert isinstance(result.failure, TopicNotFound)
    assert report.moved == 0
    assert not_redriven(running) == [b"a"]


def interrupted(work: Work[RedriveReport], moment: int, happening: Callable[[], object]) -> Work[RedriveReport]:
    """Run a callback while the work waits for the given time."""
    turn, step = 1, partial(next, work)
    while True:
        try:
            job = step()
        except StopIteration as end:
            report: RedriveReport = end.value
            return report
        if turn == moment:
            happening()
        turn += 1
        try:
            step = partial(work.send, (yield job))
        except GoQueueError as error:
            step = partial(work.throw, error)


@pytest.mark.parametrize("name", ["orders.dlq", "orders"])
@pytest.mark.parametrize("moment", range(1, 8))
def test_topic_can_be_deleted_during_redrive(running: Running, name: str, moment: int) -> None:
    add_dead_letters(running, b"a", b"b")
    work = redrive_steps(running, limit=10)
    try:
        report = run_work(interrupted(work, moment, partial(running.delete, name)), lambda: settle(running))
    except GoQueueError:
        assert name == "orders.dlq"
        assert "orders.dlq" not in running.names()
    else:
        assert all(isinstance(result.failure, TopicNotFound | None) for result in report.results)
        assert name == "orders" or report.moved == len(contents_of(running))
    running = running.crash()
    settle(running)
    if name == "orders":
        assert not_redriven(running) in ([b"a", b"b"], [])
    else:
        assert contents_of(running) in ([b"a", b"b"], [])


# --- what the disk refuses ---


def test_move_refused_by_disk_keeps_dead_letters(running: Running) -> None:
    add_dead_letters(running, b"a", b"b")
    running.refuse_writes("*/__consumer_offsets/*")
    report = redrive(running)
    assert report.moved == 0
    assert all(isinstance(result.failure, DiskFull) for result in report.results)
    assert not_redriven(running) == [b"a", b"b"]
    assert contents_of(running) == []
    assert redrive(running).moved == 2
    assert contents_of(running) == [b"a", b"b"]


def test_move_to_refusing_target_is_retried(running: Running) -> None:
    add_dead_letters(running, *numbers(150))
    running.disk.fail("write", errno.ENOSPC, path="*/orders/*", times="forever")
    report = redrive(running, limit=150)
    assert (report.moved, report.remaining) == (0, 50)
    assert all(isinstance(result.failure, DiskFull) for result in report.results)
    assert not_redriven(running) == numbers(50, 100), "those on their way are no dead letters any more"
    running.disk.end_faults()
    running.clock.advance(2)
    running.broker.groups.of(REDRIVE_GROUP).deadlines.call_due(running.broker.groups.of(REDRIVE_GROUP).clock.now_ns())
    settle(running)
    assert contents_of(running) == numbers(100)
    assert running.broker.groups.cursors(REDRIVE_GROUP)[PartitionRef("orders.dlq", 0)].floor == 100


def test_fenced_target_keeps_dead_letters(running: Running) -> None:
    add_dead_letters(running, b"a")
    running.disk.fail("sync", errno.EIO, path="*/orders/0/*")
    offer_batch(running.partition(), frames_of([b"lost"]))
    running.flush()
    (result,) = redrive(running).results
    assert isinstance(result.failure, LogFenced)
    assert not_redriven(running) == [b"a"]


def test_large_messages_are_moved_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "READ_BYTES_MAX", 2000)
    running = with_orders()
    contents = [bytes([number]) * 900 for number in range(20)]
    add_dead_letters(running, *contents)
    arrived: list[int] = []
    dead_letter_mover = running.broker.groups.of(REDRIVE_GROUP).dead_letter_mover
    dead_letter_mover.call_when_attempted(
        REDRIVE_GROUP, PartitionRef("orders.dlq", 0), lambda _: arrived.append(len(contents_of(running)))
    )
    assert redrive(running).moved == 20
    assert contents_of(running) == contents
    assert arrived == [3]


# --- crashes ---


def each_is_in_one_place(running: Running, all_of_them: list[bytes]) -> None:
    """Nothing is under way: every message is a dead letter still, or is back, and that once."""
    assert not any(cursor.moving for cursor in running.broker.groups.cursors(REDRIVE_GROUP).values())
    assert sorted(not_redriven(running) + contents_of(running)) == sorted(all_of_them)


def test_crash_during_redrive_leaves_each_message_in_one_topic() -> None:
    for point in crash_points():
        running = with_orders()
        add_dead_letters(running, b"a", b"b", b"x")
        add_dead_letters(running, b"c", number=1)
        assert redrive(running, limit=1, start={0: 2}).moved == 1
        moved = 0
        with point.during(running.disk):
            moved = redrive(running).moved
        for keep in KEEPS:
            after = running.after_crash(keep)
            settle(after)
            each_is_in_one_place(after, [b"a", b"b", b"c", b"x"])
            assert len(contents_of(after)) >= moved + 1
            redrive(after)
            assert sorted(contents_of(after)) == [b"a", b"b", b"c", b"x"]
    assert moved == 3


def test_crash_during_recovery_leaves_each_message_in_one_topic() -> None:
    for first in crash_points(every=3):
        running = with_orders(1)
        add_dead_letters(running, b"a", b"b")
        with first.during(running.disk):
            redrive(running)
        for second in crash_points(start=1 + first.operation % 7, every=7):
            disk = running.disk.after_crash("some")
            with second.during(disk):
                settle(Running(disk, running.clock))
            after = Running(disk.crash("some"), running.clock)
            settle(after)
            each_is_in_one_place(after, [b"a", b"b"])


Action = tuple[str, Any]
ACTIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add_dead_letters"), st.tuples(st.integers(0, 1), st.integers(1, 8), st.sampled_from(["x", "y"]))
        ),
        st.tuples(st.just("redrive"), st.tuples(st.integers(1, 6), st.sampled_from([None, "x", "y"]))),
        st.tuples(st.just("abandon"), st.integers(1, 6)),
        st.tuples(st.just("crash"), st.tuples(st.integers(1, 25), st.sampled_from(KEEPS))),
        st.tuples(st.just("restart"), st.none()),
    ),
    min_size=1,
    max_size=12,
)


@given(ACTIONS)
def test_random_redrives_leave_each_message_in_one_topic(actions: list[Action]) -> None:
    running, count, added = with_orders(), 0, list[bytes]()
    running.create("orders.dlq", 2)
    for name, chosen in actions:
        match name:
            case "add_dead_letters":
                number, more, error = chosen
                add_dead_letters(running, *numbers(more, count), number=number, error=error)
                added += numbers(more, count)
                count += more
            case "redrive":
                limit, error = chosen
                before = not_redriven(running)
                report = redrive(running, limit=limit, error=error)
                assert report.moved == len(before) - len(not_redriven(running)) <= limit
            case "abandon":
                work = redrive_steps(running, limit=chosen)
                if not_redriven(running):
                    until_departed(work)
            case "crash":
                operation, keep = chosen
                running.disk.crash_at(running.disk.operations + operation)
                with suppress(Crashed):
                    redrive(running, limit=5)
                running = running.crash(keep)
            case "restart":
                settle(running)
                running = running.restart()
    settle(running)
    each_is_in_one_place(running, added)
