"""Payloads of JSON."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec

from goqueue.schemas import limits
from goqueue.schemas.json_text import escaped
from goqueue.schemas.schema_format import PayloadProblem

REASON_CHARACTERS_MAX = 300
"""Reasons quote values, which can be long."""


class JsonValidator:
    """Validates payloads of JSON.

    The library lists either nothing or all errors, those of each branch of `anyOf` included, at about 30 µs an error.
    So what may have many is explained in less detail, and what may have very many is only refused.
    """

    def __init__(self, compiled_schema: jsonschema_rs.Validator, width: int) -> None:
        self._decode = msgspec.json.Decoder().decode
        self._is_valid = compiled_schema.is_valid
        self._schema = compiled_schema
        self._width = width

    def problems(self, payload: bytes) -> list[PayloadProblem]:
        try:
            value = self._decode(payload)
        except msgspec.DecodeError as error:
            return [PayloadProblem("", f"not JSON: {error}")]
        except (RecursionError, ValueError) as error:
            return [PayloadProblem("", shortened(str(error)))]
        return self.value_problems(value)

    def value_problems(self, value: Any) -> list[PayloadProblem]:
        """Return the problems of a value that was decoded."""
        try:
            return [] if self._is_valid(value) else self._explain(value)
        except (RecursionError, ValueError) as error:
            return [PayloadProblem("", shortened(str(error)))]

    def is_valid(self, payload: bytes) -> bool:
        try:
            return bool(self._is_valid(self._decode(payload)))
        except (msgspec.DecodeError, RecursionError, ValueError):
            return False

    def _explain(self, value: Any) -> list[PayloadProblem]:
        errors_max = self._width * _count(value, limits.PAYLOAD_LISTED_ERRORS_MAX)
        if errors_max <= limits.PAYLOAD_DETAILED_ERRORS_MAX:
            detailed = self._schema.iter_errors(value)
            return _first((pointer(error.instance_path), error.message) for error in detailed)
        if errors_max <= limits.PAYLOAD_LISTED_ERRORS_MAX:
            listed = self._schema.evaluate(value).errors()
            return _first((error["instanceLocation"], error["error"]) for error in listed)
        return [PayloadProblem("", "the payload does not match the schema; it has too many values to name the place")]


def _first(problems: Iterable[tuple[str, str]]) -> list[PayloadProblem]:
    return [PayloadProblem(path, shortened(reason)) for path, reason in islice(problems, limits.PAYLOAD_PROBLEMS_MAX)]


def _count(value: Any, enough: int) -> int:
    """Count the values inside a value, its own included, up to a limit."""
    count, stack = 0, [value]
    while stack and count < enough:
        one = stack.pop()
        count += 1
        if isinstance(one, dict):
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)
    return count


def pointer(path: Sequence[str | int]) -> str:
    return "".join(f"/{escaped(name)}" for name in path)


def shortened(reason: str) -> str:
    return reason if len(reason) <= REASON_CHARACTERS_MAX else f"{reason[:REASON_CHARACTERS_MAX]}…"
