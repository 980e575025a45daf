"""What the operators mean: for bytes, for what stands in JSON, and for priorities.

Of `!=` and `!~` there is the opposite here: whoever asks turns the answer around.
"""

import operator
from collections.abc import Callable
from typing import Any

from goqueue.broker.filters.grammar import Filter, Literal, number_of
from goqueue.broker.filters.path import Found

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
    """Its operator without the negation."""
    return _NEGATIONS.get(wanted.operator, wanted.operator)


def of_bytes(wanted: Filter) -> Callable[[bytes], bool]:
    """For keys, values and headers. UTF-8 compares as the characters do that it stands for."""
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


def _numeric(compare: Callable[[Any, Any], bool], operand: Literal) -> Callable[[bytes], bool]:
    def holds(content: bytes) -> bool:
        number = number_of(content)
        return number is not None and compare(number, operand)

    return holds


def of_json(wanted: Filter) -> Callable[[Found], bool]:
    """For what a path leads to; a value that is no JSON never gets here."""
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


def _equal(operand: Literal) -> Callable[[Found], bool]:
    """Numbers are equal to numbers, true and text are not 1."""
    if operand is None or isinstance(operand, bool):
        return lambda found: found is operand
    if isinstance(operand, str):
        return lambda found: type(found) is str and found == operand
    return lambda found: type(found) in (int, float) and found == operand


def of_priority(wanted: Filter) -> Callable[[int], bool]:
    compare = {**_ORDER, "=": operator.eq, "!=": operator.ne}[wanted.operator]
    return lambda priority: bool(compare(priority, wanted.operand))
