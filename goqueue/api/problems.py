"""Finds every problem of an invalid body, with its place and a sentence.

The JSON is parsed so that nothing wrong is lost (repeated names, invalid numbers, half characters) and compared with
the description of the type. What must stay true: any bytes are inspected in time that grows with their length.
"""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec import inspect

from goqueue.api.fields import SCALARS, decode_scalar
from goqueue.api.json_scan import TooDeep, scan
from goqueue.config.problem import display_key
from goqueue.errors import RequestInvalid
from goqueue.limits import JSON_DEPTH_MAX
from goqueue.nearest import nearest
from goqueue.quantities import format_count, quoted

PROBLEMS_MAX = 100  # of one request; more than a person reads, few enough for an answer


@dataclass(slots=True)  # not frozen, which would double the time that a large body takes
class FieldPath:
    """The place of a value in a body: a name or an index, and the parent."""

    key: str | int = ""
    parent: "FieldPath | None" = None

    def __str__(self) -> str:
        steps: list[str | int] = []
        place: FieldPath | None = self
        while place is not None and place.parent is not None:
            steps.append(place.key)
            place = place.parent
        return "".join(map(_step, reversed(steps))).removeprefix(".")


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    shown = display_key(key)
    return f".{shown}" if shown == key else f"[{shown}]"


ROOT = FieldPath()


class TooManyProblems(Exception):
    """The maximum number of problems has been found."""


def invalid(place: str, problem: str, hint: str | None = None) -> RequestInvalid:
    """Return the error for one problem."""
    return RequestInvalid(f"{place} {problem}", hint=hint, problems=[{"place": place, "problem": problem}])


