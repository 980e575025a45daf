"""Exported spans, decoded by classes that are generated from the definitions of OpenTelemetry and Jaeger."""

import base64
import json
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtobufSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status, TracesData

from goqueue.observe.otlp import PartialSuccess, decode_partial_success
from goqueue.observe.tracing.jaeger_thrift import PACKET_BYTES_MAX, encode_packets
from goqueue.observe.tracing.otlp_json import encode_json_line
from goqueue.observe.tracing.otlp_protobuf import encode_export
from goqueue.observe.tracing.span import AttributeValue, Span
from tests.observe.tracing.spans import BARE, FULL, RESOURCE

JAEGER_PACKET = Path(__file__).with_name("jaeger-packet.bin").read_bytes()
"""FULL and BARE as the classes wrote them that Apache Thrift generates from Jaeger's `agent.thrift`."""


def decoded(span: Span) -> ProtobufSpan:
    request = ExportTraceServiceRequest.FromString(encode_export([span], RESOURCE, "goqueue", "1.2.3"))
    return request.resource_spans[0].scope_spans[0].spans[0]


def plain(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    assert kind is not None
    return [plain(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)


def assert_full(span: ProtobufSpan) -> None:
    assert (span.trace_id, span.span_id, span.parent_span_id) == (FULL.trace_id, FULL.span_id, FULL.parent_span_id)
    assert (span.name, span.kind) == ("process orders", ProtobufSpan.SPAN_KIND_CONSUMER)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (FULL.start_ns, FULL.end_ns)
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "timed out – twice")
    assert (span.flags, span.trace_state) == (1, "vendor=x")
    told = {one.key: plain(one.value) for one in span.attributes}
    assert told == {**FULL.attributes, "names": ["a", "b"], "none": []}
    assert [type(value) for value in told.values()][-4:-2] == [bool, bool]
    event, bare = span.events
    assert (event.name, event.time_unix_nano) == ("redelivered", FULL.start_ns + 1000)
    assert {one.key: plain(one.value) for one in event.attributes} == {"attempt": 2}
    assert (bare.name, len(bare.attributes)) == ("bare", 0)
    link, other = span.links
    assert (link.trace_id, link.span_id, link.flags, link.trace_state) == (b"\xff" * 16, b"\x01" * 8, 1, "a=1")
    assert {one.key: plain(one.value) for one in link.attributes} == {"offset": 7}
    assert (other.trace_id, other.span_id, other.flags) == (b"\x02" * 16, b"\xfe" * 8, 0)


def test_spans_are_what_opentelemetry_decodes_from_protobuf() -> None:
    request = ExportTraceServiceRequest.FromString(encode_export([FULL, BARE], RESOURCE, "goqueue", "1.2.3"))
    [resource_spans] = request.resource_spans
    assert {one.key: plain(one.value) for one in resource_spans.resource.attributes} == RESOURCE
    [scope_spans] = resource_spans.scope_spans
    assert (scope_spans.scope.name, scope_spans.scope.version) == ("goqueue", "1.2.3")
    full, bare = scope_spans.spans
    assert_full(full)
    assert (bare.parent_span_id, bare.kind, bare.status.code) == (b"", ProtobufSpan.SPAN_KIND_INTERNAL, 0)
    assert request.SerializeToString() == encode_export([FULL, BARE], RESOURCE, "goqueue", "1.2.3")


def test_spans_are_what_opentelemetry_decodes_from_a_line_of_json() -> None:
    line = encode_json_line([FULL, BARE], RESOURCE, "goqueue", "1.2.3")
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    data = json.loads(line)
    [full, bare] = spans = data["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (full["traceId"], full["startTimeUnixNano"]) == (FULL.trace_id.hex(), str(FULL.start_ns))
    for one in (*spans, *full["links"]):  # in other JSON of protobuf, bytes are base64
        for name in {"traceId", "spanId", "parentSpanId"} & one.keys():
            one[name] = base64.b64encode(bytes.fromhex(one[name])).decode()
    assert_full(ParseDict(data, TracesData()).resource_spans[0].scope_spans[0].spans[0])
    assert bare["parentSpanId"] == ""


VALUES = st.text() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.lists(st.text())


@given(st.text(), st.dictionaries(st.text(), VALUES))
def test_any_attributes_survive_protobuf(name: str, attributes: dict[str, AttributeValue]) -> None:
    made = Span(trace_id=b"1" * 16, span_id=b"2" * 8, name=name, start_ns=1, end_ns=2, attributes=attributes)
    span = decoded(made)
    assert span.name == name
    assert {one.key: plain(one.value) for one in span.attributes} == attributes


def test_text_that_is_not_unicode_harms_no_other_span() -> None:
    broken = Span(trace_id=b"1" * 16, span_id=b"2" * 8, name="\ud800", start_ns=1, end_ns=2, attributes={"a": "\udfff"})
    assert decoded(broken).name == "?"
    assert json.loads(encode_json_line([broken], {}, "", ""))["resourceSpans"]
    assert len(encode_packets([broken], "goqueue", {})[0]) == 1


def test_packets_are_those_of_the_classes_that_thrift_generates() -> None:
    assert encode_packets([FULL, BARE], "goqueue", RESOURCE) == ([JAEGER_PACKET], 0)


def test_packets_are_filled_and_spans_too_large_for_one_are_counted() -> None:
    large = Span(trace_id=b"1" * 16, span_id=b"2" * 8, name="x" * 70_000, start_ns=1, end_ns=2)
    middle = Span(trace_id=b"1" * 16, span_id=b"3" * 8, name="x" * 20_000, start_ns=1, end_ns=2)
    packets, too_large = encode_packets([middle, middle, large, middle, middle], "goqueue", {})
    assert [len(packet) // 20_000 for packet in packets] == [3, 1]
    assert max(map(len, packets)) <= PACKET_BYTES_MAX
    assert too_large == 1


@pytest.mark.parametrize(
    ("rejected", "message", "told"),
    [(0, "", None), (3, "too old", PartialSuccess(3, "too old")), (0, "careful", PartialSuccess(0, "careful"))],
)
def test_partial_success_is_read_from_the_answer(rejected: int, message: str, told: PartialSuccess | None) -> None:
    partial = ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
    assert decode_partial_success(ExportTraceServiceResponse(partial_success=partial).SerializeToString()) == told
    assert decode_partial_success(ExportTraceServiceResponse().SerializeToString()) is None


@given(st.binary(max_size=64))
def test_any_answer_is_read_without_an_error(body: bytes) -> None:
    decode_partial_success(body)
