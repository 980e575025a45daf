"""Whoever calls with another epoch than the one that is known is too late, or too early."""

import pytest

from goqueue.broker.transactions.records import Ended, Registered
from goqueue.broker.transactions.refusals import of_another_epoch, refuse_unless_former
from goqueue.broker.transactions.states import State
from goqueue.broker.transactions.whose import Whose
from goqueue.errors import GoQueueError, ProducerFenced, TransactionAborted, TransactionPending, UnknownProducer

PRODUCER, EPOCH = 7, 30


def known(state: State, last: Ended | None = None) -> Registered:
    return Registered("orders", PRODUCER, EPOCH, state, timeout_ns=1, changed_ns=1, last=last)


@pytest.mark.parametrize("state", ["prepare_commit", "prepare_abort"])
def test_the_epoch_that_an_end_has_given_is_waited_for_where_a_crash_came_before_its_record(state: State) -> None:
    assert isinstance(of_another_epoch(known(state), Whose(PRODUCER, EPOCH + 1)), TransactionPending)


@pytest.mark.parametrize("state", ["ongoing", "empty", "complete_commit"])
def test_an_epoch_that_was_never_given_is_refused(state: State) -> None:
    assert isinstance(of_another_epoch(known(state), Whose(PRODUCER, EPOCH + 1)), UnknownProducer)


@pytest.mark.parametrize(("epoch", "kind"), [(EPOCH - 1, ProducerFenced), (EPOCH + 2, UnknownProducer)])
def test_no_other_epoch_is_waited_for(epoch: int, kind: type[GoQueueError]) -> None:
    assert isinstance(of_another_epoch(known("prepare_commit"), Whose(PRODUCER, epoch)), kind)


def test_an_epoch_of_another_producer_is_fenced_however_high_it_is() -> None:
    assert isinstance(of_another_epoch(known("empty"), Whose(PRODUCER + 1, EPOCH + 1)), ProducerFenced)


def test_the_epoch_before_is_told_why_its_transaction_was_aborted() -> None:
    last = Ended(Whose(PRODUCER, EPOCH - 1), "complete_abort", 1, 1, reason="timeout")
    assert isinstance(of_another_epoch(known("complete_abort", last), Whose(PRODUCER, EPOCH - 1)), TransactionAborted)


@pytest.mark.parametrize("state", ["prepare_commit", "prepare_abort"])
def test_init_accepts_the_epoch_that_an_unrecorded_end_has_given(state: State) -> None:
    refuse_unless_former(known(state), Whose(PRODUCER, EPOCH + 1))


def test_init_refuses_an_older_epoch_while_an_end_is_carried_out() -> None:
    with pytest.raises(ProducerFenced):
        refuse_unless_former(known("prepare_commit"), Whose(PRODUCER, EPOCH - 1))


def test_init_refuses_a_later_epoch_while_an_end_is_carried_out() -> None:
    with pytest.raises(UnknownProducer):
        refuse_unless_former(known("prepare_commit"), Whose(PRODUCER, EPOCH + 2))
