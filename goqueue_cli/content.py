"""What a message holds, for a person who looks at one in full."""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from goqueue.quantities import format_count, format_size

Row = dict[str, Any]

_TITLE_CELLS = 9


def fact(title: str, text: str) -> str:
    return f"  {title:<{_TITLE_CELLS}}  {text}"


def key_of(row: Row) -> str | None:
    return row["key"] if row.get("key_encoding") is None else _bytes_shown(row["key"])


def header_lines(row: Row, without: str = "") -> Iterator[str]:
    """Each header on a line; those whose names begin with `without` are left out."""
    for name, content in row["headers"].items():
        if not without or not name.startswith(without):
            for one in content if isinstance(content, list) else [content]:
                yield fact("header", f"{name}={_shown(one)}")


def value_lines(row: Row, most: int | None = None) -> Iterator[str]:
    """The value, at most so many characters of it."""
    text, kind = value_of(row)
    yield fact("value", kind)
    cut = text if most is None else text[:most]
    if cut:
        yield from (f"    {line}" for line in cut.split("\n"))
    if len(cut) < len(text):
        yield f"    ... and {format_count(len(text) - len(cut), 'more character')}"


def value_of(row: Row) -> tuple[str, str]:
    """A value as lines to be read, and a word on what it is."""
    value, encoding = row["value"], row.get("encoding")
    if value is None:
        return "", "none: it says that what the key had is gone"
    if encoding == "zstd":
        return value, "compressed, and cannot be unpacked: base64 of what is stored"
    if encoding == "base64":
        content = b64decode(value)
        return content.decode(errors="backslashreplace"), f"{format_size(len(content))}, not text"
    size = format_size(len(value.encode()))
    pretty = _pretty(value)
    return (value, size) if pretty is None else (pretty, f"{size} of JSON")


def _shown(header: Any) -> str:
    return header if isinstance(header, str) else _bytes_shown(header["value"])


def _bytes_shown(text: str) -> str:
    return b64decode(text).decode(errors="backslashreplace")


def _pretty(text: str) -> str | None:
    """JSON with indents, every number as it was written; None of what is no object or list."""
    import msgspec  # noqa: PLC0415 - loaded with the client

    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return None
