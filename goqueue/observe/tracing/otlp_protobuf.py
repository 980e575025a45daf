"""The body of an OTLP/HTTP export in protobuf, and the answer to it.

Protocol buffers are a tag, a length and bytes: written here, so that the broker needs no generated classes. The numbers
are the field numbers of `opentelemetry/proto/trace/v1/trace.proto`.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from goqueue.observe.tracing.span import SPAN_KINDS, Attributes, AttributeValue, Span, SpanEvent, SpanLink

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_WORD = 0xFFFF_FFFF_FFFF_FFFF
_VARINT_BYTES_MAX = 10
_STATUS = {"unset": 0, "ok": 1, "error": 2}
_KINDS: Mapping[str, int] = {kind: number for number, kind in enumerate(SPAN_KINDS, start=1)}
_DOUBLE = struct.Struct("<d")


def encode_export(spans: Iterable[Span], resource: Attributes, scope: str, version: str) -> bytes:
    """Return an `ExportTraceServiceRequest` with the spans of one resource."""
    instrumentation = _text(1, scope) + _text(2, version)
    scope_spans = _nested(1, instrumentation) + b"".join(_nested(2, _span(span)) for span in spans)
    return _nested(1, _nested(1, _attributes(1, resource)) + _nested(2, scope_spans))


def _span(span: Span) -> bytes:
    return b"".join(
        (
            _bytes(1, span.trace_id),
            _bytes(2, span.span_id),
            _text(3, span.trace_state),
            _bytes(4, span.parent_span_id or b""),
            _text(5, span.name),
            _number(6, _KINDS[span.kind]),
            _fixed64(7, span.start_ns),
            _fixed64(8, span.end_ns),
            _attributes(9, span.attributes),
            *(_nested(11, _event(event)) for event in span.events),
            *(_nested(13, _link(link)) for link in span.links),
            _nested(15, _text(2, span.status_message) + _number(3, _STATUS[span.status])),
            _fixed32(16, span.flags),
        )
    )


def _event(event: SpanEvent) -> bytes:
    return _fixed64(1, event.time_ns) + _text(2, event.name) + _attributes(3, event.attributes)


def _link(link: SpanLink) -> bytes:
    ids = _bytes(1, link.trace_id) + _bytes(2, link.span_id)
    return ids + _text(3, link.trace_state) + _attributes(4, link.attributes) + _fixed32(6, link.flags)


def _attributes(field: int, attributes: Attributes) -> bytes:
    pairs = (_name(name) + _nested(2, _value(value)) for name, value in attributes.items())
    return b"".join(_nested(field, pair) for pair in pairs)


@lru_cache(maxsize=1024)
def _name(name: str) -> bytes:
    return _text(1, name)


def _value(value: AttributeValue) -> bytes:
    """Return an `AnyValue`: it has its field also if that is empty, false or 0."""
    if isinstance(value, str):
        return _nested(1, _utf8(value))
    if isinstance(value, bool):
        return _tag(2, _VARINT) + _varint(value)
    if isinstance(value, int):
        return _tag(3, _VARINT) + _varint(value & _WORD)
    if isinstance(value, float):
        return _tag(4, _FIXED64) + _DOUBLE.pack(value)
    return _nested(5, b"".join(_nested(1, _value(item)) for item in value))


# --- fields: those with their default are left out, as protobuf does ---


def _number(field: int, value: int) -> bytes:
    return _tag(field, _VARINT) + _varint(value) if value else b""


def _fixed64(field: int, value: int) -> bytes:
    return _tag(field, _FIXED64) + value.to_bytes(8, "little") if value else b""


def _fixed32(field: int, value: int) -> bytes:
    return _tag(field, _FIXED32) + value.to_bytes(4, "little") if value else b""


def _text(field: int, value: str) -> bytes:
    return _nested(field, _utf8(value)) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _nested(field, value) if value else b""


def _nested(field: int, content: bytes) -> bytes:
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

    rejected_spans: int
    message: str


def decode_partial_success(body: bytes) -> PartialSuccess | None:
    """Return the refused part that an `ExportTraceServiceResponse` names.

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
