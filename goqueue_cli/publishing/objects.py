"""Messages as objects of JSON, a line each, as `consume -o jsonl` writes them."""

import time
from base64 import b64decode
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Literal, NoReturn

import msgspec

from goqueue.client import Nanoseconds, due
from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted
from goqueue_cli.publishing.sources import Chunk, Header, Lines, Shared

_Encoding = Literal["utf-8", "base64"]


class _Encoded(msgspec.Struct, forbid_unknown_fields=True):
    value: str
    encoding: _Encoding | None = None


class _Object(msgspec.Struct, forbid_unknown_fields=True):
    """A message. Where and when it was, and how often it was delivered, is read and means nothing here.

    What `delayed describe` and `delayed cancel` write of one is read as well, so that it can be scheduled again.
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


class Wishes(msgspec.Struct, frozen=True):
    """What flags say about all messages; a flag is stronger than an object."""

    key: bytes | None
    headers: list[Header]
    partition: int | None
    priority: int | str | None
    keep_partitions: bool
    delay: float | None = None
    deliver_at: Nanoseconds | None = None


_Message = tuple[bytes | None, bytes, Shared]

_decode = msgspec.json.Decoder(_Object).decode


def of_objects(given: Lines, wishes: Wishes) -> Iterator[Chunk]:
    """Neighbours that share everything but key and value are handed over together.

    What stands before a wrong line is handed over. Empty lines are passed over.
    """
    count = 0
    for lines in given:
        made: list[_Message] = []
        try:
            for number, line in enumerate(lines, start=count + 1):
                if line and not line.isspace():
                    made.append(_message(line, number, wishes))
        except RequestInvalid:
            yield from _gathered(made)
            raise
        count += len(lines)
        yield from _gathered(made)


def _gathered(messages: list[_Message]) -> Iterator[Chunk]:
    for shared, run in groupby(messages, itemgetter(2)):
        values, keys, _ = zip(*run, strict=True)
        yield Chunk(values, keys, shared)


def _message(line: bytes, number: int, wishes: Wishes) -> _Message:
    try:
        found = _decode(line)
    except msgspec.DecodeError as error:
        _refuse(error, line, number)
    try:
        value = None if found.value is None else _bytes(found.value, found.encoding)
        key = wishes.key if wishes.key is not None else _bytes(found.key or "", found.key_encoding)
        headers = [*_headers(found), *wishes.headers]
    except ValueError as error:
        raise RequestInvalid(f"line {number} has what is not base64: {error}") from None
    if value is None and not key:
        raise RequestInvalid(
            f"line {number} has neither a value nor a key", hint='null deletes a key; an empty message is ""'
        )
    partition = found.partition if wishes.keep_partitions and wishes.partition is None else wishes.partition
    priority = wishes.priority if wishes.priority is not None else found.priority
    delay, deliver_at = _due(found, number, wishes)
    return value, key, Shared(headers, partition, "normal" if priority is None else priority, delay, deliver_at)


def _due(found: _Object, number: int, wishes: Wishes) -> tuple[float | str | None, Nanoseconds | str | None]:
    """When to deliver it; what cannot be is told with the number of the line."""
    if wishes.delay is not None or wishes.deliver_at is not None:
        return wishes.delay, wishes.deliver_at
    if not found.delay and not found.deliver_at:
        return None, None
    try:
        due.header_of(found.delay, found.deliver_at, time.time_ns)
    except RequestInvalid as error:
        raise RequestInvalid(f"line {number}: {error.sentence}", hint=error.hint) from None
    return found.delay, found.deliver_at


def _headers(found: _Object) -> Iterator[Header]:
    for name, texts in (found.headers or {}).items():
        for text in texts if isinstance(texts, list) else (texts,):
            yield name, text.encode() if isinstance(text, str) else _bytes(text.value, text.encoding)


def _bytes(text: str, encoding: _Encoding | None) -> bytes:
    return b64decode(text, validate=True) if encoding == "base64" else text.encode()


_TEXT = "text is published; `jq -c '.value |= tojson'` makes text of what is something else"


def _refuse(error: msgspec.DecodeError, line: bytes, number: int) -> NoReturn:
    """What the parser complains of, in words about the line."""
    said = str(error)
    if not isinstance(error, msgspec.ValidationError):
        shown = quoted(line.decode(errors="backslashreplace"))
        raise RequestInvalid(f"line {number} is not JSON: {shown}", hint="without --jsonl whole lines are published")
    problem, _, path = said.partition(" - at `$")
    place = path.rstrip("`").lstrip(".")
    if place == "value":
        raise RequestInvalid(f"line {number}: value is not a text", hint=_TEXT)
    if said.startswith("Object missing required field `value`"):
        raise RequestInvalid(f"line {number} has no value", hint='as in {"key": "customer-4", "value": "tea"}')
    where = f"{place}: " if place else ""
    raise RequestInvalid(
        f"line {number}: {where}{problem[:1].lower()}{problem[1:]}",
        hint=f"fields are {', '.join(_Object.__struct_fields__[:9])}",
    )
