"""Decodes bodies and queries to their types, or refuses them with every problem and its place.

msgspec decodes a valid body in one pass over its bytes. It accepts one thing that must be refused: a name that an
object has twice, because one of the values would be lost. The number of quotes nearly always shows that there is none;
otherwise the parser of the standard library looks for it. Only an invalid body is inspected closely (`problems`).
What must stay true: what is accepted has the declared type, within its bounds, every number within 64 bits, every
name once.

Small bodies are decoded on the event loop, large ones on a thread, one at a time, after a scan of their structure. What
must stay true: no body blocks the loop for more than some ten milliseconds, and none costs more memory than four times
its bytes and what `REQUEST_VALUES_MAX` values need.
"""

import asyncio
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect

from goqueue.api.endpoint import Endpoint
from goqueue.api.fields import SCALARS, Time, decode_scalar
from goqueue.api.json_scan import Structure, TooDeep, TooManyValues, scan
from goqueue.api.problems import (
    INTEGER_MAX,
    INTEGER_MIN,
    ROOT,
    FieldPath,
    ProblemReport,
    TooManyProblems,
    inspect_body,
    inspect_part,
    inspect_value,
    noun,
)
from goqueue.errors import RequestTooLarge
from goqueue.limits import DECODED_AT_ONCE_BYTES, EXPLAINED_BYTES_MAX, JSON_DEPTH_MAX, REQUEST_VALUES_MAX
from goqueue.quantities import quoted

T = TypeVar("T")

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,30})?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def _encode_form(value: Any) -> Any:
    """Encode a scalar with as many quotes as it had in the request."""
    return "" if isinstance(value, Time) or value.is_text else 0


_encode = msgspec.json.Encoder(enc_hook=_encode_form).encode


@dataclass(frozen=True, slots=True)
class _TypePlan:
    """Facts about a type, computed once."""

    decoder: "msgspec.json.Decoder[Any]"
    description: inspect.StructType
    omits_defaults: bool
    """A value that is encoded again has no field that its body does not have."""

    def has_repeats(self, body: bytes | bytearray, value: Any) -> bool:
        """Return whether an object in the body has a name twice.

        A repeated name has quotes that the value, encoded again, does not have: defaults are left out, so that every
        name in the new text was in the body, once. A quote inside text is written in one way, but for `\\u0022`.
        Explicit defaults, such as null, have more quotes as well, and need the parser.
        """
        if self.omits_defaults and b"\\u0022" not in body and body.count(b'"') == _encode(value).count(b'"'):
            return False
        return has_repeats(body)


class NeedsInspection(Exception):
    """A body that needs a close look; `value` is its value if nothing is found."""

    def __init__(self, problem: str, value: Any = None) -> None:
        super().__init__(problem)
        self.problem = problem
        """The decoder's message, if it has refused the body."""
        self.value = value


def decode_fast(kind: type[T], body: bytes | bytearray) -> T:
    """Decode a body, or raise NeedsInspection. Never takes long; `inspect_further` may."""
    plan = _PLANS.get(kind) or _plan_of(kind)
    try:
        value: T = plan.decoder.decode(body)
        if not plan.has_repeats(body, value):
            return value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NeedsInspection(str(error)) from None
    raise NeedsInspection("", value)


def inspect_further(kind: type[T], body: bytes | bytearray, doubt: NeedsInspection) -> T:
    """Raise RequestInvalid with all problems of a body, or return its value if it has none."""
    report = inspect_body(_plan_of(kind).description, body)
    if doubt.problem and not report.problems:  # a type whose details the inspection does not know
        report.add(ROOT, f"is not valid: {doubt.problem}")
    if report.problems:
        raise report.refusal()
    value: T = doubt.value
    return value


def decode_body(kind: type[T], body: bytes | bytearray) -> T:
    """Decode a body. Raises RequestInvalid with all problems."""
    try:
        return decode_fast(kind, body)
    except NeedsInspection as doubt:
        return inspect_further(kind, body, doubt)


def inspect_entry(kind: type[Any], part: bytes, place: FieldPath, report: ProblemReport, start: int) -> None:
    """Report all problems of a part of a body that should be of this type and begins at the byte `start`."""
    known = len(report.problems)
    try:
        decode_fast(kind, part)
    except NeedsInspection as doubt:
        inspect_part(_plan_of(kind).description, part, place, report, start)
        if doubt.problem and len(report.problems) == known:
            report.add(place, f"is not valid: {doubt.problem}")


# --- repeated names ---


class _Repeated(Exception):
    pass


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        raise _Repeated


_REPEATS = json.JSONDecoder(object_pairs_hook=_refuse_repeated)


