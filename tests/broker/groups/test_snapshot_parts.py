"""A cursor that is told in several records is the same cursor, and half of them tell nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups import state
from goqueue.broker.groups.records import (
    CursorOpened,
    CursorSnapshot,
    LeaseGrant,
    LeasesGranted,
    LeaseSnapshot,
    MessageMove,
    MessagesRequeued,
    MessagesSettled,
    Range,
    RetryState,
    TransactionAck,
    encode_group_record,
)
from goqueue.broker.groups.state import GroupsState, join_snapshot, split_snapshot
from goqueue.limits import CURSOR_SNAPSHOT_BYTES, OFFSET_MAX, REASON_CHARACTERS_MAX

WHOSE = ("team", "orders", 0)
MOVE = MessageMove("orders.dlq", 0, 0, "rejected", 1, 1, 2)

offsets = st.integers(0, 99)
ranges = st.lists(st.tuples(offsets, offsets), max_size=5)


def grant(name: str, first: int = 0, end: int = 9) -> LeaseGrant:
    return LeaseGrant(name, "one", first, end, 1, 0, 0, 1, 100)


@st.composite
def standing(draw: st.DrawFn) -> CursorSnapshot:
    names = draw(st.lists(st.sampled_from("abcd"), unique=True))
    return CursorSnapshot(
        *WHOSE,
        topic_ns=1,
        floor=2,
        position=90,
        acked=draw(ranges),
        waiting=[(first, end, RetryState(1, 1, 2, 3)) for first, end in draw(ranges)],
        leases=[LeaseSnapshot(grant(name), draw(ranges), 50, tuple(draw(ranges))) for name in names],
        moving=[(first, end, MOVE) for first, end in draw(ranges)],
        lost=7,
        transactional=[
            (first, end, TransactionAck(TransactionId(5, 6), RetryState(1, 1, 2, 0))) for first, end in draw(ranges)
        ],
        heads=draw(st.sampled_from([[], [90, 91, 92, 93, 94]])),
    )


@given(standing(), st.integers(1, 8000), st.integers(1, 3))
def test_joined_parts_equal_the_snapshot(stands: CursorSnapshot, bytes_max: int, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "CURSOR_SNAPSHOT_BYTES", bytes_max)
        patch.setattr(state, "_LEASE_RANGES_MAX", at_once)
        told = split_snapshot(stands)
    assert join_snapshot(told) == stands
    assert [one.part for one in told] == list(range(len(told)))
    assert [one.more for one in told] == [True] * (len(told) - 1) + [False]


@given(standing(), st.integers(0, 120))
def test_snapshot_below_offset_keeps_earlier_state(stands: CursorSnapshot, end: int) -> None:
    below = stands.below(end)
    lists = ("acked", "waiting", "moving", "transactional")
    every = [(getattr(stands, name), getattr(below, name)) for name in lists]
    left = {held.grant.id: held.left for held in below.leases}
    every += [(held.left, left.pop(held.grant.id, [])) for held in stands.leases]
    for before, after in every:
        found = {(offset, run[2:]) for run in after for offset in range(*run[:2])}
        assert found == {(offset, run[2:]) for run in before for offset in range(*run[:2]) if offset < end}
    assert left == {}
    assert (below.floor, below.position) == (min(stands.floor, end), min(stands.position, end))
    assert below.heads == [min(head, end) for head in stands.heads]


def test_every_part_stays_within_its_size() -> None:
    last, many = OFFSET_MAX, 60_000
    retry = RetryState(last, last, last, last)
    held = grant("l" * 33)._replace(member="m" * 217, end=last, until_ns=last)
    laned = LeaseSnapshot(held._replace(runs=(last,) * 9_999), [(0, 1)], last)
    with_gaps = LeaseSnapshot(held, [(0, 1)], last, ((last - 1, last),) * 9_999)
    move = MessageMove("t" * 255, 0, last, "\x01" * REASON_CHARACTERS_MAX, last, last, last)
    stands = CursorSnapshot(
        *WHOSE,
        topic_ns=last,
        floor=0,
        position=last,
        acked=[(last - 1, last)] * many,
        waiting=[(last - 1, last, retry)] * many,
        leases=[LeaseSnapshot(held, [(last - 1, last)] * many, last)]
        + [LeaseSnapshot(held, [(0, 1)], last)] * 9
        + [laned, with_gaps] * 50,
        moving=[(last - 1, last, move)] * 1500,
        transactional=[(last - 1, last, TransactionAck(TransactionId(last, last), retry))] * many,
    )
    told = split_snapshot(stands)
    assert len(told) > 5
    assert max(len(encode_group_record(one)) for one in told) < CURSOR_SNAPSHOT_BYTES + 10_000


def split(groups: GroupsState, monkeypatch: pytest.MonkeyPatch) -> list[CursorSnapshot]:
    """Return its snapshot with one range in each part."""
    monkeypatch.setattr(state, "CURSOR_SNAPSHOT_BYTES", 1)
    return split_snapshot(groups.cursors["team"][PartitionRef("orders", 0)].snapshot())


def some_state(*more: Range) -> GroupsState:
    state = GroupsState()
    state.apply(CursorOpened(*WHOSE, topic_ns=1, floor=0))
    state.apply(LeasesGranted(*WHOSE, grants=[grant("l", 0, 9)]))
    state.apply(MessagesRequeued(*WHOSE, lease="l", ranges=[(1, 2)], due_ns=9))
    state.apply(MessagesSettled(*WHOSE, ranges=[(4, 5), *more], lease="l"))
    return state


def test_incomplete_snapshot_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_parts_without_their_beginning_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    state, told = some_state(), split(some_state((6, 7)), monkeypatch)
    before = list(state.records())
    for one in (told[0], *told[2:]):
        state.apply(one)
    assert list(state.records()) == before
    empty = GroupsState()
    for one in told[1:]:
        empty.apply(one)
    assert list(empty.records()) == []
