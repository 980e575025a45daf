"""Dead letters are sent back while topics go, the disk refuses and the broker crashes: each is in one place after."""

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.delivery import deadletter
from goqueue.broker.delivery.deadletter import REDRIVE_GROUP
from goqueue.broker.delivery.redrive import RedriveReport, RedriveWish
from goqueue.broker.work import Promise, Work, run
from goqueue.errors import (
    DiskFull,
    GoQueueError,
    LogFenced,
    TopicNotFound,
)
from goqueue.storage.retention import plan_expiry
from goqueue.testing.disk import Crashed, Keep
from tests.broker.brokers import Running, frames_of, offer_batch
from tests.broker.delivery.deadletters import (
    bury,
    lying,
    numbers,
    redrive,
    sent,
    settle,
    with_orders,
)

KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")
DAY = 24 * 3600


# --- what happens to the topics meanwhile ---


def remove_oldest(running: Running, topic: str, bytes_kept: int) -> None:
    log = running.broker.topics[topic].partition(0).log
    job = plan_expiry(log, running.disk, bytes_kept=bytes_kept)
    job.run()
    job.apply()


def test_what_retention_has_removed_under_the_cursor_is_passed_over() -> None:
    running = with_orders()
    for first in range(0, 200, 10):
        bury(running, *numbers(10, first))
    dead = running.broker.topics["orders.dlq"].partition(0)
    assert redrive(running, limit=3, start={0: 5}).moved == 3
    remove_oldest(running, "orders.dlq", 8000)
    assert dead.earliest > 10
    assert redrive(running, limit=1000).moved == 200 - dead.earliest
    assert sent(running) == [*numbers(3, 5), *numbers(200 - dead.earliest, dead.earliest)]
    cursor = running.broker.coordinator.ledger.cursors(REDRIVE_GROUP)["orders.dlq", 0]
    assert (cursor.floor, cursor.run_count) == (200, 0)


def test_dead_letters_of_a_new_topic_are_others_than_those_of_an_old_one_of_its_name() -> None:
    running = with_orders()
    bury(running, b"old", b"old too")
    assert redrive(running).moved == 2
    running.delete("orders.dlq")
    running.flush()
    running.store.settle()
    running.clock.advance(30 * DAY)
    bury(running, b"new")
    running = running.crash()
    assert lying(running) == [b"new"]
    assert redrive(running).moved == 1
    assert sent(running) == [b"old", b"old too", b"new"]


def months_later(running: Running) -> Running:
    for _ in range(3):
        running.clock.advance(30 * DAY)
        running.broker.coordinator.deadlines.call_due(running.broker.coordinator.clock.now_ns())
        running.flush()
        running = running.restart()
    return running


def test_what_was_sent_back_is_remembered_for_as_long_as_the_dead_letters_are_kept() -> None:
    operation, is_over = 0, False
    while not is_over:
        running, operation = with_orders(), operation + 1
        running.create("other")
        bury(running, b"a", b"b")
        bury(running, b"c", topic="other")
        assert redrive(running, limit=1).moved == redrive(running, "other").moved == 1
        running.disk.crash_at(running.disk.operations + operation)
        try:
            running.delete("other.dlq")
            running.flush()
            is_over = True
        except Crashed:
            pass
        running = months_later(running.crash())
        group = running.broker.coordinator.ledger.group(REDRIVE_GROUP)
        assert group is not None
        assert group.emptied_ns == 0, "it does not expire"
        assert lying(running) == [b"b"]


def until_departed(work: Work[RedriveReport]) -> None:
    """The shell that asked goes away once it is decided what leaves."""
    job = next(work)
    while not isinstance(job, Promise):
        job = work.send(job())
    work.close()


def test_what_has_left_arrives_though_nobody_waits_for_it() -> None:
    running = with_orders()
    bury(running, b"a", b"b")
    until_departed(running.broker.coordinator.redrives.redrive("orders", RedriveWish(limit=10)))
    assert lying(running) == []
    settle(running)
    assert sent(running) == [b"a", b"b"]
    assert redrive(running).scanned == 0


