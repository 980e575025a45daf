"""The rules, applied to a whole history."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from goqueue.testing.history.events import (
    Event,
    PublishedEvent,
    ReceivedEvent,
    ScheduledEvent,
    SeenEvent,
    StoredEvent,
    describe_finder,
    describe_others,
    describe_place,
)
from goqueue.testing.history.groups import GroupChecker, TransactionEvidence, check_key_order, check_ownership
from goqueue.testing.history.model import LogHistory, ReaderHistory, RunHistory
from goqueue.testing.history.report import EventCounts, HistoryReport, Violation, ViolationKind
from goqueue.testing.history.transactions import TransactionOutcomes, check_transactions


def check(events: Iterable[Event], *, idempotent: bool = True, in_order: bool = True) -> HistoryReport:
    """Everything that is wrong with a run.

    Without `idempotent` a value may be stored twice, as a producer whose retries are not known again may do; without
    `in_order` first deliveries may come in any order, as they do with several priorities.
    """
    run = RunHistory(events)
    transactions, hints = TransactionOutcomes(run), TransactionEvidence()
    counts = _count(run)
    violations = [
        *check_logs(run, idempotent=idempotent),
        *check_transactions(run, transactions),
        *check_readers(run, transactions),
        *check_ownership(run),
        *check_key_order(run),
    ]
    for track in run.tracks.values():
        log = run.logs.get((track.topic, track.partition)) or LogHistory(track.topic, track.partition)
        checker = GroupChecker(track, log, transactions)
        checker.count(counts)
        checker.hint(hints)
        violations += checker.check(in_order=in_order)
    return HistoryReport([*violations, *hints.check()], counts)


def _count(run: RunHistory) -> EventCounts:
    """Count everything but groups."""
    outcomes = [transaction.outcome for transaction in run.transactions.values()]
    return EventCounts(
        events=run.events,
        sent=len(run.sent),
        published=len(run.published),
        stored=sum(len(log.stored) for log in run.logs.values()),
        seen=sum(len(reading.seen) for reading in run.readings.values()),
        transactions=len(outcomes),
        committed=outcomes.count("committed"),
        aborted=outcomes.count("aborted"),
    )


# --- logs: every answered message is stored once, and nothing else is ever delivered ---


def check_logs(run: RunHistory, *, idempotent: bool) -> Iterator[Violation]:
    for answer in run.published.values():
        yield from _answer_holds(run, answer)
    for scheduled in run.scheduled.values():
        yield from _scheduled_came(run, scheduled)
    for log in run.logs.values():
        yield from _adds_up(log)
    if idempotent:
        for first, again in run.stored_again:
            yield _stored_twice(run, first, again)
    yield from _phantoms(run)


def _answer_holds(run: RunHistory, answer: PublishedEvent) -> Iterator[Violation]:
    log = run.logs[answer.topic, answer.partition]
    said = f"{answer.value_id} was answered as {describe_place(answer)}"
    there, elsewhere = log.stored.get(answer.offset), run.places.get(answer.value_id)
    if there is not None and there.value_id != answer.value_id:
        yield Violation("disagreement", f"{said}, where the log holds {there.value_id}", (answer, there))
    elif there is None and elsewhere is not None:
        yield Violation("disagreement", f"{said}, and is stored at {describe_place(elsewhere)}", (answer, elsewhere))
    elif there is None and log.end is not None and not _may_be_missing(run, answer.value_id):
        yield Violation("lost", f"{said}, and is not stored", (answer, log.end))


def _scheduled_came(run: RunHistory, scheduled: ScheduledEvent) -> Iterator[Violation]:
    value, topic = scheduled.value_id, scheduled.topic
    if value in run.places or _may_be_missing(run, value) or not run.is_read_out(topic):
        return
    yield Violation("lost", f"{value} was answered as delayed for {topic}, and never came", (scheduled,))


def _may_be_missing(run: RunHistory, value_id: str) -> bool:
    """Damage took it; or it is of a transaction, of which all is judged together."""
    return value_id in run.damaged or run.transaction_of(value_id) is not None


def _stored_twice(run: RunHistory, first: StoredEvent, again: StoredEvent) -> Violation:
    transaction = run.transaction_of(again.value_id)
    kind: ViolationKind = "duplicated_store" if transaction is None else "duplicate"
    whose = "" if transaction is None else f" of {transaction}"
    sentence = f"{again.value_id}{whose} is stored twice, at {describe_place(first)} and at {describe_place(again)}"
    return Violation(kind, sentence, (first, again))


def _adds_up(log: LogHistory) -> Iterator[Violation]:
    for before, after in log.changed:
        sentence = f"{describe_place(after)} was read as {before.value_id} and as {after.value_id}"
        yield Violation("disagreement", sentence, (before, after))
    if log.end is None:
        if log.mentioned is not None:
            yield Violation("total", f"{log} was not read to its end, so it cannot be checked", (log.mentioned,))
        return
    beyond = [stored for offset, stored in log.stored.items() if offset >= log.end.end_offset]
    if beyond:
        sentence = f"{log} ends at {log.end.end_offset}, and {len(beyond):,} messages are behind that"
        yield Violation("total", sentence, (log.end, *beyond))


def _phantoms(run: RunHistory) -> Iterator[Violation]:
    """Each value at each place is told once, however often it was delivered."""
    told: set[tuple[str, str, int, int]] = set()
    for event, problem in _unfounded(run):
        key = event.value_id, event.topic, event.partition, event.offset
        if key not in told:
            told.add(key)
            yield Violation("phantom", *problem)


def _unfounded(
    run: RunHistory,
) -> Iterator[tuple[StoredEvent | ReceivedEvent | SeenEvent, tuple[str, tuple[Event, ...]]]]:
    for event in _on_the_way(run):
        if problem := _unfounded_delivery(run, run.logs[event.topic, event.partition], event):
            yield event, problem
    for log in run.logs.values():
        for stored in log.stored.values():
            if stored.value_id not in run.sent:
                yield stored, (f"{describe_place(stored)} holds {stored.value_id}, which was never sent", (stored,))


def _on_the_way(run: RunHistory) -> Iterator[ReceivedEvent | SeenEvent]:
    for track in run.tracks.values():
        yield from track.received
    for reading in run.readings.values():
        yield from reading.seen


def _unfounded_delivery(
    run: RunHistory, log: LogHistory, event: ReceivedEvent | SeenEvent
) -> tuple[str, tuple[Event, ...]] | None:
    """Return what is wrong with a delivery. Where the answer to the publish says the same, the log is wrong instead."""
    there, said = log.stored.get(event.offset), describe_finder(event)
    if event.value_id not in run.sent:
        return f"{said}, which was never sent", (event,)
    if there is not None and there.value_id == event.value_id:
        return None
    if (event.value_id, event.topic, event.partition, event.offset) in run.published:
        return None
    if there is not None:
        return f"{said}, where the log holds {there.value_id}", (event, there)
    if log.end is None or _may_be_missing(run, event.value_id):
        return None
    return f"{said}, where the log holds nothing", (event, log.end)


# --- plain readers: each reads a log from its beginning and skips nothing ---


def check_readers(run: RunHistory, transactions: TransactionOutcomes) -> Iterator[Violation]:
    yield from _once(run)
    for reading in run.readings.values():
        for before, after in pairwise(reading.seen):
            if after.offset <= before.offset:
                yield Violation("backward", f"{describe_finder(after)} after offset {before.offset}", (before, after))
        yield from _nothing_is_left_out(run, transactions, reading)


def _nothing_is_left_out(
    run: RunHistory, transactions: TransactionOutcomes, reading: ReaderHistory
) -> Iterator[Violation]:
    """A client that has read on cannot come back for what is committed later."""
    seen = {event.offset for event in reading.seen}
    last = max(reading.seen, key=lambda event: event.offset)
    log = run.logs[reading.topic, reading.partition]
    left = [
        stored
        for offset, stored in log.stored.items()
        if offset < last.offset and offset not in seen and not transactions.is_void(stored.value_id)
    ]
    if left:
        missed = f"{describe_place(left[0])} ({left[0].value_id}){describe_others(len(left))}"
        sentence = f"{reading.reader} never read {missed}, and went on to {last.offset}"
        yield Violation("unseen", sentence, (*left, last))


def _once(run: RunHistory) -> Iterator[Violation]:
    """A message of a transaction is at one place, even if only those saw it who read what is not committed."""
    first: dict[str, StoredEvent | SeenEvent] = {}
    told: set[tuple[str, str, int, int]] = set()
    for reading in run.readings.values():
        log = run.logs[reading.topic, reading.partition]
        for event in reading.seen:
            transaction = run.transaction_of(event.value_id)
            if transaction is None or log.stored.get(event.offset) is not None:
                continue  # what is stored in the end is compared there
            before = first.setdefault(event.value_id, run.places.get(event.value_id, event))
            key = event.value_id, event.topic, event.partition, event.offset
            if describe_place(before) != describe_place(event) and key not in told:
                told.add(key)
                places = f"{describe_place(before)} and at {describe_place(event)}"
                sentence = f"{event.value_id} of {transaction} was read twice, at {places}"
                yield Violation("duplicate", sentence, (before, event))
