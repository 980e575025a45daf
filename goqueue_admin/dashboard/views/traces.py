"""Traces as rows: lists of them, and the events of one with their bars."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goqueue.console.formatting import format_milliseconds
from goqueue.console.waterfall import details_text, position_text, waterfall_rows
from goqueue.quantities import format_count, format_time, quoted
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import TableColumn

TraceJson = Mapping[str, Any]
Fact = tuple[str, str, str]

MESSAGES_SHOWN = 6
_DIGITS_MAX = 19
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


# --- lists ---

STATUSES = ("all", "error", "pending", "completed")
_NUMBERS = ("partition", "offset")
_TIMES = {"from": "start", "to": "end"}
_NAMES = ("topic", "group", "status")
SEARCH_HINT = "orders   group=billing   status=error   from=-1h   to=14:05   partition=0   offset=17"


def parse_search(text: str, now_ns: int) -> dict[str, Any]:
    """Parse the conditions of a search; a word by itself is a status or a topic. Raises ValueError."""
    found: dict[str, Any] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals:
            name, value = ("status" if word in STATUSES else "topic"), word
        if name in _NUMBERS and value.isdecimal() and value.isascii() and len(value) <= _DIGITS_MAX:
            found[name] = int(value)
        elif name in _TIMES and value:
            found[_TIMES[name]] = format_time(now_ns if value == "now" else formats.parse_moment(value, now_ns))
        elif name == "status" and value not in STATUSES:
            raise ValueError(f"{quoted(value)} is not a status: known are {', '.join(STATUSES[1:])}")
        elif name in _NAMES and value:
            found[name] = value
        else:
            raise ValueError(f"{quoted(word)} is not a condition: write {SEARCH_HINT}")
    if found.get("status") == "all":
        del found["status"]
    return found


def search_flags(conditions: Mapping[str, Any]) -> list[str]:
    """Return the flags of `goqueue-cli trace search`."""
    names = {"start": "from", "end": "to"}
    return [word for name, value in conditions.items() for word in (f"--{names.get(name, name)}", str(value))]


def list_columns(now_ns: Callable[[], int]) -> tuple[TableColumn[TraceJson], ...]:
    return (
        TableColumn("MESSAGE", message_position, width=18, grows=True, most=48),
        TableColumn("STATUS", lambda one: one["status"], width=9, tone=lambda one: _TONES.get(one["status"], "")),
        TableColumn("BATCH", lambda one: one["batch"], formats.count, 6, right=True, rank=1),
        TableColumn("AGE", lambda one: formats.age_seconds(one["end"], now_ns()), formats.seconds, 7, right=True),
        TableColumn("TOOK", lambda one: 1000 * one["duration"], format_milliseconds, 8, right=True),
        TableColumn("EVENTS", lambda one: len(one["events"]), formats.count, 6, right=True, rank=2),
        TableColumn("LAST", last_event, width=21, tone=lambda one: _EVENT_TONES.get(last_event(one), "")),
        TableColumn("TRACE", lambda one: one["trace_id"], width=32, rank=3, tone="muted"),
    )


def message_position(one: TraceJson) -> str:
    return position_text(dict(one))


def last_event(one: TraceJson) -> str:
    return str(one["events"][-1]["event_type"]) if one["events"] else ""


def list_key(one: TraceJson) -> str:
    return f"{message_position(one)} {one['trace_id']} {one['status']} {last_event(one)}"


def list_numbers(stats: TraceJson) -> list[LabeledNumber]:
    if not stats:
        return []
    if not stats["enabled"]:
        return [LabeledNumber("off", "tracing.enabled is false", "warn")]
    statuses = stats["statuses"]
    told = [
        LabeledNumber(formats.count(statuses[name]), name, _TONES[name] if statuses[name] else "")
        for name in ("error", "pending", "completed")
    ]
    told += [
        LabeledNumber(formats.short(stats["records"]), "records in memory"),
        LabeledNumber(formats.size(stats["file_bytes"]), "of files"),
    ]
    if stats["sampling"] < 1:
        told.append(LabeledNumber(formats.percent(stats["sampling"]), "sampled"))
    if stats["dropped"]:
        told.append(LabeledNumber(formats.short(stats["dropped"]), "dropped", "warn"))
    return told


# --- one trace ---


def event_columns(bar_width: int) -> tuple[TableColumn[EventRow], ...]:
    return (
        TableColumn("AFTER", lambda one: one.after_ms, format_milliseconds, 8, right=True, tone="muted"),
        TableColumn("WATERFALL", lambda one: one.bar, width=bar_width, tone=lambda one: one.tone or "accent"),
        TableColumn("EVENT", lambda one: one.event, width=21, tone=lambda one: one.tone),
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
        told.append(LabeledNumber("cut", "there is more", "warn"))
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
