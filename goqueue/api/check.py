"""Bodies and queries become typed values, or a refusal that names everything that is wrong with them.

A good body is decoded by msgspec in one pass over its bytes. msgspec lets one thing through: a name that an object has
twice, of which one value would silently be lost. Mostly the number of quotes shows that there is none; where it does
not, a second pass by the parser of the standard library looks for it. Only a bad body is looked at closely
(`inspection`). What must stay true: what is accepted has the declared type, within its bounds, every number within
64 bits, every name once.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect

from goqueue.api.inspection import (
    INTEGER_MAX,
    INTEGER_MIN,
    choices,
    has_long_number,
    inspect_body,
    inspect_part,
    inspect_value,
    is_deep,
    noun,
)
from goqueue.api.problems import ROOT, Enough, Place, Report
from goqueue.api.scalars import SCALARS, decode_scalar, encode_scalar
from goqueue.quantities import quoted

T = TypeVar("T")

_encode = msgspec.json.Encoder(enc_hook=encode_scalar).encode
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,30})?")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is worked out once for a type."""

    decoder: "msgspec.json.Decoder[Any]"
    description: inspect.StructType
    has_any: bool
    """Whether something in it may nest as it likes."""
    has_free_numbers: bool
    """Whether msgspec would let a whole number through that has more than 64 bits."""
    names: tuple[bytes, ...] | None
    """The names in it, quoted, where nothing in it has names of its own."""
    scalars: bytes
    """How all names, quoted, of what is written in another form than it was read begin; without any, nothing."""

    def is_plainly_unrepeated(self, body: bytes | bytearray) -> bool:
        """Whether a look at the bytes is enough to see that no name comes twice: others are not accepted at all."""
        return self.names is not None and b"\\" not in body and all(body.count(name) <= 1 for name in self.names)

    def has_as_many_quotes(self, body: bytes | bytearray, value: Any) -> bool:
        """Whether the value, written again, has as many quotes as the body: whatever was given twice has more.

        Without a backslash, every quote begins or ends a string. What is given as null may be left out when it is
        written again, so an answer of no says nothing.
        """
        if b"\\" in body or (self.scalars and self.scalars in body):
            return False
        return body.count(b'"') == _encode(value).count(b'"')

    def accepts_more(self, body: bytes | bytearray) -> bool:
        """Whether a body that msgspec accepted deserves a closer look. Says yes too often rather than too rarely."""
        if self.has_any and is_deep(body):
            return True
        return self.has_free_numbers and has_long_number(body)


class Doubtful(Exception):
    """A body that needs a closer look; `value` is what it comes to if nothing is found."""

    def __init__(self, problem: str, value: Any = None) -> None:
        super().__init__(problem)
        self.problem = problem
        """What the decoder says, if it has refused the body."""
        self.value = value


def decode_quickly(kind: type[T], body: bytes | bytearray) -> T:
    """The body as a value of the type, or Doubtful. Never takes long; `explain` may."""
    plan = _plan_of(kind)
    try:
        value: T = plan.decoder.decode(body)
        is_unrepeated = (
            plan.is_plainly_unrepeated(body) or plan.has_as_many_quotes(body, value) or not has_repeats(body)
        )
        if is_unrepeated and not plan.accepts_more(body):
            return value
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Doubtful(str(error)) from None
    raise Doubtful("", value)


def explain(kind: type[T], body: bytes | bytearray, doubt: Doubtful) -> T:
    """RequestInvalid with all problems of a doubtful body, or its value where it has none."""
    report = inspect_body(_plan_of(kind).description, body)
    if doubt.problem and not report.problems:  # a type that the inspection does not know in all its detail
        report.add(ROOT, f"is not what belongs here: {doubt.problem}")
    if report.problems:
        raise report.refusal()
    value: T = doubt.value
    return value


def decode_body(kind: type[T], body: bytes | bytearray) -> T:
    """The body as a value of the type, or RequestInvalid with all problems."""
    try:
        return decode_quickly(kind, body)
    except Doubtful as doubt:
        return explain(kind, body, doubt)


def inspect_entry(kind: type[Any], part: bytes, place: Place, report: Report, start: int) -> None:
    """Report all that is wrong with a part of a body that should be of this type; it begins at the byte `start`."""
    known = len(report.problems)
    try:
        decode_quickly(kind, part)
    except Doubtful as doubt:
        inspect_part(_plan_of(kind).description, part, place, report, start)
        if doubt.problem and len(report.problems) == known:
            report.add(place, f"is not what belongs here: {doubt.problem}")


