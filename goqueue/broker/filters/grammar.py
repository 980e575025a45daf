"""Filters and their syntax: FIELD OP TEXT, as in `json.order.total>40`.

A field ends where an operator begins; everything after the operator is the text, spaces included. If there is a
space before the operator, spaces around the text do not count, so `key = a` works as expected. `==` is `=`; a text
that begins with an equals sign needs a space before it, as in `key = =a`. A name with an operator, dot or bracket is
quoted, as in `json."order.id"`.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, NoReturn

import msgspec

from goqueue.errors import RequestInvalid
from goqueue.limits import FILTER_CHARACTERS_MAX, FILTER_INDEX_MAX, FILTER_STEPS_MAX, FILTERS_MAX, PRIORITY_COUNT
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.storage import frame

Step = str | int
"""A step into an object by name, or into a list by index from 0."""
FilterLiteral = str | int | float | bool | None

EXISTS = ""
"""The operator of a filter that only tests presence."""

_EQUALITY = ("=", "!=")
_TEXT = ("~", "!~", "^=")
ORDER = ("<=", ">=", "<", ">")
OPERATORS = (*_EQUALITY, *_TEXT, *ORDER)


@dataclass(frozen=True, slots=True)
class FilterField:
    operators: tuple[str, ...]
    shape: str
    """Its syntax."""
    reads_value: bool = False
    """Whether it needs the unpacked value."""


FIELDS: dict[str, FilterField] = {
    "priority": FilterField((*_EQUALITY, *ORDER), "priority"),
    "key": FilterField(OPERATORS, "key"),
    "header": FilterField((*OPERATORS, EXISTS), "header.NAME"),
    "value": FilterField(OPERATORS, "value", reads_value=True),
    "json": FilterField((*OPERATORS, EXISTS), "json.PATH", reads_value=True),
}
"""By name, cheapest first: later ones see only what the earlier ones let through."""

_FOREIGN = {"=>": ">=", "=<": "<=", "<>": "!=", "=~": "~", "~=": "~"}
_WORD = re.compile(r"[A-Za-z_]*")
_SPACES = re.compile(r"[ \t]*")
_OPERATOR = re.compile("|".join(map(re.escape, sorted(OPERATORS, key=len, reverse=True))))
_HEADER_NAME = re.compile(r'[^\s"=!~^<>](?:[^"=!~^<>]*[^\s"=!~^<>])?')
_JSON_NAME = re.compile(r'[^\s"=!~^<>.\[\]](?:[^"=!~^<>.\[\]]*[^\s"=!~^<>.\[\]])?')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_INDEX = re.compile(r"\[(0|[1-9][0-9]{0,8})\]")
_NUMBER = re.compile(rb"\s*-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*")
_NUMBER_CHARACTERS_MAX = 100  # a double has some twenty; much longer ones are slow to parse
_WORDS: dict[str, FilterLiteral] = {"true": True, "false": False, "null": None}
_SHAPES = ", ".join(field.shape for field in FIELDS.values())
_IN_QUOTES = "a name with dots, brackets or operators is written in quotes"


@dataclass(frozen=True, slots=True)
class Filter:
    text: str
    field: str
    operator: str
    operand: FilterLiteral = ""
    """The operand: a number or JSON literal where that is meant, otherwise text."""
    path: tuple[Step, ...] = ()
    """The JSON path, or the name of a header."""

    @property
    def name(self) -> str:
        return str(self.path[0])

    @property
    def rank(self) -> int:
        """The cost of the filter: lower is cheaper."""
        return list(FIELDS).index(self.field)

    def __str__(self) -> str:
        return self.text


def parse_number(content: bytes) -> int | float | None:
    """Parse a JSON number, or return None. The result may be infinite."""
    found = _NUMBER.fullmatch(content) if len(content) <= _NUMBER_CHARACTERS_MAX else None
    if found is None:
        return None
    return float(content) if found[1] or found[2] else int(content)


def parse_filters(texts: Iterable[str]) -> tuple[Filter, ...]:
    """Parse filters; RequestInvalid names the one that is invalid, and the position."""
    given = list(texts)
    if len(given) > FILTERS_MAX:
        problem = f"is given {len(given)} times, at most {FILTERS_MAX} are allowed"
        raise RequestInvalid(f"filter {problem}", problems=[{"place": "filter", "problem": problem}])
    return tuple(_FilterParser(text).filter() for text in given)


class _FilterParser:
    """Parses the text of a filter from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def filter(self) -> Filter:
        self._check_characters()
        name = self._take(_WORD) or ""
        field = FIELDS.get(name)
        if field is None:
            self._refuse_field(name)
        path = self._path(name)
        is_spaced = bool(self._take(_SPACES))
        operator = self._operator(field)
        behind = self._text[self._at :]
        written = behind.strip(" \t") if is_spaced else behind
        if operator not in (*_EQUALITY, EXISTS) and not written:
            self._refuse(f"there is no text after {operator}", f"write {field.shape}{operator}TEXT")
        return Filter(self._text, name, operator, self._operand(name, operator, written), path)

    def _operand(self, field: str, operator: str, written: str) -> FilterLiteral:
        if field == "priority":
            return self._priority(written)
        if operator in ORDER:
            found = self._literal(written)
            if found is None or isinstance(found, bool):
                self._refuse(f"{written} has no order", "compare with a number or with text")
            return found if field == "json" or not isinstance(found, str) else written
        return self._literal(written) if field == "json" and operator in _EQUALITY else written

    def _priority(self, written: str) -> int:
        if written in frame.PRIORITIES:
            return frame.PRIORITIES.index(written)
        if written not in map(str, range(PRIORITY_COUNT)):
            meant = nearest(written, list(frame.PRIORITIES))
            known = f"use 0 to {PRIORITY_COUNT - 1}, or {', '.join(frame.PRIORITIES)}"
            self._refuse(f"{quoted(written)} is not a priority", f"did you mean {meant}?" if meant else known)
        return int(written)

    def _literal(self, written: str) -> FilterLiteral:
        """Return a JSON number, true, false, null or quoted text; anything else as text."""
        if written in _WORDS:
            return _WORDS[written]
        number = parse_number(written.encode())
        if number in (inf, -inf):
            self._refuse(f"{quoted(written)} is too large for a number", "put it in quotes to compare text")
        if number is None and written.startswith('"'):
            with suppress(msgspec.DecodeError):
                return msgspec.json.decode(written.encode(), type=str)
        return written if number is None else number

    def _check_characters(self) -> None:
        if len(self._text) > FILTER_CHARACTERS_MAX:
            most = f"at most {FILTER_CHARACTERS_MAX} are allowed"
            self._refuse(f"it has {len(self._text):,} characters, {most}", None)
        try:
            self._text.encode()
        except UnicodeEncodeError as error:
            self._at = error.start
            self._refuse("there is half of a surrogate pair", "\\ud800 to \\udfff come in pairs")

    def _path(self, field: str) -> tuple[Step, ...]:
        if field == "header":
            return (self._header_name(),)
        if field != "json":
            return ()
        path = [self._step()]
        while self._text[self._at : self._at + 1] in (".", "["):
            path.append(self._step())
        if len(path) > FILTER_STEPS_MAX:
            self._refuse(f"the path has {len(path)} steps, at most {FILTER_STEPS_MAX} are allowed", None)
        return tuple(path)

    def _header_name(self) -> str:
        if not self._skip("."):
            self._refuse("the name of a header is missing", "write header.NAME, as in header.source=shop")
        start, name = self._at, self._name(_HEADER_NAME)
        if name.startswith("__"):
            self._at = start
            self._refuse(f"{quoted(name)} is reserved for the broker", "names that begin with __ cannot be filtered")
        return name

    def _step(self) -> Step:
        if self._skip("."):
            return self._name(_JSON_NAME)
        start, found = self._at, self._take(_INDEX)
        if found is None:
            self._refuse("the path is missing", "write json.PATH, as in json.order.total>40 or json.lines[0].sku=7")
        index = int(found[1:-1])
        if index > FILTER_INDEX_MAX:
            self._at = start
            self._refuse(f"{index} is too far in a list, the largest index is {FILTER_INDEX_MAX}", None)
        return index

    def _name(self, plain: re.Pattern[str]) -> str:
        start, within = self._at, self._take(_QUOTED)
        if within is not None:
            try:
                return msgspec.json.decode(within.encode(), type=str)
            except msgspec.DecodeError:
                self._at = start
                self._refuse(f"{quoted(within)} is not a quoted name", "quote names as in JSON")
        name = self._take(plain)
        if name is None:
            self._refuse("a name is missing", _IN_QUOTES)
        return name

    def _operator(self, field: FilterField) -> str:
        self._skip_twin()
        operator = self._take(_OPERATOR)
        if operator is None and self._at < len(self._text):
            instead = f"json{self._text[self._at :]} looks into values" if self._text.startswith("value.") else None
            found = quoted(self._text[self._at :])
            self._refuse(f"{found} is not an operator", instead or self._known(field))
        if (operator or EXISTS) not in field.operators:
            if operator is None:
                self._refuse("an operator is missing", self._known(field))
            self._at -= len(operator)
            self._refuse(f"{operator} is not an operator of {field.shape}", self._known(field))
        return operator or EXISTS

    def _skip_twin(self) -> None:
        """Accept `==` as `=`; refuse operators of other languages."""
        foreign = _FOREIGN.get(self._text[self._at : self._at + 2])
        if foreign is not None:
            self._refuse(f"{self._text[self._at : self._at + 2]} is not an operator", f"did you mean {foreign}?")
        if self._text.startswith("==", self._at):
            self._at += 1

    @staticmethod
    def _known(field: FilterField) -> str:
        return f"operators of {field.shape} are {' '.join(filter(None, field.operators))}"

    def _refuse_field(self, name: str) -> NoReturn:
        self._at = 0
        written = name or self._text[:1]
        if not written:
            self._refuse("it is empty", f"fields are {_SHAPES}")
        meant = nearest(written, list(FIELDS))
        looks = f"fields are {_SHAPES}; `json.{self._text}` looks into values" if name else f"fields are {_SHAPES}"
        hint = f"did you mean {FIELDS[meant].shape}?" if meant else looks
        self._refuse(f"{quoted(written)} is not a field", hint)

    # --- characters ---

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    def _skip(self, character: str) -> bool:
        is_there = self._text.startswith(character, self._at)
        self._at += is_there
        return is_there

    def _refuse(self, problem: str, hint: str | None) -> NoReturn:
        said = f"{quoted(self._text)} at position {self._at}: {problem}"
        entry = {"place": "filter", "problem": said} | ({"hint": hint} if hint else {})
        details: dict[str, Any] = {"problems": [entry], "filter": self._text[:FILTER_CHARACTERS_MAX]}
        raise RequestInvalid(f"filter {said}", hint=hint, position=self._at, **details)
