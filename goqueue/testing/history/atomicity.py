"""What must be true of transactions: all of one is there or nothing, and nobody sees it before its time."""

from collections.abc import Iterator

from goqueue.testing.history.events import Event, Publishing
from goqueue.testing.history.report import Violation
from goqueue.testing.history.run import Run, Transaction
from goqueue.testing.history.sentences import found, others, place
from goqueue.testing.history.transactions import Transactions


def check_transactions(run: Run, transactions: Transactions) -> Iterator[Violation]:
    yield from _untimely(run, transactions)
    for transaction in run.transactions.values():
        committed, aborted = transaction.committed, transaction.aborted
        if committed is not None and aborted is not None:
            sentence = f"{transaction} was answered as committed and as aborted"
            yield Violation("torn_transaction", sentence, (committed, aborted))
        elif transactions.took_effect(transaction.name):
            yield from _all_is_there(run, transactions, transaction)


def _untimely(run: Run, transactions: Transactions) -> Iterator[Violation]:
    """Each value at each place is told once, however often it was found there."""
    told: set[tuple[str, str, int, int]] = set()
    for transaction, event in transactions.untimely:
        key = event.value_id, event.topic, event.partition, event.offset
        if key in told:
            continue
        told.add(key)
        said = f"{found(event)}, of {transaction}"
        if transaction.aborted is not None:
            yield Violation("aborted_read", f"{said}, which was aborted", (transaction.aborted, event))
        elif transaction.asked is not None:
            yield Violation("uncommitted_read", f"{said}, before its commit was asked for", (event, transaction.asked))
        else:
            sentence = f"{said}, whose commit nobody asked for"
            yield Violation("uncommitted_read", sentence, (run.sent[event.value_id], event))


def _all_is_there(run: Run, transactions: Transactions, transaction: Transaction) -> Iterator[Violation]:
    missing = transactions.missing(transaction)
    asked, shown = transaction.committed or transaction.asked, transactions.shown(transaction.name)
    proofs: tuple[Event, ...] = (asked,) if asked is not None else ()
    if missing and shown is not None:
        first = f"{_message(run, missing[0])} is not stored{others(len(missing))}"
        sentence = f"{found(shown)}, of {transaction}, and {first}"
        yield Violation("torn_transaction", sentence, (*proofs, shown, *missing))
    elif missing:
        for sent in missing:
            sentence = f"{transaction} was committed, and {_message(run, sent)} is not stored"
            yield Violation("lost_write", sentence, (sent, *proofs))


def _message(run: Run, sent: Publishing) -> str:
    """A message, and where it should be."""
    answer = run.answers.get(sent.value_id)
    return f"its {sent.value_id} for {sent.topic if answer is None else place(answer)}"
