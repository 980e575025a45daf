"""What is to be said of a transaction: what it has touched, what comes next, what it means to end it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goqueue.console.figures import ago, partitions
from goqueue.limits import TRANSACTION_SECONDS_MAX
from goqueue.quantities import format_count, format_duration, parse_time

Row = dict[str, Any]

OPEN = ("ongoing", "prepare_commit", "prepare_abort")
OPERATOR = "an operator has ended it"
"""The reason of whoever gives none."""


def duration(seconds: float) -> str:
    """As exact as somebody needs who looks at what goes on."""
    return format_duration(round(seconds) if seconds >= 10 else round(seconds, 1))


def touched(places: Sequence[Mapping[str, Any]]) -> str:
    """`orders/0-2 payments/1 (delayed)`: what stands in brackets is behind where messages wait for their time."""
    found = [
        partitions((one["topic"], one["partition"]) for one in places if one["delayed"] is late)
        for late in (False, True)
    ]
    named = [text for text in (found[0], f"{found[1]} (delayed)") if not text.startswith("-")]
    return " ".join(named) or "-"


def verb(last: Mapping[str, Any]) -> str:
    """How the latest one has ended."""
    return "committed" if last["state"] == "complete_commit" else "aborted"


def ending(last: Mapping[str, Any]) -> str:
    """The same, and when."""
    return f"{verb(last)} {ago(last['ended_at'])}"


def lasted(last: Mapping[str, Any]) -> str:
    nanoseconds = max(0, parse_time(last["ended_at"]) - parse_time(last["began_at"]))
    return format_duration(round(nanoseconds / 10**9, 3))


def is_open(row: Mapping[str, Any]) -> bool:
    return row["state"] in OPEN


def headline(row: Mapping[str, Any]) -> str:
    name, transaction = row["transactional_id"], row["transaction_id"]
    if is_open(row):
        return f"{name}: transaction {transaction} is open for {duration(row['age_seconds'])}"
    last = row["last"]
    return (
        f"{name}: nothing is open"
        if last is None
        else f"{name}: nothing is open; {last['transaction_id']} was {ending(last)}"
    )


def outlook(row: Mapping[str, Any]) -> str:
    """What happens next, if nobody does anything."""
    state = row["state"]
    if state == "ongoing":
        return _expiry(row)
    if state in OPEN:
        what = "committed" if state == "prepare_commit" else f"aborted ({row['reason']})"
        if row["obstacle"]:
            return f"is to be {what}, which is tried every second and cannot be carried out: {row['obstacle']}"
        return f"is being {what}: that is decided, whatever happens"
    return f"its next transaction is {row['transaction_id']}, which begins when its producer wants"


def _expiry(row: Mapping[str, Any]) -> str:
    left, at_most = row["expires_in_seconds"], max(0.0, TRANSACTION_SECONDS_MAX - row["age_seconds"])
    if left >= at_most - 0.5:
        return f"is aborted in {duration(left)}, whatever is heard of it: that is as long as one may last"
    return f"is aborted in {duration(left)} unless something is heard of it, and in {duration(at_most)} at the latest"


def consequences(row: Mapping[str, Any]) -> Iterator[str]:
    """What it means to abort it now."""
    yield f"transaction {row['transaction_id']} of {row['transactional_id']}, open for {duration(row['age_seconds'])}:"
    if row["messages"]:
        count = format_count(row["messages"], "message")
        yield f"  {count} of its own gone: {touched(row['partitions'])}"
    others = row["held_back"] - row["messages"]
    if others > 0:
        yield f"  {format_count(others, 'message')} of others behind it seen, unless an older transaction is in front"
    for group, acked in (row["pledged"] or {}).items():
        yield f"  {format_count(acked, 'message')} handed out again that group {group} has acknowledged in it"
    yield "  its producer is told when it speaks next, and has to do all of it again"
