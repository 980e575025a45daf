"""A group's place in a partition: examples, and a twin that remembers every single message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.delivery.changes import (
    Change,
    Committed,
    Departed,
    Extended,
    Grant,
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
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.groups.state import Record, decode_record, encode_record
from goqueue.broker.transactions.whose import Whose
from goqueue.storage import frame
from goqueue.storage.lanes import NO_LANE

WHOSE = ("team", "orders", 0)
MINE, OTHER = Whose(7, 1), Whose(8, 0)
MOVE = Move("orders.dlq", 0, 0, "rejected", 1, 1, 2)


def opened(floor: int = 0) -> Cursor:
    return Cursor(Opened(*WHOSE, topic_ns=1, floor=floor), {})


def grant(name: str, first: int, end: int, deliveries: int = 1, failures: int = 0, until_ns: int = 100) -> Grant:
    return Grant(name, "one", first, end, deliveries, failures, 0, 50, until_ns)


def leased(
    name: str, first: int, end: int, *, held: tuple[Range, ...] = (), gaps: tuple[Range, ...] = (), until_ns: int = 100
) -> Leased:
    return Leased(*WHOSE, grants=[grant(name, first, end, until_ns=until_ns)], held=list(held), gaps=list(gaps))


def after(*changes: Change, floor: int = 0) -> Cursor:
    cursor = opened(floor)
    for change in changes:
        cursor.apply(change)
    return cursor


def settled(*ranges: Range, lease: str | None = "l") -> Settled:
    return Settled(*WHOSE, ranges=list(ranges), lease=lease)


def requeued(*ranges: Range, due_ns: int = 7, failed: bool = True, lease: str = "l") -> Requeued:
    return Requeued(*WHOSE, lease=lease, ranges=list(ranges), due_ns=due_ns, failed=failed)


def pledged(*ranges: Range, lease: str | None = "l", whose: Whose = MINE) -> Pledged:
    return Pledged(*WHOSE, whose=whose, ranges=list(ranges), lease=lease)


def redeemed(*, is_commit: bool, failed: bool = True, whose: Whose = MINE, due_ns: int = 9) -> Redeemed:
    return Redeemed(*WHOSE, whose=whose, is_commit=is_commit, failed=failed, due_ns=due_ns)


def read_back(record: Record) -> Record:
    """As it comes from the disk."""
    return decode_record(frame.decode(encode_record(record)))


def test_what_is_acknowledged_in_order_moves_the_floor_and_leaves_nothing_behind() -> None:
    cursor = after(leased("l", 0, 5), settled((0, 2)), settled((2, 5)))
    assert (cursor.floor, cursor.position, cursor.run_count, cursor.leased) == (5, 5, 0, 0)


def test_what_is_acknowledged_out_of_order_waits_above_the_floor() -> None:
    cursor = after(leased("l", 0, 5), settled((3, 5)))
    assert (cursor.floor, cursor.settled(), cursor.leased) == (0, [(3, 5)], 3)
    cursor.apply(settled((0, 3)))
    assert (cursor.floor, cursor.settled()) == (5, [])


def test_what_failed_waits_with_its_counts_and_its_time() -> None:
    cursor = after(leased("l", 0, 3), requeued((1, 2)))
    assert list(cursor.waiting.runs()) == [(1, 2, Retry(1, 1, 50, 7))]
    assert cursor.next_due() == (7, (1, 2), Retry(1, 1, 50, 7))
    assert cursor.leases["l"].ranges() == [(0, 1), (2, 3)]


def test_what_is_given_back_has_been_delivered_and_has_not_failed() -> None:
    cursor = after(leased("l", 0, 3), requeued((0, 3), failed=False))
    assert list(cursor.waiting.runs()) == [(0, 3, Retry(1, 0, 50, 7))]
    assert not cursor.leases


def test_offsets_without_a_message_are_done_as_soon_as_they_are_passed() -> None:
    cursor = after(leased("l", 0, 6, gaps=((0, 2), (4, 5))))
    assert (cursor.floor, cursor.settled(), cursor.leased) == (2, [(4, 5)], 3)


def test_messages_that_are_held_back_were_never_delivered() -> None:
    cursor = after(leased("l", 0, 4, held=((1, 3),)))
    assert list(cursor.waiting.runs()) == [(1, 3, Retry(0, 0, 0, 0))]
    assert cursor.leases["l"].ranges() == [(0, 1), (3, 4)]


def test_a_commit_is_done_with_whatever_was_below_it() -> None:
    cursor = after(leased("l", 0, 6), requeued((0, 1)), settled((3, 4)), Committed(*WHOSE, floor=3, lost=2))
    assert (cursor.floor, cursor.leased, cursor.waiting.count, cursor.lost) == (4, 2, 0, 2)


def test_a_commit_leaves_what_is_on_its_way_to_the_dead_letters_until_it_has_arrived() -> None:
    departed = Departed(*WHOSE, moves=[(1, 2, MOVE), (4, 5, MOVE)], lease="l")
    cursor = after(leased("l", 0, 6), departed, Committed(*WHOSE, floor=6))
    assert (cursor.floor, cursor.position, cursor.settled()) == (1, 6, [(2, 4), (5, 6)])
    assert list(cursor.moving.runs()) == [(1, 2, MOVE), (4, 5, MOVE)]
    cursor.apply(settled((1, 2), (4, 5), lease=None))
    assert (cursor.floor, cursor.run_count) == (6, 0)


def test_a_commit_beyond_what_was_handed_out_moves_the_position() -> None:
    cursor = after(leased("l", 0, 2), Committed(*WHOSE, floor=9))
    assert (cursor.floor, cursor.position, cursor.leases) == (9, 9, {})


def test_a_reset_forgets_all_but_where_to_go_on() -> None:
    cursor = after(leased("l", 0, 6), requeued((0, 1)), settled((3, 4)), Rewound(*WHOSE, floor=2), floor=0)
    assert (cursor.floor, cursor.position, cursor.run_count, cursor.leased) == (2, 2, 0, 0)
    assert cursor.by_lease == {}
    assert cursor.next_due() is None


def test_a_lease_of_which_nothing_is_left_cannot_be_looked_up() -> None:
    cursor = after(leased("l", 0, 2))
    assert cursor.by_lease == {"l": cursor}
    cursor.apply(settled((0, 2)))
    assert cursor.by_lease == {}


def test_what_is_left_of_leases_counts_by_its_ranges() -> None:
    cursor = after(leased("l", 0, 9), settled((1, 2), (4, 5)), leased("m", 9, 12))
    assert (cursor.run_count, len(cursor.acked)) == (6, 2)
    cursor.apply(Rewound(*WHOSE, floor=0))
    assert cursor.run_count == 0


def test_messages_that_leave_in_the_same_way_are_one_range() -> None:
    cursor = after(leased("l", 0, 9_000), Departed(*WHOSE, moves=[(0, 5_000, MOVE), (5_000, 9_000, MOVE)], lease="l"))
    assert (cursor.run_count, cursor.moving.count) == (1, 9_000)
    cursor.apply(settled((100, 200), lease=None))
    assert list(cursor.moving.runs()) == [(0, 100, MOVE), (200, 9_000, MOVE)]


def test_what_was_due_and_is_not_any_more_does_not_pile_up() -> None:
    cursor = opened()
    cursor.apply(leased("l", 0, 2))
    cursor.apply(requeued((0, 1), due_ns=10**9))
    for number in range(500):
        cursor.apply(Requeued(*WHOSE, lease=f"m{number - 1}" if number else "l", ranges=[(1, 2)], due_ns=10**6))
        cursor.apply(leased(f"m{number}", 1, 2))
    assert sum(map(len, cursor.waiting._heaps)) < 100
    cursor.apply(requeued((1, 2), due_ns=5, lease="m499"))
    found = cursor.next_due()
    assert found is not None
    assert found[:2] == (5, (1, 2))


def test_of_what_waits_the_earliest_is_due_first_and_the_rest_of_what_was_taken_stays() -> None:
    cursor = after(leased("l", 0, 9), requeued((4, 9), due_ns=20), requeued((0, 2), due_ns=30))
    cursor.apply(leased("m", 4, 6))
    found = cursor.next_due()
    assert found is not None
    assert found[:2] == (20, (6, 9))
    cursor.apply(leased("n", 6, 9))
    found = cursor.next_due()
    assert found is not None
    assert found[:2] == (30, (0, 2))


def test_a_lease_expires_at_its_time_and_an_extended_one_later() -> None:
    cursor = after(leased("l", 0, 2), leased("m", 2, 4, until_ns=200), Extended(*WHOSE, lease="l", until_ns=300))
    assert cursor.next_expiry() == 200
    assert [lease.id for lease in cursor.expired(200)] == ["m"]


def test_what_is_done_is_known_below_the_floor_and_above_it() -> None:
    cursor = after(leased("l", 0, 9), settled((0, 2)), settled((5, 7)))
    assert [cursor.is_settled(*range_) for range_ in ((0, 2), (5, 7), (0, 3), (4, 6), (9, 10))] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_cursor_and_a_lease_show_where_they_are() -> None:
    cursor = after(leased("l", 0, 3), settled((0, 1)))
    assert repr(cursor) == "<Cursor team orders/0 1..3 2 leased, 0 waiting>"
    assert repr(cursor.leases["l"]) == "<Lease l 0..3 of one, 2 left>"


# --- transactions ---


def test_what_is_pledged_is_in_no_hand_and_keeps_the_floor_until_it_is_redeemed() -> None:
    cursor = after(leased("l", 0, 5), pledged((0, 2)), settled((2, 5)))
    assert (cursor.floor, cursor.leased, cursor.leases, cursor.pledged.count) == (0, 0, {}, 2)
    assert cursor.pledged_by(MINE) == [(0, 2, Retry(1, 0, 50, 0))]
    assert not cursor.is_settled(0, 5)
    assert cursor.is_settled(0, 5, None, MINE)
    assert not cursor.is_settled(0, 5, None, OTHER)
    cursor.apply(redeemed(is_commit=True))
    assert (cursor.floor, cursor.run_count) == (5, 0)


def test_what_was_pledged_in_vain_waits_with_its_counts_and_may_have_failed() -> None:
    for failed in (False, True):
        cursor = after(leased("l", 0, 5), pledged((1, 3)), redeemed(is_commit=False, failed=failed))
        assert list(cursor.waiting.runs()) == [(1, 3, Retry(1, failed, 50, 9))]


def test_only_what_was_in_the_lease_is_pledged_by_it() -> None:
    cursor = after(leased("l", 0, 6), settled((2, 3)), requeued((4, 5)), pledged((0, 6)))
    assert [run[:2] for run in cursor.pledged.runs()] == [(0, 2), (3, 4), (5, 6)]


def test_an_offset_pledges_what_was_handed_out_what_waits_and_what_is_new_but_not_what_is_done_or_leaves() -> None:
    departed = Departed(*WHOSE, moves=[(1, 2, MOVE)], lease="l")
    cursor = after(leased("l", 0, 6), departed, settled((2, 3)), requeued((4, 5)), pledged((0, 8), lease=None))
    assert cursor.pledged_by(MINE) == [
        (0, 1, Retry(1, 0, 50, 0)),
        (3, 4, Retry(1, 0, 50, 0)),
        (4, 5, Retry(1, 1, 50, 0)),
        (5, 6, Retry(1, 0, 50, 0)),
        (6, 8, Retry(0, 0, 0, 0, NO_LANE)),
    ]
    assert (cursor.position, cursor.leased, cursor.waiting.count, cursor.moving.count) == (8, 0, 0, 1)


def test_what_nobody_had_seen_is_new_again_unless_something_behind_it_was_handed_out() -> None:
    cursor = after(leased("l", 0, 2), pledged((0, 6), lease=None), redeemed(is_commit=False))
    assert (cursor.position, list(cursor.waiting.runs())) == (2, [(0, 2, Retry(1, 1, 50, 9))])
    cursor = after(pledged((0, 6), lease=None), leased("l", 6, 7), redeemed(is_commit=False))
    assert (cursor.position, list(cursor.waiting.runs())) == (7, [(0, 6, Retry(0, 0, 0, 0, NO_LANE))])


def test_a_commit_passes_around_what_is_pledged() -> None:
    cursor = after(leased("l", 0, 6), pledged((1, 2), (4, 5)), Committed(*WHOSE, floor=6))
    assert (cursor.floor, cursor.settled(), cursor.leased) == (1, [(2, 4), (5, 6)], 0)
    cursor.apply(redeemed(is_commit=True))
    assert (cursor.floor, cursor.run_count) == (6, 0)


def test_each_transaction_has_its_own() -> None:
    cursor = after(leased("l", 0, 4), pledged((0, 2)), pledged((2, 4), whose=OTHER), redeemed(is_commit=False))
    assert ([run[:2] for run in cursor.waiting.runs()], cursor.pledged.count) == ([(0, 2)], 2)
    cursor.apply(redeemed(is_commit=True, whose=OTHER))
    assert (cursor.floor, cursor.settled()) == (0, [(2, 4)])


def test_a_reset_forgets_what_was_pledged() -> None:
    cursor = after(leased("l", 0, 4), pledged((0, 2)), Rewound(*WHOSE, floor=1), redeemed(is_commit=True))
    assert (cursor.floor, cursor.position, cursor.run_count) == (1, 1, 0)


def test_what_is_settled_whatever_it_was_is_pledged_no_more() -> None:
    cursor = after(leased("l", 0, 4), pledged((0, 2)), settled((0, 1), lease=None))
    assert (cursor.floor, cursor.pledged_by(MINE)) == (1, [(1, 2, Retry(1, 0, 50, 0))])
    cursor.apply(Departed(*WHOSE, moves=[(1, 2, MOVE)]))
    assert (cursor.pledged.count, list(cursor.moving.runs())) == (0, [(1, 2, MOVE)])


# --- what holds for all ---

ENDS = 12
Naive = dict[int, tuple[object, ...]]


class Everything:
    """The naive twin: what is known of every offset by itself."""

    def __init__(self) -> None:
        self.known: Naive = dict.fromkeys(range(ENDS), ("new",))

    def apply(self, change: Change) -> None:
        match change:
            case Leased():
                for one in change.grants:
                    self.known |= dict.fromkeys(range(one.first, one.end), ("leased", one.id))
                self.known |= dict.fromkeys(_offsets(change.held), ("waiting", Retry(0, 0, 0, 0)))
                self.known |= dict.fromkeys(_offsets(change.gaps), ("done",))
            case Settled():
                self.known |= dict.fromkeys(_offsets(change.ranges), ("done",))
            case Requeued():
                retry = Retry(1, int(change.failed), 50, change.due_ns)
                self.known |= dict.fromkeys(_offsets(change.ranges), ("waiting", retry))
            case Departed():
                self.known |= {
                    offset: ("moving", move) for first, end, move in change.moves for offset in range(first, end)
                }
            case Pledged():
                self._pledge(change)
            case Redeemed():
                self._redeem(change)
            case Committed():
                undecided = ("moving", "pledged")
                below = [offset for offset in range(change.floor) if self.known[offset][0] not in undecided]
                self.known |= dict.fromkeys(below, ("done",))
            case Rewound():
                self.known = {offset: ("done",) if offset < change.floor else ("new",) for offset in self.known}

    def _pledge(self, change: Pledged) -> None:
        for offset in _offsets(change.ranges):
            match self.known[offset]:
                case ("leased", name) if change.lease in (None, name):
                    self.known[offset] = ("pledged", Pledge(change.whose, Retry(1, 0, 50, 0)))
                case ("waiting", Retry() as retry) if change.lease is None:
                    self.known[offset] = ("pledged", Pledge(change.whose, retry._replace(due_ns=0)))
                case ("new",) if change.lease is None:
                    self.known[offset] = ("pledged", Pledge(change.whose, Retry(0, 0, 0, 0, NO_LANE)))

    def _redeem(self, change: Redeemed) -> None:
        """From the end, since what nobody has seen is new again only where all behind it is."""
        for offset in range(ENDS - 1, -1, -1):
            match self.known[offset]:
                case ("pledged", Pledge(whose, tried)) if whose == change.whose:
                    is_last = offset == ENDS - 1 or self.known[offset + 1] == ("new",)
                    again = tried._replace(failures=tried.failures + change.failed, due_ns=change.due_ns)
                    if change.is_commit:
                        self.known[offset] = ("done",)
                    elif tried.deliveries:
                        self.known[offset] = ("waiting", again)
                    else:
                        self.known[offset] = ("new",) if is_last else ("waiting", tried)

    def of(self, state: str, *more: object) -> list[int]:
        return [offset for offset, known in self.known.items() if known[: 1 + len(more)] == (state, *more)]


def _offsets(ranges: list[Range]) -> list[int]:
    return [offset for first, end in ranges for offset in range(first, end)]


def told_by(cursor: Cursor) -> Naive:
    """What a cursor says of every offset, which must be one thing only."""
    found: dict[int, list[tuple[object, ...]]] = {offset: [] for offset in range(ENDS)}
    for offset in range(ENDS):
        if offset < cursor.floor or cursor.acked.get(offset):
            found[offset].append(("done",))
        if (retry := cursor.waiting.get(offset)) is not None:
            found[offset].append(("waiting", retry))
        found[offset] += [("leased", lease.id) for lease in cursor.leases.values() if lease.left.get(offset)]
        if offset in cursor.moving:
            found[offset].append(("moving", cursor.moving.get(offset)))
        if offset in cursor.pledged:
            found[offset].append(("pledged", cursor.pledged.get(offset)))
        if offset >= cursor.position:
            found[offset].append(("new",))
    assert all(len(states) == 1 for states in found.values()), found
    return {offset: states[0] for offset, states in found.items()}


def runs_of(offsets: list[int]) -> list[Range]:
    runs: list[Range] = []
    for offset in sorted(offsets):
        joins = runs and runs[-1][1] == offset
        runs.append((runs.pop()[0] if joins else offset, offset + 1))
    return runs


@st.composite
def next_change(draw: st.DrawFn, twin: Everything, number: int) -> Change:
    """Something that may happen now."""
    new, waiting, in_hand = twin.of("new"), twin.of("waiting"), twin.of("leased")
    kinds = ["commit", "rewind", *["transact"] * 3, *["lease"] * 3 * bool(new), *["retry"] * 2 * bool(waiting)]
    kinds += ["say"] * 6 * bool(in_hand)
    match draw(st.sampled_from(kinds)):
        case "commit":
            return Committed(*WHOSE, floor=draw(st.integers(0, ENDS - 1)), lost=draw(st.integers(0, 2)))
        case "rewind":
            return Rewound(*WHOSE, floor=draw(st.integers(0, ENDS - 1)))
        case "transact":
            return draw(next_of_a_transaction(twin))
        case "lease":
            end = draw(st.integers(new[0] + 1, new[-1] + 1))
            passed = draw(st.lists(st.sampled_from(range(new[0], end)), unique=True, max_size=end - new[0] - 1))
            cut = draw(st.integers(0, len(passed)))
            held, gaps = runs_of(passed[:cut]), runs_of(passed[cut:])
            return leased(f"lease-{number}", new[0], end, held=tuple(held), gaps=tuple(gaps))
        case "retry":
            first = draw(st.sampled_from(waiting))
            end = first + 1
            while end in waiting and draw(st.booleans()):
                end += 1
            return leased(f"lease-{number}", first, end)
    return draw(next_of_a_lease(twin, str(twin.known[draw(st.sampled_from(in_hand))][1])))


@st.composite
def next_of_a_lease(draw: st.DrawFn, twin: Everything, lease: str) -> Change:
    own = twin.of("leased", lease)
    chosen = draw(st.lists(st.sampled_from(own), unique=True, min_size=1))
    match draw(st.sampled_from(["settle", "requeue", "depart", "pledge"])):
        case "settle":
            return settled(*runs_of(chosen), lease=lease)
        case "depart":
            return Departed(*WHOSE, moves=[(offset, offset + 1, MOVE) for offset in chosen], lease=lease)
        case "pledge":
            return pledged(*runs_of(chosen), lease=lease, whose=draw(st.sampled_from([MINE, OTHER])))
    return requeued(*runs_of(chosen), due_ns=draw(st.integers(1, 9)), failed=draw(st.booleans()), lease=lease)


@st.composite
def next_of_a_transaction(draw: st.DrawFn, twin: Everything) -> Change:
    whose = draw(st.sampled_from([MINE, OTHER]))
    if draw(st.booleans()):
        due_ns = draw(st.integers(1, 9))
        return redeemed(is_commit=draw(st.booleans()), failed=draw(st.booleans()), whose=whose, due_ns=due_ns)
    floor = min((offset for offset, one in twin.known.items() if one != ("done",)), default=ENDS)
    end = draw(st.integers(floor, ENDS))
    return pledged(*([(floor, end)] if floor < end else []), lease=None, whose=whose)


@given(st.data(), st.integers(1, 25))
def test_every_offset_is_in_one_place_and_that_is_where_the_twin_has_it(data: st.DataObject, steps: int) -> None:
    cursor, twin = opened(), Everything()
    copy = opened()
    for number in range(steps):
        change = data.draw(next_change(twin, number))
        floor, position = cursor.floor, cursor.position
        cursor.apply(change)
        twin.apply(change)
        replayed = read_back(change)  # type: ignore[arg-type]
        assert isinstance(replayed, Change)
        copy.apply(replayed)
        assert told_by(cursor) == twin.known
        if not isinstance(change, Rewound):
            assert cursor.floor >= floor
            assert cursor.position >= position or (isinstance(change, Redeemed) and not change.is_commit)
        assert cursor.floor <= cursor.position
        assert cursor.floor == min((offset for offset in range(ENDS) if twin.known[offset] != ("done",)), default=ENDS)
        assert cursor.leased == len(twin.of("leased"))
        pieces = sum(len(lease.left) for lease in cursor.leases.values())
        assert (
            cursor.run_count
            == len(cursor.acked) + len(cursor.waiting) + len(cursor.moving) + len(cursor.pledged) + pieces
        )
        assert cursor.acked.first is None or cursor.acked.first > cursor.floor
        assert cursor.by_lease == dict.fromkeys(cursor.leases, cursor)
        assert all(lease.left for lease in cursor.leases.values())
        dues = [known[1].due_ns for known in twin.known.values() if isinstance(known[-1], Retry)]  # type: ignore[attr-defined]
        found = cursor.next_due()
        assert (found[0] if found else None) == min(dues, default=None)
        again = read_back(cursor.stands())
        assert isinstance(again, Stands)
        stood = Cursor(again, {})
        assert stood.stands() == copy.stands() == cursor.stands()
        assert (stood.next_due() or [None])[0] == (found or [None])[0]
        assert stood.leased == cursor.leased


@pytest.mark.parametrize("floor", [0, 5])
def test_telling_all_of_it_again_changes_nothing(floor: int) -> None:
    cursor = after(leased("l", floor, 9), requeued((floor, floor + 1)), settled((7, 8)), floor=floor)
    before = cursor.stands()
    cursor.apply(before)
    assert cursor.stands() == before
    assert cursor.by_lease == {"l": cursor}
