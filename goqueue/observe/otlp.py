"""The protobuf of OTLP that traces and metrics share: fields, attributes, the request, and the answer.

Protocol buffers are a tag, a length and bytes: written here, so that the broker needs no generated classes. The numbers
are the field numbers of `opentelemetry/proto/common/v1/common.proto` and of the two services, which agree.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from goqueue.observe.tracing.span import Attributes, AttributeValue

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_WORD = 0xFFFF_FFFF_FFFF_FFFF
_VARINT_BYTES_MAX = 10
_DOUBLE = struct.Struct("<d")


def encode_request(items: Iterable[bytes], resource: Attributes, scope: str, version: str) -> bytes:
    """Return an export request with the encoded spans or metrics of one resource."""
    instrumentation = encode_text(1, scope) + encode_text(2, version)
    scoped = nested(1, instrumentation) + b"".join(nested(2, item) for item in items)
    return nested(1, nested(1, encode_attributes(1, resource)) + nested(2, scoped))


def encode_attributes(field: int, attributes: Attributes) -> bytes:
    pairs = (_name(name) + nested(2, _value(value)) for name, value in attributes.items())
    return b"".join(nested(field, pair) for pair in pairs)


@lru_cache(maxsize=1024)
def _name(name: str) -> bytes:
    return encode_text(1, name)


def _value(value: AttributeValue) -> bytes:
    """Return an `AnyValue`: it has its field also if that is empty, false or 0."""
    if isinstance(value, str):
        return nested(1, _utf8(value))
    if isinstance(value, bool):
        return _tag(2, _VARINT) + _varint(value)
    if isinstance(value, int):
        return _tag(3, _VARINT) + _varint(value & _WORD)
    if isinstance(value, float):
        return encode_double(4, value)
    return nested(5, b"".join(nested(1, _value(item)) for item in value))


# --- fields: those with their default are left out, as protobuf does, but doubles and nested fields ---


def encode_number(field: int, value: int) -> bytes:
    return _tag(field, _VARINT) + _varint(value) if value else b""


def encode_fixed64(field: int, value: int) -> bytes:
    return _tag(field, _FIXED64) + value.to_bytes(8, "little") if value else b""


def encode_fixed32(field: int, value: int) -> bytes:
    return _tag(field, _FIXED32) + value.to_bytes(4, "little") if value else b""


def encode_double(field: int, value: float) -> bytes:
    return _tag(field, _FIXED64) + _DOUBLE.pack(value)


def encode_text(field: int, value: str) -> bytes:
    return nested(field, _utf8(value)) if value else b""


def encode_bytes(field: int, value: bytes) -> bytes:
    return nested(field, value) if value else b""


def nested(field: int, content: bytes) -> bytes:
    return _tag(field, _LENGTH) + _varint(len(content)) + content


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")  # half a surrogate pair would make the whole export invalid


@cache
def _tag(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# --- the answer ---


@dataclass(frozen=True, slots=True)
class PartialSuccess:
    """The part of an export that the collector has refused."""

    rejected: int
    """Spans, or data points."""
    message: str


def decode_partial_success(body: bytes) -> PartialSuccess | None:
    """Return the refused part that an `ExportTraceServiceResponse`, or that of metrics, names.

    None if all was accepted, and for bytes that are no such answer: the status has said that the export succeeded.
    """
    try:
        rejected, message = 0, b""
        for content in _fields(body).get((1, _LENGTH), ()):
            inner = _fields(bytes(content))
            rejected = int.from_bytes((inner.get((1, _VARINT)) or [b""])[-1], "little")
            message = (inner.get((2, _LENGTH)) or [b""])[-1]
    except (IndexError, ValueError):
        return None
    if not rejected and not message:
        return None
    return PartialSuccess(rejected, message.decode(errors="replace"))


def _fields(body: bytes) -> Mapping[tuple[int, int], Sequence[bytes]]:
    """Return the contents of all fields by number and kind; raise IndexError or ValueError for invalid bytes."""
    found: dict[tuple[int, int], list[bytes]] = {}
    at = 0
    while at < len(body):
        tag, at = _read_varint(body, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _read_varint(body, at)
            content = value.to_bytes(10, "little")
        else:
            if kind == _LENGTH:
                size, at = _read_varint(body, at)
            else:
                size = {_FIXED64: 8, _FIXED32: 4}.get(kind, len(body))
            content, at = body[at : at + size], at + size
            if at > len(body):
                raise ValueError("the message ends within a field")
        found.setdefault((tag >> 3, kind), []).append(content)
    return found


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = body[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("the number has no end")
