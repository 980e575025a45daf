"""Redrive of dead letters, and the reading of those that were not redriven."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.work import Promise, Work, run_work
from goqueue.broker.groups import dead_letter_reader
from goqueue.broker.groups.dead_letter_reader import DeadLetter, DeadLetterCriteria
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.redrive import DeadLetterPage, RedriveOptions, RedriveReport
from goqueue.errors import (
    MessageTooLarge,
    PartitionNotFound,
    RequestInvalid,
    TopicNotFound,
)
from goqueue.limits import DEAD_LETTERS_AT_ONCE, REDRIVE_MAX
from goqueue.storage import frame
from tests.broker.brokers import Running, messages, values
from tests.broker.groups.dead_letter_setup import (
    add_dead_letters,
    browse,
    contents_of,
    dead_letter,
    not_redriven,
    numbers,
    put,
    redrive,
    redrive_steps,
    settle,
    with_orders,
)
from tests.broker.groupwork import Team


@pytest.fixture
def running() -> Running:
    return with_orders()


# --- what it means ---


def test_redriven_message_is_delivered_again() -> None:
    running = with_orders(1)
    running.publish(frame.encode(b"a", b"key", frame.encode_headers([("trace", b"1")]), priority=1))
    team = Team(running, "billing")
    member = team.join()
    batch = team.take(member)
    team.settle("reject", batch, reason="no such customer")
    settle(running)
    (found,) = browse(running).letters
    assert (found.origin_topic, found.origin_partition, found.origin_offset) == ("orders", 0, 0)
    assert (found.group, found.error, found.attempts, found.key) == ("billing", "no such customer", 1, b"key")
    assert found.first_ns == batch.grant.given_ns
    assert found.last_ns == team.coordinator.clock.now_ns()
    assert redrive(running).moved == 1
    again = team.take(member)
    message = frame.decode(again.content.buffers[0])
    assert (message.value, message.key, message.priority, again.grant.deliveries) == (b"a", b"key", 1, 1)
    assert [pair for pair in message.headers if not pair[0].startswith("__")] == [("trace", b"1")]
    assert not_redriven(running) == []


def test_redrive_keeps_partition_and_order(running: Running) -> None:
    for number in (1, 0):
        add_dead_letters(running, *numbers(150, 1000 * number), number=number)
    report = redrive(running, limit=1000)
    assert (report.scanned, report.matched, report.moved, report.remaining) == (300, 300, 300, 0)
    assert report.is_complete
    assert values(running.partition(number=0)) == numbers(150)
    assert values(running.partition(number=1)) == numbers(150, 1000)
    first = report.results[0]
    assert (first.partition, first.offset, first.error_text, first.failure) == (0, 0, "broken", None)
    assert (first.target_topic, first.target_partition) == PartitionRef("orders", 0)


def test_redrive_accepts_dlq_topic_name(running: Running) -> None:
    add_dead_letters(running, b"a")
    assert redrive(running, "orders.dlq").moved == 1
    assert contents_of(running) == [b"a"]


def test_redriven_messages_are_not_redriven_again_after_crash_or_stop(running: Running) -> None:
    add_dead_letters(running, b"a", b"b")
    assert redrive(running).moved == 2
    for _ in range(2):
        running = running.restart().crash()
        report = redrive(running)
        assert (report.scanned, report.moved, report.remaining) == (0, 0, 0)
        assert contents_of(running) == [b"a", b"b"]


def test_redrive_of_topic_without_dlq_is_empty(running: Running) -> None:
    assert redrive(running).is_complete
    for name in ("order", "orders.dlq"):
        with pytest.raises(TopicNotFound):
            redrive(running, name)


def test_redrive_dry_run_changes_nothing(running: Running) -> None:
    add_dead_letters(running, b"a", b"b", b"c")
    report = redrive(running, limit=2, is_dry=True)
    assert (report.matched, report.moved, report.remaining) == (2, 0, 1)
    assert [result.offset for result in report.results] == [0, 1]
    assert running.broker.groups.of(REDRIVE_GROUP).store.group(REDRIVE_GROUP) is None
    assert contents_of(running) == []
    assert not_redriven(running) == [b"a", b"b", b"c"]


# --- which ones ---


@pytest.mark.parametrize(
    ("criteria", "meant"),
    [
        ({"error": "time"}, [b"b"]),
        ({"key": b"k"}, [b"c"]),
        ({"key": b""}, [b"a", b"b", b"d", b"e"]),
        ({"group": "mail"}, [b"d"]),
        ({"headers": (("trace", b"1"), ("dlq.group", b"billing"))}, [b"e"]),
        ({"headers": (("trace", b"2"),)}, []),
        ({"error": "broken", "group": "billing", "key": b"k"}, [b"c"]),
    ],
)
def test_redrive_selects_messages_matching_all_criteria(
    running: Running, criteria: dict[str, Any], meant: list[bytes]
) -> None:
    add_dead_letters(running, b"a")
    add_dead_letters(running, b"b", error="a timeout")
    add_dead_letters(running, b"c", key=b"k")
    add_dead_letters(running, b"d", group="mail")
    add_dead_letters(running, b"e", headers=[("trace", b"1")])
    assert [found.message.value for found in browse(running, **criteria).letters] == meant
    report = redrive(running, **criteria)
    assert (report.scanned, report.matched, report.moved, report.is_complete) == (5, len(meant), len(meant), True)
    assert contents_of(running) == meant
    assert not_redriven(running) == [value for value in (b"a", b"b", b"c", b"d", b"e") if value not in meant]
    assert redrive(running).moved == 5 - len(meant)
    assert sorted(contents_of(running)) == [b"a", b"b", b"c", b"d", b"e"]


def test_time_criteria_include_start_and_exclude_end(running: Running) -> None:
    moments = []
    for value in (b"a", b"b", b"c", b"d"):
        running.clock.advance(10)
        add_dead_letters(running, value)
        moments.append(messages(running.broker.topics["orders.dlq"].partition(0))[-1].timestamp_ns)
    report = redrive(running, from_ns=moments[1], to_ns=moments[3])
    assert contents_of(running) == [b"b", b"c"]
    assert (report.scanned, report.remaining) == (2, 0)


# --- where to ---


def test_redrive_to_other_topic_maps_partitions_by_modulo(running: Running) -> None:
    running.create("repair", 1)
    add_dead_letters(running, b"a", number=1)
    (result,) = redrive(running, target="repair").results
    assert (result.target_topic, result.target_partition) == PartitionRef("repair", 0)
    assert contents_of(running, "repair") == [b"a"]
    assert contents_of(running) == []


def test_redrive_to_missing_topic_keeps_dead_letters(running: Running) -> None:
    add_dead_letters(running, b"a", b"b")
    running.delete("orders")
    report = redrive(running)
    assert (report.matched, report.moved, report.is_complete) == (2, 0, True)
    assert all(isinstance(result.failure, TopicNotFound) for result in report.results)
    assert not_redriven(running) == [b"a", b"b"]
    running.create("orders", 1)
    assert redrive(running).moved == 2
    assert contents_of(running) == [b"a", b"b"]


@pytest.mark.parametrize("name", ["__metadata", "__consumer_offsets", "orders.dlq"])
def test_forged_origin_headers_are_refused(running: Running, name: str) -> None:
    running.create("orders.dlq", 2)
    put(running, "orders.dlq", 0, [dead_letter(b"forged", name, 10**30, "", "", None, ())])
    (result,) = redrive(running).results
    assert isinstance(result.failure, TopicNotFound)
    assert not_redriven(running) == [b"forged"]
    with pytest.raises(TopicNotFound):
        redrive(running, target=name)


def test_message_without_origin_needs_target(running: Running) -> None:
    running.create("orders.dlq", 2)
    put(running, "orders.dlq", 1, [frame.encode(b"by hand")])
    (result,) = redrive(running).results
    assert isinstance(result.failure, TopicNotFound)
    assert (result.target_topic, result.target_partition, result.error_text) == ("", -1, "")
    (found,) = browse(running).letters
    assert (found.origin_topic, found.origin_offset, found.attempts, found.first_ns) == (None, None, None, None)
    assert redrive(running, target="orders").moved == 1
    assert values(running.partition(number=1)) == [b"by hand"]


def test_message_too_large_for_target_stays() -> None:
    running = Running()
    running.create("orders", 1, max_message_bytes=1024)
    add_dead_letters(running, bytes(1022), bytes(1023))
    fits, does_not = redrive(running).results
    assert fits.failure is None
    assert isinstance(does_not.failure, MessageTooLarge)
    assert [len(value) for value in not_redriven(running)] == [1023]


# --- how many, and how fast ---


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": REDRIVE_MAX + 1}, {"rate": 0.0}, {"rate": float("nan")}])
def test_redrive_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid):
        redrive(with_orders(), **options)


def test_continued_redrives_pass_failing_messages_and_end(running: Running) -> None:
    add_dead_letters(running, *numbers(10))
    put(running, "orders.dlq", 0, [dead_letter(b"lost", "gone", 0, "", "", None, ())] * 7)
    add_dead_letters(running, *numbers(10, 10))
    add_dead_letters(running, *numbers(5, 20), number=1)
    start: dict[int, int] = {}
    reports: list[RedriveReport] = []
    while not reports or not reports[-1].is_complete:
        reports.append(redrive(running, limit=6, start=start))
        start = reports[-1].next
    assert [(report.moved, report.remaining) for report in reports] == [(6, 26), (6, 13), (6, 7), (6, 1), (1, 0)]
    assert contents_of(running) == numbers(25)
    assert not_redriven(running) == [b"lost"] * 7


def test_failures_of_one_redrive_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.broker.groups.redrive.REDRIVE_MAX", 5)
    running = with_orders()
    add_dead_letters(running, *numbers(8))
    running.delete("orders")
    report = redrive(running, limit=5)
    assert (len(report.results), report.remaining) == (5, 3)


def test_redrive_scan_is_limited_and_returns_next_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_reader, "REDRIVE_SCAN_MESSAGES", 100)
    monkeypatch.setattr(dead_letter_reader, "READ_BYTES", 2000)
    running = with_orders()
    add_dead_letters(running, *numbers(300))
    add_dead_letters(running, b"wanted", error="timeout")
    report, rounds = redrive(running, error="timeout"), 1
    while not report.is_complete:
        assert 100 <= report.scanned < 150
        report, rounds = redrive(running, error="timeout", start=report.next), rounds + 1
    assert rounds == 3
    assert contents_of(running) == [b"wanted"]


def test_dead_letters_added_during_redrive_are_left_for_next(running: Running) -> None:
    add_dead_letters(running, b"a", b"b")
    begun = running.broker.groups.of(REDRIVE_GROUP).redrives.begin("orders", RedriveOptions(limit=100, rate=1))
    run_work(begun.step(), lambda: settle(running))
    add_dead_letters(running, b"a again")
    while not begun.is_over:
        run_work(begun.step(), lambda: settle(running))
    assert run_work(begun.conclude()).is_complete
    assert contents_of(running) == [b"a", b"b"]
    assert not_redriven(running) == [b"a again"]


@pytest.mark.parametrize(("rate", "steps"), [(0.5, [1] * 30), (7, [7, 7, 7, 7, 2]), (1000, [30])])
def test_redrive_rate_limits_messages_per_step(running: Running, rate: float, steps: list[int]) -> None:
    add_dead_letters(running, *numbers(40))
    begun = running.broker.groups.of(REDRIVE_GROUP).redrives.begin("orders", RedriveOptions(limit=30, rate=rate))
    moved = []
    while not begun.is_over:
        before = begun.report.moved
        run_work(begun.step(), lambda: settle(running))
        moved.append(begun.report.moved - before)
        assert begun.seconds_due == begun.report.moved / rate
    assert moved == steps


def test_remaining_counts_unscanned_dead_letters(running: Running) -> None:
    add_dead_letters(running, *numbers(5))
    add_dead_letters(running, *numbers(5, 5), number=1)
    assert redrive(running, start={0: 5}, limit=3).remaining == 2
    assert redrive(running, limit=1).remaining == 4 + 2


def test_redrive_beyond_cursor_run_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.broker.groups.redrive.CURSOR_RANGES_MAX", 2)
    running = with_orders()
    for error in ("first", "second", "third"):
        add_dead_letters(running, b"a", b"b")
        add_dead_letters(running, b"c", error=error)
    assert redrive(running, error="first").moved == 1
    assert redrive(running, error="second").moved == 1
    (result,) = redrive(running, error="third").results
    assert isinstance(result.failure, RequestInvalid)
    assert redrive(running).moved == 7
    assert not_redriven(running) == []


def test_start_in_missing_partition_is_refused(running: Running) -> None:
    add_dead_letters(running, b"a")
    with pytest.raises(PartitionNotFound):
        redrive(running, start={2: 0})


# --- many at once ---


def advance(works: Iterable[Work[RedriveReport]], running: Running) -> Iterator[RedriveReport]:
    """Several pieces of work, a step of one after a step of the other."""
    under_way = [(work, next(work)) for work in works]
    while under_way:
        if all(isinstance(job, Promise) and not job.is_kept for _, job in under_way):
            settle(running)
        work, job = under_way.pop(0)
        if isinstance(job, Promise) and not job.is_kept:
            under_way.append((work, job))
            continue
        try:
            under_way.append((work, work.send(job.result() if isinstance(job, Promise) else job())))
        except StopIteration as end:
            yield end.value


def test_concurrent_redrives_move_each_message_once(running: Running) -> None:
    for number in (0, 1):
        add_dead_letters(running, *numbers(350, 1000 * number), number=number)
    works = [redrive_steps(running, limit=limit) for limit in (1000, 250, 1000)]
    reports = list(advance(works, running))
    assert sum(report.moved for report in reports) == 700
    assert sorted(contents_of(running)) == sorted(numbers(350) + numbers(350, 1000))
    offsets = [(result.partition, result.offset) for report in reports for result in report.results]
    assert len(offsets) == len(set(offsets)) == 700


# --- looking at them ---


def test_error_counts_are_sorted_by_frequency(running: Running) -> None:
    add_dead_letters(running, b"a", error="timeout")
    add_dead_letters(running, b"b", b"c", error="no such customer")
    add_dead_letters(running, b"d", number=1, error="timeout")
    add_dead_letters(running, b"e", number=1, error="timeout")
    found = run_work(running.broker.groups.of(REDRIVE_GROUP).redrives.errors("orders"))
    assert list(found.counts.items()) == [PartitionRef("timeout", 3), ("no such customer", 2)]
    assert found.is_complete
    redrive(running, error="timeout", limit=2)
    assert run_work(running.broker.groups.of(REDRIVE_GROUP).redrives.errors("orders.dlq")).counts == {
        "no such customer": 2,
        "timeout": 1,
    }


def test_dead_letters_are_browsed_in_pages(running: Running) -> None:
    add_dead_letters(running, *numbers(5))
    add_dead_letters(running, *numbers(5, 5), number=1)
    seen: list[DeadLetter] = []
    page = DeadLetterPage()
    while not page.is_complete:
        redrives = running.broker.groups.of(REDRIVE_GROUP).redrives
        page = run_work(redrives.browse("orders", 3, page.next, DeadLetterCriteria()))
        assert len(page.letters) <= 3
        seen += page.letters
    assert [found.message.value for found in seen] == numbers(10)
    assert {found.partition for found in seen} == {0, 1}


def test_redrive_step_matches_mover_chunk_size(running: Running) -> None:
    add_dead_letters(running, *numbers(DEAD_LETTERS_AT_ONCE + 1))
    begun = running.broker.groups.of(REDRIVE_GROUP).redrives.begin("orders", RedriveOptions(limit=1000))
    run_work(begun.step(), lambda: settle(running))
    assert begun.report.moved == DEAD_LETTERS_AT_ONCE
