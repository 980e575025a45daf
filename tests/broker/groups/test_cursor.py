"""A group's ref in a partition: examples, and a twin that remembers every single message."""

import pytest

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.records import (
    CursorOpened,
    CursorRecord,
    CursorReset,
    LeaseGrant,
    LeasesGranted,
    MessageMove,
    MessagesRequeued,
    MessagesSettled,
    MoveStarted,
    OffsetCommitted,
    Range,
    RetryState,
    TransactionAcked,
    TransactionAcksEnded,
)
from goqueue.storage.lanes import NO_LANE

WHOSE = ("team", "orders", 0)
MINE, OTHER = TransactionId(7, 1), TransactionId(8, 0)
MOVE = MessageMove("orders.dlq", 0, 0, "rejected", 1, 1, 2)


def opened(floor: int = 0) -> Cursor:
    return Cursor(CursorOpened(*WHOSE, topic_ns=1, floor=floor), {})


def grant(name: str, first: int, end: int, deliveries: int = 1, failures: int = 0, until_ns: int = 100) -> LeaseGrant:
    return LeaseGrant(name, "one", first, end, deliveries, failures, 0, 50, until_ns)


def leased(
    name: str, first: int, end: int, *, held: tuple[Range, ...] = (), gaps: tuple[Range, ...] = (), until_ns: int = 100
) -> LeasesGranted:
    return LeasesGranted(*WHOSE, grants=[grant(name, first, end, until_ns=until_ns)], held=list(held), gaps=list(gaps))


def after(*changes: CursorRecord, floor: int = 0) -> Cursor:
    cursor = opened(floor)
    for change in changes:
        cursor.apply(change)
    return cursor


def settled(*ranges: Range, lease: str | None = "l") -> MessagesSettled:
    return MessagesSettled(*WHOSE, ranges=list(ranges), lease=lease)


def requeued(*ranges: Range, due_ns: int = 7, failed: bool = True, lease: str = "l") -> MessagesRequeued:
    return MessagesRequeued(*WHOSE, lease=lease, ranges=list(ranges), due_ns=due_ns, failed=failed)


def transactional(*ranges: Range, lease: str | None = "l", transaction_id: TransactionId = MINE) -> TransactionAcked:
    return TransactionAcked(*WHOSE, transaction_id=transaction_id, ranges=list(ranges), lease=lease)


def ended(
    *, is_commit: bool, failed: bool = True, transaction_id: TransactionId = MINE, due_ns: int = 9
) -> TransactionAcksEnded:
    return TransactionAcksEnded(
        *WHOSE, transaction_id=transaction_id, is_commit=is_commit, failed=failed, due_ns=due_ns
    )


def test_acks_out_of_order_are_kept_above_the_floor() -> None:
    cursor = after(leased("l", 0, 5), settled((3, 5)))
    assert (cursor.floor, cursor.settled(), cursor.leased) == (0, [(3, 5)], 3)
    cursor.apply(settled((0, 3)))
    assert (cursor.floor, cursor.settled()) == (5, [])


def test_failed_messages_wait_with_counts_and_due_time() -> None:
    cursor = after(leased("l", 0, 3), requeued((1, 2)))
    assert list(cursor.waiting.runs()) == [(1, 2, RetryState(1, 1, 50, 7))]
    assert cursor.waiting.next_due() == (7, (1, 2), RetryState(1, 1, 50, 7))
    assert cursor.leases["l"].ranges() == [(0, 1), (2, 3)]


def test_released_messages_count_delivery_but_no_failure() -> None:
    cursor = after(leased("l", 0, 3), requeued((0, 3), failed=False))
    assert list(cursor.waiting.runs()) == [(0, 3, RetryState(1, 0, 50, 7))]
    assert not cursor.leases


def test_gaps_are_settled_when_leased_over() -> None:
    cursor = after(leased("l", 0, 6, gaps=((0, 2), (4, 5))))
    assert (cursor.floor, cursor.settled(), cursor.leased) == (2, [(4, 5)], 3)


def test_commit_settles_everything_below_it() -> None:
    cursor = after(leased("l", 0, 6), requeued((0, 1)), settled((3, 4)), OffsetCommitted(*WHOSE, floor=3, lost=2))
    assert (cursor.floor, cursor.leased, cursor.waiting.count, cursor.lost) == (4, 2, 0, 2)


