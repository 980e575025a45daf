"""The plain rows of inspections as commands print them: times in RFC 3339, keys as text."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from goqueue.quantities import format_time

if TYPE_CHECKING:
    import pyarrow as pa

    from goqueue.spark.inspections.inspection import Row


def key_text(key: bytes) -> str:
    """As text where it is some that can be printed, in hexadecimal otherwise."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() else f"0x{key.hex()}"


def in_texts(rows: "Iterable[Row]", schema: "pa.Schema") -> "list[Row]":
    """Only the schema knows which number is a time. A field that it does not know stays as it is."""
    from pyarrow import types  # noqa: PLC0415 - it takes its time to load

    times = {one.name for one in schema if types.is_timestamp(one.type)}

    def shown(name: str, value: Any) -> Any:
        if isinstance(value, bytes):
            return key_text(value)
        return format_time(value) if name in times and value is not None else value

    return [{name: shown(name, value) for name, value in row.items()} for row in rows]
