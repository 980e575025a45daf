"""What must be true of the logs: what was answered is in them, once, and nothing else was ever handed out."""

from collections.abc import Iterator

from goqueue.testing.history.events import Event, Published, Received, Scheduled, Seen, Stored
from goqueue.testing.history.report import Kind, Violation
from goqueue.testing.history.run import Log, Run
from goqueue.testing.history.sentences import found, place


def check_logs(run: Run, *, idempotent: bool) -> Iterator[Violation]:
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


def _answer_holds(run: Run, answer: Published) -> Iterator[Violation]:
    log = run.logs[answer.topic, answer.partition]
    said = f"{answer.value_id} was answered as {place(answer)}"
    there, elsewhere = log.stored.get(answer.offset), run.places.get(answer.value_id)
    if there is not None and there.value_id != answer.value_id:
        yield Violation("disagreement", f"{said}, where the log holds {there.value_id}", (answer, there))
    elif there is None and elsewhere is not None:
        yield Violation("disagreement", f"{said}, and is stored at {place(elsewhere)}", (answer, elsewhere))
    elif there is None and log.end is not None and not _may_be_missing(run, answer.value_id):
        yield Violation("lost", f"{said}, and is not stored", (answer, log.end))


def _scheduled_came(run: Run, scheduled: Scheduled) -> Iterator[Violation]:
    value, topic = scheduled.value_id, scheduled.topic
    if value in run.places or _may_be_missing(run, value) or not run.is_read_out(topic):
        return
    yield Violation("lost", f"{value} was answered as delayed for {topic}, and never came", (scheduled,))


def _may_be_missing(run: Run, value_id: str) -> bool:
    """Damage took it; or it is of a transaction, of which all is judged together."""
    return value_id in run.damaged or run.transaction_of(value_id) is not None


def _stored_twice(run: Run, first: Stored, again: Stored) -> Violation:
    transaction = run.transaction_of(again.value_id)
    kind: Kind = "duplicated_store" if transaction is None else "duplicate"
    whose = "" if transaction is None else f" of {transaction}"
    sentence = f"{again.value_id}{whose} is stored twice, at {place(first)} and at {place(again)}"
    return Violation(kind, sentence, (first, again))


def _adds_up(log: Log) -> Iterator[Violation]:
    for before, after in log.changed:
        sentence = f"{place(after)} was read as {before.value_id} and as {after.value_id}"
        yield Violation("disagreement", sentence, (before, after))
    if log.end is None:
        if log.mentioned is not None:
            yield Violation("total", f"{log} was not read to its end, so it cannot be checked", (log.mentioned,))
        return
    beyond = [stored for offset, stored in log.stored.items() if offset >= log.end.end_offset]
    if beyond:
        sentence = f"{log} ends at {log.end.end_offset}, and {len(beyond):,} messages are behind that"
        yield Violation("total", sentence, (log.end, *beyond))


def _phantoms(run: Run) -> Iterator[Violation]:
    """Each value at each place is told once, however often it was delivered."""
    told: set[tuple[str, str, int, int]] = set()
    for event, problem in _unfounded(run):
        key = event.value_id, event.topic, event.partition, event.offset
        if key not in told:
            told.add(key)
            yield Violation("phantom", *problem)


def _unfounded(run: Run) -> Iterator[tuple[Stored | Received | Seen, tuple[str, tuple[Event, ...]]]]:
    for event in _on_the_way(run):
        if problem := _unfounded_delivery(run, run.logs[event.topic, event.partition], event):
            yield event, problem
    for log in run.logs.values():
        for stored in log.stored.values():
            if stored.value_id not in run.sent:
                yield stored, (f"{place(stored)} holds {stored.value_id}, which nobody sent", (stored,))


def _on_the_way(run: Run) -> Iterator[Received | Seen]:
    for track in run.tracks.values():
        yield from track.received
    for reading in run.readings.values():
        yield from reading.seen


def _unfounded_delivery(run: Run, log: Log, event: Received | Seen) -> tuple[str, tuple[Event, ...]] | None:
    """What is wrong with a delivery. Where the answer to the publish says the same, the log is wrong instead."""
    there, said = log.stored.get(event.offset), found(event)
    if event.value_id not in run.sent:
        return f"{said}, which nobody sent", (event,)
    if there is not None and there.value_id == event.value_id:
        return None
    if (event.value_id, event.topic, event.partition, event.offset) in run.published:
        return None
    if there is not None:
        return f"{said}, where the log holds {there.value_id}", (event, there)
    if log.end is None or _may_be_missing(run, event.value_id):
        return None
    return f"{said}, where the log holds nothing", (event, log.end)