def has_repeats(body: bytes | bytearray) -> bool:
    """Return whether an object in valid JSON has a name twice."""
    try:
        _REPEATS.decode(body.decode("utf-8"))
    except _Repeated:
        return True
    return False


# --- types ---

_PLANS: dict[type[Any], _TypePlan] = {}
"""One for each request type of the program."""


def _plan_of(kind: type[Any]) -> _TypePlan:
    plan = _PLANS.get(kind)
    if plan is None:
        plan = _PLANS[kind] = _new_plan(kind)
    return plan


def _new_plan(kind: type[Any]) -> _TypePlan:
    description = inspect.type_info(kind)
    if not isinstance(description, inspect.StructType):
        raise TypeError(f"{kind.__name__} is not a struct")
    parts = list(_parts(description, set()))
    for part in parts:
        if isinstance(part, inspect.StructType) and not part.forbid_unknown_fields:
            raise TypeError(f"{part.cls.__name__} must be declared with forbid_unknown_fields=True")
        if isinstance(part, inspect.AnyType):
            raise TypeError(f"{kind.__name__} has a field of any type, which could nest without limit")
        if isinstance(part, inspect.IntType) and _is_free(part):
            raise TypeError(f"{kind.__name__} has a whole number without bounds, which could have more than 64 bits")
    return _TypePlan(
        decoder=msgspec.json.Decoder(kind, dec_hook=decode_scalar),
        description=description,
        omits_defaults=all(_omits_defaults(part) for part in parts),
    )


def _omits_defaults(part: inspect.Type) -> bool:
    """Return whether encoding a value leaves out every field that was not given."""
    if not isinstance(part, inspect.StructType) or part.cls.__struct_config__.omit_defaults:
        return True
    return all(field.required for field in part.fields)


def _is_free(number: inspect.IntType) -> bool:
    lowest = number.ge if number.ge is not None else number.gt
    highest = number.le if number.le is not None else number.lt
    return lowest is None or highest is None


def _parts(kind: Any, seen: set[int]) -> Any:
    """Yield a description and all descriptions inside it, each once."""
    if id(kind) in seen:
        return
    seen.add(id(kind))
    yield kind
    for name in ("type", "item_type", "key_type", "value_type"):
        if (inner := getattr(kind, name, None)) is not None:
            yield from _parts(inner, seen)
    for inner in (*getattr(kind, "types", ()), *getattr(kind, "fields", ())):
        yield from _parts(inner, seen)


# --- queries ---


def decode_query(kind: type[T], query: str) -> T:
    """Decode a query string. Raises RequestInvalid with all problems."""
    if not query:
        try:  # not `suppress`, which takes longer than the rest
            return kind()
        except TypeError:  # a parameter is required, which is reported below
            pass
    plan = _plan_of(kind)
    report = ProblemReport("the query")
    values: dict[str, Any] = {}
    problem = ""
    try:
        _read_parameters(plan.description, query, values, report)
        if not report.problems:
            return msgspec.convert(values, kind, dec_hook=decode_scalar)
    except msgspec.ValidationError as error:
        problem = str(error)
    except TooManyProblems:
        raise report.refusal() from None
    with suppress(TooManyProblems):
        _inspect_parameters(plan.description, values, report)
        if not report.problems:
            report.add(ROOT, f"is not valid: {problem}")
    raise report.refusal()


def _read_parameters(kind: inspect.StructType, query: str, values: dict[str, Any], report: ProblemReport) -> None:
    fields = {field.encode_name: field for field in kind.fields}
    given: set[str] = set()
    for piece in query.split("&") if query else ():
        written, _, rest = piece.partition("=")
        name, text = _unescaped(written, "the query", report), _unescaped(rest, written, report)
        if not piece or name is None:
            continue
        field = fields.get(name)
        if field is None:
            report.add_unknown(str(FieldPath(name, ROOT)), "parameter", name, list(fields))
            continue
        item = _item_of(field.type)
        if name in given and item is None:
            report.add(name, "is given twice", "keep one")
            continue
        given.add(name)
        if text is None:
            continue
        try:
            if item is None:
                values[name] = _value_of(field.type, text)
            else:
                values.setdefault(name, []).append(_value_of(item, text))
        except ValueError as error:
            report.add(name, str(error), _plus_hint(field.type, rest))
    for name, field in fields.items():
        if field.required and name not in given:
            report.add(name, "is missing")


def _item_of(kind: inspect.Type) -> inspect.Type | None:
    """Return the type of each value of a parameter that may be repeated, else None."""
    if isinstance(kind, inspect.Metadata):
        return _item_of(kind.type)
    return kind.item_type if isinstance(kind, inspect.ListType) else None


