"""Consumer groups in all programs: listing them, and the cost of an offset reset."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goqueue.errors import GoQueueError
from goqueue.quantities import format_count, format_duration

if TYPE_CHECKING:
    from goqueue.client import Client, GroupDetails

_PAGE_GROUPS = 1000

_UNSURE_CODES = {"broker_unreachable", "request_timed_out"}

Row = dict[str, Any]


def may_be_done(error: GoQueueError) -> bool:
    """Return whether a request that failed may have been carried out."""
    return error.code in _UNSURE_CODES or bool(error.details.get("unsure"))


def all_groups(client: "Client") -> "Iterator[GroupDetails]":
    """Yield all groups by name, page by page."""
    after = None
    while page := client.group_details(_PAGE_GROUPS, after):
        yield from page
        if len(page) < _PAGE_GROUPS:
            break
        after = page[-1].group_id


def topics_of(group: Mapping[str, Any]) -> list[str]:
    """Return the topics that a group has read, or that its members read."""
    return sorted({*group["lag"], *(topic for member in group["members"] for topic in member["topics"])})


DELIVERY_SETTINGS = ("max_retries", "retry_delay", "max_retry_delay", "visibility_timeout", "dead_letter_topic")


def delivery_value(delivery: Mapping[str, Any], name: str) -> str:
    """Format a setting of how a group delivers a topic, with whose it is unless it is the broker's."""
    value, origin = delivery[name], delivery["origins"][name]
    if name in ("max_retries", "dead_letter_topic"):
        text = "-" if value is None else str(value)
    else:
        text = format_duration(value, exact=True)
    return text if origin == "broker" else f"{text} ({origin})"


def delivery_text(delivery: Mapping[str, Any]) -> str:
    """Describe how a group delivers a topic: retries, leases, and what becomes of messages that fail."""
    retries, first, most, lease, target = (delivery_value(delivery, name) for name in DELIVERY_SETTINGS)
    noun = "retry" if retries.partition(" ")[0] == "1" else "retries"
    told = f"{retries} {noun} after {first} to {most}, leases of {lease}"
    if delivery["dead_letter_topic"] is None or delivery["max_retries"] == "unlimited":
        return told
    drops = delivery["dead_letter_topic"] == "none"
    return f"{told}, then {target.replace('none', 'dropped') if drops else f'to {target}'}"


def reset_row(group: str, topic: str, found: Mapping[str, Any], lag: Mapping[str, Mapping[str, Any]]) -> Row:
    """Convert one partition of a dry run; `lag` is the current lag of the group."""
    partition = found["partition"]
    again, skipped = _cost(found["before"], found["after"], lag.get(topic, {}).get(str(partition)))
    return {
        "name": f"{group}/{topic}/{partition}",
        "group_id": group,
        "topic": topic,
        "partition": partition,
        "before": found["before"],
        "after": found["after"],
        "again": again,
        "skipped": skipped,
    }


def _cost(before: int | None, after: int, lag: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return how many messages are read again and how many are skipped, at most.

    A reset drops the acks above the offset as well, so that even a reset forward repeats messages.
    """
    if before is None or lag is None:
        return 0, 0
    ahead = max(lag["end"] - after, 0)
    done_above = max(lag["end"] - before - lag["messages"], 0)
    if after > before:
        return min(done_above, ahead), min(after - before, lag["messages"])
    return max(ahead - lag["messages"], 0), 0


def reset_summary(rows: Sequence[Row]) -> str:
    """Describe the cost of a reset."""
    again, skipped = (sum(row[field] for row in rows) for field in ("again", "skipped"))
    if not again and not skipped:
        return "no message read again or skipped"
    words = {"read again": again, "skipped": skipped}
    told = [f"{format_count(count, 'message')} {word}" for word, count in words.items() if count]
    return f"at most {' and '.join(told)}"
