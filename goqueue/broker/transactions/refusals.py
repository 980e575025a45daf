"""Why a call of a transaction is refused, and what to do then."""

from collections.abc import Sequence

from goqueue.broker.producers import Mark
from goqueue.broker.transactions.records import Ended, Registered
from goqueue.broker.transactions.states import COMPLETE, PREPARED
from goqueue.broker.transactions.whose import Whose
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
    TIMEOUT: "nothing was heard of it for too long",
    FENCED: "another producer has taken its transactional id",
    RESTART: "the broker was restarted before it was committed",
}


def in_words(text: str) -> str:
    """What somebody has said as a reason; it is never taken for one of the broker's own, which mean more."""
    return quoted(text) if text in REASONS else text or ASKED


def why(reason: str) -> str:
    return REASONS.get(reason, reason)


def unknown(whose: Whose, name: str | None, known: Registered | None) -> GoQueueError:
    if known is not None:
        return ProducerFenced(
            f"transactional id {quoted(known.id)} belongs to producer {known.producer}, not to {whose.producer}",
            hint="another producer has taken over, or the number of this one was used up; begin again with init",
            epoch=known.epoch,
        )
    if name is not None:
        sentence = f"there is no transactional id {quoted(name)}"
    else:
        sentence = f"producer {whose.producer} has no transactional id"
    return ProducerNotFound(sentence, hint="POST /producers/init with a transactional_id gives one")


def of_another_epoch(known: Registered, whose: Whose) -> GoQueueError:
    """It is over, or somebody else's; or nobody remembers yet that it has begun."""
    last = known.last
    if known.state in PREPARED and whose.epoch == known.epoch + 1:
        return _not_ended_again(known, whose)
    if whose.producer == known.producer and whose.epoch > known.epoch:
        return _never_given(known, whose)
    if last is not None and last.whose == whose and last.reason != FENCED:
        return _over(last)
    return ProducerFenced(
        f"producer {known.producer} has epoch {known.epoch} by now, this call has {whose.epoch}",
        hint="another producer has taken over this transactional id; only after a new init this one may go on",
        epoch=known.epoch,
    )


def refuse_unless_former(known: Registered, former: Whose) -> None:
    """Whoever had this epoch may go on if nobody has taken over since: it is open still, or has just ended."""
    if known.state in PREPARED and former == Whose(known.producer, known.epoch + 1):
        return  # an answered end gave it, and a crash took the record: `init` waits until the end is redone
    if known.producer == former.producer and former.epoch > known.epoch:
        raise _never_given(known, former)
    last = known.last
    has_ended = known.state in COMPLETE and last is not None and last.whose == former
    if known.whose != former and not has_ended:
        raise ProducerFenced(
            f"transactional id {quoted(known.id)} has {known.whose} by now, and not what follows {former}",
            hint="another producer has taken over; only an init that names no epoch takes it back",
            epoch=known.epoch,
        )


def _never_given(known: Registered, whose: Whose) -> UnknownProducer:
    return UnknownProducer(
        f"epoch {whose.epoch} of producer {whose.producer} was never given out from this data directory, which is at"
        f" {known.epoch}",
        hint="the directory was restored: nothing of this transaction is stored here; begin again with init",
        producer_id=whose.producer,
    )


def _not_ended_again(known: Registered, whose: Whose) -> TransactionPending:
    """An end is answered before its record is durable, since it is found out again after a crash: until then the
    epoch that was given with the answer is not known."""
    return TransactionPending(
        f"transaction {known.whose} is being ended once more, and {whose} can go on behind it",
        hint="ask again in a moment",
        retry_after=1,
    )


def _over(last: Ended) -> GoQueueError:
    if last.state == "complete_abort":
        return aborted(last.whose, last.reason)
    return TransactionNotOpen(
        f"transaction {last.whose} was committed before",
        hint="the answer of the commit says with which epoch the next one begins",
        transaction_id=str(last.whose),
        state=last.state,
    )


def aborted(whose: Whose, reason: str) -> TransactionAborted:
    return TransactionAborted(
        f"transaction {whose} was aborted: {why(reason)}",
        hint="nothing of it is seen by anybody; do it again in a new transaction",
        transaction_id=str(whose),
        reason=reason,
    )


def answered_again(last: Ended, *, is_commit: bool) -> Ended:
    """What was answered the first time, if that was what is asked now."""
    if last.reason == FENCED:
        raise ProducerFenced(
            f"transaction {last.whose} was aborted: {why(FENCED)}",
            hint="only after a new init this producer may go on",
        )
    if (last.state == "complete_commit") != is_commit:
        raise _over(last)
    return last


def not_open(known: Registered) -> TransactionNotOpen:
    return TransactionNotOpen(
        f"producer {known.producer} has begun no transaction with epoch {known.epoch}",
        hint="POST /transactions/begin opens one",
        transaction_id=str(known.whose),
        state=known.state,
    )


def refuse_unless_ongoing(known: Registered) -> None:
    if known.state == "prepare_abort":
        raise aborted(known.whose, known.reason)
    if known.state == "prepare_commit":
        raise decided_otherwise(known)
    if known.state != "ongoing":
        raise not_open(known)


def decided_otherwise(known: Registered) -> GoQueueError:
    """An end that is being carried out already."""
    if known.state == "prepare_abort":
        return aborted(known.whose, known.reason)
    return closing(known)


def closing(known: Registered) -> TransactionNotOpen:
    return TransactionNotOpen(
        f"transaction {known.whose} is being committed",
        hint="wait for the answer to the commit",
        transaction_id=str(known.whose),
        state=known.state,
    )


def outside(known: Registered, producer: int) -> TransactionNotOpen:
    return TransactionNotOpen(
        f"producer {producer} belongs to transactional id {quoted(known.id)} and publishes in transactions only",
        hint="say so with producer_id and epoch, or publish with another producer",
    )


def foreign_mark(whose: Whose, mark: Mark) -> FrameInvalid:
    return FrameInvalid(
        f"a batch has the mark of producer {mark.producer} with epoch {mark.epoch}, which is not of transaction"
        f" {whose}",
        hint="the mark has the producer and the epoch of the transaction, or a member of it and epoch 0",
    )


def no_members(known: Registered, strangers: Sequence[int]) -> RequestInvalid:
    problem = {
        "place": "members",
        "problem": f"names {strangers[0]}, which has not joined transaction {known.whose}",
    }
    return RequestInvalid(
        f"members {problem['problem']}", hint="name what POST /transactions/join has given", problems=[problem]
    )


def too_many_ids() -> TransactionFull:
    return TransactionFull(
        f"there are {TRANSACTIONAL_IDS_MAX} transactional ids already",
        hint="use the same one again after a restart of a producer; those that nobody uses go after a week",
    )


def too_large(record: Registered) -> TransactionFull:
    return TransactionFull(
        f"transaction {record.whose} would touch {len(record.partitions)} partitions and {len(record.groups)} groups"
        f" with {len(record.members)} members, together at most {TRANSACTION_PARTICIPANTS_MAX} are allowed",
        hint="commit, and go on in another one",
    )
