"""Messages as JSON has them: text where the bytes are UTF-8, base64 and a word beside it where they are not."""

import base64
from typing import Annotated, Any, Literal

import msgspec

from goqueue.api.long_text import encode_base64
from goqueue.limits import PRIORITY_COUNT
from goqueue.quantities import format_time
from goqueue.storage import frame

Encoding = Literal["utf-8", "base64"]
ValueEncoding = Literal["utf-8", "base64", "zstd"]
"""How a value is written. `zstd` is one that is compressed and was not unpacked: base64 of what is stored."""
Priority = (
    Annotated[int, msgspec.Meta(ge=0, le=PRIORITY_COUNT - 1)]
    | Literal["critical", "high", "normal", "low", "background"]
)


class EncodedText(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes that are not UTF-8."""

    value: str
    encoding: Encoding = "base64"


class Message(msgspec.Struct, omit_defaults=True):
    """A message as it is read."""

    offset: int
    timestamp: str
    key: str | None = msgspec.field(name="key")
    value: str | None = msgspec.field(name="value")
    priority: int = msgspec.field(name="priority")
    headers: dict[str, str | EncodedText | list[str | EncodedText]] = msgspec.field(name="headers")
    partition: int | msgspec.UnsetType = msgspec.UNSET
    encoding: ValueEncoding | msgspec.UnsetType = msgspec.UNSET
    key_encoding: Encoding | msgspec.UnsetType = msgspec.UNSET


def to_bytes(text: str | bytes, encoding: Encoding | None) -> bytes:
    """What a client means by its text; a ValueError says what is wrong with base64. Bytes are what is meant already."""
    if isinstance(text, bytes):
        return text
    return text.encode() if encoding != "base64" else base64.b64decode(text, validate=True)


def to_text(content: bytes) -> tuple[str, Encoding | msgspec.UnsetType]:
    try:
        return content.decode(), msgspec.UNSET
    except UnicodeDecodeError:
        return encode_base64(content), "base64"


def shown(message: frame.Message, content: bytes | None, partition: int | None = None) -> Message:
    """A frame, with the content of its value, as JSON shows it."""
    value, encoding = _value(message, content)
    key, key_encoding = to_text(message.key) if message.key is not None else (None, msgspec.UNSET)
    return Message(
        message.offset,
        format_time(message.timestamp_ns),
        key,
        value,
        message.priority,
        _headers(message),
        msgspec.UNSET if partition is None else partition,
        encoding,
        key_encoding,
    )


def _value(message: frame.Message, content: bytes | None) -> tuple[str | None, ValueEncoding | msgspec.UnsetType]:
    if message.is_tombstone:
        return None, msgspec.UNSET
    if content is None:
        return encode_base64(message.value), "zstd"
    return to_text(content)


def _headers(message: frame.Message) -> dict[str, Any]:
    """By name; a name that comes twice has a list. What the broker itself has put there is left out."""
    found: dict[str, Any] = {}
    for name, content in message.headers:
        if name.startswith("__"):
            continue
        text, encoding = to_text(content)
        value: str | EncodedText = text if encoding is msgspec.UNSET else EncodedText(text)
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found
