"""What a filter is, and how one is read: FIELD OP TEXT, as in `json.order.total>40`.

A field ends where an operator begins, and everything behind the operator is the text, spaces included. Where a space
stands before the operator, spaces on either side of the text do not count, so that `key = a` means what it seems to.
`==` is `=`; a text that begins with an equals sign stands behind a space, as in `key = =a`.
A name that holds an operator, a dot or a bracket is written in quotes, as in `json."order.id"`.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, NoReturn

import msgspec

from goqueue.config.problem import nearest
from goqueue.errors import RequestInvalid
from goqueue.limits import FILTER_CHARACTERS_MAX, FILTER_INDEX_MAX, FILTER_STEPS_MAX, FILTERS_MAX, PRIORITY_COUNT
from goqueue.quantities import quoted
from goqueue.storage import frame

Step = str | int
"""Into an object by a name, or into a list by a number from 0."""
Literal = str | int | float | bool | None

THERE = ""
"""The operator of a filter that asks only whether something is there."""

_EQUALITY = ("=", "!=")
_TEXT = ("~", "!~", "^=")
ORDER = ("<=", ">=", "<", ">")
OPERATORS = (*_EQUALITY, *_TEXT, *ORDER)


@dataclass(frozen=True, slots=True)
class Field:
    """What a filter may look at."""

    operators: tuple[str, ...]
    shape: str
    """How it is written."""
    reads_value: bool = False
    """Whether it needs the value, which may have to be unpacked."""


FIELDS: dict[str, Field] = {
    "priority": Field((*_EQUALITY, *ORDER), "priority"),
    "key": Field(OPERATORS, "key"),
    "header": Field((*OPERATORS, THERE), "header.NAME"),
    "value": Field(OPERATORS, "value", reads_value=True),
    "json": Field((*OPERATORS, THERE), "json.PATH", reads_value=True),
}
"""By name, those first that cost least: what they leave out, the others need not look at."""

_FOREIGN = {"=>": ">=", "=<": "<=", "<>": "!=", "=~": "~", "~=": "~"}
_WORD = re.compile(r"[A-Za-z_]*")
_SPACES = re.compile(r"[ \t]*")
_OPERATOR = re.compile("|".join(map(re.escape, sorted(OPERATORS, key=len, reverse=True))))
_HEADER_NAME = re.compile(r'[^\s"=!~^<>](?:[^"=!~^<>]*[^\s"=!~^<>])?')
_JSON_NAME = re.compile(r'[^\s"=!~^<>.\[\]](?:[^"=!~^<>.\[\]]*[^\s"=!~^<>.\[\]])?')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_INDEX = re.compile(r"\[(0|[1-9][0-9]{0,8})\]")
_NUMBER = re.compile(rb"\s*-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*")
_NUMBER_CHARACTERS_MAX = 100  # a double has some twenty; much longer ones take long to read
_WORDS: dict[str, Literal] = {"true": True, "false": False, "null": None}
_SHAPES = ", ".join(field.shape for field in FIELDS.values())
_IN_QUOTES = "a name with dots, brackets or operators is written in quotes"


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter, understood."""

    text: str
    field: str
    operator: str
    operand: Literal = ""
    """What to compare with: a number or another literal of JSON where that is meant, otherwise text."""
    path: tuple[Step, ...] = ()
    """Into JSON; of a header its name alone."""

    @property
    def name(self) -> str:
        return str(self.path[0])

    @property
    def rank(self) -> int:
        """Those with a lower one cost less."""
        return list(FIELDS).index(self.field)

    def __str__(self) -> str:
        return self.text


def number_of(content: bytes) -> int | float | None:
    """The number that is written there as JSON writes them, or None. It may be infinite."""
    found = _NUMBER.fullmatch(content) if len(content) <= _NUMBER_CHARACTERS_MAX else None
    if found is None:
        return None
    return float(content) if found[1] or found[2] else int(content)


def parse_filters(texts: Iterable[str], place: str = "filter") -> tuple[Filter, ...]:
    """Filters that all have to hold; RequestInvalid names the one that cannot be read, and where."""
    given = list(texts)
    if len(given) > FILTERS_MAX:
        problem = f"is given {len(given)} times, at most {FILTERS_MAX} are allowed"
        raise RequestInvalid(f"{place} {problem}", problems=[{"place": place, "problem": problem}])
    return tuple(_Reading(text, place).filter() for text in given)


def parse(text: str) -> Filter:
    """One filter."""
    return _Reading(text, "filter").filter()


