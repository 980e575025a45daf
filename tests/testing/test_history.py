"""The checker of histories: it finds what is wrong, and holds nothing against a broker that did right."""

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from goqueue.testing.clock import ManualClock
from goqueue.testing.history import (
    KINDS,
    Aborted,
    Acked,
    Acking,
    Begun,
    Committed,
    Committing,
    Damaged,
    End,
    Event,
    Joined,
    Kind,
    Left,
    Nacked,
    Owned,
    Published,
    Publishing,
    Received,
    Recorder,
    Rejected,
    Rejecting,
    Scheduled,
    Seen,
    Settled,
    Stored,
    check,
    read,
)
from goqueue.testing.history.cover import first_covering
from goqueue.testing.history.events import EVENTS, Settling

OF_TRANSACTIONS: set[Kind] = {"aborted_read", "uncommitted_read", "torn_transaction", "lost_write", "duplicate"}
"""What is wrong with them is in `test_transaction_history.py`."""
PAGE = Path(__file__).resolve().parents[2] / "docs/checker.md"

# --- small words to tell a history with: group g, members a and b, topic t, partition 0, values that are letters ---


def told(*events: Event) -> list[Event]:
    """In the order of the lines, unless an event says when it was."""
    return [replace(event, at_ns=event.at_ns or 10 * number) for number, event in enumerate(events, start=1)]


def sent(value: str) -> Publishing:
    return Publishing("p", "t", "k", value)


def published(value: str, offset: int) -> Published:
    return Published(value, "t", 0, offset)


def stored(value: str, offset: int) -> Stored:
    return Stored("t", 0, offset, value)


def end(offset: int) -> End:
    return End("t", 0, offset)


def log(values: str) -> list[Event]:
    """Each letter is sent, answered and stored."""
    lives = [(sent(value), published(value, offset), stored(value, offset)) for offset, value in enumerate(values)]
    return [*(event for life in lives for event in life), end(len(values))]


def joined(member: str, generation: int = 1) -> Joined:
    return Joined("g", member, generation, (("t", 0),))


def got(member: str, value: str, attempt: int = 1, *, generation: int = 1, at: int = 0, asked: int = 0) -> Received:
    """The letter of an offset: a is at 0, b at 1."""
    return Received("g", member, generation, "t", 0, ord(value) - ord("a"), attempt, value, asked, at_ns=at)


def acking(member: str, first: int, end: int, at: int = 0) -> Acking:
    return Acking("g", member, "t", 0, first, end, at_ns=at)


def acked(member: str, first: int, end: int, at: int = 0) -> Acked:
    return Acked("g", member, "t", 0, first, end, at_ns=at)


def nacked(member: str, first: int, end: int) -> Nacked:
    return Nacked("g", member, "t", 0, first, end)


def rejecting(member: str, first: int, end: int) -> Rejecting:
    return Rejecting("g", member, "t", 0, first, end)


def rejected(member: str, first: int, end: int) -> Rejected:
    return Rejected("g", member, "t", 0, first, end)


def owned(member: str, generation: int = 1) -> Owned:
    return Owned("g", generation, member, "t", 0)


def floor(offset: int, process: str = "") -> Settled:
    return Settled("g", "t", 0, offset, process=process)


# --- what is wrong is found, and nothing else is reported ---

