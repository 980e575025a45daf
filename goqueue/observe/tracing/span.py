"""Spans: parts of a trace, as they are shown and exported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
SPAN_KINDS: tuple[SpanKind, ...] = ("internal", "server", "client", "producer", "consumer")
SpanStatus = Literal["unset", "ok", "error"]

AttributeValue = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """Something that happened at one time within a span."""

    name: str
    time_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanLink:
    """Another span that a span belongs to without being its child, such as the sender of a message in a batch."""

    trace_id: bytes
    span_id: bytes
    flags: int = 0
    trace_state: str = ""
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One step of a trace, with begin and end in nanoseconds since 1970."""

    trace_id: bytes
    """16 bytes."""
    span_id: bytes
    """8 bytes."""
    parent_span_id: bytes | None = None
    name: str
    kind: SpanKind = "internal"
    start_ns: int
    end_ns: int
    status: SpanStatus = "unset"
    status_message: str = ""
    """Only with the status error."""
    attributes: Attributes = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()
    links: Sequence[SpanLink] = ()
    flags: int = 0
    """The flags of the context: sampled is 1."""
    trace_state: str = ""
