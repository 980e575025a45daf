"""Dead letters go back to where they came from, once each, whatever comes in between."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from goqueue.broker.delivery import letters
from goqueue.broker.delivery.claims import Statement
from goqueue.broker.delivery.deadletter import REDRIVE_GROUP
from goqueue.broker.delivery.letters import Criteria, DeadLetter
from goqueue.broker.delivery.redrive import Browsed, RedriveReport, RedriveWish
from goqueue.broker.delivery.taking import PollWish
from goqueue.broker.groups.membership import Wish
from goqueue.broker.work import Promise, Work, run
from goqueue.clock import NANOSECONDS
from goqueue.errors import (
    MessageTooLarge,
    PartitionNotFound,
    RequestInvalid,
    TopicNotFound,
)
from goqueue.limits import DEAD_LETTERS_AT_ONCE, REDRIVE_MAX
from goqueue.storage import frame
from tests.broker.brokers import Running, Told, messages, values
from tests.broker.delivery.deadletters import (
    browse,
    bury,
    letter,
    lying,
    numbers,
    put,
    redrive,
    sent,
    settle,
    with_orders,
)

# --- what it means ---


def test_a_rejected_message_is_delivered_again_after_it_was_sent_back() -> None:
    running = with_orders(1)
    coordinator = running.broker.coordinator
    running.publish(frame.encode(b"a", b"key", frame.encode_headers([("trace", b"1")]), priority=1))
    joined: Told[tuple[str, object]] = Told()
    wish = Wish(topics=("orders",), client_id="me", session_ns=30 * NANOSECONDS, in_flight_max=1000)
    coordinator.membership.join("billing", wish, joined)
    running.clock.advance(0.03)
    coordinator.deadlines.call_due(coordinator.clock.now_ns())
    running.flush()
    member, poll = joined.result[0], PollWish(100, 1 << 20, 30 * NANOSECONDS)
    (portion,) = run(coordinator.polls.poll("billing", member, None, poll), running.flush).portions
    rejected: Told[Any] = Told()
    statement = Statement("reject", "orders", 0, portion.grant.id, ((0, 1),), reason="no such customer")
    coordinator.settlement.settle("billing", member, [statement], rejected)
    settle(running)
    (found,) = browse(running).letters
    assert (found.origin_topic, found.origin_partition, found.origin_offset) == ("orders", 0, 0)
    assert (found.group, found.error, found.attempts, found.key) == ("billing", "no such customer", 1, b"key")
    assert found.first_ns == portion.grant.given_ns
    assert found.last_ns == coordinator.clock.now_ns()

    assert redrive(running).moved == 1
    (again,) = run(coordinator.polls.poll("billing", member, None, poll), running.flush).portions
    message = frame.decode(again.content.buffers[0])
    assert (message.value, message.key, message.priority, again.grant.deliveries) == (b"a", b"key", 1, 1)
    assert [pair for pair in message.headers if not pair[0].startswith("__")] == [("trace", b"1")]
    assert lying(running) == []


def test_each_goes_to_the_partition_it_came_from_in_the_order_it_failed() -> None:
    running = with_orders()
    for number in (1, 0):
        bury(running, *numbers(150, 1000 * number), number=number)
    report = redrive(running, limit=1000)
    assert (report.scanned, report.matched, report.moved, report.remaining) == (300, 300, 300, 0)
    assert report.is_complete
    assert values(running.partition(number=0)) == numbers(150)
    assert values(running.partition(number=1)) == numbers(150, 1000)
    first = report.results[0]
    assert (first.partition, first.offset, first.error_text, first.failure) == (0, 0, "broken", None)
    assert (first.target_topic, first.target_partition) == ("orders", 0)


def test_the_topic_may_be_named_by_its_dead_letters() -> None:
    running = with_orders()
    bury(running, b"a")
    assert redrive(running, "orders.dlq").moved == 1
    assert sent(running) == [b"a"]


def test_what_was_sent_back_is_not_sent_again_neither_after_a_crash_nor_after_a_stop() -> None:
    running = with_orders()
    bury(running, b"a", b"b")
    assert redrive(running).moved == 2
    for _ in range(2):
        running = running.restart().crash()
        report = redrive(running)
        assert (report.scanned, report.moved, report.remaining) == (0, 0, 0)
        assert sent(running) == [b"a", b"b"]


def test_a_topic_without_dead_letters_is_done_at_once_and_one_that_is_not_there_is_refused() -> None:
    running = with_orders()
    assert redrive(running).is_complete
    for name in ("order", "orders.dlq"):
        with pytest.raises(TopicNotFound):
            redrive(running, name)


def test_a_dry_run_tells_what_would_happen_and_changes_nothing() -> None:
    running = with_orders()
    bury(running, b"a", b"b", b"c")
    report = redrive(running, limit=2, is_dry=True)
    assert (report.matched, report.moved, report.remaining) == (2, 0, 1)
    assert [result.offset for result in report.results] == [0, 1]
    assert running.broker.coordinator.ledger.group(REDRIVE_GROUP) is None
    assert sent(running) == []
    assert lying(running) == [b"a", b"b", b"c"]


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
def test_only_those_are_sent_back_that_all_criteria_are_true_of(criteria: dict[str, Any], meant: list[bytes]) -> None:
    running = with_orders()
    bury(running, b"a")
    bury(running, b"b", error="a timeout")
    bury(running, b"c", key=b"k")
    bury(running, b"d", group="mail")
    bury(running, b"e", headers=[("trace", b"1")])
    assert [found.message.value for found in browse(running, **criteria).letters] == meant
    report = redrive(running, **criteria)
    assert (report.scanned, report.matched, report.moved, report.is_complete) == (5, len(meant), len(meant), True)
    assert sent(running) == meant
    assert lying(running) == [value for value in (b"a", b"b", b"c", b"d", b"e") if value not in meant]
    assert redrive(running).moved == 5 - len(meant)
    assert sorted(sent(running)) == [b"a", b"b", b"c", b"d", b"e"]


def test_times_include_the_first_moment_and_exclude_the_last() -> None:
    running = with_orders()
    moments = []
    for value in (b"a", b"b", b"c", b"d"):
        running.clock.advance(10)
        bury(running, value)
        moments.append(messages(running.broker.topics["orders.dlq"].partition(0))[-1].timestamp_ns)
    report = redrive(running, from_ns=moments[1], to_ns=moments[3])
    assert sent(running) == [b"b", b"c"]
    assert (report.scanned, report.remaining) == (2, 0)


# --- where to ---


def test_another_topic_may_be_named_and_its_partitions_are_met_modulo_their_count() -> None:
    running = with_orders()
    running.create("repair", 1)
    bury(running, b"a", number=1)
    (result,) = redrive(running, target="repair").results
    assert (result.target_topic, result.target_partition) == ("repair", 0)
    assert sent(running, "repair") == [b"a"]
    assert sent(running) == []


def test_where_the_origin_is_gone_messages_stay_until_it_is_there_again() -> None:
    running = with_orders()
    bury(running, b"a", b"b")
    running.delete("orders")
    report = redrive(running)
    assert (report.matched, report.moved, report.is_complete) == (2, 0, True)
    assert all(isinstance(result.failure, TopicNotFound) for result in report.results)
    assert lying(running) == [b"a", b"b"]
    running.create("orders", 1)
    assert redrive(running).moved == 2
    assert sent(running) == [b"a", b"b"]


@pytest.mark.parametrize("name", ["__metadata", "__consumer_offsets", "orders.dlq"])
def test_headers_that_somebody_wrote_lead_nowhere_they_must_not(name: str) -> None:
    running = with_orders()
    running.create("orders.dlq", 2)
    put(running, "orders.dlq", 0, [letter(b"forged", name, 10**30, "", "", None, ())])
    (result,) = redrive(running).results
    assert isinstance(result.failure, TopicNotFound)
    assert lying(running) == [b"forged"]
    with pytest.raises(TopicNotFound):
        redrive(running, target=name)


def test_a_message_that_does_not_tell_its_origin_needs_a_target() -> None:
    running = with_orders()
    running.create("orders.dlq", 2)
    put(running, "orders.dlq", 1, [frame.encode(b"by hand")])
    (result,) = redrive(running).results
    assert isinstance(result.failure, TopicNotFound)
    assert (result.target_topic, result.target_partition, result.error_text) == ("", -1, "")
    (found,) = browse(running).letters
    assert (found.origin_topic, found.origin_offset, found.attempts, found.first_ns) == (None, None, None, None)
    assert redrive(running, target="orders").moved == 1
    assert values(running.partition(number=1)) == [b"by hand"]


def test_a_message_that_its_topic_would_not_take_stays() -> None:
    running = Running()
    running.create("orders", 1, max_message_bytes=1024)
    bury(running, bytes(1022), bytes(1023))
    fits, does_not = redrive(running).results
    assert fits.failure is None
    assert isinstance(does_not.failure, MessageTooLarge)
    assert [len(value) for value in lying(running)] == [1023]


# --- how many, and how fast ---


@pytest.mark.parametrize("wish", [{"limit": 0}, {"limit": REDRIVE_MAX + 1}, {"rate": 0.0}, {"rate": float("nan")}])
def test_what_cannot_be_done_within_a_request_is_refused(wish: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid):
        redrive(with_orders(), **wish)


def test_whoever_goes_on_where_the_last_one_ended_comes_to_an_end_past_all_that_fails() -> None:
    running = with_orders()
    bury(running, *numbers(10))
    put(running, "orders.dlq", 0, [letter(b"lost", "gone", 0, "", "", None, ())] * 7)
    bury(running, *numbers(10, 10))
    bury(running, *numbers(5, 20), number=1)
    start: dict[int, int] = {}
    reports: list[RedriveReport] = []
    while not reports or not reports[-1].is_complete:
        reports.append(redrive(running, limit=6, start=start))
        start = reports[-1].next
    assert [(report.moved, report.remaining) for report in reports] == [(6, 26), (6, 13), (6, 7), (6, 1), (1, 0)]
    assert sent(running) == numbers(25)
    assert lying(running) == [b"lost"] * 7


def test_the_failures_of_one_request_have_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.broker.delivery.redrive.REDRIVE_MAX", 5)
    running = with_orders()
    bury(running, *numbers(8))
    running.delete("orders")
    report = redrive(running, limit=5)
    assert (len(report.results), report.remaining) == (5, 3)


def test_one_request_looks_at_so_many_and_tells_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "REDRIVE_SCAN_MESSAGES", 100)
    monkeypatch.setattr(letters, "READ_BYTES", 2000)
    running = with_orders()
    bury(running, *numbers(300))
    bury(running, b"wanted", error="timeout")
    report, rounds = redrive(running, error="timeout"), 1
    while not report.is_complete:
        assert 100 <= report.scanned < 150
        report, rounds = redrive(running, error="timeout", start=report.next), rounds + 1
    assert rounds == 3
    assert sent(running) == [b"wanted"]


def test_what_comes_back_while_they_are_sent_is_left_to_the_next_redrive() -> None:
    running = with_orders()
    bury(running, b"a", b"b")
    begun = running.broker.coordinator.redrives.begin("orders", RedriveWish(limit=100, rate=1))
    run(begun.step(), lambda: settle(running))
    bury(running, b"a again")
    while not begun.is_over:
        run(begun.step(), lambda: settle(running))
    assert run(begun.conclude()).is_complete
    assert sent(running) == [b"a", b"b"]
    assert lying(running) == [b"a again"]


@pytest.mark.parametrize(("rate", "steps"), [(0.5, [1] * 30), (7, [7, 7, 7, 7, 2]), (1000, [30])])
def test_with_a_rate_a_step_moves_what_may_be_moved_in_a_second(rate: float, steps: list[int]) -> None:
    running = with_orders()
    bury(running, *numbers(40))
    begun = running.broker.coordinator.redrives.begin("orders", RedriveWish(limit=30, rate=rate))
    moved = []
    while not begun.is_over:
        before = begun.report.moved
        run(begun.step(), lambda: settle(running))
        moved.append(begun.report.moved - before)
        assert begun.seconds_due == begun.report.moved / rate
    assert moved == steps


def test_what_remains_is_what_was_neither_looked_at_nor_sent_back_before() -> None:
    running = with_orders()
    bury(running, *numbers(5))
    bury(running, *numbers(5, 5), number=1)
    assert redrive(running, start={0: 5}, limit=3).remaining == 2
    assert redrive(running, limit=1).remaining == 4 + 2


def test_no_more_separate_places_are_remembered_than_a_cursor_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.broker.delivery.redrive.CURSOR_RUNS_MAX", 2)
    running = with_orders()
    for error in ("first", "second", "third"):
        bury(running, b"a", b"b")
        bury(running, b"c", error=error)
    assert redrive(running, error="first").moved == 1
    assert redrive(running, error="second").moved == 1
    (result,) = redrive(running, error="third").results
    assert isinstance(result.failure, RequestInvalid)
    assert redrive(running).moved == 7
    assert lying(running) == []


def test_a_start_in_a_partition_that_is_not_there_is_refused() -> None:
    running = with_orders()
    bury(running, b"a")
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


def test_two_redrives_at_once_move_each_message_once() -> None:
    running = with_orders()
    for number in (0, 1):
        bury(running, *numbers(350, 1000 * number), number=number)
    redrives = running.broker.coordinator.redrives
    works = [redrives.redrive("orders", RedriveWish(limit=limit)) for limit in (1000, 250, 1000)]
    reports = list(advance(works, running))
    assert sum(report.moved for report in reports) == 700
    assert sorted(sent(running)) == sorted(numbers(350) + numbers(350, 1000))
    offsets = [(result.partition, result.offset) for report in reports for result in report.results]
    assert len(offsets) == len(set(offsets)) == 700


# --- looking at them ---


def test_errors_are_counted_the_most_frequent_first() -> None:
    running = with_orders()
    bury(running, b"a", error="timeout")
    bury(running, b"b", b"c", error="no such customer")
    bury(running, b"d", number=1, error="timeout")
    bury(running, b"e", number=1, error="timeout")
    found = run(running.broker.coordinator.redrives.errors("orders"))
    assert list(found.counts.items()) == [("timeout", 3), ("no such customer", 2)]
    assert found.is_complete
    redrive(running, error="timeout", limit=2)
    assert run(running.broker.coordinator.redrives.errors("orders.dlq")).counts == {"no such customer": 2, "timeout": 1}


def test_dead_letters_are_browsed_page_by_page() -> None:
    running = with_orders()
    bury(running, *numbers(5))
    bury(running, *numbers(5, 5), number=1)
    seen: list[DeadLetter] = []
    page = Browsed()
    while not page.is_complete:
        page = run(running.broker.coordinator.redrives.browse("orders", 3, page.next, Criteria()))
        assert len(page.letters) <= 3
        seen += page.letters
    assert [found.message.value for found in seen] == numbers(10)
    assert {found.partition for found in seen} == {0, 1}


def test_a_chunk_is_as_large_as_the_undertaker_takes() -> None:
    running = with_orders()
    bury(running, *numbers(DEAD_LETTERS_AT_ONCE + 1))
    begun = running.broker.coordinator.redrives.begin("orders", RedriveWish(limit=1000))
    run(begun.step(), lambda: settle(running))
    assert begun.report.moved == DEAD_LETTERS_AT_ONCE