WRONG: dict[str, tuple[Kind, list[Event]]] = {
    "an answered message is not in the log": ("lost", [sent("a"), published("a", 0), end(0)]),
    "a message that was received and acked is gone at the end": (
        "lost",
        [sent("a"), published("a", 0), got("a", "a"), acking("a", 0, 1), acked("a", 0, 1), end(0), floor(0)],
    ),
    "a delayed message never came": ("lost", [sent("a"), Scheduled("a", "t"), end(0)]),
    "a message beside a damaged one is gone": (
        "lost",
        [sent("a"), published("a", 0), sent("b"), published("b", 1), Damaged("t", 0, 0, "a"), end(2)],
    ),
    "another value is where the answer said": (
        "disagreement",
        [sent("a"), sent("b"), published("a", 0), stored("b", 0), stored("a", 1), end(2)],
    ),
    "a message is at another offset than was answered": (
        "disagreement",
        [sent("a"), published("a", 0), stored("a", 1), end(2)],
    ),
    "two reads of one offset found two values": (
        "disagreement",
        [sent("a"), sent("b"), stored("a", 0), stored("b", 0), end(1)],
    ),
    "a retry was stored again behind the first": ("duplicated_store", [*log("a"), stored("a", 1), end(2)]),
    "a retry was stored again in another partition": (
        "duplicated_store",
        [*log("a"), Stored("t", 1, 0, "a"), End("t", 1, 1)],
    ),
    "a value was received that nobody sent": (
        "phantom",
        [got("a", "a"), acking("a", 0, 1), acked("a", 0, 1), end(1), floor(1)],
    ),
    "a value is stored that nobody sent": ("phantom", [*log("a"), stored("b", 1), end(2)]),
    "what was received is not what the log holds there": (
        "phantom",
        [*log("ab"), replace(got("a", "a"), value_id="b"), got("a", "b"), acking("a", 0, 2), floor(2)],
    ),
    "what was received is nowhere in the log": ("phantom", [sent("a"), got("a", "a"), end(0), floor(0)]),
    "an acked message comes again": (
        "duplicated_after_ack",
        [*log("a"), got("a", "a"), acking("a", 0, 1), acked("a", 0, 1), got("a", "a", 2), floor(1)],
    ),
    "a message of an acked range comes to another member": (
        "duplicated_after_ack",
        [
            *log("abc"),
            got("a", "a"),
            got("a", "b"),
            got("a", "c"),
            acking("a", 0, 3),
            acked("a", 0, 3),
            Left("g", "a"),
            joined("b", 2),
            got("b", "b", 2, generation=2),
            floor(3),
        ],
    ),
    "a dead letter comes again": (
        "duplicated_after_ack",
        [*log("a"), got("a", "a"), rejecting("a", 0, 1), rejected("a", 0, 1), got("a", "a", 2), floor(1)],
    ),
    "a poll that was sent after the answer brings an acked message": (
        "duplicated_after_ack",
        [
            *log("a"),
            got("a", "a", at=50),
            acking("a", 0, 1, at=60),
            acked("a", 0, 1, at=70),
            got("b", "a", 2, generation=2, asked=71, at=90),
            floor(1),
        ],
    ),
    "first deliveries go back": (
        "backward",
        [*log("ab"), got("a", "b"), got("a", "a"), acking("a", 0, 2), acked("a", 0, 2), floor(2)],
    ),
    "an attempt is given twice": (
        "backward",
        [*log("a"), got("a", "a"), nacked("a", 0, 1), got("a", "a"), acking("a", 0, 1), floor(1)],
    ),
    "an attempt is given twice, to two members": (
        "backward",
        [
            *log("a"),
            got("a", "a", asked=1, at=9),
            got("b", "a", generation=2, asked=1, at=9),
            acking("b", 0, 1),
            floor(1),
        ],
    ),
    "the count of deliveries falls": (
        "backward",
        [*log("a"), got("a", "a", 3), got("b", "a", 2, generation=2), acking("b", 0, 1), floor(1)],
    ),
    "the count of deliveries falls between two others": (
        "backward",
        [*log("a"), got("a", "a"), got("a", "a", 3), got("a", "a", 2), acking("a", 0, 1), floor(1)],
    ),
    "the floor falls": (
        "backward",
        [*log("ab"), got("a", "a"), got("a", "b"), acking("a", 0, 2), acked("a", 0, 2), floor(2), floor(1)],
    ),
    "the floor passes a message that nobody acked": (
        "skipped",
        [*log("abc"), got("a", "a"), got("a", "b"), got("a", "c"), acked("a", 0, 1), acked("a", 2, 3), floor(3)],
    ),
    "the floor passes a message that was nacked": (
        "skipped",
        [*log("a"), got("a", "a"), nacked("a", 0, 1), floor(1)],
    ),
    "the floor passes a message that nobody received": (
        "skipped",
        [*log("ab"), got("a", "b"), acked("a", 1, 2), floor(2)],
    ),
    "the floor passes what another group has acked": (
        "skipped",
        [
            *log("a"),
            got("a", "a"),
            acked("a", 0, 1),
            floor(1),
            replace(got("b", "a"), group="h"),
            replace(floor(1), group="h"),
        ],
    ),
    "a message within an acked range was never received": (
        "unseen",
        [*log("abc"), got("a", "a"), got("a", "c"), acking("a", 0, 3), acked("a", 0, 3), floor(3)],
    ),
    "the group is drained and the last message was never received": (
        "unseen",
        [*log("ab"), got("a", "a"), acking("a", 0, 1), acked("a", 0, 1), floor(1)],
    ),
    "a whole partition was assigned and never came": ("unseen", [*log("a"), joined("a"), floor(0)]),
    "two members are told that a partition is theirs": ("two_owners", [joined("a"), joined("b"), floor(0)]),
    "the group says that it is another member's": ("two_owners", [joined("a"), owned("b"), floor(0)]),
    "two members receive from one partition": (
        "two_owners",
        [*log("ab"), got("a", "a"), got("b", "b"), acking("a", 0, 1), acking("b", 1, 2), floor(2)],
    ),
    "a log was not read to its end": ("total", [sent("a"), published("a", 0)]),
    "a log is longer than its end": ("total", [*log("a"), end(0)]),
    "a partition was assigned, and the group's floor is not known": ("total", [joined("a")]),
    "a group's floor is not known": ("total", [*log("a"), got("a", "a"), acked("a", 0, 1)]),
    "a group's floor is behind the end of the log": ("total", [*log("a"), got("a", "a"), acked("a", 0, 1), floor(2)]),
    "an acked message is not below the floor": ("total", [*log("a"), got("a", "a"), acked("a", 0, 1), floor(0)]),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_is_found_and_nothing_else(name: str) -> None:
    kind, events = WRONG[name]
    report = check(told(*events))
    assert {violation.kind for violation in report.violations} == {kind}, str(report)
    assert not report.ok
    assert all(set(violation.events) <= set(told(*events)) and violation.events for violation in report.violations)


def test_every_kind_is_found_in_two_ways() -> None:
    found = [kind for kind, _ in WRONG.values()]
    assert {kind for kind in found if found.count(kind) >= 2} == set(KINDS) - OF_TRANSACTIONS


# --- what only looks wrong ---

RIGHT: dict[str, list[Event]] = {
    "nothing happened": [],
    "a message is received, acked and settled": [
        *log("a"),
        joined("a"),
        got("a", "a"),
        acking("a", 0, 1),
        acked("a", 0, 1),
        Left("g", "a"),
        floor(1),
    ],
    "a publish without an answer is stored": [sent("a"), stored("a", 0), end(1)],
    "a delayed message came": [sent("a"), Scheduled("a", "t"), stored("a", 0), end(1)],
    "a delayed message was damaged while it waited": [sent("a"), Scheduled("a", "t"), Damaged("t", 0, 0, "a"), end(0)],
    "a damaged message that was received is missing": [
        sent("a"),
        published("a", 0),
        got("a", "a"),
        Damaged("t", 0, 0, "a"),
        end(1),
        floor(1),
    ],
    "a publish without an answer is not stored": [sent("a"), end(0)],
    "a retry is answered as the first time": [*log("a"), published("a", 0)],
    "the log is read twice": [*log("ab"), stored("a", 0), stored("b", 1), end(2)],
    "the log has gaps": [
        sent("a"),
        published("a", 0),
        stored("a", 0),
        end(3),
        got("a", "a"),
        acked("a", 0, 1),
        floor(3),
    ],
    "an ack in flight at a kill had no effect": [
        *log("a"),
        got("a", "a"),
        acking("a", 0, 1),
        got("b", "a", 2, generation=2),
        acking("b", 0, 1),
        acked("b", 0, 1),
        floor(1),
    ],
    "an ack in flight at a kill had its effect": [*log("a"), got("a", "a"), acking("a", 0, 1), floor(1)],
    "a reject in flight at a kill had its effect": [*log("a"), got("a", "a"), rejecting("a", 0, 1), floor(1)],
    "a nacked message comes with a higher attempt": [
        *log("a"),
        got("a", "a"),
        nacked("a", 0, 1),
        got("a", "a", 2),
        acking("a", 0, 1),
        acked("a", 0, 1),
        floor(1),
    ],
    "a delivery was lost and its attempt counts": [
        *log("a"),
        got("a", "a", 3),
        acking("a", 0, 1),
        acked("a", 0, 1),
        floor(1),
    ],
    "a delivery was lost and comes behind a first one": [
        *log("ab"),
        got("a", "b"),
        got("a", "a", 2),
        acked("a", 0, 2),
        floor(2),
    ],
    "a member starts over in a later generation": [
        *log("ab"),
        got("a", "b"),
        got("a", "a", generation=2),
        acked("a", 0, 2),
        floor(2),
    ],
    "a message died of deliveries that nobody received": [
        *log("a"),
        rejected("reader of the dead letters", 0, 1),
        floor(1),
    ],
    "a partition moves in a later generation": [
        *log("ab"),
        joined("a"),
        got("a", "a"),
        acking("a", 0, 1),
        acked("a", 0, 1),
        joined("b", 2),
        owned("b", 2),
        got("b", "b", generation=2),
        acking("b", 1, 2),
        acked("b", 1, 2),
        floor(2),
    ],
    "a partition moves and its open messages with it": [
        *log("ab"),
        got("a", "a"),
        got("a", "b"),
        joined("b", 2),
        got("b", "a", 2, generation=2),
        got("b", "b", 2, generation=2),
        acked("b", 0, 2),
        floor(2),
    ],
    "a member keeps its partition and starts over": [
        *log("ab"),
        joined("a"),
        got("a", "a"),
        got("a", "b"),
        joined("a"),
        got("a", "a", 2),
        got("a", "b", 2),
        acked("a", 0, 2),
        floor(2),
    ],
    "an ack is answered after the redelivery was received": [
        *log("a"),
        got("a", "a"),
        acking("a", 0, 1),
        got("b", "a", 2, generation=2),
        acked("a", 0, 1),
        acking("b", 0, 1),
        acked("b", 0, 1),
        floor(1),
    ],
    "a delivery and the answer to an ack come at one moment": [
        *log("a"),
        got("a", "a", at=50),
        acking("a", 0, 1, at=60),
        acked("a", 0, 1, at=70),
        got("b", "a", 2, generation=2, at=70),
        floor(1),
    ],
    "a poll was sent before an ack was answered": [
        *log("a"),
        got("a", "a", at=50),
        acking("a", 0, 1, at=60),
        acked("a", 0, 1, at=70),
        got("b", "a", 2, generation=2, asked=69, at=90),
        floor(1),
    ],
    "a member that slept reads an old answer": [
        *log("a"),
        got("b", "a", 2, generation=2, at=50),
        acking("b", 0, 1, at=60),
        acked("b", 0, 1, at=70),
        got("a", "a", asked=40, at=90),
        floor(1),
    ],
    "an observer that slept writes down an old floor": [
        *log("ab"),
        got("a", "a"),
        got("a", "b"),
        acked("a", 0, 2),
        floor(2, "one"),
        floor(1, "two"),
    ],
    "a broker restarts and forgets its members": [
        *log("ab"),
        joined("a", 3),
        got("a", "a", generation=3),
        acking("a", 0, 1),
        sent("z"),
        Left("g", "a"),
        joined("a", 4),
        got("a", "a", 2, generation=4),
        got("a", "b", generation=4),
        acking("a", 0, 2),
        acked("a", 0, 2),
        floor(2),
    ],
    "a client always commits from the beginning": [
        *log("ab"),
        got("a", "a"),
        acking("a", 0, 1),
        acked("a", 0, 1),
        got("a", "b"),
        acking("a", 0, 2),
        acked("a", 0, 2),
        floor(2),
    ],
    "two groups read the same": [*log("a"), got("a", "a"), acked("a", 0, 1), floor(1)]
    + [replace(event, group="h") for event in (got("a", "a"), acked("a", 0, 1), floor(1))],
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_not_held_against_the_broker(name: str) -> None:
    report = check(told(*RIGHT[name]))
    assert report.ok, str(report)


def test_without_idempotence_a_value_may_be_stored_twice() -> None:
    assert check(told(*log("a"), stored("a", 1), published("a", 1), end(2)), idempotent=False).ok


def test_with_priorities_first_deliveries_come_in_any_order() -> None:
    assert check(told(*log("ab"), got("a", "b"), got("a", "a"), acked("a", 0, 2), floor(2)), in_order=False).ok


def test_a_violation_names_what_it_is_about() -> None:
    gone = told(sent("a"), published("a", 0), end(0))
    (violation,) = check(gone).violations
    assert violation.sentence == "a was answered as t/0/0, and is not stored"
    assert violation.events == (gone[1], gone[2])


def test_a_first_delivery_that_is_given_twice_is_told_once() -> None:
    report = check(told(*log("ab"), got("a", "a"), got("a", "b"), got("a", "a"), acked("a", 0, 2), floor(2)))
    assert [violation.kind for violation in report.violations] == ["backward"]


# --- the report ---


def test_a_report_counts_everything() -> None:
    counts = check(told(*log("abc"), got("a", "a"), got("a", "a", 2), got("a", "b"), acked("a", 0, 2))).counts
    assert (counts.sent, counts.published, counts.stored) == (3, 3, 3)
    assert (counts.received, counts.redelivered, counts.acked, counts.rejected) == (3, 1, 2, 0)
    assert counts.events == 14


def test_a_report_of_many_violations_is_short() -> None:
    letters = "abcdefghij"
    answers = [event for offset, value in enumerate(letters) for event in (sent(value), published(value, offset))]
    lines = str(check(told(*answers, end(0)))).splitlines()
    assert lines[0] == "10 violations in 21 events: 10 lost"
    assert lines[1] == "10 sent, 10 published, 0 stored; 0 received, 0 of them again; 0 acked, 0 rejected"
    assert lines[2] == "lost: a was answered as t/0/0, and is not stored"
    assert (lines[-1], len(lines)) == ("lost: and 5 more", 2 + 5 * 3 + 1)


# --- the files ---


def test_what_was_recorded_is_read_in_the_order_of_time(tmp_path: Path) -> None:
    clock = ManualClock()
    clock.advance(1)
    with Recorder(tmp_path / "a", "a", clock) as a, Recorder(tmp_path / "b", "b", clock) as b:
        a.record(sent("a"))
        clock.advance(1)
        b.record(joined("m"), got("m", "a", asked=5, at=7))
        clock.advance(1)
        a.record(published("a", 0))
    events = read([tmp_path / "a", tmp_path / "b"])
    assert [(event.at_ns, event.process) for event in events] == [
        (7, "b"),
        (10**9, "a"),
        (2 * 10**9, "b"),
        (3 * 10**9, "a"),
    ]
    assert events[0] == replace(got("m", "a", asked=5, at=7), process="b")


def test_every_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    words = (sent("a"), published("a", 0), stored("a", 0), end(1), joined("m"), Left("g", "m"), got("m", "a"))
    acts = (acking("m", 0, 1), acked("m", 0, 1), nacked("m", 0, 1), rejecting("m", 0, 1), rejected("m", 0, 1))
    ways = (
        Begun("T", "p"),
        Committing("T"),
        Committed("T"),
        Aborted("T"),
        Seen("r", "t", 0, 0, "a", "read_uncommitted"),
    )
    pledge = replace(acking("m", 0, 1), transaction="T")
    rest = owned("m"), floor(0), Scheduled("a", "t"), Damaged("t", 0, 0, "a")
    written = [replace(event, process="one") for event in told(*words, *acts, *ways, pledge, *rest)]
    with Recorder(tmp_path / "one", "one") as recorder:
        recorder.record(*written)
    assert {type(event) for event in written} == set(EVENTS)
    assert read([tmp_path / "one"]) == written


def test_a_last_line_torn_at_any_byte_is_left_out(tmp_path: Path) -> None:
    with Recorder(tmp_path / "whole", "one") as recorder:
        recorder.record(*told(sent("é"), published("é", 0)))
    content = (tmp_path / "whole").read_bytes()
    first = content.index(b"\n") + 1
    for size in range(first, len(content) - 1):
        (tmp_path / "torn").write_bytes(content[:size])
        assert [type(event) for event in read([tmp_path / "torn"])] == [Publishing]
    (tmp_path / "torn").write_bytes(content[:-1])
    assert len(read([tmp_path / "torn"])) == 2


@pytest.mark.parametrize(
    "broken", [b"{\n", b"\n", b'{"event":"invented"}\n', b'{"event":"left","group":1}\n', b"\xff\n"]
)
def test_a_broken_line_that_is_whole_is_refused(tmp_path: Path, broken: bytes) -> None:
    with Recorder(tmp_path / "one", "one") as recorder:
        recorder.record(sent("a"))
    with (tmp_path / "one").open("ab") as file:
        file.write(broken)
    with pytest.raises(ValueError, match=r"line 2 of .*one is not an event"):
        read([tmp_path / "one"])


def test_a_file_belongs_to_one_process(tmp_path: Path) -> None:
    Recorder(tmp_path / "one", "one").close()
    with pytest.raises(FileExistsError):
        Recorder(tmp_path / "one", "two")


def test_what_was_recorded_survives_sigkill(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from goqueue.testing.history import Left, Recorder; "
        "recorder = Recorder(sys.argv[1], 'one'); recorder.record(Left('g', 'm')); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "one"], check=False)
    assert (done.returncode, len(read([tmp_path / "one"]))) == (-9, 1)


# --- the page ---


def test_the_page_names_every_kind_and_every_event() -> None:
    named = re.findall(r"^\| `(\w+)", PAGE.read_text(), re.MULTILINE)
    assert sorted(named) == sorted([*KINDS, *(kind.__name__ for kind in EVENTS)])


def test_the_example_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
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
def test_the_first_range_is_found_as_by_looking_at_each(offsets: list[int], bounds: list[tuple[int, int]]) -> None:
    acks: list[Settling] = [replace(acked("a", *bound), at_ns=number) for number, bound in enumerate(bounds)]
    naive = {}
    for offset in offsets:
        holding = [ack for ack in acks if ack.first <= offset < ack.end]
        if holding:
            naive[offset] = holding[0]
    assert first_covering(offsets, acks) == naive


# --- an honest queue, whose every history is clean ---

Steps = list[tuple[str, int]]
MEMBERS = ("a", "b", "c")
STEPS = (
    "publish",
    "publish",
    "poll",
    "poll",
    "take",
    "take",
    "ack",
    "ack",
    "nack",
    "reject",
    "expire",
    "move",
    "restart",
)


@dataclass
class Queue:
    """One partition and one group. Whatever has no answer yet may be cut short by a number that is odd."""

    events: list[Event] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=dict)
    leased: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    polls: dict[str, list[Received]] = field(default_factory=dict)
    """Answers on their way. A member has one poll at a time."""
    held: dict[str, list[int]] = field(default_factory=lambda: {member: [] for member in MEMBERS})
    owner: str = "a"
    generation: int = 1
    count: int = 0

    def note(self, event: Event) -> None:
        self.events.append(replace(event, at_ns=self.now()))

    def now(self) -> int:
        return 10 * (len(self.events) + 1)

    def publish(self, number: int) -> None:
        self.count += 1
        value = f"v{self.count}"
        self.note(sent(value))
        if number % 5:
            self.values.append(value)
        if number % 5 > 1:
            self.note(published(value, len(self.values) - 1))

    def poll(self, number: int) -> None:
        if self.owner in self.polls:
            return
        free = [offset for offset in range(len(self.values)) if offset not in self.leased | self.settled]
        self.polls[self.owner] = []
        for offset in free[: number % 4 + 1]:
            self.leased.add(offset)
            attempt = self.attempts[offset] = self.attempts.get(offset, 0) + 1
            place = ("t", 0, offset, attempt, self.values[offset], self.now() - 1)
            self.polls[self.owner].append(Received("g", self.owner, self.generation, *place))

    def take(self, number: int) -> None:
        """An answer arrives, maybe long after it was decided; or it is lost."""
        for member in sorted(self.polls)[: number % 2 + 1]:
            for event in self.polls.pop(member) if number % 7 else ():
                self.note(event)
                self.held[member].append(event.offset)

    def ack(self, number: int) -> None:
        self._settle(number, Acking, Acked)

    def reject(self, number: int) -> None:
        self.dead.update(self._settle(number, Rejecting, Rejected))

    def _settle(self, number: int, before: type[Settling], after: type[Settling]) -> set[int]:
        member = MEMBERS[number % 3]
        held = self.held[member]
        if not held:
            return set()
        first, last = held[0], held[0] + 1
        while last in held:
            last += 1
        self.held[member] = [offset for offset in held if not first <= offset < last]
        self.note(before("g", member, "t", 0, first, last))
        done = set(range(first, last)) if number % 5 else set()
        self.settled |= done
        if number % 5 > 1:
            self.note(after("g", member, "t", 0, first, last))
        return done

    def nack(self, number: int) -> None:
        if held := self.held[MEMBERS[number % 3]]:
            offset = held.pop()
            self.leased.discard(offset)
            self.note(nacked(MEMBERS[number % 3], offset, offset + 1))

    def expire(self, number: int) -> None:
        self.leased = {offset for offset in self.leased if (offset + number) % 3}

    def move(self, number: int) -> None:
        self.note(Left("g", self.owner))
        self.owner, self.generation = MEMBERS[number % 3], self.generation + 1
        self.leased.clear()
        self.note(joined(self.owner, self.generation))
        self.note(owned(self.owner, self.generation))

    def restart(self, number: int) -> None:
        """Answers under way are lost, and so is who was a member."""
        self.polls.clear()
        self.move(number)

    def finish(self) -> list[Event]:
        """Drain the group and read everything."""
        self.restart(0)
        while len(self.settled) < len(self.values):
            self.poll(3)
            self.take(1)
            self.ack(3)
        for offset in sorted(self.dead):
            self.note(rejected("reader", offset, offset + 1))
        for offset, value in enumerate(self.values):
            self.note(stored(value, offset))
        self.note(end(len(self.values)))
        self.note(floor(len(self.values)))
        return self.events


def lived(steps: Steps) -> list[Event]:
    queue = Queue()
    queue.note(joined("a"))
    for name, number in steps:
        getattr(queue, name)(number)
    return queue.finish()


steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 209)), max_size=60)
histories = steps.map(lived)
BEGINNING: Steps = [("publish", 2), ("publish", 2), ("publish", 2), ("poll", 2), ("take", 1), ("ack", 3)]
full_histories = steps.map(lambda steps: lived(BEGINNING + steps))