def test_where_the_target_is_deleted_while_they_are_on_their_way_they_are_dead_letters_still() -> None:
    running = with_orders()
    bury(running, *numbers(150))
    running.create("repair", 1)
    wish = RedriveWish(limit=150, target="repair")
    until_departed(running.broker.coordinator.redrives.redrive("orders", wish))
    running.delete("repair")
    settle(running)
    assert lying(running)[:100] == numbers(100)
    assert "repair" not in running.names()
    running = running.crash()
    assert redrive(running, limit=200).moved == 150
    assert sent(running) == numbers(150)


def test_whoever_waits_is_told_that_the_target_was_deleted() -> None:
    running = with_orders()
    bury(running, b"a")
    running.create("repair", 1)
    wish = RedriveWish(limit=10, target="repair")

    def meanwhile() -> None:
        if "repair" in running.names():
            running.delete("repair")
        settle(running)

    report = run(running.broker.coordinator.redrives.redrive("orders", wish), meanwhile)
    (result,) = report.results
    assert isinstance(result.failure, TopicNotFound)
    assert report.moved == 0
    assert lying(running) == [b"a"]


def interrupted(work: Work[RedriveReport], moment: int, happening: Callable[[], object]) -> Work[RedriveReport]:
    """Something happens while the work waits for the so-manieth time."""
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
def test_a_topic_may_be_deleted_at_any_moment_of_a_redrive(name: str, moment: int) -> None:
    running = with_orders()
    bury(running, b"a", b"b")
    work = running.broker.coordinator.redrives.redrive("orders", RedriveWish(limit=10))
    try:
        report = run(interrupted(work, moment, partial(running.delete, name)), lambda: settle(running))
    except GoQueueError:
        assert name == "orders.dlq"
        assert "orders.dlq" not in running.names()
    else:
        assert all(isinstance(result.failure, TopicNotFound | None) for result in report.results)
        assert name == "orders" or report.moved == len(sent(running))
    running = running.crash()
    settle(running)
    if name == "orders":
        assert lying(running) in ([b"a", b"b"], [])
    else:
        assert sent(running) in ([b"a", b"b"], [])


# --- what the disk refuses ---


def test_a_departure_that_the_disk_refuses_leaves_them_where_they_are() -> None:
    running = with_orders()
    bury(running, b"a", b"b")
    running.disk.fail("write", errno.ENOSPC, path="*/__consumer_offsets/*")
    report = redrive(running)
    assert report.moved == 0
    assert all(isinstance(result.failure, DiskFull) for result in report.results)
    assert lying(running) == [b"a", b"b"]
    assert sent(running) == []
    assert redrive(running).moved == 2
    assert sent(running) == [b"a", b"b"]


def test_what_the_target_cannot_take_now_is_on_its_way_until_it_can() -> None:
    running = with_orders()
    bury(running, *numbers(150))
    running.disk.fail("write", errno.ENOSPC, path="*/orders/*", times="forever")
    report = redrive(running, limit=150)
    assert (report.moved, report.remaining) == (0, 50)
    assert all(isinstance(result.failure, DiskFull) for result in report.results)
    assert lying(running) == numbers(50, 100), "those on their way are no dead letters any more"
    running.disk.heal()
    running.clock.advance(2)
    running.broker.coordinator.deadlines.call_due(running.broker.coordinator.clock.now_ns())
    settle(running)
    assert sent(running) == numbers(100)
    assert running.broker.coordinator.ledger.cursors(REDRIVE_GROUP)["orders.dlq", 0].floor == 100


def test_a_target_that_takes_nothing_until_the_next_start_leaves_them_where_they_are() -> None:
    running = with_orders()
    bury(running, b"a")
    running.disk.fail("sync", errno.EIO, path="*/orders/0/*")
    offer_batch(running.partition(), frames_of([b"lost"]))
    running.flush()
    (result,) = redrive(running).results
    assert isinstance(result.failure, LogFenced)
    assert lying(running) == [b"a"]


def test_large_messages_are_moved_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadletter, "READ_BYTES_MAX", 2000)
    running = with_orders()
    contents = [bytes([number]) * 900 for number in range(20)]
    bury(running, *contents)
    arrived: list[int] = []
    undertaker = running.broker.coordinator.undertaker
    undertaker.when_tried(REDRIVE_GROUP, ("orders.dlq", 0), lambda _: arrived.append(len(sent(running))))
    assert redrive(running).moved == 20
    assert sent(running) == contents
    assert arrived == [3]


