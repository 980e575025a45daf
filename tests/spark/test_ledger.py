"""What records of groups settle: for a report, what a transaction acknowledged is done when it is committed."""

from goqueue.broker.delivery.changes import Committed, Grant, Leased, Opened, Pledged, Redeemed
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.transactions.whose import Whose
from goqueue.spark.inspections.ledger import done_by, is_departure

PLACE = ("team", "orders", 0)
MINE = Whose(7, 1)


def with_pledges() -> Cursor:
    """Of six messages that are in hand, a transaction has acknowledged the second and the fifth."""
    cursor = Cursor(Opened(*PLACE, topic_ns=1, floor=0), {})
    cursor.apply(Leased(*PLACE, grants=[Grant("l", "one", 0, 6, 1, 0, 0, 1, 100)]))
    pledged = Pledged(*PLACE, whose=MINE, ranges=[(1, 2), (4, 5)], lease="l")
    assert done_by(pledged, cursor) == []
    cursor.apply(pledged)
    return cursor


def test_what_was_pledged_is_done_by_the_end_of_its_transaction_if_that_is_a_commit() -> None:
    cursor = with_pledges()
    ended = Redeemed(*PLACE, whose=MINE, is_commit=True)
    assert done_by(ended, cursor) == [(1, 2), (4, 5)]
    assert not is_departure(ended)
    assert done_by(Redeemed(*PLACE, whose=MINE, is_commit=False), cursor) == []
    assert done_by(Redeemed(*PLACE, whose=Whose(7, 2), is_commit=True), cursor) == []


def test_a_commit_outside_does_nothing_about_what_is_pledged() -> None:
    assert done_by(Committed(*PLACE, floor=6), with_pledges()) == [(0, 1), (2, 4), (5, 6)]