class ProblemReport:
    """Collects at most `PROBLEMS_MAX` problems in the order of the request."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        """The name of the request, for problems without a place."""
        self.problems: list[dict[str, str]] = []

    def add(self, place: FieldPath | str, problem: str, hint: str | None = None) -> None:
        entry = {"place": str(place), "problem": problem}
        if hint is not None:
            entry["hint"] = hint
        self.problems.append(entry)
        if len(self.problems) >= PROBLEMS_MAX:
            raise TooManyProblems

    def add_unknown(self, place: FieldPath | str, what: str, name: str, known: list[str]) -> None:
        meant = nearest(name, known)
        if meant is not None:
            hint = f"did you mean {meant}?"
        else:
            hint = f"known are {', '.join(known)}" if known else f"there is no {what} here"
        self.add(place, f"is not a known {what}", hint)

    def refusal(self) -> RequestInvalid:
        first, others = self.problems[0], len(self.problems) - 1
        sentence = f"{first['place'] or self.whole} {first['problem']}"
        if others:
            least = "at least " if len(self.problems) == PROBLEMS_MAX else ""
            sentence += f" ({least}{format_count(others, 'more problem')})"
        details: dict[str, Any] = {"problems": self.problems}
        return RequestInvalid(sentence, hint=first.get("hint"), **details)


_NEAR = 1000  # characters around a mistake that say what was meant
DIGITS_MAX = 20  # of a whole number, with its sign; turning a million into a number would take seconds
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Unusable:
    """A number that is invalid or too large."""

    problem: str


def _whole(text: str) -> int | Unusable:
    number = int(text) if len(text) <= DIGITS_MAX else None
    if number is None or not INTEGER_MIN <= number <= INTEGER_MAX:
        return Unusable(f"is {quoted(text)[1:-1] if len(text) < 40 else text[:37] + '...'}, beyond 64 bits")
    return number


def _fraction(text: str) -> float | Unusable:
    number = float(text)
    return (
        Unusable(f"is {text[:40]}, beyond what a number holds") if number in (float("inf"), -float("inf")) else number
    )


def _constant(text: str) -> Unusable:
    return Unusable(f"is {text}, which JSON does not have")


_PARSER = json.JSONDecoder(object_pairs_hook=tuple, parse_int=_whole, parse_float=_fraction, parse_constant=_constant)
"""Objects become tuples of pairs, which keep repeated names."""


def inspect_body(kind: inspect.Type, body: bytes | bytearray) -> ProblemReport:
    """Return all problems of a body."""
    report = ProblemReport("the body")
    with suppress(TooManyProblems):
        inspect_part(kind, body, ROOT, report)
    return report


def inspect_part(
    kind: inspect.Type, part: bytes | bytearray, place: FieldPath, report: ProblemReport, start: int = 0
) -> None:
    """Report all problems of a part of a body, which begins at the byte `start`."""
    known = len(report.problems)
    parsed = _parse(part, place, report, start)
    if len(report.problems) == known:
        if _is_deep(part):
            report.add(place, f"is nested deeper than {JSON_DEPTH_MAX} levels")
        else:
            inspect_value(kind, parsed, place, report)


def _parse(part: bytes | bytearray, place: FieldPath, report: ProblemReport, start: int) -> Any:
    text = ""
    try:
        text = part.decode("utf-8")
        if not text.strip(" \t\r\n"):
            report.add(place, "is empty, an object belongs here")
            return None
        return _PARSER.decode(text)
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8: byte {start + error.start} is 0x{part[error.start]:02x}"
        report.add(place, problem, "encode the body as UTF-8")
    except json.JSONDecodeError as error:
        at = start + len(text[: error.pos].encode("utf-8"))
        report.add(place, f"is not JSON at byte {at}: {_said(error, text)}", _syntax_hint(error, text))
    except RecursionError:
        report.add(place, f"is nested deeper than {JSON_DEPTH_MAX} levels")
    return None


def _said(error: json.JSONDecodeError, text: str) -> str:
    if error.pos >= len(text):
        return "it ends too early"
    what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
    return f"{what}, where {quoted(text[error.pos])} stands"


def _syntax_hint(error: json.JSONDecodeError, text: str) -> str | None:
    if text.startswith("\ufeff"):
        return "leave the byte order mark away"
    if text[error.pos : error.pos + 1] == "'":
        return "JSON has double quotes only"
    before, behind = text[max(0, error.pos - _NEAR) : error.pos].rstrip(), text[error.pos : error.pos + _NEAR]
    if behind.startswith(","):  # where Python 3.13 points
        before, behind = before + ",", behind[1:].lstrip()
    if before.endswith(",") and behind.startswith(("}", "]")):
        return "a comma stands before the end"
    return None


def _is_deep(body: bytes | bytearray) -> bool:
    """Return whether valid JSON is nested too deep."""
    try:
        scan(body, len(body))
    except TooDeep:
        return True
    return False


def inspect_value(kind: inspect.Type, found: Any, place: FieldPath, report: ProblemReport) -> None:
    """Report the problems of one value."""
    if isinstance(kind, inspect.Metadata):
        inspect_value(kind.type, found, place, report)
    elif isinstance(found, Unusable):
        report.add(place, found.problem)
    elif isinstance(kind, inspect.UnionType):
        _inspect_union(kind, found, place, report)
    elif isinstance(kind, inspect.CustomType) and issubclass(kind.cls, SCALARS):
        try:
            decode_scalar(kind.cls, found)
        except ValueError as error:
            report.add(place, str(error))
    elif isinstance(kind, inspect.LiteralType):
        _inspect_choice(kind, found, place, report)
    elif type(kind) in _SHAPES:
        types, _, inspection = _SHAPES[type(kind)]
        if type(found) in types:
            inspection(kind, found, place, report)
        else:
            _report_type(found, noun(kind), place, report)


def _inspect_union(kind: inspect.UnionType, found: Any, place: FieldPath, report: ProblemReport) -> None:
    if found is None and kind.includes_none:
        return
    others = [option for option in kind.types if not isinstance(option, inspect.NoneType)]
    fitting = [option for option in others if _takes(option, found)]
    if fitting or len(others) == 1:
        inspect_value((fitting or others)[0], found, place, report)
    else:
        _report_type(found, noun(kind), place, report)


def _takes(kind: inspect.Type, found: Any) -> bool:
    """Return whether a value has the right JSON type, whatever its bounds."""
    if isinstance(kind, inspect.Metadata):
        return _takes(kind.type, found)
    if isinstance(kind, inspect.LiteralType):
        return any(type(found) is type(option) for option in kind.values)
    shape = _SHAPES.get(type(kind))
    return type(found) in shape[0] if shape else True


def _report_type(found: Any, wanted: str, place: FieldPath, report: ProblemReport) -> None:
    if isinstance(found, float) and wanted == "a whole number":
        report.add(place, f"is {found!r} where a whole number belongs")
        return
    hint = "write it without quotes" if wanted.endswith("number") and _is_quoted_number(found) else None
    report.add(place, f"is {_sort(found)} where {wanted} belongs", hint)


def _is_quoted_number(found: Any) -> bool:
    try:
        return isinstance(found, str) and math.isfinite(float(found))
    except ValueError:
        return False


def noun(kind: inspect.Type) -> str:
    """Return the name of a type in a sentence."""
    if isinstance(kind, inspect.Metadata):
        return noun(kind.type)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(noun(option) for option in kind.types if not isinstance(option, inspect.NoneType))
    if isinstance(kind, inspect.CustomType) and issubclass(kind.cls, SCALARS):
        return kind.cls.noun
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(map(str, kind.values))
    shape = _SHAPES.get(type(kind))
    return shape[1] if shape else "another value"


def _sort(found: Any) -> str:
    if found is None or isinstance(found, bool):
        return json.dumps(found)
    return {str: "text", int: "a number", float: "a number", list: "a list", tuple: "an object"}[type(found)]


def _inspect_choice(kind: inspect.LiteralType, found: Any, place: FieldPath, report: ProblemReport) -> None:
    options = kind.values
    if any(found == option and type(found) is type(option) for option in options):
        return
    shown = quoted(found) if isinstance(found, str) else _sort(found) if isinstance(found, (list, tuple)) else found
    report.add(place, f"is {shown}, not one of {', '.join(map(str, options))}")


def _inspect_struct(kind: Any, found: Any, place: FieldPath, report: ProblemReport) -> None:
    fields, required = _fields_of(kind)
    names = _names(found, place, report)
    for name, value in names.items():
        field = fields.get(name)
        if field is None:
            report.add_unknown(FieldPath(name, place), "field", name, list(fields))
        else:
            inspect_value(field.type, value, FieldPath(name, place), report)
    for name in required:
        if name not in names:
            report.add(FieldPath(name, place), "is missing")


_FIELDS: dict[int, tuple[inspect.StructType, dict[str, inspect.Field], list[str]]] = {}
"""By the id of the description, which is kept here so that its id is not reused."""


def _fields_of(kind: inspect.StructType) -> tuple[dict[str, inspect.Field], list[str]]:
    """Return the fields of a struct by name, and the names of required ones."""
    known = _FIELDS.get(id(kind))
    if known is None:
        fields = {field.encode_name: field for field in kind.fields}
        known = _FIELDS[id(kind)] = (kind, fields, [name for name, field in fields.items() if field.required])
    return known[1], known[2]


def _inspect_dict(kind: Any, found: Any, place: FieldPath, report: ProblemReport) -> None:
    names = _names(found, place, report)
    if not _inspect_length(kind, len(names), "entry", "entries", place, report):
        return
    for name, value in names.items():
        here = FieldPath(name, place)
        inspect_value(kind.key_type, name, here, report)
        inspect_value(kind.value_type, value, here, report)


def _names(found: Any, place: FieldPath, report: ProblemReport) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for name, value in found:
        if name in names:
            report.add(FieldPath(name, place), "is given twice", "keep one")
        elif not _is_text(name):
            report.add(place, f"has the name {quoted(name)}, which holds half a character")
        names[name] = value
    return names


def _inspect_list(kind: Any, found: Any, place: FieldPath, report: ProblemReport) -> None:
    if not _inspect_length(kind, len(found), "item", "items", place, report):
        return
    for number, item in enumerate(found):
        inspect_value(kind.item_type, item, FieldPath(number, place), report)


def _inspect_text(kind: Any, found: Any, place: FieldPath, report: ProblemReport) -> None:
    if not _inspect_characters(found, place, report):
        return
    _inspect_length(kind, len(found), "character", "characters", place, report)
    if kind.pattern is not None and not re.search(kind.pattern, found):
        report.add(place, f"is {quoted(found)}, which does not fit {kind.pattern}")


def _inspect_characters(found: str, place: FieldPath, report: ProblemReport) -> bool:
    """Return whether text is valid Unicode, so that it can be inspected further."""
    if _is_text(found):
        return True
    report.add(place, "holds half a character: \\ud800 to \\udfff come in pairs")
    return False


def _is_text(found: str) -> bool:
    if found.isascii():
        return True
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _inspect_length(kind: Any, length: int, one: str, many: str, place: FieldPath, report: ProblemReport) -> bool:
    """Return whether there are few enough items to inspect each."""
    has = f"has {format_count(length, one, many)}"
    if kind.min_length is not None and length < kind.min_length:
        report.add(place, f"{has}, at least {kind.min_length:,} {'is' if kind.min_length == 1 else 'are'} needed")
    elif kind.max_length is not None and length > kind.max_length:
        report.add(place, f"{has}, at most {kind.max_length:,} {'is' if kind.max_length == 1 else 'are'} allowed")
        return False
    return True


def _inspect_number(kind: Any, found: Any, place: FieldPath, report: ProblemReport) -> None:
    if kind.ge is not None and found < kind.ge:
        report.add(place, f"is {found}, at least {kind.ge} is needed")
    elif kind.gt is not None and found <= kind.gt:
        report.add(place, f"is {found}, more than {kind.gt} is needed")
    elif kind.le is not None and found > kind.le:
        report.add(place, f"is {found}, at most {kind.le} is allowed")
    elif kind.lt is not None and found >= kind.lt:
        report.add(place, f"is {found}, less than {kind.lt} is needed")


def _accept(_kind: Any, _found: Any, _place: FieldPath, _report: ProblemReport) -> None:
    pass


_Inspection = Callable[[Any, Any, FieldPath, ProblemReport], None]
_SHAPES: dict[type[inspect.Type], tuple[tuple[type, ...], str, _Inspection]] = {
    inspect.StructType: ((tuple,), "an object", _inspect_struct),
    inspect.DictType: ((tuple,), "an object", _inspect_dict),
    inspect.ListType: ((list,), "a list", _inspect_list),
    inspect.StrType: ((str,), "text", _inspect_text),
    inspect.IntType: ((int,), "a whole number", _inspect_number),
    inspect.FloatType: ((int, float), "a number", _inspect_number),
    inspect.BoolType: ((bool,), "true or false", _accept),
    inspect.NoneType: ((type(None),), "null", _accept),
}