# --- crashes ---


def each_is_in_one_place(running: Running, all_of_them: list[bytes]) -> None:
    """Nothing is under way: every message is a dead letter still, or is back, and that once."""
    assert not any(cursor.moving for cursor in running.broker.coordinator.ledger.cursors(REDRIVE_GROUP).values())
    assert sorted(lying(running) + sent(running)) == sorted(all_of_them)


@pytest.mark.parametrize("keep", KEEPS)
def test_a_crash_at_any_operation_leaves_each_message_in_one_place(keep: Keep) -> None:
    operation, is_over = 0, False
    while not is_over:
        running, operation = with_orders(), operation + 1
        bury(running, b"a", b"b", b"x")
        bury(running, b"c", number=1)
        assert redrive(running, limit=1, start={0: 2}).moved == 1
        running.disk.crash_at(running.disk.operations + operation)
        try:
            moved = redrive(running).moved
            is_over = True
        except Crashed:
            moved = 0
        after = running.crash(keep)
        settle(after)
        each_is_in_one_place(after, [b"a", b"b", b"c", b"x"])
        assert len(sent(after)) >= moved + 1
        redrive(after)
        assert sorted(sent(after)) == [b"a", b"b", b"c", b"x"]
    assert moved == 3


def test_a_crash_while_a_crash_is_made_up_for_leaves_each_message_in_one_place() -> None:
    for first in range(1, 30):
        running = with_orders(1)
        bury(running, b"a", b"b")
        running.disk.crash_at(running.disk.operations + first)
        try:
            redrive(running)
        except Crashed:
            for second in range(1, 30):
                disk = running.disk.after_crash("some")
                disk.crash_at(second)
                try:
                    between = Running(disk, running.clock)
                    settle(between)
                except Crashed:
                    after = Running(disk.crash("some"), running.clock)
                    settle(after)
                    each_is_in_one_place(after, [b"a", b"b"])


@pytest.mark.parametrize("keep", KEEPS)
def test_nothing_is_in_the_target_before_it_is_certain_that_it_has_left(keep: Keep) -> None:
    operation, is_over = 0, False
    while not is_over:
        running, operation = with_orders(), operation + 1
        bury(running, b"a", b"b")
        until_departed(running.broker.coordinator.redrives.redrive("orders", RedriveWish(limit=2)))
        running.disk.crash_at(running.disk.operations + operation)
        try:
            run(running.broker.coordinator.undertaker.carry(), running.flush)
            is_over = True
        except Crashed:
            pass
        after = running.crash(keep)
        settle(after)
        each_is_in_one_place(after, [b"a", b"b"])
    assert sent(after) == [b"a", b"b"]


Action = tuple[str, Any]
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("bury"), st.tuples(st.integers(0, 1), st.integers(1, 8), st.sampled_from(["x", "y"]))),
        st.tuples(st.just("redrive"), st.tuples(st.integers(1, 6), st.sampled_from([None, "x", "y"]))),
        st.tuples(st.just("abandon"), st.integers(1, 6)),
        st.tuples(st.just("crash"), st.tuples(st.integers(1, 25), st.sampled_from(KEEPS))),
        st.tuples(st.just("restart"), st.none()),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100)
@given(ACTIONS)
def test_whatever_happens_each_message_is_in_one_place(actions: list[Action]) -> None:
    running, count, buried = with_orders(), 0, list[bytes]()
    running.create("orders.dlq", 2)
    for name, chosen in actions:
        match name:
            case "bury":
                number, more, error = chosen
                bury(running, *numbers(more, count), number=number, error=error)
                buried += numbers(more, count)
                count += more
            case "redrive":
                limit, error = chosen
                before = lying(running)
                report = redrive(running, limit=limit, error=error)
                assert report.moved == len(before) - len(lying(running)) <= limit
            case "abandon":
                work = running.broker.coordinator.redrives.redrive("orders", RedriveWish(limit=chosen))
                if lying(running):
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
    each_is_in_one_place(running, buried)
