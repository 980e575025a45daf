"""A call with another epoch than the current one is refused as late or early."""

import pytest

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.transactions.records import EndedTransaction, TransactionMetadata, TransactionState
from goqueue.broker.transactions.refusals import refuse_unless_former, wrong_epoch
from goqueue.errors import GoQueueError, ProducerFenced, TransactionAborted, TransactionPending, UnknownProducer

PRODUCER, EPOCH = 7, 30


def known(state: TransactionState, last: EndedTransaction | None = None) -> TransactionMetadata:
    return TransactionMetadata("orders", PRODUCER, EPOCH, state, timeout_ns=1, changed_ns=1, last=last)


@pytest.mark.parametrize(
    ("state", "producer", "epoch", "kind"),
    [
        pytest.param("prepare_commit", 0, 1, TransactionPending, id="next_epoch_during_commit"),
        pytest.param("prepare_abort", 0, 1, TransactionPending, id="next_epoch_during_abort"),
        pytest.param("ongoing", 0, 1, UnknownProducer, id="next_epoch_while_ongoing"),
        pytest.param("empty", 0, 1, UnknownProducer, id="next_epoch_while_empty"),
        pytest.param("complete_commit", 0, 1, UnknownProducer, id="next_epoch_after_commit"),
        pytest.param("prepare_commit", 0, -1, ProducerFenced, id="earlier_epoch"),
        pytest.param("prepare_commit", 0, 2, UnknownProducer, id="second_next_epoch"),
        pytest.param("empty", 1, 1, ProducerFenced, id="other_producer"),
    ],
)
def test_wrong_epoch_is_refused(state: TransactionState, producer: int, epoch: int, kind: type[GoQueueError]) -> None:
    assert isinstance(wrong_epoch(known(state), TransactionId(PRODUCER + producer, EPOCH + epoch)), kind)


def test_earlier_epoch_gets_the_reason_of_its_abort() -> None:
    earlier = TransactionId(PRODUCER, EPOCH - 1)
    last = EndedTransaction(earlier, "complete_abort", 1, 1, reason="timeout")
    assert isinstance(wrong_epoch(known("complete_abort", last), earlier), TransactionAborted)


@pytest.mark.parametrize("state", ["prepare_commit", "prepare_abort"])
def test_init_accepts_the_epoch_of_an_unrecorded_end(state: TransactionState) -> None:
    refuse_unless_former(known(state), TransactionId(PRODUCER, EPOCH + 1))


@pytest.mark.parametrize(("epoch", "kind"), [(-1, ProducerFenced), (2, UnknownProducer)])
def test_init_refuses_other_epochs_while_a_transaction_ends(epoch: int, kind: type[GoQueueError]) -> None:
    with pytest.raises(kind):
        refuse_unless_former(known("prepare_commit"), TransactionId(PRODUCER, EPOCH + epoch))