@given(histories)
def test_an_honest_queue_is_never_blamed(events: list[Event]) -> None:
    report = check(events)
    assert report.ok, str(report)


@given(histories, st.randoms(use_true_random=False))
def test_the_order_of_the_files_does_not_matter(events: list[Event], chance: random.Random) -> None:
    shuffled = events.copy()
    chance.shuffle(shuffled)
    assert check(shuffled) == check(events)


# --- one lie in an honest history is found ---

Chosen = TypeVar("Chosen", bound=Event)


def of(events: list[Event], kind: type[Chosen]) -> list[Chosen]:
    return [event for event in events if isinstance(event, kind)]


def one(candidates: list[Chosen], chance: random.Random) -> Chosen:
    assume(candidates)
    return chance.choice(candidates)


def without(events: list[Event], removed: Collection[Event]) -> list[Event]:
    return [event for event in events if event not in removed]


def later(events: list[Event], event: Chosen) -> Chosen:
    """Seen once more, when everything else is over."""
    return replace(event, at_ns=events[-1].at_ns + 1)


def covering(events: list[Event], offset: int) -> list[Event]:
    return [event for event in of(events, Settling) if event.first <= offset < event.end]


def forget_a_message(events: list[Event], chance: random.Random) -> list[Event]:
    answer = one(of(events, Published), chance)
    return without(events, [event for event in of(events, Stored) if event.value_id == answer.value_id])


