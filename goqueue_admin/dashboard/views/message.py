"""One message, in full: what is known of it, its headers, and its value as people read it."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from goqueue.console.terminal import visible
from goqueue.quantities import format_size, format_time
from goqueue_admin.dashboard.views import tail

if TYPE_CHECKING:
    from goqueue.client import Message

LINES_MAX = 500
CHARACTERS_MAX = 50_000
"""To lay out more holds the screen for longer than a tenth of a second."""

_TOKEN = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?\d[\d.eE+-]*)"""
    r"""|(?P<word>true|false|null)"""
)
_PART = re.compile(r"""\{\s*\}|\[\s*\]|[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+""")
_TONES = {"key": "title", "string": "good", "number": "accent", "word": "second"}


class Span(NamedTuple):
    """Text in one tone."""

    text: str
    tone: str = ""


class Value(NamedTuple):
    """What a value is (json, text, bytes, a tombstone), its lines, and whether some are left out."""

    kind: str
    lines: list[list[Span]]
    is_cut: bool
    plain: str


def value(content: bytes | None, across: int = 16) -> Value:
    """Of bytes that are no text, so many `across` a line."""
    if content is None:
        return Value("tombstone", [], False, "")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _cut("bytes", list(_hex(content[: LINES_MAX * across + 1], across)), content.hex())
    if _is_json(text):
        return _cut("json", [_coloured(line) for line in islice(_indented(text), LINES_MAX + 1)], text)
    parts = text[:CHARACTERS_MAX].split("\n", LINES_MAX + 1)[: LINES_MAX + 1]
    lines = [[Span(visible(line))] for line in parts]
    return _cut("text" if text else "nothing", lines, text)


def _cut(kind: str, lines: list[list[Span]], plain: str) -> Value:
    return Value(kind, lines[:LINES_MAX], len(lines) > LINES_MAX or len(plain) > CHARACTERS_MAX, plain)


def _is_json(text: str) -> bool:
    """An object or an array; a number alone is plain text."""
    if text.lstrip()[:1] not in {"{", "["}:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _indented(text: str) -> Iterator[str]:
    """JSON with its lines set apart. What stands in it stays as it was sent: a 10.00 is no 10.0."""
    line, depth = "", 0
    for found in _PART.finditer(text[:CHARACTERS_MAX]):
        part = found[0]
        if part in {"}", "]"}:
            yield line
            depth -= 1
            line = "  " * depth
        line += _written(part)
        if part in {"{", "[", ","}:
            yield line
            depth += part != ","
            line = "  " * depth
    yield line


def _written(part: str) -> str:
    if part[0] == '"':
        return json.dumps(json.loads(part), ensure_ascii=False) if "\\u" in part else part
    return ": " if part == ":" else "".join(part.split())


def _coloured(line: str) -> list[Span]:
    found: list[Span] = []
    end = 0
    for token in _TOKEN.finditer(line):
        if token.start() > end:
            found.append(Span(visible(line[end : token.start()]), "muted"))
        found.append(Span(visible(token[0]), _TONES[token.lastgroup or ""]))
        end = token.end()
    if end < len(line):
        found.append(Span(visible(line[end:]), "muted"))
    return found


def _hex(content: bytes, across: int) -> Iterator[list[Span]]:
    for begin in range(0, len(content), across):
        part = content[begin : begin + across]
        digits = part.hex(" ").ljust(across * 3 - 1)
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        yield [Span(f"{begin:08x}  ", "muted"), Span(f"{digits}  "), Span(letters, "good")]


def facts(message: "Message") -> list[tuple[str, str]]:
    """What is known of a message besides its value."""
    return [
        ("time", format_time(message.timestamp_ns)),
        ("key", tail.text(message.key)),
        ("priority", str(message.priority)),
        ("size", format_size(len(message.value or b""))),
        *((f"header {visible(name)}", tail.text(content)) for name, content in message.headers),
    ]
