"""A trace as rows: its events with their bars, and the messages that it has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goqueue.console.formatting import format_milliseconds
from goqueue.console.waterfall import details_text, position_text, waterfall_rows
from goqueue.quantities import format_count
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import TableColumn

TraceJson = Mapping[str, Any]
Fact = tuple[str, str, str]

MESSAGES_SHOWN = 6
_TONES = {"error": "bad", "pending": "warn", "completed": "good"}
_EVENT_TONES = {
    "consume.nacked": "warn",
    "consume.released": "muted",
    "consume.rejected": "bad",
    "consume.dropped": "bad",
    "visibility.timeout": "warn",
    "visibility.extended": "muted",
    "dlq.routed": "bad",
    "delay.expired": "bad",
    "transaction.aborted": "bad",
    "consume.acked": "good",
    "transaction.committed": "good",
}


class EventRow(NamedTuple):
    """One event of a trace."""

    number: int
    after_ms: float
    bar: str
    event: str
    message: str
    details: str
    told: TraceJson

    @property
    def key(self) -> str:
        return f"{self.number} {self.event} {self.message} {self.details}"

    @property
    def tone(self) -> str:
        return _EVENT_TONES.get(self.event, "")


def event_columns(bar_width: int) -> tuple[TableColumn[EventRow], ...]:
    return (
        TableColumn("AFTER", lambda one: one.after_ms, format_milliseconds, 8, right=True, tone="muted"),
        TableColumn("WATERFALL", lambda one: one.bar, width=bar_width, tone=lambda one: one.tone or "accent"),
        TableColumn("EVENT", lambda one: one.event, width=19, tone=lambda one: one.tone),
        TableColumn("MESSAGE", lambda one: one.message, width=12, grows=True, most=40, rank=1),
        TableColumn("DETAILS", lambda one: one.details, width=20, grows=True, most=90, rank=2, tone="muted"),
    )


def event_rows(trace: TraceJson, bar_width: int) -> list[EventRow]:
    drawn = waterfall_rows(dict(trace), bar_width)
    return [
        EventRow(number, row["after_ms"], row["bar"], row["event"], row["message"], row["details"], one)
        for number, (row, one) in enumerate(zip(drawn, trace["events"], strict=True))
    ]


def trace_numbers(trace: TraceJson) -> list[LabeledNumber]:
    if not trace:
        return []
    told = [
        LabeledNumber(trace["status"], "trace", _TONES.get(trace["status"], "")),
        LabeledNumber(format_milliseconds(1000 * trace["duration"]), "long"),
        _counted(len(trace["events"]), "event"),
        _counted(len(trace["messages"]), "message"),
    ]
    if trace["truncated"]:
        told.append(LabeledNumber("cut", "there are more events", "warn"))
    if not trace["sampled"]:
        told.append(LabeledNumber("not sampled", "events may be missing", "warn"))
    return told


def _counted(count: int, noun: str) -> LabeledNumber:
    return LabeledNumber(formats.count(count), format_count(count, noun).partition(" ")[2])


def trace_facts(trace: TraceJson) -> Iterator[Fact]:
    """Yield the id, the sender, and the messages with their relation and state."""
    yield "trace", str(trace["trace_id"]), "title"
    if trace["parent_span_id"] is not None:
        yield "sent by", f"span {trace['parent_span_id']}", ""
    messages: Sequence[TraceJson] = trace["messages"]
    for one in messages[:MESSAGES_SHOWN]:
        yield position_text(dict(one)), _message_text(one, messages), _TONES.get(one["status"], "")
    if len(messages) > MESSAGES_SHOWN:
        yield "…", f"and {format_count(len(messages) - MESSAGES_SHOWN, 'more message')}", "muted"


def _message_text(one: TraceJson, messages: Sequence[TraceJson]) -> str:
    source = one["source"]
    origin = "" if source is None else f" of {position_text(dict(messages[source]))}"
    groups = "".join(f", {group}: {phase.replace('_', ' ')}" for group, phase in one["groups"].items())
    return f"{one['relation'].replace('_', ' ')}{origin}; {one['state'].replace('_', ' ')}{groups}"


def event_facts(row: EventRow) -> list[Fact]:
    """Return everything that one event says."""
    told = row.told
    facts = [("time", str(told["timestamp"]), ""), ("after", format_milliseconds(row.after_ms), "")]
    facts += [("message", row.message, ""), ("summary", details_text(told["details"]), "")]
    facts += [(name, str(value), "") for name, value in told["details"].items()]
    return [fact for fact in facts if fact[1]]
