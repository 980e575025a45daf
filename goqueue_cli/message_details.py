"""The description of one message for people: headers and value, with JSON indented."""

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
    """Yield a line for each header whose name does not begin with `without`."""
    for name, content in row["headers"].items():
        if not without or not name.startswith(without):
            for one in content if isinstance(content, list) else [content]:
                yield fact("header", f"{name}={_shown(one)}")


def value_lines(row: Row, most: int | None = None) -> Iterator[str]:
    """Yield the value, with at most `most` characters."""
    text, kind = value_of(row)
    yield fact("value", kind)
    cut = text if most is None else text[:most]
    if cut:
        yield from (f"    {line}" for line in cut.split("\n"))
    if len(cut) < len(text):
        yield f"    ... and {format_count(len(text) - len(cut), 'more character')}"


def value_of(row: Row) -> tuple[str, str]:
    """Return a value as readable text, and its kind."""
    value, encoding = row["value"], row.get("encoding")
    if value is None:
        return "", "none: a tombstone"
    if encoding == "zstd":
        return value, "compressed, and cannot be decompressed: base64 of the stored bytes"
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
    """Indent a JSON object or list, keeping every number as it was written; return None for anything else."""
    import msgspec  # noqa: PLC0415 - loaded with the client

    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.format(text, indent=2)
    except msgspec.DecodeError:
        return None