class _Repeated(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        raise _Repeated


_REPEATS = json.JSONDecoder(object_pairs_hook=_once)


def has_repeats(body: bytes | bytearray) -> bool:
    """Whether an object has a name twice, of a body that is known to be JSON.

    Counting names in the bytes is enough only where nothing nests: elsewhere a field left out here makes up for one
    given twice there.
    """
    try:
        _REPEATS.decode(body.decode("utf-8"))
    except _Repeated:
        return True
    return False


_PLANS: dict[type[Any], _Plan] = {}
"""As many as the program has types of requests."""


def _plan_of(kind: type[Any]) -> _Plan:
    plan = _PLANS.get(kind)
    if plan is None:
        plan = _PLANS[kind] = _new_plan(kind)
    return plan


def _new_plan(kind: type[Any]) -> _Plan:
    description = inspect.type_info(kind)
    if not isinstance(description, inspect.StructType):
        raise TypeError(f"{kind.__name__} is not a struct")
    parts = list(_parts(description, set()))
    open_structs = [part.cls.__name__ for part in parts if _is_open(part)]
    if open_structs:
        raise TypeError(f"{open_structs[0]} must be declared with forbid_unknown_fields=True")
    has_any = any(isinstance(part, inspect.AnyType) for part in parts)
    scalars = [_quoted(part) for part in parts if isinstance(part, inspect.Field) and _is_scalar(part.type)]
    return _Plan(
        decoder=msgspec.json.Decoder(kind, dec_hook=decode_scalar),
        description=description,
        has_any=has_any,
        names=None if any(_has_names(part) for part in parts[1:]) else _quoted_names(description),
        scalars=commonprefix(scalars) or b"",  # noqa: RUF071 - of names, not of paths
        has_free_numbers=has_any or any(isinstance(part, inspect.IntType) and _is_free(part) for part in parts),
    )


def _has_names(part: Any) -> bool:
    return isinstance(part, inspect.StructType | inspect.DictType | inspect.AnyType)


def _quoted_names(description: inspect.StructType) -> tuple[bytes, ...]:
    return tuple(map(_quoted, description.fields))


def _quoted(field: inspect.Field) -> bytes:
    return f'"{field.encode_name}"'.encode()


def _is_scalar(kind: Any) -> bool:
    """Whether a value of this type, or one in a list of it, is made by `decode_scalar`."""
    if isinstance(kind, inspect.StructType):
        return False
    inner = [getattr(kind, name, None) for name in ("type", "item_type", "value_type")]
    return isinstance(kind, inspect.CustomType) or any(
        _is_scalar(one) for one in (*inner, *getattr(kind, "types", ())) if one is not None
    )


def _is_open(part: Any) -> bool:
    return isinstance(part, inspect.StructType) and not part.forbid_unknown_fields


def _is_free(number: inspect.IntType) -> bool:
    lowest = number.ge if number.ge is not None else number.gt
    highest = number.le if number.le is not None else number.lt
    return lowest is None or highest is None


def _parts(kind: Any, seen: set[int]) -> Any:
    """A description and all descriptions inside it, each once."""
    if id(kind) in seen:
        return
    seen.add(id(kind))
    yield kind
    for name in ("type", "item_type", "key_type", "value_type"):
        if (inner := getattr(kind, name, None)) is not None:
            yield from _parts(inner, seen)
    for inner in (*getattr(kind, "types", ()), *getattr(kind, "fields", ())):
        yield from _parts(inner, seen)


def decode_query(kind: type[T], query: str) -> T:
    """The query's parameters as a value of the type, or RequestInvalid with all problems."""
    if not query:
        with suppress(TypeError):  # where something is required, which the long way names
            return kind()
    plan = _plan_of(kind)
    report = Report("the query")
    values: dict[str, Any] = {}
    said = ""
    try:
        _read_parameters(plan.description, query, values, report)
        if not report.problems:
            return msgspec.convert(values, kind, dec_hook=decode_scalar)
    except msgspec.ValidationError as error:
        said = str(error)
    except Enough:
        raise report.refusal() from None
    with suppress(Enough):
        _inspect_parameters(plan.description, values, report)
        if not report.problems:
            report.add(ROOT, f"is not what belongs here: {said}")
    raise report.refusal()


def _read_parameters(kind: inspect.StructType, query: str, values: dict[str, Any], report: Report) -> None:
    fields = {field.encode_name: field for field in kind.fields}
    given: set[str] = set()
    for piece in query.split("&") if query else ():
        written, _, rest = piece.partition("=")
        name, text = _unescaped(written, "the query", report), _unescaped(rest, written, report)
        if not piece or name is None:
            continue
        field = fields.get(name)
        if field is None:
            report.add_unknown(str(Place(name, ROOT)), "parameter", name, list(fields))
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
    """What each of a parameter's values is, where it may be given several times."""
    if isinstance(kind, inspect.Metadata):
        return _item_of(kind.type)
    return kind.item_type if isinstance(kind, inspect.ListType) else None


def _unescaped(text: str, place: str, report: Report) -> str | None:
    """Percent signs and plus signs undone; None, with a problem, where that gives no text."""
    if "%" not in text and "+" not in text and text.isascii():
        return text
    shown = place if place.isidentifier() else "the query"
    bad = _BAD_ESCAPE.search(text)
    if bad is not None:
        problem = f"has {quoted(text[bad.start() : bad.start() + 3])}, which is no escape"
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
    """The text of a parameter as the JSON value that it stands for; bounds are looked at later."""
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
    if isinstance(kind, (inspect.LiteralType, inspect.EnumType)):
        return next((option for option in choices(kind) if str(option) == text), text)
    if isinstance(kind, inspect.CustomType) and issubclass(kind.cls, SCALARS):
        return kind.cls.read(text)
    if isinstance(kind, inspect.StrType):
        return text
    raise TypeError(f"{type(kind).__name__} is no type of a parameter")


def _inspect_parameters(kind: inspect.StructType, values: dict[str, Any], report: Report) -> None:
    """Bounds and choices of what could be read."""
    for field in kind.fields:
        if field.encode_name in values:
            inspect_value(field.type, values[field.encode_name], Place(field.encode_name, ROOT), report)