def exchange_two_messages(events: list[Event], chance: random.Random) -> list[Event]:
    answer = one(of(events, Published), chance)
    there = of(events, Stored)[answer.offset]
    other = one([event for event in of(events, Stored) if event is not there], chance)
    lies = [replace(there, value_id=other.value_id), replace(other, value_id=there.value_id)]
    return [*without(events, [there, other]), *lies]


def store_a_message_again(events: list[Event], chance: random.Random) -> list[Event]:
    again = one(of(events, Stored), chance)
    return [*events, replace(again, offset=of(events, End)[0].end_offset)]


def invent_a_message(events: list[Event], chance: random.Random) -> list[Event]:
    event = one(of(events, Received), chance)
    return [*without(events, [event]), replace(event, value_id="invented")]


def deliver_after_the_ack(events: list[Event], chance: random.Random) -> list[Event]:
    answered = {offset for ack in of(events, Acked) for offset in range(ack.first, ack.end)}
    event = one([event for event in of(events, Received) if event.offset in answered], chance)
    return [*events, later(events, replace(event, attempt=1000, asked_ns=events[-1].at_ns))]


def deliver_as_before(events: list[Event], chance: random.Random) -> list[Event]:
    return [*events, later(events, one(of(events, Received), chance))]


def forget_who_settled(events: list[Event], chance: random.Random) -> list[Event]:
    offset = one(of(events, Stored), chance).offset
    return without(events, covering(events, offset))


