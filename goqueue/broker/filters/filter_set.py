"""A set of filters that must all match, cheapest first.

Each filter narrows the whole batch before the next one runs. If a filter needs certain bytes and the batch does not
contain them, no message is examined.
"""

import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from goqueue.broker.filters.filter_batch import FilterBatch, FrameColumn, FrameNumber
from goqueue.broker.filters.grammar import EXISTS, FIELDS, ORDER, Filter, FilterLiteral, parse_number
from goqueue.broker.filters.json_path import Absence, JsonFound, JsonPath

_NEGATIONS = {"!=": "=", "!~": "~"}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_negation(wanted: Filter) -> bool:
    return wanted.operator in _NEGATIONS


def positive(wanted: Filter) -> str:
    return _NEGATIONS.get(wanted.operator, wanted.operator)


def of_bytes(wanted: Filter) -> Callable[[bytes], bool]:
    """Return a condition for keys, values and headers. UTF-8 sorts like its characters."""
    named = positive(wanted)
    if named in _ORDER and not isinstance(wanted.operand, str):
        return _numeric(_ORDER[named], wanted.operand)
    operand = str(wanted.operand).encode()
    if named == "=":
        return lambda content: content == operand
    if named == "~":
        return lambda content: operand in content
    if named == "^=":
        return lambda content: content.startswith(operand)
    compare = _ORDER[named]
    return lambda content: compare(content, operand)


def _numeric(compare: Callable[[Any, Any], bool], operand: FilterLiteral) -> Callable[[bytes], bool]:
    def holds(content: bytes) -> bool:
        number = parse_number(content)
        return number is not None and compare(number, operand)

    return holds


def of_json(wanted: Filter) -> Callable[[JsonFound], bool]:
    named, operand = positive(wanted), wanted.operand
    if named == "=":
        return _equal(operand)
    if named in _ORDER:
        compare = _ORDER[named]
        if isinstance(operand, str):
            return lambda found: type(found) is str and compare(found, operand)
        return lambda found: type(found) in (int, float) and compare(found, operand)
    text = str(operand)
    if named == "~":
        return lambda found: type(found) is str and text in found
    return lambda found: type(found) is str and found.startswith(text)


def _equal(operand: FilterLiteral) -> Callable[[JsonFound], bool]:
    """Return an equality that distinguishes 1, true and "1"."""
    if operand is None or isinstance(operand, bool):
        return lambda found: found is operand
    if isinstance(operand, str):
        return lambda found: type(found) is str and found == operand
    return lambda found: type(found) in (int, float) and found == operand


def of_priority(wanted: Filter) -> Callable[[int], bool]:
    compare = {**_ORDER, "=": operator.eq, "!=": operator.ne}[wanted.operator]
    return lambda priority: bool(compare(priority, wanted.operand))


Holds = Callable[[Any], bool]


_COLUMNS: dict[str, Callable[[FilterBatch, list[FrameNumber]], FrameColumn]] = {
    "priority": FilterBatch.priorities,
    "key": FilterBatch.keys,
    "header": FilterBatch.headers,
    "value": FilterBatch.values,
    "json": FilterBatch.values,
}
"""The columns that filters test."""

assert _COLUMNS.keys() == FIELDS.keys()


class _FilterTest:
    def __init__(self, wanted: Filter) -> None:
        self._holds = _holds(wanted)
        self._column = _COLUMNS[wanted.field]
        self._needle = _needle(wanted)
        self._reads_value = FIELDS[wanted.field].reads_value

    def pass_on(self, batch: FilterBatch, places: list[FrameNumber]) -> list[FrameNumber]:
        is_plain = not (self._reads_value and batch.has_packed)
        if self._needle and is_plain and batch.lacks(self._needle):
            return []
        places, contents = self._column(batch, places)
        holds = self._holds
        return [place for place, content in zip(places, contents, strict=True) if holds(content)]


class FilterSet:
    """Filters that must all match; without any, every message matches."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        self.filters = tuple(sorted(filters, key=lambda wanted: wanted.rank))
        self._tests = [_FilterTest(wanted) for wanted in self.filters]

    def sift(self, batch: FilterBatch) -> list[FrameNumber]:
        """Return the matching messages up to the end of the batch, which may be cut meanwhile."""
        places = batch.messages
        for test in self._tests:
            places = test.pass_on(batch, [place for place in places if place < batch.end])
        return [place for place in places if place < batch.end]


NO_FILTERS = FilterSet(())


def _holds(wanted: Filter) -> Holds:
    if wanted.field == "priority":
        return of_priority(wanted)
    if wanted.field == "header":
        return _of_headers(wanted)
    if wanted.field == "json":
        return _of_json(wanted)
    return _turned(of_bytes(wanted), wanted)


def _turned(condition: Holds, wanted: Filter) -> Holds:
    return (lambda content: not condition(content)) if is_negation(wanted) else condition


def _of_headers(wanted: Filter) -> Holds:
    """Return a condition on headers. A name may repeat: one match is enough; a negation allows none."""
    name = wanted.name
    if wanted.operator == EXISTS:
        return lambda headers: any(one == name for one, _ in headers)
    condition = of_bytes(wanted)
    return _turned(lambda headers: any(one == name and condition(value) for one, value in headers), wanted)


def _of_json(wanted: Filter) -> Holds:
    path = JsonPath(wanted.path)
    if wanted.operator == EXISTS:
        return path.leads_somewhere
    return partial(_matches_json, path, _turned(of_json(wanted), wanted))


def _matches_json(path: JsonPath, condition: Holds, content: bytes) -> bool:
    """Return whether a JSON value matches. A value that is not JSON matches nothing, not even a negation."""
    found = path.find(content)
    return found is not Absence.UNREADABLE and condition(found)


def _needle(wanted: Filter) -> bytes:
    """Return bytes that every matching uncompressed frame contains, or none."""
    if is_negation(wanted) or wanted.field in ("json", "priority"):
        return b""
    if wanted.operator == EXISTS or wanted.operator in ORDER or not wanted.operand:
        return wanted.name.encode() if wanted.field == "header" else b""
    return str(wanted.operand).encode()
