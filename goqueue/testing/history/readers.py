"""What must be true of plain readers: each goes through a log from its beginning, and leaves nothing out."""

from collections.abc import Iterator
from itertools import pairwise

from goqueue.testing.history.events import Seen, Stored
from goqueue.testing.history.report import Violation
from goqueue.testing.history.run import Reading, Run
from goqueue.testing.history.sentences import found, others, place
from goqueue.testing.history.transactions import Transactions


def check_readers(run: Run, transactions: Transactions) -> Iterator[Violation]:
    yield from _once(run)
    for reading in run.readings.values():
        for before, after in pairwise(reading.seen):
            if after.offset <= before.offset:
                yield Violation("backward", f"{found(after)} after offset {before.offset}", (before, after))
        yield from _nothing_is_left_out(run, transactions, reading)


def _nothing_is_left_out(run: Run, transactions: Transactions, reading: Reading) -> Iterator[Violation]:
    """Whoever has read on cannot come back for what is committed later."""
    seen = {event.offset for event in reading.seen}
    last = max(reading.seen, key=lambda event: event.offset)
    log = run.logs[reading.topic, reading.partition]
    left = [
        stored
        for offset, stored in log.stored.items()
        if offset < last.offset and offset not in seen and not transactions.is_void(stored.value_id)
    ]
    if left:
        missed = f"{place(left[0])} ({left[0].value_id}){others(len(left))}"
        sentence = f"{reading.reader} never read {missed}, and went on to {last.offset}"
        yield Violation("unseen", sentence, (*left, last))


def _once(run: Run) -> Iterator[Violation]:
    """A message of a transaction is at one place, even if only those saw it who read what is not committed."""
    first: dict[str, Stored | Seen] = {}
    told: set[tuple[str, str, int, int]] = set()
    for reading in run.readings.values():
        log = run.logs[reading.topic, reading.partition]
        for event in reading.seen:
            transaction = run.transaction_of(event.value_id)
            if transaction is None or log.stored.get(event.offset) is not None:
                continue  # what is stored in the end is compared there
            before = first.setdefault(event.value_id, run.places.get(event.value_id, event))
            key = event.value_id, event.topic, event.partition, event.offset
            if place(before) != place(event) and key not in told:
                told.add(key)
                sentence = f"{event.value_id} of {transaction} was read twice, at {place(before)} and at {place(event)}"
                yield Violation("duplicate", sentence, (before, event))
