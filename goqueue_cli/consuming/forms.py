"""Messages in the forms that all commands know: tables for people, JSON, YAML and CSV for programs."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from msgspec import json

from goqueue.client import Delivered, Message
from goqueue.console import rows, terminal
from goqueue.console.figures import priority
from goqueue.quantities import format_time
from goqueue_cli.consuming.format import Messages, Renderer, readable


def record(message: Message) -> dict[str, Any]:
    """All of a message. What is not UTF-8 is base64, and said to be."""
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
    if isinstance(message, Delivered):
        made["attempt"] = message.attempt
    return made


def _headers(message: Message) -> dict[str, Any]:
    """As the broker takes them over HTTP: by name, with a list where a name comes more than once."""
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
_WIDE = "{:<10}  {:<24}  {}"  # lines are shown as they come, so widths are chosen and not measured
TITLES = {
    output: f"{_TABLE.format('PARTITION', 'OFFSET', 'TIME', 'KEY', last)}\n".encode()
    for output, last in (("table", "VALUE"), ("wide", _WIDE.format("PRIORITY", "HEADERS", "VALUE")))
}


def as_table(messages: Messages) -> Iterator[bytes]:
    return (_line(message, _shown(message)) for message in messages)


def as_wide(messages: Messages) -> Iterator[bytes]:
    for message in messages:
        headers = " ".join(f"{name}={readable(value)}" for name, value in message.headers) or "-"
        yield _line(message, _WIDE.format(priority(message.priority), terminal.visible(headers), _shown(message)))


def _line(message: Message, last: str) -> bytes:
    key = terminal.visible(readable(message.key or b"")) or "-"
    line = _TABLE.format(message.partition, message.offset, format_time(message.timestamp_ns), key, last)
    return f"{line.rstrip()}\n".encode()


def _shown(message: Message) -> str:
    return "(tombstone)" if message.value is None else terminal.visible(readable(message.value))
