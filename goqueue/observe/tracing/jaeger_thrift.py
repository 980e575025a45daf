"""Packets for a Jaeger agent: `Agent.emitBatch` of `jaeger.thrift` in Thrift's binary protocol, for its UDP port 6832.

A packet has at most 65,000 bytes. Times are microseconds, and links become references of the kind FOLLOWS_FROM.
"""

import struct
from collections.abc import Iterable

from goqueue.observe.tracing.span import Attributes, AttributeValue, Span, SpanEvent

PACKET_BYTES_MAX = 65_000
"""The limit of Jaeger's agents; UDP has room for 65,507."""

_STOP = b"\0"
_BOOL, _DOUBLE, _I32, _I64, _STRING, _STRUCT, _LIST = 2, 4, 8, 10, 11, 12, 15
_FOLLOWS_FROM = 1
_ONEWAY_CALL = 0x8001_0004  # version 1 of the protocol, and the kind of the call
_FIELD = struct.Struct(">bh")
_NUMBER32 = struct.Struct(">i")
_NUMBER64 = struct.Struct(">q")
_FLOAT = struct.Struct(">d")
_LIST_HEAD = struct.Struct(">bi")


def encode_packets(spans: Iterable[Span], service: str, resource: Attributes) -> tuple[list[bytes], int]:
    """Return the spans in as few packets as possible, and the number of spans that are too large for one."""
    name = b"emitBatch"
    head = struct.pack(">I", _ONEWAY_CALL) + _length(name) + _NUMBER32.pack(0)  # no answer, so no number
    process = _text(1, service) + _list(2, [_tag(*item) for item in resource.items()]) + _STOP
    head += _FIELD.pack(_STRUCT, 1) + _FIELD.pack(_STRUCT, 1) + process + _FIELD.pack(_LIST, 2)
    room = PACKET_BYTES_MAX - len(head) - _LIST_HEAD.size - 2
    groups: list[list[bytes]] = [[]]
    size, too_large = 0, 0
    for encoded in map(_span, spans):
        if len(encoded) > room:
            too_large += 1
            continue
        if size + len(encoded) > room:
            groups.append([])
            size = 0
        groups[-1].append(encoded)
        size += len(encoded)
    return [_packet(head, group) for group in groups if group], too_large


def _packet(head: bytes, spans: list[bytes]) -> bytes:
    return head + _LIST_HEAD.pack(_STRUCT, len(spans)) + b"".join(spans) + _STOP + _STOP


def _span(span: Span) -> bytes:
    high, low = span.trace_id[:8], span.trace_id[8:]
    start = span.start_ns // 1000
    references = [_reference(link.trace_id, link.span_id) for link in span.links]
    return b"".join(
        (
            _FIELD.pack(_I64, 1) + low,
            _FIELD.pack(_I64, 2) + high,
            _FIELD.pack(_I64, 3) + span.span_id,
            _FIELD.pack(_I64, 4) + (span.parent_span_id or bytes(8)),
            _text(5, span.name),
            _list(6, references),
            _number32(7, span.flags),
            _number64(8, start),
            _number64(9, span.end_ns // 1000 - start),
            _list(10, [_tag(*item) for item in _span_tags(span).items()]),
            _list(11, [_log(event) for event in span.events]),
            _STOP,
        )
    )


def _span_tags(span: Span) -> Attributes:
    """Return the attributes of a span, with those for which Jaeger has no fields."""
    tags: dict[str, AttributeValue] = dict(span.attributes)
    if span.kind != "internal":
        tags["span.kind"] = span.kind
    if span.status != "unset":
        tags["otel.status_code"] = span.status.upper()
    if span.status == "error":
        tags["error"] = True
        if span.status_message:
            tags["otel.status_description"] = span.status_message
    if span.trace_state:
        tags["w3c.tracestate"] = span.trace_state
    return tags


def _reference(trace_id: bytes, span_id: bytes) -> bytes:
    ids = ((2, trace_id[8:]), (3, trace_id[:8]), (4, span_id))
    return _number32(1, _FOLLOWS_FROM) + b"".join(_FIELD.pack(_I64, field) + part for field, part in ids) + _STOP


def _log(event: SpanEvent) -> bytes:
    tags = {"event": event.name, **event.attributes}
    return _number64(1, event.time_ns // 1000) + _list(2, [_tag(*item) for item in tags.items()]) + _STOP


def _tag(name: str, value: AttributeValue) -> bytes:
    """Return a `Tag`: field 2 is its type, and the field of the type has the value."""
    if isinstance(value, bool):
        kind, content = 2, _FIELD.pack(_BOOL, 5) + bytes((value,))
    elif isinstance(value, int):
        kind, content = 3, _number64(6, value)
    elif isinstance(value, float):
        kind, content = 1, _FIELD.pack(_DOUBLE, 4) + _FLOAT.pack(value)
    else:
        kind, content = 0, _text(3, value if isinstance(value, str) else ", ".join(value))
    return _text(1, name) + _number32(2, kind) + content + _STOP


def _text(field: int, text: str) -> bytes:
    return _FIELD.pack(_STRING, field) + _length(text.encode(errors="replace"))


def _length(content: bytes) -> bytes:
    return _NUMBER32.pack(len(content)) + content


def _number32(field: int, number: int) -> bytes:
    return _FIELD.pack(_I32, field) + _NUMBER32.pack(number)


def _number64(field: int, number: int) -> bytes:
    return _FIELD.pack(_I64, field) + _NUMBER64.pack(number)


def _list(field: int, structs: list[bytes]) -> bytes:
    return _FIELD.pack(_LIST, field) + _LIST_HEAD.pack(_STRUCT, len(structs)) + b"".join(structs) if structs else b""
