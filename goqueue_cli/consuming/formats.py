"""Output formats of messages: format strings, tables for people, JSON, YAML and CSV for programs.

A renderer takes a list of messages of one partition and returns a piece of output for each. A pipe gets bytes as they
were published; a terminal gets no control characters.

What must stay true: work that can be done once per list is not done once per message.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from msgspec import json

from goqueue.client import Delivered, Message
from goqueue.console import rows, terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.formatting import priority_name
from goqueue.quantities import format_time, quoted

Messages = Sequence[Message]
Renderer = Callable[[Messages], Iterable[bytes]]
_Column = Callable[[Messages], list[Any]]

FIELDS = "%t topic, %p partition, %o offset, %k key, %v value, %h{name} header, %T time, %P priority, %a attempt"

_TOKEN = re.compile(r"%h\{([^}]*)\}|%(.?)|\\(.?)|([^%\\]+)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_COLUMNS: dict[str, _Column] = {
    "t": lambda messages: [message.topic.encode() for message in messages],
    "p": lambda messages: [message.partition for message in messages],
    "o": lambda messages: [message.offset for message in messages],
    "k": lambda messages: [message.key or b"" for message in messages],
    "v": lambda messages: [message.value or b"" for message in messages],
    "T": lambda messages: [format_time(message.timestamp_ns).encode() for message in messages],
    "P": lambda messages: [message.priority for message in messages],
    "a": lambda messages: [cast(Delivered, message).attempt for message in messages],
}
_NUMBERS = {"p", "o", "P", "a"}
_LEASED = {"a"}  # only for members of a group
_FOREIGN = {"k", "v"}  # bytes of the publisher


def by_format(text: str, *, escaped_output: bool, leased: bool = False) -> Renderer:
    """Compile a format string into a template of bytes and the columns that fill it."""
    template, columns = b"", []
    for token in _TOKEN.finditer(text):
        header, field, escape, plain = token.groups()
        if plain is not None:
            template += plain.encode(errors="surrogateescape")
        elif escape is not None:
            template += _escaped(escape)
        elif field == "%":
            template += b"%%"
        elif header is not None:
            columns.append(_escaped_column(_header_column(header)) if escaped_output else _header_column(header))
            template += b"%b"
        elif field in _COLUMNS and (leased or field not in _LEASED):
            column = _COLUMNS[field]
            columns.append(_escaped_column(column) if escaped_output and field in _FOREIGN else column)
            template += b"%d" if field in _NUMBERS else b"%b"
        else:
            raise _unknown(field, text[token.start() :])
    return _filled(template, columns)


def _filled(template: bytes, columns: list[_Column]) -> Renderer:
    if not columns:
        whole = template % ()
        return lambda messages: [whole] * len(messages)
    fill = template.__mod__
    return lambda messages: map(fill, zip(*(column(messages) for column in columns), strict=True))


def _unknown(field: str, rest: str) -> UsageInvalid:
    if rest.startswith("%h{"):
        return UsageInvalid(f"--format: {quoted(rest)} is not closed", hint="use %h{source}")
    if field == "h":
        return UsageInvalid("--format: %h names no header", hint="use %h{source}")
    if not field:
        return UsageInvalid("--format: the last % has no field", hint="%% prints one")
    if field in _LEASED:
        return UsageInvalid(f"--format: %{field} needs --group", hint="name a group with --group")
    return UsageInvalid(f"--format: %{field} is not a field", hint=f"there are {FIELDS}, and %%")


def _escaped(letter: str) -> bytes:
    if letter not in _ESCAPES:
        known = ", ".join(f"\\{known}" for known in _ESCAPES)
        what = f"\\{letter} is not an escape" if letter else "the last \\ has no letter"
        raise UsageInvalid(f"--format: {what}", hint=f"there are {known}")
    return _ESCAPES[letter]


def _header_column(name: str) -> _Column:
    """Return a column with the first header of that name, or an empty value."""
    return lambda messages: [
        next((value for found, value in message.headers if found == name), b"") for message in messages
    ]


def _escaped_column(column: _Column) -> _Column:
    return lambda messages: [escaped_bytes(value) for value in column(messages)]


def escaped_bytes(value: bytes) -> bytes:
    return terminal.escape_unprintable(readable(value)).encode()


def readable(value: bytes) -> str:
    return value.decode(errors="backslashreplace")


# --- records and tables ---


def record(message: Message) -> dict[str, Any]:
    """Return all fields of a message; bytes that are not UTF-8 are base64, with a field that says so."""
    made: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": format_time(message.timestamp_ns),
        "priority": message.priority,
    }
    for field, encoding, content in (("key", "key_encoding", message.key), ("value", "encoding", message.value)):
        text, is_text = _text(content)
        made[field] = text
        if not is_text:
            made[encoding] = "base64"
    made["headers"] = _headers(message)
    if (origin := message.delayed_offset) is not None:
        made["delayed_offset"] = origin
    if (attempt := getattr(message, "attempt", None)) is not None:
        made["attempt"] = attempt
    return made


def _headers(message: Message) -> dict[str, Any]:
    """Return headers by name as the HTTP API takes them, with a list for a repeated name."""
    found: dict[str, list[Any]] = {}
    for name, value in message.headers:
        text, is_text = _text(value)
        found.setdefault(name, []).append(text if is_text else {"value": text, "encoding": "base64"})
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


def _text(content: bytes | None) -> tuple[str | None, bool]:
    if content is None:
        return None, True
    try:
        return content.decode(), True
    except UnicodeDecodeError:
        return b64encode(content).decode(), False


def as_json(messages: Messages) -> Iterator[bytes]:
    if terminal.is_terminal():
        return (rows.json_text(record(message)).encode() for message in messages)
    return (json.encode(record(message)) for message in messages)


def as_jsonl(messages: Messages) -> Iterator[bytes]:
    return (line + b"\n" for line in as_json(messages))


def as_yaml(messages: Messages) -> Iterator[bytes]:
    return (rows.yaml_text([record(message)]).encode() for message in messages)


def as_names(messages: Messages) -> Iterator[bytes]:
    return (f"{message.topic}/{message.partition}@{message.offset}\n".encode() for message in messages)


CSV = (
    *("topic", "partition", "offset", "timestamp", "priority"),
    *("key", "key_encoding", "value", "encoding", "headers"),
)
CSV_LEASED = (*CSV, "attempt")


def csv_title(fields: tuple[str, ...]) -> bytes:
    return rows.csv_line(fields).encode()


def csv_of(fields: tuple[str, ...]) -> Renderer:
    def as_csv(messages: Messages) -> Iterator[bytes]:
        for message in messages:
            made = record(message)
            yield rows.csv_line([made.get(field) for field in fields]).encode()

    return as_csv


_TABLE = "{:<9}  {:<9}  {:<30}  {:<16}  {}"
_WIDE = "{:<10}  {:<24}  {}"  # fixed widths: lines are printed as they arrive
TITLES = {
    output: f"{_TABLE.format('PARTITION', 'OFFSET', 'TIME', 'KEY', last)}\n".encode()
    for output, last in (("table", "VALUE"), ("wide", _WIDE.format("PRIORITY", "HEADERS", "VALUE")))
}


def as_table(messages: Messages) -> Iterator[bytes]:
    return (_line(message, _shown(message)) for message in messages)


def as_wide(messages: Messages) -> Iterator[bytes]:
    for message in messages:
        headers = " ".join(f"{name}={readable(value)}" for name, value in message.headers) or "-"
        yield _line(
            message,
            _WIDE.format(priority_name(message.priority), terminal.escape_unprintable(headers), _shown(message)),
        )


def _line(message: Message, last: str) -> bytes:
    key = terminal.escape_unprintable(readable(message.key or b"")) or "-"
    line = _TABLE.format(message.partition, message.offset, format_time(message.timestamp_ns), key, last)
    return f"{line.rstrip()}\n".encode()


def _shown(message: Message) -> str:
    return "(tombstone)" if message.value is None else terminal.escape_unprintable(readable(message.value))
