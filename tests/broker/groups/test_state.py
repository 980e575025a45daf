"""The state of groups as their records make it: everything comes back from the disk as it was."""

from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.records import (
    CursorClosed,
    CursorOpened,
    CursorSnapshot,
    Group,
    GroupDeleted,
    GroupRecord,
    LeaseGrant,
    LeasesGranted,
    MessagesRequeued,
    MessagesSettled,
    RetryState,
    decode_group_record,
    encode_group_record,
)
from goqueue.broker.groups.state import GroupsState
from goqueue.storage import frame

WHOSE = ("team", "orders", 0)

NAMES = st.text(min_size=1, max_size=8)
PLAIN: dict[object, st.SearchStrategy[Any]] = {int: st.integers(0, 2**62), str: NAMES, bool: st.booleans()}
PLAIN[float] = st.floats(0, 1e9)


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """All values of a type that stands in records."""
    if kind in PLAIN:
        return PLAIN[kind]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal or kind is None or kind is NoneType:
        return st.sampled_from(parts or [None])
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{field.name: any_of(field.type) for field in msgspec.structs.fields(kind)})
    if hasattr(kind, "_fields"):
        return st.builds(kind, *(any_of(part) for part in get_type_hints(kind).values()))
    if origin is dict:
        return st.dictionaries(any_of(parts[0]), any_of(parts[1]), max_size=2)
    if origin is list or (origin is tuple and parts[-1] is Ellipsis):
        return st.lists(any_of(parts[0]), max_size=2).map(origin)
    return st.tuples(*map(any_of, parts)) if origin is tuple else st.one_of(*map(any_of, parts))


@given(any_of(GroupRecord))
def test_records_round_trip_through_encoding(record: GroupRecord) -> None:
    message = frame.decode(encode_group_record(record))
    assert decode_group_record(message) == record
    assert message.key == record.group.encode()


def grant(name: str, first: int, end: int) -> LeaseGrant:
    return LeaseGrant(name, "one", first, end, 1, 0, 0, 1, 100)


def some_state() -> GroupsState:
    state = GroupsState()
    for record in (
        Group(group="team", generation=3),
        CursorOpened(*WHOSE, topic_ns=1, floor=0),
        LeasesGranted(*WHOSE, grants=[grant("l", 0, 5)]),
        MessagesRequeued(*WHOSE, lease="l", ranges=[(1, 2)], due_ns=9),
    ):
        state.apply(record)
    return state


def test_records_of_unopened_cursor_are_ignored_until_snapshot() -> None:
    state, stands = GroupsState(), some_state().cursors["team"][PartitionRef("orders", 0)].snapshot()
    state.apply(MessagesSettled(*WHOSE, ranges=[(0, 1)], lease="l"))
    assert not state.cursors.get("team")
    state.apply(stands)
    state.apply(MessagesSettled(*WHOSE, ranges=[(0, 1)], lease="l"))
    assert state.cursors["team"][PartitionRef("orders", 0)].floor == 1


def test_deleting_group_removes_cursors_and_leases() -> None:
    state = some_state()
    state.apply(GroupDeleted("team"))
    assert (state.groups, state.cursors, state.by_lease) == ({}, {}, {})
    state.apply(GroupDeleted("team"))


def test_closed_or_reopened_cursor_has_no_leases() -> None:
    state = some_state()
    state.apply(CursorOpened(*WHOSE, topic_ns=2, floor=7))
    assert (state.by_lease, state.cursors["team"][PartitionRef("orders", 0)].position) == ({}, 7)
    state = some_state()
    state.apply(CursorClosed(*WHOSE))
    assert (state.by_lease, state.cursors["team"]) == ({}, {})
    state.apply(CursorClosed(*WHOSE))


def test_snapshot_without_transaction_fields_is_decoded() -> None:
    told = (
        b'{"record":"cursor_stands","group":"team","topic":"orders","partition":0,"topic_ns":1,"floor":2,"position":3,'
        b'"waiting":[[2,3,[1,1,5,9]]]}'
    )
    record = decode_group_record(frame.decode(frame.encode(told, b"team")))
    assert isinstance(record, CursorSnapshot)
    assert (record.transactional, record.waiting) == ([], [(2, 3, RetryState(1, 1, 5, 9))])
