"""A trace as a waterfall: one line for each event, with a bar from when it began to when it happened."""

from typing import Any

from goqueue.console.formatting import format_milliseconds, format_to_second
from goqueue.drawing.bars import bar
from goqueue.quantities import parse_time

Row = dict[str, Any]

_MILLISECOND = 1_000_000
_TIMES = frozenset({"deliver_at", "retry_at", "until"})
_NOT_SHOWN = frozenset({"group", "member", "attempt", "seconds"})


def waterfall_rows(trace: Row, width: int) -> list[Row]:
    """Return a row for each event: time since the start, bar, event, message and details."""
    start, end = parse_time(trace["start"]), parse_time(trace["end"])
    return [
        {
            "after_ms": (parse_time(one["timestamp"]) - start) / _MILLISECOND,
            "bar": _bar(one, start, max(1, end - start), width),
            "event": one["event_type"],
            "message": position_text(one),
            "details": details_text(one["details"]),
        }
        for one in trace["events"]
    ]


def _bar(event: Row, start: int, span: int, width: int) -> str:
    """Return a bar that ends where the event happened."""
    moment = parse_time(event["timestamp"])
    began = max(start, moment - round(event["details"].get("seconds", 0) * 10**9))
    first, last = ((one - start) * (width - 1) // span for one in (began, moment))
    return f"{'·' * first}{bar(1, 1, last - first + 1)}{'·' * (width - last - 1)}"


def position_text(one: Row) -> str:
    """Return a position as `trace get` takes it."""
    text = f"{one['topic']}/{one['partition']}@{one['offset']}"
    return f"{text} (delayed)" if one["delayed"] else text


def details_text(details: Row) -> str:
    """Return the details of an event in one line."""
    parts = []
    if "group" in details:
        member = f" {details['member']}" if "member" in details else ""
        attempt = f", attempt {details['attempt']}" if "attempt" in details else ""
        parts.append(f"{details['group']}{member}{attempt}")
    if "seconds" in details:
        parts.append(f"after {format_milliseconds(1000 * details['seconds'])}")
    for name, value in details.items():
        if name not in _NOT_SHOWN:
            parts.append(f"{name}={format_to_second(value) if name in _TIMES else value}")
    return "; ".join(parts)