def forget_who_received(events: list[Event], chance: random.Random) -> list[Event]:
    dead = {offset for end in of(events, Rejecting) + of(events, Rejected) for offset in range(end.first, end.end)}
    offset = one([event for event in of(events, Stored) if event.offset not in dead], chance).offset
    return without(events, [event for event in of(events, Received) if event.offset == offset])


def claim_what_is_owned(events: list[Event], chance: random.Random) -> list[Event]:
    return [*events, owned("thief", one(of(events, Joined), chance).generation)]


def lower_the_floor(events: list[Event], chance: random.Random) -> list[Event]:
    (last,) = of(events, Settled)
    assume(last.floor)
    return [*without(events, [last]), replace(last, floor=chance.randrange(last.floor))]


LIES: dict[Kind, Callable[[list[Event], random.Random], list[Event]]] = {
    "lost": forget_a_message,
    "disagreement": exchange_two_messages,
    "duplicated_store": store_a_message_again,
    "phantom": invent_a_message,
    "duplicated_after_ack": deliver_after_the_ack,
    "backward": deliver_as_before,
    "skipped": forget_who_settled,
    "unseen": forget_who_received,
    "two_owners": claim_what_is_owned,
    "total": lower_the_floor,
}


@pytest.mark.parametrize("kind", LIES)
@given(events=full_histories, chance=st.randoms(use_true_random=False))
def test_a_lie_in_an_honest_history_is_found(kind: Kind, events: list[Event], chance: random.Random) -> None:
    report = check(LIES[kind](events, chance))
    assert report.of(kind), str(report)
