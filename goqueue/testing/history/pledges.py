"""What transactions acknowledge in one place: it is done with when they take effect, and never was when they do not."""

from collections.abc import Iterator, Sequence

from goqueue.testing.history.cover import first_covering
from goqueue.testing.history.events import Ack, Acked, Acking, Event, Settling
from goqueue.testing.history.report import Violation
from goqueue.testing.history.run import Log, Track
from goqueue.testing.history.sentences import others
from goqueue.testing.history.transactions import Transactions


class Pledges:
    """The acks of one track that are part of transactions, by what became of those."""

    def __init__(self, track: Track, transactions: Transactions) -> None:
        self._track = track
        self._transactions = transactions
        self.kept: list[Ack] = []
        """Of those that took effect, in the order of their `since_ns`."""
        self.open: list[Ack] = []
        """They may have had their effect; nobody can tell."""
        self.void: list[Ack] = []
        lists = {True: self.kept, None: self.open, False: self.void}
        for event in track.pledged:
            lists[transactions.took_effect(event.transaction)].append(event)
        self.kept.sort(key=self.since_ns)

    def since_ns(self, event: Settling) -> int:
        """When it was known that what is acked is not handed out any more."""
        if isinstance(event, Acking):  # its answer is not known, but that of the transaction is
            return self._transactions.since_ns(event.transaction)
        return event.at_ns

    def alone(self, offsets: Sequence[int]) -> dict[int, Ack]:
        """Which of the rising offsets one open transaction acked, and no other one."""
        together = sorted(self.open, key=lambda event: event.transaction)
        first, last = first_covering(offsets, together), first_covering(offsets, reversed(together))
        return {offset: one for offset, one in first.items() if one.transaction == last[offset].transaction}

    def answered(self, offsets: Sequence[int]) -> dict[int, Ack]:
        """Of each of the rising offsets the first answer to an ack in an open transaction."""
        return first_covering(offsets, [event for event in self.open if isinstance(event, Acked)])

    def twice(self, offsets: Sequence[int]) -> dict[int, tuple[Ack, Ack]]:
        """Which of the rising offsets were acked by two transactions that took effect.

        With those of each transaction together, the first and the last that hold an offset differ if any two do.
        """
        together = sorted(
            self.kept, key=lambda event: (self._transactions.since_ns(event.transaction), event.transaction)
        )
        first, last = first_covering(offsets, together), first_covering(offsets, reversed(together))
        return {
            offset: (one, last[offset]) for offset, one in first.items() if one.transaction != last[offset].transaction
        }


class Hints:
    """What its inputs tell of a transaction of which nothing else does: it took effect, or it did not."""

    def __init__(self) -> None:
        self._done: dict[str, tuple[str, tuple[Event, ...]]] = {}
        self._given_back: dict[str, tuple[str, tuple[Event, ...]]] = {}

    def done(self, name: str, sentence: str, *events: Event) -> None:
        self._done.setdefault(name, (sentence, events))

    def given_back(self, name: str, sentence: str, *events: Event) -> None:
        self._given_back.setdefault(name, (sentence, events))

    def check(self) -> Iterator[Violation]:
        for name, (done, proofs) in self._done.items():
            if name in self._given_back:
                given_back, others = self._given_back[name]
                yield Violation("torn_transaction", f"{done}, and {given_back}", (*proofs, *others))


def check_twice(track: Track, log: Log, twice: dict[int, tuple[Ack, Ack]]) -> Iterator[Violation]:
    """Each two transactions are told once, with the first offset that they share."""
    pairs: dict[tuple[str, str], list[int]] = {}
    for offset, (one, other) in twice.items():
        pairs.setdefault((one.transaction, other.transaction), []).append(offset)
    for (one_name, other_name), offsets in pairs.items():
        stored = log.stored.get(offsets[0])
        value = f" ({stored.value_id})" if stored is not None else ""
        sentence = (
            f"{track.group} has done {track}/{offsets[0]}{value} twice{others(len(offsets))}: "
            f"{one_name} and {other_name} acked it, and both took effect"
        )
        yield Violation("duplicate", sentence, twice[offsets[0]])
