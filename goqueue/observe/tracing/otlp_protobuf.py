"""Spans in the protobuf of OTLP. The numbers are the field numbers of `opentelemetry/proto/trace/v1/trace.proto`."""

from collections.abc import Iterable, Mapping

from goqueue.observe.otlp import (
    encode_attributes,
    encode_bytes,
    encode_fixed32,
    encode_fixed64,
    encode_number,
    encode_request,
    encode_text,
    nested,
)
from goqueue.observe.tracing.span import SPAN_KINDS, Attributes, Span, SpanEvent, SpanLink

_STATUS = {"unset": 0, "ok": 1, "error": 2}
_KINDS: Mapping[str, int] = {kind: number for number, kind in enumerate(SPAN_KINDS, start=1)}


def encode_export(spans: Iterable[Span], resource: Attributes, scope: str, version: str) -> bytes:
    """Return an `ExportTraceServiceRequest` with the spans of one resource."""
    return encode_request((_span(span) for span in spans), resource, scope, version)


def _span(span: Span) -> bytes:
    return b"".join(
        (
            encode_bytes(1, span.trace_id),
            encode_bytes(2, span.span_id),
            encode_text(3, span.trace_state),
            encode_bytes(4, span.parent_span_id or b""),
            encode_text(5, span.name),
            encode_number(6, _KINDS[span.kind]),
            encode_fixed64(7, span.start_ns),
            encode_fixed64(8, span.end_ns),
            encode_attributes(9, span.attributes),
            *(nested(11, _event(event)) for event in span.events),
            *(nested(13, _link(link)) for link in span.links),
            nested(15, encode_text(2, span.status_message) + encode_number(3, _STATUS[span.status])),
            encode_fixed32(16, span.flags),
        )
    )


def _event(event: SpanEvent) -> bytes:
    return encode_fixed64(1, event.time_ns) + encode_text(2, event.name) + encode_attributes(3, event.attributes)


def _link(link: SpanLink) -> bytes:
    ids = encode_bytes(1, link.trace_id) + encode_bytes(2, link.span_id)
    return (
        ids + encode_text(3, link.trace_state) + encode_attributes(4, link.attributes) + encode_fixed32(6, link.flags)
    )
