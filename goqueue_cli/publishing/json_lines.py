"""Messages as JSON objects, one per line, as `consume -o jsonl` writes them."""

import time
from base64 import b64decode
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Literal, NoReturn

import msgspec

from goqueue.client import Nanoseconds
from goqueue.client.times import delay_header
from goqueue.console.message_fields import Header
from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted
from goqueue_cli.publishing.sources import Lines, MessageChunk, Shared

_Encoding = Literal["utf-8", "base64"]


class _Encoded(msgspec.Struct, forbid_unknown_fields=True):
    value: str
    encoding: _Encoding | None = None


class _Object(msgspec.Struct, forbid_unknown_fields=True):
    """A message. The fields from `topic` on are accepted and ignored.

    They are written by `consume`, `delayed describe` and `delayed cancel`, whose output can be published again.
    """

    value: str | None
    key: str | None = None
    headers: dict[str, str | _Encoded | list[str | _Encoded]] | None = None
    priority: int | str | None = None
    partition: int | None = None
    delay: int | float | str | None = None
    deliver_at: str | None = None
    encoding: _Encoding | None = None
    key_encoding: _Encoding | None = None
    topic: str | None = None
    offset: int | None = None
    timestamp: str | None = None
    attempt: int | None = None
    delayed_offset: int | None = None
    name: str | None = None
    state: str | None = None
    size: int | None = None
    scheduled_at: str | None = None
    result: str | None = None


class ObjectDefaults(msgspec.Struct, frozen=True):
    """The flags for all messages, which take precedence over the fields of an object."""

    key: bytes | None
    headers: list[Header]
    partition: int | None
    priority: int | str | None
    keep_partitions: bool
    delay: float | None = None
    deliver_at: Nanoseconds | None = None


_Message = tuple[bytes | None, bytes, Shared]

_decode = msgspec.json.Decoder(_Object).decode


def of_objects(given: Lines, defaults: ObjectDefaults) -> Iterator[MessageChunk]:
    """Group neighbors that differ only in key and value.

    Lines before a wrong one are published, and empty lines are skipped.
    """
    count = 0
    for lines in given:
        made: list[_Message] = []
        try:
            for number, line in enumerate(lines, start=count + 1):
                if line and not line.isspace():
                    made.append(_message(line, number, defaults))
        except RequestInvalid:
            yield from _gathered(made)
            raise
        count += len(lines)
        yield from _gathered(made)


def _gathered(messages: list[_Message]) -> Iterator[MessageChunk]:
    for shared, run in groupby(messages, itemgetter(2)):
        values, keys, _ = zip(*run, strict=True)
        yield MessageChunk(values, keys, shared)


def _message(line: bytes, number: int, defaults: ObjectDefaults) -> _Message:
    try:
        found = _decode(line)
    except msgspec.DecodeError as error:
        _refuse(error, line, number)
    try:
        value = None if found.value is None else _bytes(found.value, found.encoding)
        key = defaults.key if defaults.key is not None else _bytes(found.key or "", found.key_encoding)
        headers = [*_headers(found), *defaults.headers]
    except ValueError as error:
        raise RequestInvalid(f"line {number} is not valid base64: {error}") from None
    if value is None and not key:
        raise RequestInvalid(
            f"line {number} has neither a value nor a key", hint='null deletes a key; an empty message is ""'
        )
    partition = found.partition if defaults.keep_partitions and defaults.partition is None else defaults.partition
    priority = defaults.priority if defaults.priority is not None else found.priority
    delay, deliver_at = _due(found, number, defaults)
    return value, key, Shared(headers, partition, "normal" if priority is None else priority, delay, deliver_at)


def _due(found: _Object, number: int, defaults: ObjectDefaults) -> tuple[float | str | None, Nanoseconds | str | None]:
    """Return when to deliver the message; an error names the number of the line."""
    if defaults.delay is not None or defaults.deliver_at is not None:
        return defaults.delay, defaults.deliver_at
    if not found.delay and not found.deliver_at:
        return None, None
    try:
        delay_header(found.delay, found.deliver_at, time.time_ns)
    except RequestInvalid as error:
        raise RequestInvalid(f"line {number}: {error.sentence}", hint=error.hint) from None
    return found.delay, found.deliver_at


def _headers(found: _Object) -> Iterator[Header]:
    for name, texts in (found.headers or {}).items():
        for text in texts if isinstance(texts, list) else (texts,):
            yield name, text.encode() if isinstance(text, str) else _bytes(text.value, text.encoding)


def _bytes(text: str, encoding: _Encoding | None) -> bytes:
    return b64decode(text, validate=True) if encoding == "base64" else text.encode()


_TEXT = "values are text; `jq -c '.value |= tojson'` converts other values"


def _refuse(error: msgspec.DecodeError, line: bytes, number: int) -> NoReturn:
    """Raise the error of the parser in terms of the line."""
    said = str(error)
    if not isinstance(error, msgspec.ValidationError):
        shown = quoted(line.decode(errors="backslashreplace"))
        raise RequestInvalid(f"line {number} is not JSON: {shown}", hint="without --jsonl whole lines are published")
    problem, _, path = said.partition(" - at `$")
    place = path.rstrip("`").lstrip(".")
    if place == "value":
        raise RequestInvalid(f"line {number}: value is not text", hint=_TEXT)
    if said.startswith("Object missing required field `value`"):
        raise RequestInvalid(f"line {number} has no value", hint='as in {"key": "customer-4", "value": "tea"}')
    where = f"{place}: " if place else ""
    raise RequestInvalid(
        f"line {number}: {where}{problem[:1].lower()}{problem[1:]}",
        hint=f"fields are {', '.join(_Object.__struct_fields__[:9])}",
    )
