"""The state of groups as their records make it: everything comes back from the disk as it was."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.delivery.changes import (
    Closed,
    Committed,
    Departed,
    Extended,
    Grant,
    Held,
    Leased,
    Move,
    Opened,
    Pledge,
    Pledged,
    Range,
    Redeemed,
    Requeued,
    Retry,
    Rewound,
    Settled,
    Stands,
)
from goqueue.broker.groups.group import Group, GroupDeleted, Member
from goqueue.broker.groups.state import Groups, Record, decode_record, encode_record
from goqueue.broker.transactions.whose import Whose
from goqueue.storage import frame

WHOSE = ("team", "orders", 0)

numbers = st.integers(0, 2**62)
names = st.text(min_size=1, max_size=8)
ranges: st.SearchStrategy[Range] = st.tuples(numbers, numbers)
some_ranges = st.lists(ranges, max_size=3)
retries = st.builds(Retry, numbers, numbers, numbers, numbers)
grants = st.builds(Grant, names, names, numbers, numbers, numbers, numbers, numbers, numbers, numbers)
moves = st.tuples(numbers, numbers, st.builds(Move, names, numbers, numbers, names, numbers, numbers, numbers))
transactions = st.builds(Whose, numbers, st.integers(0, 2**15 - 1))
pledges = st.tuples(numbers, numbers, st.builds(Pledge, transactions, retries))
whose = (names, names, st.integers(0, 9999))
places = st.lists(st.tuples(names, st.integers(0, 9)), max_size=3)
members = st.builds(
    Member, names, names, st.lists(names, max_size=2).map(tuple), numbers, numbers, numbers, st.booleans(), numbers
)
groups = st.builds(
    Group,
    group=names,
    protocol=st.sampled_from(["cooperative", "eager"]),
    strategy=st.sampled_from(["sticky", "range", "round_robin"]),
    order=st.sampled_from(["none", "key"]),
    generation=numbers,
    members=st.dictionaries(names, members, max_size=2),
    assignment=st.dictionaries(names, places, max_size=2),
    start=st.sampled_from(["earliest", "latest"]),
    phase=st.sampled_from(["none", "pending_revoke", "complete"]),
    target=st.dictionaries(names, places, max_size=2),
    awaited=st.lists(names, max_size=2),
    reasons=st.lists(st.sampled_from(["join", "leave", "session_expired"]), max_size=2),
    began_ns=numbers,
    emptied_ns=numbers,
)
records: st.SearchStrategy[Record] = st.one_of(
    groups,
    st.builds(GroupDeleted, names),
    st.builds(Opened, *whose, topic_ns=numbers, floor=numbers),
    st.builds(
        Stands,
        *whose,
        topic_ns=numbers,
        floor=numbers,
        position=numbers,
        acked=some_ranges,
        waiting=st.lists(st.tuples(numbers, numbers, retries), max_size=2),
        leases=st.lists(st.builds(Held, grants, some_ranges, numbers, some_ranges.map(tuple)), max_size=2),
        moving=st.lists(moves, max_size=2),
        lost=numbers,
        pledged=st.lists(pledges, max_size=2),
    ),
    st.builds(Leased, *whose, grants=st.lists(grants, max_size=2), held=some_ranges, gaps=some_ranges),
    st.builds(Settled, *whose, ranges=some_ranges, lease=st.none() | names),
    st.builds(Requeued, *whose, lease=names, ranges=some_ranges, due_ns=numbers, failed=st.booleans()),
    st.builds(Extended, *whose, lease=names, until_ns=numbers),
    st.builds(Departed, *whose, moves=st.lists(moves, max_size=2), lease=st.none() | names),
    st.builds(Pledged, *whose, whose=transactions, ranges=some_ranges, lease=st.none() | names),
    st.builds(Redeemed, *whose, whose=transactions, is_commit=st.booleans(), failed=st.booleans(), due_ns=numbers),
    st.builds(Committed, *whose, floor=numbers, lost=numbers),
    st.builds(Rewound, *whose, floor=numbers),
    st.builds(Closed, *whose),
)


@given(records)
def test_every_record_comes_back_from_the_disk_as_it_was(record: Record) -> None:
    message = frame.decode(encode_record(record))
    assert decode_record(message) == record
    assert message.key == record.group.encode()


def grant(name: str, first: int, end: int) -> Grant:
    return Grant(name, "one", first, end, 1, 0, 0, 1, 100)


def some_state() -> Groups:
    state = Groups()
    for record in (
        Group(group="team", generation=3),
        Opened(*WHOSE, topic_ns=1, floor=0),
        Leased(*WHOSE, grants=[grant("l", 0, 5)]),
        Requeued(*WHOSE, lease="l", ranges=[(1, 2)], due_ns=9),
    ):
        state.apply(record)
    return state


def test_the_records_of_a_state_make_the_same_state() -> None:
    state, copy = some_state(), Groups()
    for record in state.records():
        copy.apply(record)
    assert list(copy.records()) == list(state.records())
    assert copy.by_lease.keys() == state.by_lease.keys() == {"l"}


def test_what_is_said_of_a_place_that_nothing_has_opened_is_passed_over_until_all_of_it_is_told() -> None:
    state, stands = Groups(), some_state().cursors["team"]["orders", 0].stands()
    state.apply(Settled(*WHOSE, ranges=[(0, 1)], lease="l"))
    assert not state.cursors.get("team")
    state.apply(stands)
    state.apply(Settled(*WHOSE, ranges=[(0, 1)], lease="l"))
    assert state.cursors["team"]["orders", 0].floor == 1


def test_with_a_group_go_its_places_and_leases() -> None:
    state = some_state()
    state.apply(GroupDeleted("team"))
    assert (state.groups, state.cursors, state.by_lease) == ({}, {}, {})
    state.apply(GroupDeleted("team"))


def test_a_place_that_is_closed_or_opened_anew_has_no_leases_any_more() -> None:
    state = some_state()
    state.apply(Opened(*WHOSE, topic_ns=2, floor=7))
    assert (state.by_lease, state.cursors["team"]["orders", 0].position) == ({}, 7)
    state = some_state()
    state.apply(Closed(*WHOSE))
    assert (state.by_lease, state.cursors["team"]) == ({}, {})
    state.apply(Closed(*WHOSE))


def test_a_place_that_was_told_before_there_were_transactions_is_read_still() -> None:
    told = (
        b'{"record":"cursor_stands","group":"team","topic":"orders","partition":0,"topic_ns":1,"floor":2,"position":3,'
        b'"waiting":[[2,3,[1,1,5,9]]]}'
    )
    record = decode_record(frame.decode(frame.encode(told, b"team")))
    assert isinstance(record, Stands)
    assert (record.pledged, record.waiting) == ([], [(2, 3, Retry(1, 1, 5, 9))])
