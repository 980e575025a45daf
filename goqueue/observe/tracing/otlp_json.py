"""Spans as lines of OTLP JSON: what the OpenTelemetry collector reads from files.

Unlike in other JSON of protobuf, ids are hexadecimal; numbers of 64 bits are text.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from goqueue.observe.tracing.span import SPAN_KINDS, Attributes, AttributeValue, Span, SpanEvent, SpanLink

_STATUS = {"unset": 0, "ok": 1, "error": 2}
_KINDS: Mapping[str, int] = {kind: number for number, kind in enumerate(SPAN_KINDS, start=1)}


def encode_json_line(spans: Iterable[Span], resource: Attributes, scope: str, version: str) -> bytes:
    """Return one line with the spans of one resource, as `TracesData`."""
    scope_spans = {"scope": {"name": scope, "version": version}, "spans": [_span(span) for span in spans]}
    resource_spans = {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope_spans]}
    return msgspec.json.encode({"resourceSpans": [resource_spans]}) + b"\n"


def _span(span: Span) -> dict[str, Any]:
    status: dict[str, Any] = {"code": _STATUS[span.status]}
    if span.status_message:
        status["message"] = _valid(span.status_message)
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "traceState": span.trace_state,
        "parentSpanId": (span.parent_span_id or b"").hex(),
        "flags": span.flags,
        "name": _valid(span.name),
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "events": [_event(event) for event in span.events],
        "links": [_link(link) for link in span.links],
        "status": status,
    }


def _event(event: SpanEvent) -> dict[str, Any]:
    return {
        "timeUnixNano": str(event.time_ns),
        "name": _valid(event.name),
        "attributes": _attributes(event.attributes),
    }


def _link(link: SpanLink) -> dict[str, Any]:
    return {
        "traceId": link.trace_id.hex(),
        "spanId": link.span_id.hex(),
        "traceState": link.trace_state,
        "attributes": _attributes(link.attributes),
        "flags": link.flags,
    }


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": _valid(name), "value": _value(value)} for name, value in attributes.items()]


def _value(value: AttributeValue) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": _valid(value)}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"arrayValue": {"values": [_value(item) for item in value]}}


def _valid(text: str) -> str:
    """Replace halves of surrogate pairs, which JSON cannot hold."""
    return text.encode(errors="replace").decode()
