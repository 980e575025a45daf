"""Errors of transaction calls."""

from collections.abc import Sequence

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.transactions.records import COMPLETE, PREPARED, EndedTransaction, TransactionMetadata
from goqueue.errors import (
    FrameInvalid,
    GoQueueError,
    ProducerFenced,
    ProducerNotFound,
    RequestInvalid,
    TransactionAborted,
    TransactionFull,
    TransactionNotOpen,
    TransactionPending,
    UnknownProducer,
)
from goqueue.limits import TRANSACTION_PARTICIPANTS_MAX, TRANSACTIONAL_IDS_MAX
from goqueue.quantities import quoted

ASKED, TIMEOUT, FENCED, RESTART = "asked", "timeout", "fenced", "restart"
REASONS = {
    ASKED: "its producer has aborted it",
    TIMEOUT: "it reached its timeout without a sign of life",
    FENCED: "another producer has taken its transactional id",
    RESTART: "the broker was restarted before it was committed",
}


def reason_text(text: str) -> str:
    """Return a client's reason; one that equals a reason of the broker is quoted."""
    return quoted(text) if text in REASONS else text or ASKED


def describe_reason(reason: str) -> str:
    return REASONS.get(reason, reason)


def unknown_transaction(whose: TransactionId, name: str | None, known: TransactionMetadata | None) -> GoQueueError:
    if known is not None:
        return ProducerFenced(
            f"transactional id {quoted(known.id)} belongs to producer {known.producer}, not to {whose.producer}",
            hint="another producer has taken over, or the number of this one was used up; call init again",
            epoch=known.epoch,
        )
    if name is not None:
        sentence = f"there is no transactional id {quoted(name)}"
    else:
        sentence = f"producer {whose.producer} has no transactional id"
    return ProducerNotFound(sentence, hint="POST /producers/init with a transactional_id gives one")


def wrong_epoch(known: TransactionMetadata, whose: TransactionId) -> GoQueueError:
    last = known.last
    if known.state in PREPARED and whose.epoch == known.epoch + 1:
        return _not_ended_again(known, whose)
    if whose.producer == known.producer and whose.epoch > known.epoch:
        return _never_given(known, whose)
    if last is not None and last.whose == whose and last.reason != FENCED:
        return _over(last)
    return ProducerFenced(
        f"producer {known.producer} has epoch {known.epoch}, this call has {whose.epoch}",
        hint="another producer has taken over this transactional id; call init to take it back",
        epoch=known.epoch,
    )


def refuse_unless_former(known: TransactionMetadata, former: TransactionId) -> None:
    """Refuse to continue from `former` if another producer has taken over since."""
    if known.state in PREPARED and former == TransactionId(known.producer, known.epoch + 1):
        return  # this epoch was answered, but a crash lost the record: `init` waits until the end is repeated
    if known.producer == former.producer and former.epoch > known.epoch:
        raise _never_given(known, former)
    last = known.last
    has_ended = known.state in COMPLETE and last is not None and last.whose == former
    if known.whose != former and not has_ended:
        raise ProducerFenced(
            f"transactional id {quoted(known.id)} has {known.whose}, which does not follow {former}",
            hint="another producer has taken over; call init without an epoch to take the id back",
            epoch=known.epoch,
        )


def _never_given(known: TransactionMetadata, whose: TransactionId) -> UnknownProducer:
    return UnknownProducer(
        f"epoch {whose.epoch} of producer {whose.producer} was never given out from this data directory, which is at"
        f" {known.epoch}",
        hint="the directory was restored: nothing of this transaction is stored here; call init",
        producer_id=whose.producer,
    )


def _not_ended_again(known: TransactionMetadata, whose: TransactionId) -> TransactionPending:
    """An end is answered before its record is durable, since it can be repeated. After a crash the answered epoch is
    unknown until then.
    """
    return TransactionPending(
        f"transaction {known.whose} is being ended again after a crash; {whose} can continue after that",
        hint="ask again in a moment",
        retry_after=1,
    )


