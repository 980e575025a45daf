"""The checker of histories never blames an honest broker for a transaction, and finds each lie about one."""

import random
from collections.abc import Callable, Collection
from typing import TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from goqueue.testing.history import (
    Aborted,
    Acked,
    Acking,
    Begun,
    Committed,
    Committing,
    End,
    Event,
    Kind,
    Published,
    Publishing,
    Received,
    Seen,
    Stored,
    check,
)
from tests.testing.honest import STEPS, Steps, lived

steps = st.lists(st.tuples(st.sampled_from([step.__name__ for step in STEPS]), st.integers(0, 9239)), max_size=80)
histories = steps.map(lived)

BEGINNING: Steps = [
    *[("feed", 3), ("feed", 3), ("feed", 3), ("poll", 2), ("take", 1)],
    *[("begin", 3), ("send", 3), ("send", 6), ("pledge", 3), ("commit", 9)],  # a consumes, transforms and produces
    *[("begin", 1), ("send", 4), ("look", 10), ("look", 25), ("abort", 7)],  # b gives up, and somebody may see it
    *[("begin", 2), ("send", 5), ("send", 8), ("commit", 8)],  # c is not told what became of its commit
    *[("begin", 3), ("send", 3), ("pledge", 3), ("abort", 6)],  # a gives up what it has consumed
    *[("begin", 4), ("send", 4), ("die", 4)],  # b dies
]
full_histories = steps.map(lambda steps: lived(BEGINNING + steps))


@given(histories)
def test_an_honest_broker_is_never_blamed(events: list[Event]) -> None:
    report = check(events)
    assert report.ok, str(report)


@given(histories, st.randoms(use_true_random=False))
def test_the_order_of_the_files_does_not_matter(events: list[Event], chance: random.Random) -> None:
    shuffled = events.copy()
    chance.shuffle(shuffled)
    assert check(shuffled) == check(events)


@given(full_histories, st.data())
def test_answers_that_nobody_got_are_held_against_nobody(events: list[Event], data: st.DataObject) -> None:
    """Whatever was answered to commits, aborts, acks and publishes may be lost: its writer was killed."""
    answers = [event for event in events if isinstance(event, (Committed, Aborted, Acked, Published))]
    lost = data.draw(st.sets(st.sampled_from(answers)))
    report = check(without(events, lost))
    assert report.ok, str(report)


# --- one lie in an honest history is found ---

Chosen = TypeVar("Chosen", bound=Event)
Lie = Callable[[list[Event], random.Random], list[Event]]


def of(events: list[Event], kind: type[Chosen]) -> list[Chosen]:
    return [event for event in events if isinstance(event, kind)]


def one(candidates: list[Chosen], chance: random.Random) -> Chosen:
    assume(candidates)
    return chance.choice(candidates)


def without(events: list[Event], removed: Collection[Event]) -> list[Event]:
    gone = {id(event) for event in removed}
    return [event for event in events if id(event) not in gone]


def later(events: list[Event], event: Chosen) -> Chosen:
    """Seen once more, when everything else is over."""
    return replace(event, at_ns=events[-1].at_ns + 1)


def values(events: list[Event]) -> dict[str, str]:
    """Of each value that was sent in a transaction, that one's name."""
    return {event.value_id: event.transaction for event in of(events, Publishing) if event.transaction}


def effective(events: list[Event]) -> set[str]:
    """Transactions of which something is there at the end, or that were answered as committed."""
    names = values(events)
    stored = {names[event.value_id] for event in of(events, Stored) if event.value_id in names}
    return stored | {event.transaction for event in of(events, Committed)}


def traces(events: list[Event], name: str) -> list[Event]:
    """Everything that was found of a transaction."""
    names = values(events)
    return [
        event for event in events if isinstance(event, (Stored, Seen, Received)) and names.get(event.value_id) == name
    ]


def forget_a_message(events: list[Event], chance: random.Random) -> list[Event]:
    """Of several, or one that somebody saw."""
    names = values(events)
    stored = [event for event in of(events, Stored) if event.value_id in names]
    chosen = one([event for event in stored if len(traces(events, names[event.value_id])) > 1], chance)
    others = [
        event
        for event in traces(events, names[chosen.value_id])
        if event is not chosen and not (isinstance(event, Seen) and event.isolation == "read_uncommitted")
    ]
    assume(others)
    return without(events, [chosen])


def forget_a_transaction(events: list[Event], chance: random.Random) -> list[Event]:
    with_messages = set(values(events).values())
    chosen = one([event for event in of(events, Committed) if event.transaction in with_messages], chance)
    return without(events, traces(events, chosen.transaction))