def test_commit_keeps_moving_messages_until_they_arrive() -> None:
    departed = MoveStarted(*WHOSE, moves=[(1, 2, MOVE), (4, 5, MOVE)], lease="l")
    cursor = after(leased("l", 0, 6), departed, OffsetCommitted(*WHOSE, floor=6))
    assert (cursor.floor, cursor.position, cursor.settled()) == (1, 6, [(2, 4), (5, 6)])
    assert list(cursor.moving.runs()) == [(1, 2, MOVE), (4, 5, MOVE)]
    cursor.apply(settled((1, 2), (4, 5), lease=None))
    assert (cursor.floor, cursor.run_count) == (6, 0)


def test_run_count_includes_ranges_left_in_leases() -> None:
    cursor = after(leased("l", 0, 9), settled((1, 2), (4, 5)), leased("m", 9, 12))
    assert (cursor.run_count, len(cursor.acked)) == (6, 2)
    cursor.apply(CursorReset(*WHOSE, floor=0))
    assert cursor.run_count == 0


def test_adjacent_moves_are_one_range() -> None:
    cursor = after(
        leased("l", 0, 9_000), MoveStarted(*WHOSE, moves=[(0, 5_000, MOVE), (5_000, 9_000, MOVE)], lease="l")
    )
    assert (cursor.run_count, cursor.moving.count) == (1, 9_000)
    cursor.apply(settled((100, 200), lease=None))
    assert list(cursor.moving.runs()) == [(0, 100, MOVE), (200, 9_000, MOVE)]


def test_stale_due_entries_are_swept() -> None:
    cursor = opened()
    cursor.apply(leased("l", 0, 2))
    cursor.apply(requeued((0, 1), due_ns=10**9))
    for number in range(500):
        cursor.apply(MessagesRequeued(*WHOSE, lease=f"m{number - 1}" if number else "l", ranges=[(1, 2)], due_ns=10**6))
        cursor.apply(leased(f"m{number}", 1, 2))
    assert sum(map(len, cursor.waiting._heaps)) < 100
    cursor.apply(requeued((1, 2), due_ns=5, lease="m499"))
    found = cursor.waiting.next_due()
    assert found is not None
    assert found[:2] == (5, (1, 2))


def test_earliest_retry_is_due_first() -> None:
    cursor = after(leased("l", 0, 9), requeued((4, 9), due_ns=20), requeued((0, 2), due_ns=30))
    cursor.apply(leased("m", 4, 6))
    found = cursor.waiting.next_due()
    assert found is not None
    assert found[:2] == (20, (6, 9))
    cursor.apply(leased("n", 6, 9))
    found = cursor.waiting.next_due()
    assert found is not None
    assert found[:2] == (30, (0, 2))


def test_is_settled_below_and_above_the_floor() -> None:
    cursor = after(leased("l", 0, 9), settled((0, 2)), settled((5, 7)))
    assert [cursor.is_settled(*range_) for range_ in ((0, 2), (5, 7), (0, 3), (4, 6), (9, 10))] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_cursor_and_lease_repr() -> None:
    cursor = after(leased("l", 0, 3), settled((0, 1)))
    assert repr(cursor) == "<Cursor team orders/0 1..3 2 leased, 0 waiting>"
    assert repr(cursor.leases["l"]) == "<Lease l 0..3 of one, 2 left>"


# --- transactions ---


def test_transactional_ack_holds_the_floor_until_transaction_ends() -> None:
    cursor = after(leased("l", 0, 5), transactional((0, 2)), settled((2, 5)))
    assert (cursor.floor, cursor.leased, cursor.leases, cursor.transactional.count) == (0, 0, {}, 2)
    assert cursor.acked_in(MINE) == [(0, 2, RetryState(1, 0, 50, 0))]
    assert not cursor.is_settled(0, 5)
    assert cursor.is_settled(0, 5, None, MINE)
    assert cursor.is_settled(1, 5, None, MINE)
    assert not cursor.is_settled(0, 5, None, OTHER)
    cursor.apply(ended(is_commit=True))
    assert (cursor.floor, cursor.run_count) == (5, 0)