def _over(last: EndedTransaction) -> GoQueueError:
    if last.state == "complete_abort":
        return aborted(last.whose, last.reason)
    return TransactionNotOpen(
        f"transaction {last.whose} was committed before",
        hint="the answer to the commit has the epoch of the next transaction",
        transaction_id=str(last.whose),
        state=last.state,
    )


def aborted(whose: TransactionId, reason: str) -> TransactionAborted:
    return TransactionAborted(
        f"transaction {whose} was aborted: {describe_reason(reason)}",
        hint="none of its messages is visible; repeat it in a new transaction",
        transaction_id=str(whose),
        reason=reason,
    )


def answered_again(last: EndedTransaction, *, is_commit: bool) -> EndedTransaction:
    """Return the same answer for a repeated call; refuse a different decision."""
    if last.reason == FENCED:
        raise ProducerFenced(
            f"transaction {last.whose} was aborted: {describe_reason(FENCED)}",
            hint="call init to go on with this producer",
        )
    if (last.state == "complete_commit") != is_commit:
        raise _over(last)
    return last


def not_open(known: TransactionMetadata) -> TransactionNotOpen:
    return TransactionNotOpen(
        f"producer {known.producer} has no open transaction with epoch {known.epoch}",
        hint="POST /transactions/begin opens one",
        transaction_id=str(known.whose),
        state=known.state,
    )


def refuse_unless_ongoing(known: TransactionMetadata) -> None:
    if known.state == "prepare_abort":
        raise aborted(known.whose, known.reason)
    if known.state == "prepare_commit":
        raise decided_otherwise(known)
    if known.state != "ongoing":
        raise not_open(known)


def decided_otherwise(known: TransactionMetadata) -> GoQueueError:
    """Return the error for an end that is already decided differently."""
    if known.state == "prepare_abort":
        return aborted(known.whose, known.reason)
    return closing(known)


def closing(known: TransactionMetadata) -> TransactionNotOpen:
    return TransactionNotOpen(
        f"transaction {known.whose} is being committed",
        hint="wait for the answer to the commit",
        transaction_id=str(known.whose),
        state=known.state,
    )


def outside_transaction(producer: int) -> TransactionNotOpen:
    """Return the error without the transactional id, which may be that of another tenant."""
    return TransactionNotOpen(
        f"producer {producer} belongs to a transactional id and may publish only in transactions",
        hint="name the transaction with producer_id and epoch, or publish with another producer",
    )


def unnamed_transaction(whose: TransactionId) -> RequestInvalid:
    problem = {"place": "transactional_id", "problem": f"is missing: this node does not coordinate producer {whose[0]}"}
    return RequestInvalid(
        f"transactional_id {problem['problem']}",
        hint="name it: it says which node of the cluster coordinates the transaction",
        problems=[problem],
    )


def foreign_mark(whose: TransactionId, mark: ProducerMark) -> FrameInvalid:
    return FrameInvalid(
        f"a batch has the mark of producer {mark.producer} with epoch {mark.epoch}, which is not in transaction"
        f" {whose}",
        hint="the mark must have the producer and epoch of the transaction, or a member and epoch 0",
    )


def not_members(known: TransactionMetadata, strangers: Sequence[int]) -> RequestInvalid:
    problem = {"place": "members", "problem": f"names {strangers[0]}, which has not joined transaction {known.whose}"}
    return RequestInvalid(
        f"members {problem['problem']}",
        hint="use the producer ids that POST /transactions/join returned",
        problems=[problem],
    )


def too_many_ids() -> TransactionFull:
    return TransactionFull(
        f"there are {TRANSACTIONAL_IDS_MAX} transactional ids already",
        hint="reuse the id after a restart of a producer; unused ids are removed after a week",
    )


def transaction_too_large(record: TransactionMetadata) -> TransactionFull:
    return TransactionFull(
        f"transaction {record.whose} would touch {len(record.partitions)} partitions and {len(record.groups)} groups"
        f" with {len(record.members)} members, together at most {TRANSACTION_PARTICIPANTS_MAX} are allowed",
        hint="commit, and continue in another transaction",
    )
