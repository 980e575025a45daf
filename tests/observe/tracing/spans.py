"""Spans with every field, for the tests of all encodings."""

from goqueue.observe.tracing.span import Span, SpanEvent, SpanLink

TRACE_ID = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
SPAN_ID = bytes.fromhex("b7ad6b7169203331")
START_NS = 1_760_000_000_123_456_789

FULL = Span(
    trace_id=TRACE_ID,
    span_id=SPAN_ID,
    parent_span_id=bytes.fromhex("00f067aa0ba902b7"),
    name="process orders",
    kind="consumer",
    start_ns=START_NS,
    end_ns=START_NS + 1_500_000_000,
    status="error",
    status_message="timed out – twice",
    attributes={
        "messaging.system": "goqueue",
        "messaging.batch.message_count": 3,
        "negative": -2,
        "largest": 2**63 - 1,
        "zero": 0,
        "empty": "",
        "share": 0.25,
        "is_last": True,
        "is_first": False,
        "names": ("a", "b"),
        "none": (),
    },
    events=(
        SpanEvent(name="redelivered", time_ns=START_NS + 1000, attributes={"attempt": 2}),
        SpanEvent(name="bare", time_ns=START_NS + 2000),
    ),
    links=(
        SpanLink(trace_id=b"\xff" * 16, span_id=b"\x01" * 8, flags=1, trace_state="a=1", attributes={"offset": 7}),
        SpanLink(trace_id=b"\x02" * 16, span_id=b"\xfe" * 8),
    ),
    flags=1,
    trace_state="vendor=x",
)
BARE = Span(trace_id=TRACE_ID, span_id=b"\x01" * 8, name="store", start_ns=START_NS, end_ns=START_NS)
RESOURCE = {"service.name": "goqueue", "service.version": "1.2.3"}
