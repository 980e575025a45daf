"""The offsets that records of groups settle, also in transactions."""

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.records import (
    CursorOpened,
    LeaseGrant,
    LeasesGranted,
    OffsetCommitted,
    TransactionAcked,
    TransactionAcksEnded,
)
from goqueue.spark.inspections.internal_logs import is_move_to_other_topic, settled_ranges

PLACE = ("team", "orders", 0)
MINE = TransactionId(7, 1)


def cursor_with_transaction() -> Cursor:
    """Make a cursor with six leased messages; a transaction has acknowledged the second and the fifth."""
    cursor = Cursor(CursorOpened(*PLACE, topic_ns=1, floor=0), {})
    cursor.apply(LeasesGranted(*PLACE, grants=[LeaseGrant("l", "one", 0, 6, 1, 0, 0, 1, 100)]))
    acked = TransactionAcked(*PLACE, transaction_id=MINE, ranges=[(1, 2), (4, 5)], lease="l")
    assert settled_ranges(acked, cursor) == []
    cursor.apply(acked)
    return cursor


def test_acks_in_a_transaction_settle_when_it_commits() -> None:
    cursor = cursor_with_transaction()
    ended = TransactionAcksEnded(*PLACE, transaction_id=MINE, is_commit=True)
    assert settled_ranges(ended, cursor) == [(1, 2), (4, 5)]
    assert not is_move_to_other_topic(ended)
    assert settled_ranges(TransactionAcksEnded(*PLACE, transaction_id=MINE, is_commit=False), cursor) == []
    assert (
        settled_ranges(TransactionAcksEnded(*PLACE, transaction_id=TransactionId(7, 2), is_commit=True), cursor) == []
    )


def test_a_commit_outside_leaves_acks_of_a_transaction() -> None:
    assert settled_ranges(OffsetCommitted(*PLACE, floor=6), cursor_with_transaction()) == [(0, 1), (2, 4), (5, 6)]