def show_what_was_aborted(events: list[Event], chance: random.Random) -> list[Event]:
    names, over = values(events), {event.transaction for event in of(events, Aborted)}
    chosen = one([event for event in of(events, Published) if names.get(event.value_id) in over], chance)
    place = chosen.topic, chosen.partition, chosen.offset
    return [*events, later(events, Seen("liar", *place, chosen.value_id))]


def store_what_was_aborted(events: list[Event], chance: random.Random) -> list[Event]:
    names, over = values(events), {event.transaction for event in of(events, Aborted)}
    chosen = one([event for event in of(events, Published) if names.get(event.value_id) in over], chance)
    return [*events, later(events, Stored(chosen.topic, chosen.partition, chosen.offset, chosen.value_id))]


def show_too_early(events: list[Event], chance: random.Random) -> list[Event]:
    asked = {event.transaction: event.at_ns for event in reversed(of(events, Committing))}
    names = values(events)
    chosen = one([event for event in of(events, Stored) if names.get(event.value_id) in asked], chance)
    early = chance.randrange(1, asked[names[chosen.value_id]])
    return [*events, Seen("liar", chosen.topic, chosen.partition, chosen.offset, chosen.value_id, at_ns=early)]


def show_what_nobody_committed(events: list[Event], chance: random.Random) -> list[Event]:
    """Its producer died, or was told nothing."""
    names = values(events)
    ended = {event.transaction for event in events if isinstance(event, (Committing, Aborted))}
    chosen = one(
        [event for event in of(events, Published) if names.get(event.value_id, next(iter(ended))) not in ended], chance
    )
    return [*events, later(events, Stored(chosen.topic, chosen.partition, chosen.offset, chosen.value_id))]


def store_again(events: list[Event], chance: random.Random) -> list[Event]:
    names = values(events)
    chosen = one([event for event in of(events, Stored) if event.value_id in names], chance)
    end = next(event for event in of(events, End) if event.topic == chosen.topic)
    behind = replace(chosen, partition=end.partition, offset=end.end_offset)
    return [*events, later(events, behind), later(events, replace(end, end_offset=end.end_offset + 1))]


def transform_again(events: list[Event], chance: random.Random) -> list[Event]:
    ack = one([event for event in of(events, Acking) if event.transaction in effective(events)], chance)
    steps = Begun("again", "liar"), replace(ack, transaction="again"), Committing("again"), Committed("again")
    return [*events, *(later(events, step) for step in steps)]


def hand_out_what_is_done(events: list[Event], chance: random.Random) -> list[Event]:
    done = {
        offset
        for event in of(events, Acking)
        if event.transaction in effective(events)
        for offset in range(event.first, event.end)
    }
    chosen = one([event for event in of(events, Received) if event.offset in done], chance)
    return [*events, later(events, replace(chosen, attempt=1000, asked_ns=events[-1].at_ns))]


def forget_who_did_it_again(events: list[Event], chance: random.Random) -> list[Event]:
    """So that only a transaction that was aborted has acked it."""
    names, true = {event.transaction for event in of(events, Aborted)}, effective(events)
    ack = one([event for event in of(events, Acking) if event.transaction in names], chance)
    others = [
        event
        for event in events
        if isinstance(event, (Acking, Acked)) and event.first == ack.first and event.transaction != ack.transaction
    ]
    assume(not any(event.transaction in true for event in others if event.transaction))
    return without(events, others)


def deny_a_commit(events: list[Event], chance: random.Random) -> list[Event]:
    return [*events, later(events, Aborted(one(of(events, Committed), chance).transaction))]


LIES: list[tuple[Kind, Lie]] = [
    ("aborted_read", show_what_was_aborted),
    ("aborted_read", store_what_was_aborted),
    ("uncommitted_read", show_too_early),
    ("uncommitted_read", show_what_nobody_committed),
    ("torn_transaction", forget_a_message),
    ("torn_transaction", hand_out_what_is_done),
    ("torn_transaction", forget_who_did_it_again),
    ("torn_transaction", deny_a_commit),
    ("lost_write", forget_a_transaction),
    ("duplicate", store_again),
    ("duplicate", transform_again),
]


@pytest.mark.parametrize(("kind", "lie"), LIES, ids=lambda one: getattr(one, "__name__", None))
@given(events=full_histories, chance=st.randoms(use_true_random=False))
def test_a_lie_in_an_honest_history_is_found(kind: Kind, lie: Lie, events: list[Event], chance: random.Random) -> None:
    report = check(lie(events, chance))
    assert report.of(kind), str(report)
