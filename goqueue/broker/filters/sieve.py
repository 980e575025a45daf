"""Which messages fit: filters that all have to hold, those first that cost least.

Each filter narrows down a whole batch before the next one begins. One that needs certain bytes to be there looks for
them in the batch at once: where they are nowhere, no message is looked at.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from goqueue.broker.filters import conditions
from goqueue.broker.filters.batch import Batch, Column, Place
from goqueue.broker.filters.grammar import FIELDS, ORDER, THERE, Filter
from goqueue.broker.filters.path import Absence, Path

Holds = Callable[[Any], bool]


_COLUMNS: dict[str, Callable[[Batch, list[Place]], Column]] = {
    "priority": Batch.priorities,
    "key": Batch.keys,
    "header": Batch.headers,
    "value": Batch.values,
    "json": Batch.values,
}
"""Where a filter finds what it looks at."""

assert _COLUMNS.keys() == FIELDS.keys()


class _Test:
    """One filter at work."""

    def __init__(self, wanted: Filter) -> None:
        self._holds = _holds(wanted)
        self._column = _COLUMNS[wanted.field]
        self._needle = _needle(wanted)
        self._reads_value = FIELDS[wanted.field].reads_value

    def pass_on(self, batch: Batch, places: list[Place]) -> list[Place]:
        """Those of these messages that fit."""
        is_plain = not (self._reads_value and batch.has_packed)
        if self._needle and is_plain and batch.lacks(self._needle):
            return []
        places, contents = self._column(batch, places)
        holds = self._holds
        return [place for place, content in zip(places, contents, strict=True) if holds(content)]


class Sieve:
    """Filters that all have to hold; without any, every message fits."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        self.filters = tuple(sorted(filters, key=lambda wanted: wanted.rank))
        self._tests = [_Test(wanted) for wanted in self.filters]

    def sift(self, batch: Batch) -> list[Place]:
        """Where there are messages that fit, up to the end of what may be looked at; that end may come nearer."""
        places = batch.messages
        for test in self._tests:
            places = test.pass_on(batch, [place for place in places if place < batch.end])
        return [place for place in places if place < batch.end]

    def __repr__(self) -> str:
        return f"<Sieve {' and '.join(map(str, self.filters)) or 'of nothing'}>"


NO_FILTERS = Sieve(())


def _holds(wanted: Filter) -> Holds:
    if wanted.field == "priority":
        return conditions.of_priority(wanted)
    if wanted.field == "header":
        return _of_headers(wanted)
    if wanted.field == "json":
        return _of_json(wanted)
    return _turned(conditions.of_bytes(wanted), wanted)


def _turned(condition: Holds, wanted: Filter) -> Holds:
    """The other way around, where a filter says so."""
    return (lambda content: not condition(content)) if conditions.is_negation(wanted) else condition


def _of_headers(wanted: Filter) -> Holds:
    """A name may come several times: one that fits is enough, and for a negation none may."""
    name = wanted.name
    if wanted.operator == THERE:
        return lambda headers: any(one == name for one, _ in headers)
    condition = conditions.of_bytes(wanted)
    return _turned(lambda headers: any(one == name and condition(value) for one, value in headers), wanted)


def _of_json(wanted: Filter) -> Holds:
    path = Path(wanted.path)
    if wanted.operator == THERE:
        return path.leads_somewhere
    return partial(_stands_there, path, _turned(conditions.of_json(wanted), wanted))


def _stands_there(path: Path, condition: Holds, content: bytes) -> bool:
    """What is no JSON fits nothing, not even a negation."""
    found = path.find(content)
    return found is not Absence.UNREADABLE and condition(found)


def _needle(wanted: Filter) -> bytes:
    """Bytes that stand in every frame that fits, unless its value is compressed; none where that cannot be said."""
    if conditions.is_negation(wanted) or wanted.field in ("json", "priority"):
        return b""
    if wanted.operator == THERE or wanted.operator in ORDER or not wanted.operand:
        return wanted.name.encode() if wanted.field == "header" else b""
    return str(wanted.operand).encode()
