"""The checker of histories with transactions in them: torn ones are found, and unknown ones are all or nothing."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from goqueue.testing.history import (
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
    Published,
    Publishing,
    Received,
    Rejected,
    Seen,
    Settled,
    Stored,
    check,
)

OF_TRANSACTIONS: set[Kind] = {"aborted_read", "uncommitted_read", "torn_transaction", "lost_write", "duplicate"}

# --- small words: transactions S and T; places such as "t/1/0"; group g reads in/0, whose values are i and j ---


def at(place: str) -> tuple[str, int, int]:
    topic, partition, offset = place.split("/")
    return topic, int(partition), int(offset)


def told(*events: Event) -> list[Event]:
    """In the order of the lines, unless an event says when it was."""
    return [replace(event, at_ns=event.at_ns or 10 * number) for number, event in enumerate(events, start=1)]


def begun(name: str = "T") -> Begun:
    return Begun(name, "p")


def committing(name: str = "T") -> Committing:
    return Committing(name)


def committed(name: str = "T") -> Committed:
    return Committed(name)


def aborted(name: str = "T") -> Aborted:
    return Aborted(name)


def sending(value: str, topic: str = "t", name: str = "T") -> Publishing:
    return Publishing("p", topic, "k", value, name)


def published(value: str, place: str) -> Published:
    return Published(value, *at(place))


def sent(value: str, place: str, name: str = "T") -> list[Event]:
    """And answered."""
    return [sending(value, at(place)[0], name), published(value, place)]


def seen(value: str, place: str, reader: str = "r", time: int = 0) -> Seen:
    return Seen(reader, *at(place), value, at_ns=time)


def peeked(value: str, place: str, reader: str = "peeker") -> Seen:
    return Seen(reader, *at(place), value, "read_uncommitted")


def stored(value: str, place: str) -> Stored:
    return Stored(*at(place), value)


def ends(*places: str) -> list[Event]:
    return [End(*at(place)) for place in places]


def inputs(values: str = "i") -> list[Event]:
    """Published without a transaction."""
    return [event for offset, value in enumerate(values) for event in sent(value, f"in/0/{offset}", "")]


def read_inputs(values: str = "i", floor: int | None = None) -> list[Event]:
    """What is there in the end, and where the group stands: behind all of them, if nothing else is said."""
    there = [stored(value, f"in/0/{offset}") for offset, value in enumerate(values)]
    settled = Settled("g", "in", 0, len(values) if floor is None else floor)
    return [*there, End("in", 0, len(values)), settled]


def got(value: str = "i", attempt: int = 1, member: str = "m", asked: int = 0, generation: int = 1) -> Received:
    return Received("g", member, generation, "in", 0, "ij".index(value), attempt, value, asked)


def acking(name: str = "T", first: int = 0, end: int = 1, member: str = "m") -> Acking:
    return Acking("g", member, "in", 0, first, end, name)


def acked(name: str = "T", first: int = 0, end: int = 1, member: str = "m") -> Acked:
    return Acked("g", member, "in", 0, first, end, name)


def ack(name: str = "T", first: int = 0, end: int = 1, member: str = "m") -> list[Event]:
    """And answered."""
    return [acking(name, first, end, member), acked(name, first, end, member)]


TWO = [begun(), *sent("a", "t/0/0"), *sent("b", "u/1/0", "T")]
"""A transaction over two topics."""
BOTH_ENDS = ends("t/0/5", "u/1/5")
ALL_THREE = [stored("a", "t/0/0"), stored("c", "t/0/1"), stored("b", "u/1/0")]
STEP = [*inputs(), got(), begun(), *sent("a", "t/0/0"), *ack()]
"""Consumed, transformed and produced."""

# --- what is wrong is found, and nothing else is reported ---

WRONG: dict[str, tuple[Kind, list[Event]]] = {
    "an aborted message is in the log": ("aborted_read", [*TWO, aborted(), stored("a", "t/0/0"), *BOTH_ENDS]),
    "a reader read an aborted message": (
        "aborted_read",
        [*TWO, aborted(), seen("a", "t/0/0"), *BOTH_ENDS],
    ),
    "a reader read a message that was aborted afterwards": (
        "aborted_read",
        [*TWO, seen("a", "t/0/0"), aborted(), *BOTH_ENDS],
    ),
    "a consumer received an aborted message": (
        "aborted_read",
        [begun(), *sent("i", "in/0/0"), aborted(), got(), *ends("in/0/2"), Settled("g", "in", 0, 2)],
    ),
    "a commit was refused, and a message of it is in the log": (
        "aborted_read",
        [*TWO, committing(), aborted(), stored("b", "u/1/0"), *BOTH_ENDS],
    ),
    "what a zombie sent late came into the next transaction": (
        "aborted_read",
        [
            *TWO,
            begun("S"),
            *sent("c", "t/0/1", "S"),
            sending("z"),
            committing("S"),
            committed("S"),
            committing(),
            aborted(),
            stored("c", "t/0/1"),
            stored("z", "t/0/2"),
            *BOTH_ENDS,
        ],
    ),
    "a reader was before the commit": (
        "uncommitted_read",
        [*TWO, seen("a", "t/0/0"), committing(), committed(), stored("a", "t/0/0"), stored("b", "u/1/0"), *BOTH_ENDS],
    ),
    "a consumer was before the commit": (
        "uncommitted_read",
        [
            begun(),
            *sent("i", "in/0/0"),
            got(),
            *ack(""),
            committing(),
            committed(),
            *read_inputs(),
        ],
    ),
    "a reader was before a commit whose outcome is unknown": (
        "uncommitted_read",
        [*TWO, seen("a", "t/0/0"), committing(), *BOTH_ENDS],
    ),
    "a producer died before its commit, and its message is in the log": (
        "uncommitted_read",
        [*TWO, stored("a", "t/0/0"), *BOTH_ENDS],
    ),
    "a delayed message came before the commit": (
        "uncommitted_read",
        [begun(), sending("d"), seen("d", "t/0/0"), committing(), committed(), stored("d", "t/0/0"), *BOTH_ENDS],
    ),
    "one topic of a committed transaction is missing": (
        "torn_transaction",
        [*TWO, committing(), committed(), stored("a", "t/0/0"), *BOTH_ENDS],
    ),
    "one topic of an unknown transaction is missing": (
        "torn_transaction",
        [*TWO, committing(), stored("b", "u/1/0"), *BOTH_ENDS],
    ),
    "one partition of an unknown transaction is missing": (
        "torn_transaction",
        [
            begun(),
            *sent("a", "t/0/0"),
            *sent("b", "t/1/0"),
            committing(),
            stored("a", "t/0/0"),
            *ends("t/0/2", "t/1/2"),
        ],
    ),
    "one message of a partition is missing": (
        "torn_transaction",
        [begun(), *sent("a", "t/0/0"), *sent("b", "t/0/1"), committing(), stored("a", "t/0/0"), *ends("t/0/3")],
    ),
    "a delayed message of a transaction never comes": (
        "torn_transaction",
        [begun(), *sent("a", "t/0/0"), sending("d"), committing(), committed(), stored("a", "t/0/0"), *ends("t/0/2")],
    ),
    "only the delayed message of a transaction comes": (
        "torn_transaction",
        [begun(), *sent("a", "t/0/0"), sending("d"), committing(), stored("d", "t/0/2"), *ends("t/0/3")],
    ),
    "what a reader read of an unknown transaction is gone": (
        "torn_transaction",
        [*TWO, committing(), seen("a", "t/0/0"), *BOTH_ENDS],
    ),
    "what a consumer received of an unknown transaction is gone": (
        "torn_transaction",
        [begun(), *sent("i", "in/0/0"), committing(), got(), *ack(""), *ends("in/0/2"), Settled("g", "in", 0, 1)],
    ),
    "a committed transaction's input is handed out again": (
        "torn_transaction",
        [
            *STEP,
            committing(),
            committed(),
            got(attempt=2),
            stored("a", "t/0/0"),
            *ends("t/0/2"),
            *ack(""),
            *read_inputs(),
        ],
    ),
    "an unknown transaction's output is there, and its input handed out again": (
        "torn_transaction",
        [*STEP, committing(), got(attempt=2), *ack(""), stored("a", "t/0/0"), *ends("t/0/2"), *read_inputs()],
    ),
    "an input comes again, whose ack has no other answer than that of the commit": (
        "torn_transaction",
        [
            *STEP[:-1],
            committing(),
            committed(),
            got(attempt=2),
            stored("a", "t/0/0"),
            *ends("t/0/2"),
            *read_inputs(),
        ],
    ),
    "an input comes again after the output of its unknown transaction was read": (
        "torn_transaction",
        [
            *STEP[:-1],
            committing(),
            seen("a", "t/0/0"),
            got(attempt=2),
            stored("a", "t/0/0"),
            *ends("t/0/2"),
            *read_inputs(),
        ],
    ),
    "an input comes again while its transaction is open, which is committed then": (
        "torn_transaction",
        [
            *STEP,
            got(attempt=2, member="n", generation=2),
            committing(),
            committed(),
            stored("a", "t/0/0"),
            *ends("t/0/2"),
            *read_inputs(),
        ],
    ),
    "an unknown transaction's input is done, and its output is missing": (
        "torn_transaction",
        [*STEP, committing(), *ends("t/0/2"), *read_inputs()],
    ),
    "an aborted transaction's input is done": ("torn_transaction", [*STEP, aborted(), *ends("t/0/2"), *read_inputs()]),
    "the input of a producer that died is done": ("torn_transaction", [*STEP, *ends("t/0/2"), *read_inputs()]),
    "of two inputs of an unknown transaction one is done, and one comes again": (
        "torn_transaction",
        [
            *inputs("ij"),
            got(),
            got("j"),
            begun(),
            *ack("T", 0, 2),
            committing(),
            got("j", 2),
            *ack("", 1, 2),
            *read_inputs("ij"),
        ],
    ),
    "a transaction is answered as committed and as aborted": (
        "torn_transaction",
        [*TWO, committing(), committed(), aborted(), stored("a", "t/0/0"), stored("b", "u/1/0"), *BOTH_ENDS],
    ),
    "a committed message is not there": (
        "lost_write",
        [begun(), *sent("a", "t/0/0"), committing(), committed(), *ends("t/0/2")],
    ),
    "nothing of a committed transaction is there": ("lost_write", [*TWO, committing(), committed(), *BOTH_ENDS]),
    "a committed transaction's input is done, and its output is missing": (
        "lost_write",
        [*STEP, committing(), committed(), *ends("t/0/2"), *read_inputs()],
    ),
    "a delayed message is committed and never comes": (
        "lost_write",
        [begun(), sending("d"), committing(), committed(), *ends("t/0/0")],
    ),
    "a message of a transaction is stored twice": (
        "duplicate",
        [begun(), *sent("a", "t/0/0"), committing(), stored("a", "t/0/0"), stored("a", "t/0/1"), *ends("t/0/3")],
    ),
    "a message of a transaction is stored in two partitions": (
        "duplicate",
        [
            begun(),
            *sent("a", "t/0/0"),
            committing(),
            committed(),
            stored("a", "t/0/0"),
            stored("a", "t/1/4"),
            *ends("t/0/3", "t/1/6"),
        ],
    ),
    "an aborted message was there twice": (
        "duplicate",
        [begun(), *sent("a", "t/0/0"), aborted(), peeked("a", "t/0/0"), peeked("a", "t/0/1"), *ends("t/0/3")],
    ),
    "an aborted message was at two places for two readers": (
        "duplicate",
        [begun(), sending("a"), peeked("a", "t/0/0"), peeked("a", "t/1/0", "other"), *ends("t/0/3", "t/1/3")],
    ),
    "an input was transformed twice": (
        "duplicate",
        [
            *STEP,
            committing(),
            committed(),
            begun("S"),
            *sent("b", "t/0/2", "S"),
            *ack("S"),
            committing("S"),
            committed("S"),
            stored("a", "t/0/0"),
            stored("b", "t/0/2"),
            *ends("t/0/4"),
            *read_inputs(),
        ],
    ),
    "an input was handed out again and transformed twice": (
        "duplicate",
        [
            *STEP,
            committing(),
            got(attempt=2, member="n", generation=2),
            begun("S"),
            *sent("b", "t/0/2", "S"),
            *ack("S", member="n"),
            committing("S"),
            stored("a", "t/0/0"),
            stored("b", "t/0/2"),
            *ends("t/0/4"),
            *read_inputs(),
        ],
    ),
    "a committed reader went past a message that was committed later": (
        "unseen",
        [*TWO, *sent("c", "t/0/1", ""), seen("c", "t/0/1"), committing(), committed(), *ALL_THREE, *BOTH_ENDS],
    ),
    "a reader goes back": (
        "backward",
        [*sent("a", "t/0/0", ""), seen("a", "t/0/0"), seen("a", "t/0/0"), stored("a", "t/0/0"), *ends("t/0/1")],
    ),
    "a reader read what nobody sent": ("phantom", [peeked("z", "t/0/0"), *ends("t/0/1")]),
    "a reader read what the log does not have": (
        "phantom",
        [sending("a", name=""), seen("a", "t/0/0"), *ends("t/0/1")],
    ),
    "an aborted message was where another one is": (
        "phantom",
        [sending("a"), *sent("c", "t/0/0", ""), peeked("a", "t/0/0"), stored("c", "t/0/0"), *ends("t/0/1")],
    ),
    "the offset of an aborted message was given out again": (
        "disagreement",
        [*sent("a", "t/0/0"), aborted(), *sent("c", "t/0/0", ""), stored("c", "t/0/0"), *ends("t/0/2")],
    ),
    "a log that a reader read was not read to its end": ("total", [sending("a"), peeked("a", "t/0/0")]),
}


def violated(events: Sequence[Event]) -> set[Kind]:
    return {violation.kind for violation in check(events).violations}


@pytest.mark.parametrize("name", WRONG)
def test_it_is_found_and_nothing_else(name: str) -> None:
    kind, events = WRONG[name]
    report = check(told(*events))
    assert {violation.kind for violation in report.violations} == {kind}, str(report)
    assert all(set(violation.events) <= set(told(*events)) and violation.events for violation in report.violations)


def test_every_kind_is_found_in_two_ways() -> None:
    found = [kind for kind, _ in WRONG.values()]
    assert {kind for kind in found if found.count(kind) >= 2} >= OF_TRANSACTIONS


# --- what only looks wrong ---

RIGHT: dict[str, list[Event]] = {
    "a transaction is committed": [
        *TWO,
        committing(),
        committed(),
        seen("a", "t/0/0"),
        stored("a", "t/0/0"),
        stored("b", "u/1/0"),
        *BOTH_ENDS,
    ],
    "a damaged message of a committed transaction is missing": [
        *TWO,
        committing(),
        committed(),
        Damaged("t", 0, 0, "a"),
        stored("b", "u/1/0"),
        *BOTH_ENDS,
    ],
    "a transaction is aborted": [*TWO, aborted(), *BOTH_ENDS],
    "a producer dies in the middle": [*TWO, sending("c"), *BOTH_ENDS],
    "a commit without an answer had its effect": [
        *TWO,
        committing(),
        stored("a", "t/0/0"),
        stored("b", "u/1/0"),
        *BOTH_ENDS,
    ],
    "a commit without an answer had its effect later": [
        *TWO,
        committing(),
        begun("S"),
        *sent("c", "t/0/2", "S"),
        committing("S"),
        committed("S"),
        seen("a", "t/0/0"),
        seen("c", "t/0/2"),
        *[stored(*one) for one in (("a", "t/0/0"), ("b", "u/1/0"), ("c", "t/0/2"))],
        *BOTH_ENDS,
    ],
    "a commit without an answer had no effect": [*TWO, committing(), *BOTH_ENDS],
    "a reader read between the request and the answer": [
        *TWO,
        committing(),
        seen("a", "t/0/0"),
        committed(),
        stored("a", "t/0/0"),
        stored("b", "u/1/0"),
        *BOTH_ENDS,
    ],
    "a reader read in the moment of the request": [
        begun(),
        *sent("a", "t/0/0"),
        replace(committing(), at_ns=900),
        seen("a", "t/0/0", time=900),
        replace(stored("a", "t/0/0"), at_ns=950),
        *[replace(end, at_ns=950) for end in ends("t/0/2")],
    ],
    "a commit is asked for twice, and a reader read in between": [
        *TWO,
        committing(),
        seen("a", "t/0/0"),
        committing(),
        committed(),
        stored("a", "t/0/0"),
        stored("b", "u/1/0"),
        *BOTH_ENDS,
    ],
    "a commit is answered twice": [
        *TWO,
        committing(),
        committed(),
        committed(),
        stored("a", "t/0/0"),
        stored("b", "u/1/0"),
        *BOTH_ENDS,
    ],
    "an uncommitted reader read what was aborted": [
        *TWO,
        peeked("a", "t/0/0"),
        aborted(),
        peeked("a", "t/0/0", "another"),
        peeked("b", "u/1/0"),
        *BOTH_ENDS,
    ],
    "an uncommitted reader read what was committed later": [
        *TWO,
        peeked("a", "t/0/0"),
        committing(),
        committed(),
        stored("a", "t/0/0"),
        stored("b", "u/1/0"),
        *BOTH_ENDS,
    ],
    "an uncommitted reader did not find what compaction took with its abort": [
        *TWO,
        aborted(),
        *sent("c", "t/0/2", ""),
        peeked("c", "t/0/2"),
        stored("c", "t/0/2"),
        *BOTH_ENDS,
    ],
    "a batch was sent again and answered as the first time": [
        begun(),
        *sent("a", "t/0/0"),
        *sent("a", "t/0/0"),
        committing(),
        committed(),
        stored("a", "t/0/0"),
        *ends("t/0/2"),
    ],
    "a batch without an answer was sent again": [
        begun(),
        sending("a"),
        *sent("a", "t/0/0"),
        committing(),
        committed(),
        stored("a", "t/0/0"),
        *ends("t/0/2"),
    ],
    "a zombie is fenced, and its late commit is refused": [
        *TWO,
        begun("S"),
        *sent("c", "t/0/1", "S"),
        committing("S"),
        committed("S"),
        sending("z"),
        committing(),
        aborted(),
        seen("c", "t/0/1"),
        stored("c", "t/0/1"),
        *BOTH_ENDS,
    ],
    "a zombie is fenced, and what became of its commit it was not told": [
        *TWO,
        committing(),
        begun("S"),
        *sent("c", "t/0/1", "S"),
        committing("S"),
        committed("S"),
        stored("c", "t/0/1"),
        *BOTH_ENDS,
    ],
    "a transaction is empty": [
        begun(),
        committing(),
        committed(),
        begun("S"),
        aborted("S"),
        begun("R"),
        committing("R"),
        begun("Q"),
    ],
    "consumed, transformed and produced": [
        *STEP,
        committing(),
        committed(),
        stored("a", "t/0/0"),
        *ends("t/0/2"),
        *read_inputs(),
    ],
    "an input comes again after the abort": [
        *STEP,
        aborted(),
        got(attempt=2, member="n", generation=2),
        begun("S"),
        *sent("b", "t/0/2", "S"),
        *ack("S", member="n"),
        committing("S"),
        committed("S"),
        stored("b", "t/0/2"),
        *ends("t/0/4"),
        *read_inputs(),
    ],
    "an input comes again since its transaction timed out": [
        *STEP,
        got(attempt=2, member="n", generation=2),
        begun("S"),
        *sent("b", "t/0/2", "S"),
        *ack("S", member="n"),
        committing("S"),
        stored("b", "t/0/2"),
        committing(),
        aborted(),
        *ends("t/0/4"),
        *read_inputs(),
    ],
    "an input comes again after a commit that had no effect": [
        *STEP,
        committing(),
        got(attempt=2),
        begun("S"),
        *sent("b", "t/0/2", "S"),
        *ack("S"),
        committing("S"),
        stored("b", "t/0/2"),
        *ends("t/0/4"),
        *read_inputs(),
    ],
    "an unknown transaction's output is there, and its input is done": [
        *STEP,
        committing(),
        stored("a", "t/0/0"),
        *ends("t/0/2"),
        *read_inputs(),
    ],
    "a poll was sent before the input was acked in a transaction": [
        *STEP,
        committing(),
        committed(),
        got(attempt=2, asked=1),
        stored("a", "t/0/0"),
        *ends("t/0/2"),
        *read_inputs(),
    ],
    "acks alone are committed, and it is not known": [*inputs(), got(), begun(), *ack(), committing(), *read_inputs()],
    "acks alone were not committed, and it is not known": [
        *inputs(),
        got(),
        begun(),
        *ack(),
        committing(),
        got(attempt=2),
        *ack(""),
        *read_inputs(),
    ],
    "several transactions without an answer had the same input": [
        *inputs("ij"),
        got(),
        got("j"),
        begun(),
        *ack("T", 0, 2),
        committing(),
        got(attempt=2),
        begun("S"),
        *ack("S"),
        committing("S"),
        got("j", 2),
        begun("R"),
        *ack("R", 1, 2),
        committing("R"),
        *read_inputs("ij"),
    ],
    "an ack was refused, and the transaction given up": [
        *inputs(),
        got(),
        begun(),
        acking(),
        got(attempt=2, member="n", generation=2),
        aborted(),
        *ack("", member="n"),
        *read_inputs(),
    ],
    "an input of aborted transactions becomes a dead letter": [
        *STEP,
        aborted(),
        got(attempt=2),
        begun("S"),
        *ack("S"),
        aborted("S"),
        Rejected("g", "the dead letters", "in", 0, 0, 1),
        *ends("t/0/2"),
        *read_inputs(),
    ],
    "two transactions ack one after the other": [
        *inputs("ij"),
        got(),
        got("j"),
        begun(),
        *ack(),
        committing(),
        committed(),
        begun("S"),
        *ack("S", 1, 2),
        committing("S"),
        committed("S"),
        *read_inputs("ij"),
    ],
    "two groups transform the same": [
        *STEP,
        committing(),
        committed(),
        begun("S"),
        *[replace(event, group="h") for event in (got(), acking("S"), acked("S"))],
        committing("S"),
        committed("S"),
        stored("a", "t/0/0"),
        *ends("t/0/2"),
        *read_inputs(),
        Settled("h", "in", 0, 1),
    ],
    "a delayed message comes after the commit": [
        begun(),
        sending("d"),
        committing(),
        committed(),
        seen("d", "t/0/3"),
        stored("d", "t/0/3"),
        *ends("t/0/4"),
    ],
    "a delayed message of an aborted transaction never comes": [begun(), sending("d"), aborted(), *ends("t/0/0")],
    "a consumer has the messages of a committed transaction": [
        begun(),
        *sent("i", "in/0/0"),
        committing(),
        got(),
        committed(),
        *ack(""),
        *read_inputs(),
    ],
    "a consumer is behind an aborted message": [
        begun(),
        *sent("i", "in/0/0"),
        aborted(),
        *sent("j", "in/0/1", ""),
        got("j"),
        *ack("", 1, 2),
        stored("j", "in/0/1"),
        *ends("in/0/2"),
        Settled("g", "in", 0, 2),
    ],
    "an uncommitted group has done what was aborted": [
        begun(),
        *sent("i", "in/0/0"),
        replace(got(), isolation="read_uncommitted"),
        *ack(""),
        aborted(),
        *ends("in/0/1"),
        Settled("g", "in", 0, 1),
    ],
    "a reader that began later": [
        *sent("a", "t/0/0", ""),
        *sent("c", "t/0/1", ""),
        seen("a", "t/0/0"),
        seen("a", "t/0/0", "another"),
        seen("c", "t/0/1"),
        stored("a", "t/0/0"),
        stored("c", "t/0/1"),
        *ends("t/0/2"),
    ],
    "somebody joined a group whose input is of a transaction nobody committed": [
        begun(),
        *sent("i", "in/0/0"),
        Joined("g", "m", 1, (("in", 0),)),
        *ends("in/0/1"),
        Settled("g", "in", 0, 1),
    ],
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_not_held_against_the_broker(name: str) -> None:
    report = check(told(*RIGHT[name]))
    assert report.ok, str(report)


def test_a_log_that_nobody_read_says_nothing_of_an_unknown_transaction() -> None:
    """Where one topic was not read to its end, what is missing there may be there."""
    assert violated(told(*TWO, committing(), stored("a", "t/0/0"), *ends("t/0/5"))) == {"total"}


def test_without_idempotence_a_message_may_be_stored_twice() -> None:
    twice = [begun(), sending("a"), committing(), stored("a", "t/0/0"), stored("a", "t/0/1"), *ends("t/0/3")]
    assert check(told(*twice), idempotent=False).ok


# --- what is said of it ---

SAID = {
    "a committed message is not there": "T was committed, and its a for t/0/0 is not stored",
    "one topic of a committed transaction is missing": ("t/0/0 holds a, of T, and its b for u/1/0 is not stored"),
    "a reader read an aborted message": "r read a at t/0/0, of T, which was aborted",
    "a consumer was before the commit": "m received i at in/0/0, of T, before its commit was asked for",
    "a producer died before its commit, and its message is in the log": (
        "t/0/0 holds a, of T, whose commit nobody asked for"
    ),
    "a committed transaction's input is handed out again": (
        "m of g received in/0/0 (i) as attempt 2 after m had acked it in T, of which t/0/0 holds a"
    ),
    "an unknown transaction's input is done, and its output is missing": (
        "g is done with in/0/0 (i), which was acked in T alone, and nothing else of that is there"
    ),
    "a message of a transaction is stored twice": "a of T is stored twice, at t/0/0 and at t/0/1",
    "an input was transformed twice": ("g has done in/0/0 (i) twice: T and S acked it, and both took effect"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_violation_names_transaction_place_and_offset(name: str) -> None:
    (violation,) = check(told(*WRONG[name][1])).violations
    assert violation.sentence == SAID[name]


def test_a_report_counts_transactions() -> None:
    events = told(begun(), committing(), committed(), begun("S"), aborted("S"), begun("R"), begun("Q"), committing("Q"))
    assert str(check(events)).splitlines()[1].endswith("; 4 transactions, 1 committed, 2 aborted, 1 unknown")
    counts = check(told(sending("a"), peeked("a", "t/0/0"), *ends("t/0/1"))).counts
    assert (counts.seen, counts.transactions) == (1, 1)
