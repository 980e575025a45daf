"""The client's methods for traces: what happened to messages."""

from typing import Any

from goqueue.client import api_request
from goqueue.client.address import quote
from goqueue.client.answers import Answer
from goqueue.client.api_request import ApiRequest, json_request, with_query
from goqueue.limits import TRACES


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
    batch: int
    """In lists: the number of messages to which the same happened last."""
    messages: list[TracedMessage]
    events: list[TraceEvent]


class TraceStats(Answer):
    """Statistics of traces."""

    enabled: bool
    sampling: float
    statuses: dict[str, int]
    """Of the newest traces, by status."""
    events: dict[str, int]
    """Records since the broker started, by event."""
    records: int
    """Records in memory."""
    sampled_out: int
    dropped: int
    file_bytes: int
    oldest: str | None


class TraceAdmin:
    """Traces of messages."""

    @api_request.operation
    def traces(self, limit: int = TRACES) -> ApiRequest[list[Trace]]:
        """Return traces, the newest first: one for each range of messages to which the same happened."""
        return json_request("GET", with_query("/traces", limit=limit), list[Trace], field="traces")

    @api_request.operation
    def search_traces(  # noqa: PLR0913 - independent conditions, given by name
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        *,
        group: str | None = None,
        start: str | None = None,
        end: str | None = None,
        status: str | None = None,
        limit: int = TRACES,
    ) -> ApiRequest[list[Trace]]:
        """Return traces that meet all conditions, the newest first.

        Something happened to their messages from `start` on and before `end`, both in RFC 3339. `status` is
        "completed", "pending" or "error".
        """
        path = with_query(
            "/traces/search",
            topic=topic,
            partition=partition,
            offset=offset,
            consumer_group=group,
            start=start,
            end=end,
            status=status,
            limit=limit,
        )
        return json_request("GET", path, list[Trace], field="traces")

    @api_request.operation
    def trace_stats(self) -> ApiRequest[TraceStats]:
        """Return statistics of traces."""
        return json_request("GET", "/traces/stats", TraceStats)

    @api_request.operation
    def trace(self, trace_id: str) -> ApiRequest[Trace]:
        """Return a trace by its id, as 32 hexadecimal digits."""
        return json_request("GET", f"/traces/{quote(trace_id)}", Trace)

    @api_request.operation
    def message_trace(self, topic: str, partition: int, offset: int, *, delayed: bool = False) -> ApiRequest[Trace]:
        """Return the trace of a message; with `delayed`, of one at this offset of the delayed log."""
        path = f"/topics/{quote(topic)}/partitions/{partition}/messages/{offset}/trace"
        return json_request("GET", with_query(path, delayed="true" if delayed else None), Trace)
