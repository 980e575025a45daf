"""Open transactions of a partition: ranges that grow, are cut and end, oldest first."""

from goqueue.broker.core.open_transactions import OpenTransaction, OpenTransactions, TransactionEnd
from goqueue.storage.transaction_marker import TransactionMarker


def test_adjacent_batches_are_one_range() -> None:
    opened = OpenTransaction(0)
    for first, end in ((3, 5), (5, 6), (9, 10)):
        opened.add(first, end)
    assert opened.ranges == [(3, 6), (9, 10)]
    assert opened.first_offset == 3


def test_cut_removes_refused_offsets() -> None:
    opened = OpenTransaction(0, [(3, 6), (9, 12)])
    opened.cut(10)
    assert opened.ranges == [(3, 6), (9, 10)]
    opened.cut(4)
    assert opened.ranges == [(3, 4)]
    opened.cut(0)
    assert opened.ranges == []


def test_pass_over_removes_earlier_ranges() -> None:
    opened = OpenTransaction(0, [(3, 6), (9, 12)])
    opened.pass_over(6)
    assert opened.ranges == [(9, 12)]


def test_fully_refused_transaction_is_not_open() -> None:
    transactions = OpenTransactions()
    transactions.add(7, 0, 4, 6)
    transactions.take_back(7, 4)
    transactions.take_back(8, 4)
    assert not transactions


def test_markers_are_made_for_matching_epochs_only() -> None:
    transactions = OpenTransactions()
    transactions.add(7, 2, 4, 6)
    ends = [TransactionEnd(7, 1, True), TransactionEnd(8, 0, True), TransactionEnd(7, 2, False)]
    assert transactions.end(ends) == [TransactionMarker(7, 2, False, ((4, 6),))]


def test_hold_limits_readers_until_open_transactions_are_restored() -> None:
    transactions = OpenTransactions()
    transactions.hold(5, 9, {8: 0})
    transactions.hold(3, 8, {9: 0})
    transactions.add(7, 1, 9, 10)
    assert transactions.first_offset == 3
    transactions.restore({8: OpenTransaction(0, [(6, 7)]), 9: OpenTransaction(0, [(4, 5)])})
    assert transactions.first_offset == 4
    assert [(producer, one.first_offset) for producer, one in transactions] == [(9, 4), (8, 6), (7, 9)]
