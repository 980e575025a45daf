"""One message: its facts, headers and rendered value."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from goqueue.console.terminal import escape_unprintable
from goqueue.quantities import format_size, format_time
from goqueue_admin.dashboard.views import formats

if TYPE_CHECKING:
    from goqueue.client import Message


LINES_MAX = 500
CHARACTERS_MAX = 50_000
"""More would block the screen for over 100 ms."""

_TOKEN = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?\d[\d.eE+-]*)"""
    r"""|(?P<word>true|false|null)"""
)
_TONES = {"key": "title", "string": "good", "number": "accent", "word": "second"}


class TonedSpan(NamedTuple):
    text: str
    tone: str = ""


class RenderedValue(NamedTuple):
    """A value as lines: its kind (json, text, bytes, tombstone), and whether lines are omitted."""

    kind: str
    lines: list[list[TonedSpan]]
    is_cut: bool
    plain: str


def render_value(content: bytes | None, across: int = 16) -> RenderedValue:
    """Render a value; binary ones as hex with `across` bytes per line."""
    if content is None:
        return RenderedValue("tombstone", [], False, "")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _limited("bytes", list(_hex(content[: LINES_MAX * across + 1], across)), content.hex())
    pretty = _indented(text)
    parts = (text if pretty is None else pretty)[:CHARACTERS_MAX].split("\n", LINES_MAX + 1)[: LINES_MAX + 1]
    if pretty is not None:
        return _limited("json", [json_spans(line) for line in parts], text)
    lines = [[TonedSpan(escape_unprintable(line))] for line in parts]
    return _limited("text" if text else "nothing", lines, text)


def _limited(kind: str, lines: list[list[TonedSpan]], plain: str) -> RenderedValue:
    return RenderedValue(kind, lines[:LINES_MAX], len(lines) > LINES_MAX or len(plain) > CHARACTERS_MAX, plain)


def _indented(text: str) -> str | None:
    """Indent a JSON object or array, whose values stay as sent (10.00 is not 10.0); None for any other text."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return None


def _readable(token: str) -> str:
    """Replace the Unicode escapes of a string by their characters."""
    return json.dumps(json.loads(token), ensure_ascii=False) if token[0] == '"' and "\\u" in token else token


def json_spans(line: str) -> list[TonedSpan]:
    found: list[TonedSpan] = []
    end = 0
    for token in _TOKEN.finditer(line):
        if token.start() > end:
            found.append(TonedSpan(escape_unprintable(line[end : token.start()]), "muted"))
        found.append(TonedSpan(escape_unprintable(_readable(token[0])), _TONES[token.lastgroup or ""]))
        end = token.end()
    if end < len(line):
        found.append(TonedSpan(escape_unprintable(line[end:]), "muted"))
    return found


def _hex(content: bytes, across: int) -> Iterator[list[TonedSpan]]:
    for begin in range(0, len(content), across):
        part = content[begin : begin + across]
        digits = part.hex(" ").ljust(across * 3 - 1)
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        yield [TonedSpan(f"{begin:08x}  ", "muted"), TonedSpan(f"{digits}  "), TonedSpan(letters, "good")]


def message_facts(message: "Message") -> list[tuple[str, str]]:
    return [
        ("time", format_time(message.timestamp_ns)),
        ("key", one_line_text(message.key)),
        ("priority", str(message.priority)),
        ("size", format_size(len(message.value or b""))),
        *((f"header {escape_unprintable(name)}", one_line_text(content)) for name, content in message.headers),
    ]


MessageJson = Mapping[str, Any]
"""A message as the read endpoint returns it."""

_PREVIEW = 400


def decode_text(content: str, encoding: str | None) -> str:
    return content if encoding is None else b64decode(content).decode(errors="backslashreplace")


def key_text(told: MessageJson) -> str | None:
    found = told.get("key")
    return None if found is None else decode_text(found, told.get("key_encoding"))


def value_preview(told: MessageJson) -> str:
    """Return the beginning of a value on one line."""
    found = told.get("value")
    if found is None:
        return "∅"
    if told.get("encoding") == "zstd":
        return "(compressed)"
    return " ".join(decode_text(found[:_PREVIEW], None if told.get("encoding") is None else "base64").split())


def value_bytes(told: MessageJson) -> bytes | None:
    """Return the bytes of the value; undecodable compression stays as sent."""
    found = told.get("value")
    if found is None:
        return None
    return b64decode(found) if told.get("encoding") == "base64" else str(found).encode()


def header_texts(told: MessageJson) -> Iterator[tuple[str, str]]:
    """Yield names and texts; a repeated name repeats."""
    for name, held in (told.get("headers") or {}).items():
        for one in held if isinstance(held, list) else [held]:
            yield name, one if isinstance(one, str) else decode_text(one["value"], "base64")


def one_line_text(content: bytes | None) -> str:
    """Format bytes on one line with control characters escaped; binary data as hex."""
    if content is None:
        return formats.NO_VALUE
    try:
        return escape_unprintable(content.decode())
    except UnicodeDecodeError as error:
        if error.start >= len(content) - 3:  # the preview ends inside a character
            return escape_unprintable(content[: error.start].decode())
        return f"0x{content.hex()}"
