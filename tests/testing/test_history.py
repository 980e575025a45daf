"""The history checker: each history of the table gets its verdict; reports, record files and the page about it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from goqueue.testing.clock import ManualClock
from goqueue.testing.history.check import check
from goqueue.testing.history.events import (
    EVENTS,
    AbortedEvent,
    AckedEvent,
    AckSentEvent,
    CommittedEvent,
    PublishedEvent,
    PublishSentEvent,
    Recorder,
    SettlementEvent,
    read,
)
from goqueue.testing.history.groups import first_covering
from goqueue.testing.history.report import KINDS
from tests.testing.notation import history

PAGE = Path(__file__).resolve().parents[2] / "docs/checker.md"


def table() -> dict[str, tuple[str, str]]:
    """Return the verdict and the history of each row, by its name."""
    rows, verdict = {}, ""
    for line in (Path(__file__).parent / "histories.txt").read_text().splitlines():
        if line.startswith("["):
            verdict = line[1:-1]
        elif line and not line.startswith("#"):
            name, _, text = line.partition(":")
            rows[name] = (verdict, text.strip())
    return rows


HISTORIES = table()


@pytest.mark.parametrize("name", HISTORIES)
def test_history_gets_its_verdict_and_no_other(name: str) -> None:
    verdict, text = HISTORIES[name]
    events = history(text)
    report = check(events)
    assert {violation.kind for violation in report.violations} == {verdict} - {"ok"}, str(report)
    assert report.ok == (verdict == "ok")
    assert all(set(violation.events) <= set(events) and violation.events for violation in report.violations)


HONEST = [name for name, (verdict, _) in HISTORIES.items() if verdict == "ok"]


@pytest.mark.parametrize("name", HONEST)
def test_honest_history_is_not_blamed_in_any_order_of_files(name: str) -> None:
    events = history(HISTORIES[name][1])
    for seed in range(3):
        assert check(Random(seed).sample(events, len(events))) == check(events)


@pytest.mark.parametrize("name", HONEST)
def test_lost_answer_is_not_held_against_the_broker(name: str) -> None:
    events = history(HISTORIES[name][1])
    requests = [event.first for event in events if isinstance(event, AckSentEvent)]
    for event in events:
        is_ack = isinstance(event, AckedEvent) and event.first in requests
        if is_ack or isinstance(event, (CommittedEvent, AbortedEvent, PublishedEvent)):
            report = check([other for other in events if other is not event])
            assert report.ok, f"without {event}: {report}"


def test_table_has_two_histories_of_every_kind() -> None:
    found = [verdict for verdict, _ in HISTORIES.values()]
    assert {kind for kind in found if found.count(kind) >= 2} == {*KINDS, "ok"}


def test_values_may_be_stored_twice_without_idempotence() -> None:
    assert check(history("log a, stored a t/0/1, published a t/0/1, end t/0/2"), idempotent=False).ok
    twice = "begin T, sending a t in T, committing T, stored a t/0/0, stored a t/0/1, end t/0/3"
    assert check(history(twice), idempotent=False).ok


def test_first_deliveries_may_come_in_any_order_with_priorities() -> None:
    assert check(history("log ab, a got b, a got a, a acked a-b, offset 2"), in_order=False).ok


def test_missing_message_proves_nothing_in_a_log_that_was_not_read_to_its_end() -> None:
    report = check(history("write T, committing T, stored a t/0/0, end t/0/5"))
    assert {violation.kind for violation in report.violations} == {"total"}


# --- the report ---


def test_violation_names_its_events() -> None:
    events = history("send a t/0/0, end t/0/0")
    (violation,) = check(events).violations
    assert violation.events == (events[1], events[2])


def test_repeated_first_delivery_is_reported_once() -> None:
    report = check(history("log ab, a got a, a got b, a got a, a acked a-b, offset 2"))
    assert [violation.kind for violation in report.violations] == ["backward"]


SENTENCES = {
    "an answered message is not in the log": "a was answered as t/0/0, and is not stored",
    "a committed message is not there": "T was committed, and its a for t/0/0 is not stored",
    "one topic of a committed transaction is missing": "t/0/0 holds a, of T, and its b for u/1/0 is not stored",
    "a reader read an aborted message": "r read a at t/0/0, of T, which was aborted",
    "a consumer received a message before the commit": "m received i at in/0/0, of T, before its commit was asked for",
    "a producer died before its commit, and its message is in the log": (
        "t/0/0 holds a, of T, whose commit was never requested"
    ),
    "a committed transaction's input is handed out again": (
        "m of g received in/0/0 (i) as attempt 2 after m had acked it in T, of which t/0/0 holds a"
    ),
    "an unknown transaction's input is done, and its output is missing": (
        "g is done with in/0/0 (i), which was acked in T alone, and nothing else of that is there"
    ),
    "a message of a transaction is stored twice": "a of T is stored twice, at t/0/0 and at t/0/1",
    "an input was transformed twice": "g has done in/0/0 (i) twice: T and S acked it, and both took effect",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_violation_names_transaction_partition_and_offset(name: str) -> None:
    (violation,) = check(history(HISTORIES[name][1])).violations
    assert violation.sentence == SENTENCES[name]


def test_report_counts_everything() -> None:
    counts = check(history("log abc, a got a, a got a #2, a got b, a acked a-b")).counts
    assert (counts.sent, counts.published, counts.stored) == (3, 3, 3)
    assert (counts.received, counts.redelivered, counts.acked, counts.rejected) == (3, 1, 2, 0)
    assert counts.events == 14
    report = check(history("begin T, commit T, begin S, aborted S, begin R, begin Q, committing Q"))
    assert str(report).splitlines()[1].endswith("; 4 transactions, 1 committed, 2 aborted, 1 unknown")
    counts = check(history("sending a t in T, peeker peeked a t/0/0, end t/0/1")).counts
    assert (counts.seen, counts.transactions) == (1, 1)


def test_report_of_many_violations_is_short() -> None:
    sent = ", ".join(f"send {value} t/0/{offset}" for offset, value in enumerate("abcdefghij"))
    lines = str(check(history(f"{sent}, end t/0/0"))).splitlines()
    assert lines[0] == "10 violations in 21 events: 10 lost"
    assert lines[1] == "10 sent, 10 published, 0 stored; 0 received, 0 of them again; 0 acked, 0 rejected"
    assert lines[2] == "lost: a was answered as t/0/0, and is not stored"
    assert (lines[-1], len(lines)) == ("lost: and 5 more", 2 + 5 * 3 + 1)


# --- the files ---


def test_recorded_events_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    clock = ManualClock()
    clock.advance(1)
    sent, answered, joined, received = (
        replace(event, at_ns=0) for event in history("send a t/0/0, m joins, m got a asked 5")
    )
    with Recorder(tmp_path / "a", "a", clock) as a, Recorder(tmp_path / "b", "b", clock) as b:
        a.record(sent)
        clock.advance(1)
        b.record(joined, replace(received, at_ns=7))
        clock.advance(1)
        a.record(answered)
    events = read([tmp_path / "a", tmp_path / "b"])
    times = [(event.at_ns, event.process) for event in events]
    assert times == [(7, "b"), (10**9, "a"), (2 * 10**9, "b"), (3 * 10**9, "a")]
    assert events[0] == replace(received, at_ns=7, process="b")


def test_every_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    text = (
        "log a, m joins, m leaves, m got a, m acks a, m acks a in T, m rejects a, m nacked a, begin T, commit T, "
        "aborted T, r peeked a t/0/0, m owns, offset 0, scheduled a t, damaged a t/0/0"
    )
    written = [replace(event, process="one") for event in history(text)]
    with Recorder(tmp_path / "one", "one") as recorder:
        recorder.record(*written)
    assert {type(event) for event in written} == set(EVENTS)
    assert read([tmp_path / "one"]) == written


def test_last_line_torn_at_any_byte_is_left_out(tmp_path: Path) -> None:
    with Recorder(tmp_path / "whole", "one") as recorder:
        recorder.record(*history("send é t/0/0"))
    content = (tmp_path / "whole").read_bytes()
    first = content.index(b"\n") + 1
    for size in range(first, len(content) - 1):
        (tmp_path / "torn").write_bytes(content[:size])
        assert [type(event) for event in read([tmp_path / "torn"])] == [PublishSentEvent]
    (tmp_path / "torn").write_bytes(content[:-1])
    assert len(read([tmp_path / "torn"])) == 2


@pytest.mark.parametrize(
    "broken", [b"{\n", b"\n", b'{"event":"invented"}\n', b'{"event":"left","group":1}\n', b"\xff\n"]
)
def test_whole_line_that_is_broken_is_refused(tmp_path: Path, broken: bytes) -> None:
    with Recorder(tmp_path / "one", "one") as recorder:
        recorder.record(*history("sending a t"))
    with (tmp_path / "one").open("ab") as file:
        file.write(broken)
    with pytest.raises(ValueError, match=r"line 2 of .*one is not an event"):
        read([tmp_path / "one"])


def test_file_belongs_to_one_process(tmp_path: Path) -> None:
    Recorder(tmp_path / "one", "one").close()
    with pytest.raises(FileExistsError):
        Recorder(tmp_path / "one", "two")


def test_recorded_events_survive_sigkill(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from goqueue.testing.history.events import LeftEvent, Recorder; "
        "recorder = Recorder(sys.argv[1], 'one'); recorder.record(LeftEvent('g', 'm')); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "one"], check=False)
    assert (done.returncode, len(read([tmp_path / "one"]))) == (-9, 1)


# --- the page ---


def test_page_names_every_kind_and_every_event() -> None:
    about_histories, _, _ = PAGE.read_text().partition("\n## Chaos\n")
    named = re.findall(r"^\| `(\w+)", about_histories, re.MULTILINE)
    assert sorted(named) == sorted([*KINDS, *(kind.__name__ for kind in EVENTS)])


def test_example_of_the_page_prints_its_output(tmp_path: Path) -> None:
    blocks = dict(re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", blocks["python"]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(PAGE.parents[1])},
    )
    assert (without_times(done.stdout), done.stderr) == (without_times(blocks[""]), "")


def without_times(text: str) -> str:
    return re.sub(r"_ns=\d+", "_ns=0", text)


# --- the first range that covers an offset ---

ranges = st.lists(st.tuples(st.integers(-2, 30), st.integers(-2, 30)), max_size=12)


@given(offsets=st.sets(st.integers(0, 28)).map(sorted), bounds=ranges)
def test_first_covering_range_equals_a_linear_search(offsets: list[int], bounds: list[tuple[int, int]]) -> None:
    acks: list[SettlementEvent] = [
        AckedEvent("g", "a", "t", 0, *bound, at_ns=number) for number, bound in enumerate(bounds)
    ]
    naive = {}
    for offset in offsets:
        holding = [ack for ack in acks if ack.first <= offset < ack.end]
        if holding:
            naive[offset] = holding[0]
    assert first_covering(offsets, acks) == naive