def test_aborted_transactional_ack_waits_with_its_counts() -> None:
    for failed in (False, True):
        cursor = after(leased("l", 0, 5), transactional((1, 3)), ended(is_commit=False, failed=failed))
        assert list(cursor.waiting.runs()) == [(1, 3, RetryState(1, failed, 50, 9))]


def test_transactional_ack_covers_only_leased_messages() -> None:
    cursor = after(leased("l", 0, 6), settled((2, 3)), requeued((4, 5)), transactional((0, 6)))
    assert [run[:2] for run in cursor.transactional.runs()] == [(0, 2), (3, 4), (5, 6)]


def test_transactional_offset_covers_leased_waiting_and_new_messages() -> None:
    departed = MoveStarted(*WHOSE, moves=[(1, 2, MOVE)], lease="l")
    cursor = after(leased("l", 0, 6), departed, settled((2, 3)), requeued((4, 5)), transactional((0, 8), lease=None))
    assert cursor.acked_in(MINE) == [
        (0, 1, RetryState(1, 0, 50, 0)),
        (3, 4, RetryState(1, 0, 50, 0)),
        (4, 5, RetryState(1, 1, 50, 0)),
        (5, 6, RetryState(1, 0, 50, 0)),
        (6, 8, RetryState(0, 0, 0, 0, NO_LANE)),
    ]
    assert (cursor.position, cursor.leased, cursor.waiting.count, cursor.moving.count) == (8, 0, 0, 1)


def test_aborted_offset_returns_undelivered_messages_as_new() -> None:
    cursor = after(leased("l", 0, 2), transactional((0, 6), lease=None), ended(is_commit=False))
    assert (cursor.position, list(cursor.waiting.runs())) == (2, [(0, 2, RetryState(1, 1, 50, 9))])
    cursor = after(transactional((0, 6), lease=None), leased("l", 6, 7), ended(is_commit=False))
    assert (cursor.position, list(cursor.waiting.runs())) == (7, [(0, 6, RetryState(0, 0, 0, 0, NO_LANE))])


def test_commit_skips_messages_acked_in_a_transaction() -> None:
    cursor = after(leased("l", 0, 6), transactional((1, 2), (4, 5)), OffsetCommitted(*WHOSE, floor=6))
    assert (cursor.floor, cursor.settled(), cursor.leased) == (1, [(2, 4), (5, 6)], 0)
    cursor.apply(ended(is_commit=True))
    assert (cursor.floor, cursor.run_count) == (6, 0)


def test_transactions_end_independently() -> None:
    cursor = after(
        leased("l", 0, 4), transactional((0, 2)), transactional((2, 4), transaction_id=OTHER), ended(is_commit=False)
    )
    assert ([run[:2] for run in cursor.waiting.runs()], cursor.transactional.count) == ([(0, 2)], 2)
    cursor.apply(ended(is_commit=True, transaction_id=OTHER))
    assert (cursor.floor, cursor.settled()) == (0, [(2, 4)])


def test_reset_drops_transactional_acks() -> None:
    cursor = after(leased("l", 0, 4), transactional((0, 2)), CursorReset(*WHOSE, floor=1), ended(is_commit=True))
    assert (cursor.floor, cursor.position, cursor.run_count) == (1, 1, 0)


def test_settled_messages_leave_transactional_acks() -> None:
    cursor = after(leased("l", 0, 4), transactional((0, 2)), settled((0, 1), lease=None))
    assert (cursor.floor, cursor.acked_in(MINE)) == (1, [(1, 2, RetryState(1, 0, 50, 0))])
    cursor.apply(MoveStarted(*WHOSE, moves=[(1, 2, MOVE)]))
    assert (cursor.transactional.count, list(cursor.moving.runs())) == (0, [(1, 2, MOVE)])


# --- what holds for all ---


@pytest.mark.parametrize("floor", [0, 5])
def test_applying_own_snapshot_changes_nothing(floor: int) -> None:
    cursor = after(leased("l", floor, 9), requeued((floor, floor + 1)), settled((7, 8)), floor=floor)
    before = cursor.snapshot()
    cursor.apply(before)
    assert cursor.snapshot() == before
    assert cursor.by_lease == {"l": cursor}
