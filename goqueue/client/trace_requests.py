"""The client's methods for traces: what happened to messages."""

from typing import Any

from goqueue.client import api_request
from goqueue.client.address import quote
from goqueue.client.answers import Answer
from goqueue.client.api_request import ApiRequest, json_request, with_query


class TraceEvent(Answer):
    """Something that happened to a message of a trace."""

    timestamp: str
    event_type: str
    topic: str
    partition: int
    offset: int
    delayed: bool
    """The offset is one of the delayed log."""
    details: dict[str, Any]


class TracedMessage(Answer):
    """A message of a trace, in one log."""

    topic: str
    partition: int
    offset: int
    delayed: bool
    relation: str
    """start, delivered, dead_letter, redriven or same_trace."""
    source: int | None
    """The number of the message that this is a copy of."""
    trace_id: str
    """The id that follows from its position."""
    status: str
    state: str
    """stored, scheduled, delivered, in_transaction, committed, aborted, cancelled, expired or gone."""
    groups: dict[str, str]
    """settled, in_flight, waiting, moving or in_transaction, by group."""


class Trace(Answer):
    """The events of a message and its copies."""

    trace_id: str
    topic: str
    partition: int
    offset: int
    delayed: bool
    status: str
    """completed, pending or error."""
    start: str
    end: str
    duration: float
    """In seconds."""
    sampled: bool
    parent_span_id: str | None
    tracestate: str
    truncated: bool
    messages: list[TracedMessage]
    events: list[TraceEvent]


class TraceAdmin:
    """Traces of messages."""

    @api_request.operation
    def trace(self, trace_id: str) -> ApiRequest[Trace]:
        """Return a trace by its id, as 32 hexadecimal digits."""
        return json_request("GET", f"/traces/{quote(trace_id)}", Trace)

    @api_request.operation
    def message_trace(self, topic: str, partition: int, offset: int, *, delayed: bool = False) -> ApiRequest[Trace]:
        """Return the trace of a message; with `delayed`, of one at this offset of the delayed log."""
        path = f"/topics/{quote(topic)}/partitions/{partition}/messages/{offset}/trace"
        return json_request("GET", with_query(path, delayed="true" if delayed else None), Trace)
