"""Which transactions took effect, as far as that can be known from what was asked, answered and read.

One that was committed did, and one that was aborted, or whose commit nobody asked for, did not. Of a commit without an
answer only the logs tell: if a committed reader found any of its messages, all of them have to be there; if all were
looked for and one is missing, none may be.
"""

from collections.abc import Iterator

from goqueue.testing.history.events import Publishing, Received, Seen, Stored
from goqueue.testing.history.run import Run, Transaction

Read = Stored | Received | Seen


class Transactions:
    """All transactions of a run, and what committed readers saw of them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._read_out = {log.topic: run.is_read_out(log.topic) for log in run.logs.values()}
        self._shown: dict[str, Read] = {}
        """The first that a committed reader saw of a transaction, when it might be committed."""
        self.untimely: list[tuple[Transaction, Read]] = []
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

    def _effect(self, transaction: Transaction) -> bool | None:
        if transaction.outcome != "unknown":
            return transaction.outcome == "committed"
        if transaction.name in self._shown:
            return True
        return False if self.missing(transaction) else None

    def took_effect(self, name: str) -> bool | None:
        """None where nobody can tell."""
        return self._effects[name]

    def is_void(self, value_id: str) -> bool:
        """Whether a value is of a transaction that did not take effect, so that nobody has to find it."""
        transaction = self._run.transaction_of(value_id)
        return transaction is not None and self._effects[transaction.name] is False

    def since_ns(self, name: str) -> int:
        """When it is known that one that took effect had done so."""
        committed, shown = self._run.transactions[name].committed, self._shown.get(name)
        return min(event.at_ns for event in (committed, shown) if event is not None)

    def shown(self, name: str) -> Read | None:
        """What proves that some of it is there."""
        return self._shown.get(name)

    def missing(self, transaction: Transaction) -> list[Publishing]:
        """Those of its messages that were looked for at the end and are in no log of their topic."""
        return [
            sent
            for sent in transaction.sent
            if sent.value_id not in self._run.places
            and sent.value_id not in self._run.damaged
            and self._read_out.get(sent.topic, False)
        ]


def _committed_reads(run: Run) -> Iterator[Read]:
    for track in run.tracks.values():
        yield from (event for event in track.received if event.isolation == "read_committed")
    for reading in run.readings.values():
        yield from (event for event in reading.seen if event.isolation == "read_committed")
    for log in run.logs.values():
        yield from log.stored.values()
