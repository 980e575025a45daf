"""Messages that break the schemas of their topic: which of a refused batch they are, and the batch without them.

The broker refuses a batch as a whole and stores nothing of it. A batch of a producer has messages of several callers,
so only those that are named fail, and the others are sent again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from goqueue.client.delivery import SendBatch
from goqueue.client.section_encoding import fields_of
from goqueue.errors import GoQueueError, SchemaViolation


def errors_by_message(error: SchemaViolation, count: int) -> dict[int, GoQueueError]:
    """Return the error of each message that a refusal names; none if it does not fit a batch of so many."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in _listed(error, "problems", dict):
        rows.setdefault(row.get("index", -1), []).append(row)
    indexes = {*rows, *_listed(error, "invalid_indexes", int)}
    if not all(isinstance(index, int) and 0 <= index < count for index in indexes):
        return {}
    return {index: _error_of(error, rows.get(index, [])) for index in sorted(indexes)}


def _listed(error: SchemaViolation, name: str, kind: type) -> Iterable[Any]:
    found = error.details.get(name)
    return [one for one in found if isinstance(one, kind)] if isinstance(found, list) else ()


def _error_of(error: SchemaViolation, rows: list[dict[str, Any]]) -> SchemaViolation:
    problems = [{**row, "place": str(row.get("place", "")).rpartition(".")[2]} for row in rows]
    for one in problems:
        del one["index"]
    sentence = "the message does not match the schemas of its topic"
    if problems:
        first = problems[0]
        at = f" at {first['path']}:" if first.get("path") else ":" if "schema_id" in first else ""
        sentence = f"the {first['place']}{at} {first.get('problem', '')}"
    topic = error.details.get("topic")
    return SchemaViolation(sentence, hint=error.hint, topic=topic, messages=1, invalid=1, problems=problems)


def without_messages(batch: SendBatch, gone: Mapping[int, object]) -> SendBatch | None:
    """Return a batch of the other messages of an opened one, or None if there are none."""
    kept = [index for index in range(batch.count) if index not in gone]
    if not kept:
        return None
    rest = replace(batch, callbacks=[], waiters=[], looked=set(), wholes=[], adopted=set(), parts=None)
    rest.frames = [batch.frames[index] for index in kept]
    rest.dues = [batch.dues[index] for index in kept] if batch.dues else []
    rest.fixed = {number for number, index in enumerate(kept) if index in batch.fixed}
    rest.origin = fields_of(rest.frames[0])
    rest.count, rest.size = len(kept), sum(map(len, rest.frames))
    rest.identity = None
    return rest


def divide_by_errors(batch: SendBatch, rest: SendBatch | None, errors: Mapping[int, GoQueueError]) -> None:
    """Leave the messages of a batch to their errors, and to the batch of the others."""
    slots, number = [], 0
    for index in range(batch.count):
        error = errors.get(index)
        if error is None:
            assert rest is not None, "it has all messages without an error"
            slots.append((rest, number))
            number += 1
            continue
        failed = replace(batch, callbacks=[], waiters=[], looked=set(), wholes=[], adopted=set(), parts=None)
        failed.count, failed.dues = 1, batch.dues[index : index + 1]
        failed.settle(error)
        slots.append((failed, 0))
    batch.divide(slots)