class _Reading:
    """Goes through the text of a filter once, from left to right."""

    def __init__(self, text: str, place: str) -> None:
        self._text = text
        self._place = place
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
        if operator not in (*_EQUALITY, THERE) and not written:
            self._refuse(f"nothing stands behind {operator}", f"write {field.shape}{operator}TEXT")
        return Filter(self._text, name, operator, self._operand(name, operator, written), path)

    def _operand(self, field: str, operator: str, written: str) -> Literal:
        """What the text behind the operator stands for."""
        if field == "priority":
            return self._priority(written)
        if operator in ORDER:
            found = self._literal(written)
            if found is None or isinstance(found, bool):
                self._refuse(f"{written} is neither before nor behind anything", "compare with a number or with text")
            return found if field == "json" or not isinstance(found, str) else written
        return self._literal(written) if field == "json" and operator in _EQUALITY else written

    def _priority(self, written: str) -> int:
        if written in frame.PRIORITIES:
            return frame.PRIORITIES.index(written)
        if written not in map(str, range(PRIORITY_COUNT)):
            meant = nearest(written, list(frame.PRIORITIES))
            known = f"there are 0 to {PRIORITY_COUNT - 1}, or {', '.join(frame.PRIORITIES)}"
            self._refuse(f"{quoted(written)} is no priority", f"did you mean {meant}?" if meant else known)
        return int(written)

    def _literal(self, written: str) -> Literal:
        """A number, true, false, null or text in quotes as JSON has them; anything else is the text that it is."""
        if written in _WORDS:
            return _WORDS[written]
        number = number_of(written.encode())
        if number in (inf, -inf):
            self._refuse(f"{quoted(written)} is beyond what a number holds", "put it in quotes to compare text")
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
            self._refuse("half a character stands there", "\\ud800 to \\udfff come in pairs")

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
            self._refuse(f"{quoted(name)} is the broker's own", "names that begin with __ are not shown either")
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
            self._refuse(f"{index} lies too far in a list, {FILTER_INDEX_MAX} is the last that is looked at", None)
        return index

    def _name(self, plain: re.Pattern[str]) -> str:
        """A name, as it is or in quotes."""
        start, within = self._at, self._take(_QUOTED)
        if within is not None:
            try:
                return msgspec.json.decode(within.encode(), type=str)
            except msgspec.DecodeError:
                self._at = start
                self._refuse(f"{quoted(within)} is no name in quotes", "quotes are those of JSON")
        name = self._take(plain)
        if name is None:
            self._refuse("a name is missing", _IN_QUOTES)
        return name

    def _operator(self, field: Field) -> str:
        self._skip_twin()
        operator = self._take(_OPERATOR)
        if operator is None and self._at < len(self._text):
            instead = f"json{self._text[self._at :]} looks into values" if self._text.startswith("value.") else None
            found = quoted(self._text[self._at :])
            self._refuse(f"{found} stands where an operator belongs", instead or self._known(field))
        if (operator or THERE) not in field.operators:
            if operator is None:
                self._refuse("an operator is missing", self._known(field))
            self._at -= len(operator)
            self._refuse(f"{operator} is no operator of {field.shape}", self._known(field))
        return operator or THERE

    def _skip_twin(self) -> None:
        """`==` is `=`, as everybody writes it; what other languages have besides is not taken for the text."""
        foreign = _FOREIGN.get(self._text[self._at : self._at + 2])
        if foreign is not None:
            self._refuse(f"{self._text[self._at : self._at + 2]} is no operator", f"did you mean {foreign}?")
        if self._text.startswith("==", self._at):
            self._at += 1

    @staticmethod
    def _known(field: Field) -> str:
        return f"those of {field.shape} are {' '.join(filter(None, field.operators))}"

    def _refuse_field(self, name: str) -> NoReturn:
        self._at = 0
        written = name or self._text[:1]
        if not written:
            self._refuse("it is empty", f"fields are {_SHAPES}")
        meant = nearest(written, list(FIELDS))
        looks = f"fields are {_SHAPES}; `json.{self._text}` looks into values" if name else f"fields are {_SHAPES}"
        hint = f"did you mean {FIELDS[meant].shape}?" if meant else looks
        self._refuse(f"{quoted(written)} is no field", hint)

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
        entry = {"place": self._place, "problem": said} | ({"hint": hint} if hint else {})
        details: dict[str, Any] = {"problems": [entry], "filter": self._text[:FILTER_CHARACTERS_MAX]}
        raise RequestInvalid(f"{self._place} {said}", hint=hint, position=self._at, **details)
