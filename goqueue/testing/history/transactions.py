"""Transactions: all or nothing is stored, and no client reads it early.

What became of them is known as far as requests, answers and reads tell. A committed one took effect; one that was
aborted, or whose commit was never requested, did not. Of a commit without an answer only the logs tell: if a committed
reader found any of its messages, all of them have to be there; if all were looked for and one is missing, none may be.
"""

from collections.abc import Iterator

from goqueue.testing.history.events import (
    Event,
    PublishSentEvent,
    ReceivedEvent,
    SeenEvent,
    StoredEvent,
    describe_finder,
    describe_others,
    describe_place,
)
from goqueue.testing.history.model import RunHistory, TransactionHistory
from goqueue.testing.history.report import Violation

Read = StoredEvent | ReceivedEvent | SeenEvent


class TransactionOutcomes:
    """All transactions of a run, and what committed readers saw of them."""

    def __init__(self, run: RunHistory) -> None:
        self._run = run
        self._read_out = {log.topic: run.is_read_out(log.topic) for log in run.logs.values()}
        self._shown: dict[str, Read] = {}
        """The first that a committed reader saw of a transaction, when it might be committed."""
        self.untimely: list[tuple[TransactionHistory, Read]] = []
        """What a committed reader must not have seen."""
        for event in _committed_reads(run) if run.transactions else ():
            self._note(event)
        self._effects = {transaction.name: self._effect(transaction) for transaction in run.transactions.values()}

    def _note(self, event: Read) -> None:
        transaction = self._run.transaction_of(event.value_id)
        if transaction is None:
            return
        asked = transaction.asked
        if transaction.outcome == "aborted" or (asked is not None and event.at_ns < asked.at_ns):
            self.untimely.append((transaction, event))
            return
        before = self._shown.get(transaction.name)
        if before is None or event.at_ns < before.at_ns:
            self._shown[transaction.name] = event

    def _effect(self, transaction: TransactionHistory) -> bool | None:
        if transaction.outcome != "unknown":
            return transaction.outcome == "committed"
        if transaction.name in self._shown:
            return True
        return False if self.missing(transaction) else None

    def took_effect(self, name: str) -> bool | None:
        """None where it is unknown."""
        return self._effects[name]

    def is_void(self, value_id: str) -> bool:
        """Return whether a value is of a transaction that did not take effect, so that no client has to find it."""
        transaction = self._run.transaction_of(value_id)
        return transaction is not None and self._effects[transaction.name] is False

    def since_ns(self, name: str) -> int:
        """When it is known that one that took effect had done so."""
        committed, shown = self._run.transactions[name].committed, self._shown.get(name)
        return min(event.at_ns for event in (committed, shown) if event is not None)

    def shown(self, name: str) -> Read | None:
        """Return what proves that some of it is there."""
        return self._shown.get(name)

    def missing(self, transaction: TransactionHistory) -> list[PublishSentEvent]:
        """Those of its messages that were looked for at the end and are in no log of their topic."""
        return [
            sent
            for sent in transaction.sent
            if sent.value_id not in self._run.places
            and sent.value_id not in self._run.damaged
            and self._read_out.get(sent.topic, False)
        ]


def _committed_reads(run: RunHistory) -> Iterator[Read]:
    for track in run.tracks.values():
        yield from (event for event in track.received if event.isolation == "read_committed")
    for reading in run.readings.values():
        yield from (event for event in reading.seen if event.isolation == "read_committed")
    for log in run.logs.values():
        yield from log.stored.values()


# --- rules ---


def check_transactions(run: RunHistory, transactions: TransactionOutcomes) -> Iterator[Violation]:
    yield from _untimely(run, transactions)
    for transaction in run.transactions.values():
        committed, aborted = transaction.committed, transaction.aborted
        if committed is not None and aborted is not None:
            sentence = f"{transaction} was answered as committed and as aborted"
            yield Violation("torn_transaction", sentence, (committed, aborted))
        elif transactions.took_effect(transaction.name):
            yield from _all_is_there(run, transactions, transaction)


def _untimely(run: RunHistory, transactions: TransactionOutcomes) -> Iterator[Violation]:
    """Each value at each place is told once, however often it was found there."""
    told: set[tuple[str, str, int, int]] = set()
    for transaction, event in transactions.untimely:
        key = event.value_id, event.topic, event.partition, event.offset
        if key in told:
            continue
        told.add(key)
        said = f"{describe_finder(event)}, of {transaction}"
        if transaction.aborted is not None:
            yield Violation("aborted_read", f"{said}, which was aborted", (transaction.aborted, event))
        elif transaction.asked is not None:
            yield Violation("uncommitted_read", f"{said}, before its commit was asked for", (event, transaction.asked))
        else:
            sentence = f"{said}, whose commit was never requested"
            yield Violation("uncommitted_read", sentence, (run.sent[event.value_id], event))


def _all_is_there(
    run: RunHistory, transactions: TransactionOutcomes, transaction: TransactionHistory
) -> Iterator[Violation]:
    missing = transactions.missing(transaction)
    asked, shown = transaction.committed or transaction.asked, transactions.shown(transaction.name)
    proofs: tuple[Event, ...] = (asked,) if asked is not None else ()
    if missing and shown is not None:
        first = f"{_message(run, missing[0])} is not stored{describe_others(len(missing))}"
        sentence = f"{describe_finder(shown)}, of {transaction}, and {first}"
        yield Violation("torn_transaction", sentence, (*proofs, shown, *missing))
    elif missing:
        for sent in missing:
            sentence = f"{transaction} was committed, and {_message(run, sent)} is not stored"
            yield Violation("lost_write", sentence, (sent, *proofs))


def _message(run: RunHistory, sent: PublishSentEvent) -> str:
    """A message, and where it should be."""
    answer = run.answers.get(sent.value_id)
    return f"its {sent.value_id} for {sent.topic if answer is None else describe_place(answer)}"
