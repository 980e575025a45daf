"""A cursor that is told in several records is the same cursor, and half of them tell nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.delivery import parts
from goqueue.broker.delivery.changes import (
    Grant,
    Held,
    Leased,
    Move,
    Opened,
    Pledge,
    Range,
    Requeued,
    Retry,
    Settled,
    Stands,
)
from goqueue.broker.delivery.parts import in_parts, joined
from goqueue.broker.groups.state import Groups, encode_record
from goqueue.broker.transactions.whose import Whose
from goqueue.limits import OFFSET_MAX, REASON_CHARACTERS_MAX, STANDS_BYTES

WHOSE = ("team", "orders", 0)
MOVE = Move("orders.dlq", 0, 0, "rejected", 1, 1, 2)

offsets = st.integers(0, 99)
ranges = st.lists(st.tuples(offsets, offsets), max_size=5)


def grant(name: str, first: int = 0, end: int = 9) -> Grant:
    return Grant(name, "one", first, end, 1, 0, 0, 1, 100)


@st.composite
def standing(draw: st.DrawFn) -> Stands:
    names = draw(st.lists(st.sampled_from("abcd"), unique=True))
    return Stands(
        *WHOSE,
        topic_ns=1,
        floor=2,
        position=90,
        acked=draw(ranges),
        waiting=[(first, end, Retry(1, 1, 2, 3)) for first, end in draw(ranges)],
        leases=[Held(grant(name), draw(ranges), 50, tuple(draw(ranges))) for name in names],
        moving=[(first, end, MOVE) for first, end in draw(ranges)],
        lost=7,
        pledged=[(first, end, Pledge(Whose(5, 6), Retry(1, 1, 2, 0))) for first, end in draw(ranges)],
        heads=draw(st.sampled_from([[], [90, 91, 92, 93, 94]])),
    )


@given(standing(), st.integers(1, 8000), st.integers(1, 3))
def test_the_parts_together_are_the_whole(stands: Stands, bytes_max: int, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "STANDS_BYTES", bytes_max)
        patch.setattr(parts, "_RANGES_AT_ONCE", at_once)
        told = in_parts(stands)
    assert joined(told) == stands
    assert [one.part for one in told] == list(range(len(told)))
    assert [one.more for one in told] == [True] * (len(told) - 1) + [False]


@given(standing(), st.integers(0, 120))
def test_what_is_below_an_offset_is_as_it_was_and_nothing_is_behind_it(stands: Stands, end: int) -> None:
    below = stands.below(end)
    lists = ("acked", "waiting", "moving", "pledged")
    every = [(getattr(stands, name), getattr(below, name)) for name in lists]
    left = {held.grant.id: held.left for held in below.leases}
    every += [(held.left, left.pop(held.grant.id, [])) for held in stands.leases]
    for before, after in every:
        found = {(offset, run[2:]) for run in after for offset in range(*run[:2])}
        assert found == {(offset, run[2:]) for run in before for offset in range(*run[:2]) if offset < end}
    assert left == {}
    assert (below.floor, below.position) == (min(stands.floor, end), min(stands.position, end))
    assert below.heads == [min(head, end) for head in stands.heads]


def test_no_part_is_much_larger_than_it_may_be_however_much_there_is_of_everything() -> None:
    last, many = OFFSET_MAX, 60_000
    retry = Retry(last, last, last, last)
    held = grant("l" * 33)._replace(member="m" * 217, end=last, until_ns=last)
    laned = Held(held._replace(runs=(last,) * 9_999), [(0, 1)], last)
    with_gaps = Held(held, [(0, 1)], last, ((last - 1, last),) * 9_999)
    move = Move("t" * 255, 0, last, "\x01" * REASON_CHARACTERS_MAX, last, last, last)
    stands = Stands(
        *WHOSE,
        topic_ns=last,
        floor=0,
        position=last,
        acked=[(last - 1, last)] * many,
        waiting=[(last - 1, last, retry)] * many,
        leases=[Held(held, [(last - 1, last)] * many, last)]
        + [Held(held, [(0, 1)], last)] * 9
        + [laned, with_gaps] * 50,
        moving=[(last - 1, last, move)] * 1500,
        pledged=[(last - 1, last, Pledge(Whose(last, last), retry))] * many,
    )
    told = in_parts(stands)
    assert len(told) > 5
    assert max(len(encode_record(one)) for one in told) < STANDS_BYTES + 10_000


def split(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> list[Stands]:
    """What stands in it, a range to a part."""
    monkeypatch.setattr(parts, "STANDS_BYTES", 1)
    return in_parts(groups.cursors["team"]["orders", 0].stands())


def some_state(*more: Range) -> Groups:
    state = Groups()
    state.apply(Opened(*WHOSE, topic_ns=1, floor=0))
    state.apply(Leased(*WHOSE, grants=[grant("l", 0, 9)]))
    state.apply(Requeued(*WHOSE, lease="l", ranges=[(1, 2)], due_ns=9))
    state.apply(Settled(*WHOSE, ranges=[(4, 5), *more], lease="l"))
    return state


def test_half_of_what_stands_changes_nothing_and_the_next_whole_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    state, told = some_state(), split(some_state((6, 7)), monkeypatch)
    before = list(state.records())
    assert len(told) > 3
    for length in range(len(told)):
        for one in told[:length]:
            state.apply(one)
        assert list(state.records()) == before
    for one in told:
        state.apply(one)
    assert list(state.records()) == told


def test_the_end_of_what_was_torn_off_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    state, told = some_state(), split(some_state((6, 7)), monkeypatch)
    before = list(state.records())
    for one in (told[0], *told[2:]):
        state.apply(one)
    assert list(state.records()) == before
    empty = Groups()
    for one in told[1:]:
        empty.apply(one)
    assert list(empty.records()) == []
