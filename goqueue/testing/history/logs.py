"""What must be true of the logs: what was answered is in them, once, and nothing else was ever handed out."""

from collections.abc import Iterator

from goqueue.testing.history.events import Event, Published, Received, Stored
from goqueue.testing.history.report import Violation
from goqueue.testing.history.run import Log, Run


def check_logs(run: Run, *, idempotent: bool) -> Iterator[Violation]:
    for answer in run.published.values():
        yield from _answer_holds(run, answer)
    for log in run.logs.values():
        yield from _adds_up(log)
    if idempotent:
        for first, again in run.stored_again:
            sentence = f"{again.value_id} is stored twice, at {_place(first)} and at {_place(again)}"
            yield Violation("duplicated_store", sentence, (first, again))
    yield from _phantoms(run)


def _answer_holds(run: Run, answer: Published) -> Iterator[Violation]:
    log = run.logs[answer.topic, answer.partition]
    said = f"{answer.value_id} was answered as {_place(answer)}"
    there, elsewhere = log.stored.get(answer.offset), run.places.get(answer.value_id)
    if there is not None and there.value_id != answer.value_id:
        yield Violation("disagreement", f"{said}, where the log holds {there.value_id}", (answer, there))
    elif there is None and elsewhere is not None:
        yield Violation("disagreement", f"{said}, and is stored at {_place(elsewhere)}", (answer, elsewhere))
    elif there is None and log.end is not None:
        yield Violation("lost", f"{said}, and is not stored", (answer, log.end))


def _adds_up(log: Log) -> Iterator[Violation]:
    for before, after in log.changed:
        sentence = f"{_place(after)} was read as {before.value_id} and as {after.value_id}"
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


def _unfounded(run: Run) -> Iterator[tuple[Stored | Received, tuple[str, tuple[Event, ...]]]]:
    for track in run.tracks.values():
        log = run.logs.get((track.topic, track.partition))
        for event in track.received:
            if log is not None and (problem := _unfounded_delivery(run, log, event)):
                yield event, problem
    for log in run.logs.values():
        for stored in log.stored.values():
            if stored.value_id not in run.sent:
                yield stored, (f"{_place(stored)} holds {stored.value_id}, which nobody sent", (stored,))


def _unfounded_delivery(run: Run, log: Log, event: Received) -> tuple[str, tuple[Event, ...]] | None:
    """What is wrong with a delivery. Where the answer to the publish says the same, the log is wrong instead."""
    there = log.stored.get(event.offset)
    if event.value_id not in run.sent:
        return f"{event.member} received {event.value_id} at {_place(event)}, which nobody sent", (event,)
    if there is not None and there.value_id == event.value_id:
        return None
    if (event.value_id, event.topic, event.partition, event.offset) in run.published:
        return None
    said = f"{event.member} received {event.value_id} at {_place(event)}"
    if there is not None:
        return f"{said}, where the log holds {there.value_id}", (event, there)
    return (f"{said}, where the log holds nothing", (event, log.end)) if log.end is not None else None


def _place(event: Published | Stored | Received) -> str:
    return f"{event.topic}/{event.partition}/{event.offset}"
