"""What is open in one partition: ranges that grow, are cut and end, the oldest first."""

from goqueue.broker.transactions.opened import End, Opened, OpenTransactions
from goqueue.storage.marker import Marker


def test_batches_behind_each_other_are_one_range() -> None:
    opened = Opened(0)
    for first, end in ((3, 5), (5, 6), (9, 10)):
        opened.add(first, end)
    assert opened.ranges == [(3, 6), (9, 10)]
    assert opened.first_offset == 3


def test_what_was_refused_is_cut_off_in_the_middle_of_a_range_too() -> None:
    opened = Opened(0, [(3, 6), (9, 12)])
    opened.cut(10)
    assert opened.ranges == [(3, 6), (9, 10)]
    opened.cut(4)
    assert opened.ranges == [(3, 4)]
    opened.cut(0)
    assert opened.ranges == []


def test_what_a_marker_spoke_of_is_passed_over() -> None:
    opened = Opened(0, [(3, 6), (9, 12)])
    opened.pass_over(6)
    assert opened.ranges == [(9, 12)]


def test_the_oldest_says_where_readers_end() -> None:
    assert OpenTransactions().first_offset is None
    transactions = OpenTransactions()
    transactions.add(7, 0, 4, 6)
    transactions.add(8, 3, 6, 7)
    transactions.add(7, 0, 7, 8)
    assert transactions.first_offset == 4
    transactions.close(7)
    assert transactions.first_offset == 6
    transactions.close(8)
    transactions.close(8)
    assert not len(transactions)


def test_a_transaction_of_which_everything_was_refused_is_not_open() -> None:
    transactions = OpenTransactions()
    transactions.add(7, 0, 4, 6)
    transactions.take_back(7, 4)
    transactions.take_back(8, 4)
    assert not transactions


def test_markers_are_for_those_that_have_something_open_with_this_epoch() -> None:
    transactions = OpenTransactions()
    transactions.add(7, 2, 4, 6)
    ends = [End(7, 1, True), End(8, 0, True), End(7, 2, False)]
    assert transactions.markers(ends) == [Marker(7, 2, False, ((4, 6),))]


def test_until_it_is_known_what_is_open_readers_end_where_it_may_be() -> None:
    transactions = OpenTransactions()
    transactions.hold(5, 9)
    transactions.hold(3, 8)
    transactions.add(7, 1, 9, 10)
    assert transactions.first_offset == 3
    transactions.restore({8: Opened(0, [(6, 7)]), 9: Opened(0, [(4, 5)])})
    assert transactions.first_offset == 4
    assert [(producer, one.first_offset) for producer, one in transactions] == [(9, 4), (8, 6), (7, 9)]