def _unescaped(text: str, place: str, report: ProblemReport) -> str | None:
    """Decode percent and plus signs; report a problem and return None if the result is not text."""
    if "%" not in text and "+" not in text and text.isascii():
        return text
    shown = place if place.isidentifier() else "the query"
    bad = _BAD_ESCAPE.search(text)
    if bad is not None:
        problem = f"has {quoted(text[bad.start() : bad.start() + 3])}, which is not an escape sequence"
        report.add(shown, problem, "write %25 for a percent sign")
        return None
    try:
        return unquote_to_bytes(text.replace("+", " ")).decode("utf-8")
    except UnicodeError:
        report.add(shown, f"is {quoted(text)}, which is not UTF-8")
        return None


def _plus_hint(kind: inspect.Type, written: str) -> str | None:
    return "write %2B for a plus sign: + alone is a space" if "+" in written and noun(kind) == "a time" else None


def _value_of(kind: inspect.Type, text: str) -> Any:
    """Return the JSON value of a parameter; bounds are checked later."""
    if isinstance(kind, inspect.Metadata):
        return _value_of(kind.type, text)
    if isinstance(kind, inspect.UnionType):
        (inner,) = (option for option in kind.types if not isinstance(option, inspect.NoneType))
        return _value_of(inner, text)
    if isinstance(kind, inspect.IntType):
        number = int(text) if _INTEGER.fullmatch(text) else None
        if number is None or not INTEGER_MIN <= number <= INTEGER_MAX:
            raise ValueError(f"is {quoted(text)} where a whole number belongs")
        return number
    if isinstance(kind, inspect.FloatType):
        if not _DECIMAL.fullmatch(text):
            raise ValueError(f"is {quoted(text)} where a number belongs")
        return float(text)
    if isinstance(kind, inspect.BoolType):
        if text not in {"true", "false"}:
            raise ValueError(f"is {quoted(text)} where true or false belongs")
        return text == "true"
    return _named_value(kind, text)


def _named_value(kind: inspect.Type, text: str) -> Any:
    if isinstance(kind, inspect.LiteralType):
        return next((option for option in kind.values if str(option) == text), text)
    if isinstance(kind, inspect.CustomType) and issubclass(kind.cls, SCALARS):
        return kind.cls.read(text)
    if isinstance(kind, inspect.StrType):
        return text
    raise TypeError(f"{type(kind).__name__} is not a type of a parameter")


def _inspect_parameters(kind: inspect.StructType, values: dict[str, Any], report: ProblemReport) -> None:
    """Report values that violate bounds or choices."""
    for field in kind.fields:
        if field.encode_name in values:
            inspect_value(field.type, values[field.encode_name], FieldPath(field.encode_name, ROOT), report)


# --- bodies of all sizes ---


class BodyDecoder:
    """Decodes the bodies of all requests."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)
        """Large bodies take turns: several at once would finish no sooner, and block the loop through the GIL."""

    def decode(self, row: Endpoint, body: bytearray) -> Any:
        """Decode the body to the endpoint's type, or return a coroutine that does, if it takes long.

        Both raise RequestInvalid with all problems.
        """
        assert row.body is not None, "the endpoint takes a body"
        if len(body) > DECODED_AT_ONCE_BYTES:
            return self._on_thread(row.decode_large or _decode_large, row.body, body)
        try:
            return decode_fast(row.body, body)
        except NeedsInspection as doubt:
            if len(body) <= EXPLAINED_BYTES_MAX:
                return inspect_further(row.body, body, doubt)
            return self._on_thread(inspect_further, row.body, body, doubt)

    async def _on_thread(self, job: Any, *given: Any) -> Any:
        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(None, job, *given)


def too_large(row: Endpoint, body: bytearray) -> RequestTooLarge:
    """Return the error for a body that is larger than any that the endpoint can use."""
    return RequestTooLarge(
        f"the body has {len(body):,} bytes, {row.method} {row.path} takes at most {row.body_bytes:,}",
        hint="send several smaller requests",
    )


def _decode_large(kind: type, body: bytearray) -> Any:
    scan_body(body, REQUEST_VALUES_MAX)
    return decode_body(kind, body)


def scan_body(body: bytes | bytearray, values_max: int) -> Structure:
    """Scan the structure of a body. Raises RequestInvalid if it has too many values or is too deep."""
    report, hint = ProblemReport("the body"), None
    try:
        return scan(body, values_max)
    except TooManyValues:
        problem, hint = f"has more than {values_max:,} names and values", "send several smaller requests"
    except TooDeep:
        problem = f"is nested deeper than {JSON_DEPTH_MAX} levels"
    report.add(ROOT, problem, hint)
    raise report.refusal()
