"""Transactions in words, for all programs: what one has touched, what happens next, and what aborting it means."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goqueue.console.formatting import format_ago, format_partitions
from goqueue.limits import TRANSACTION_SECONDS_MAX
from goqueue.quantities import format_count, format_duration, parse_time

Row = dict[str, Any]

OPEN_STATES = ("ongoing", "prepare_commit", "prepare_abort")
DEFAULT_ABORT_REASON = "an operator has ended it"


def format_rounded_duration(seconds: float) -> str:
    """Format a duration that changes while it is read: whole seconds from ten seconds on."""
    return format_duration(round(seconds) if seconds >= 10 else round(seconds, 1))


def format_touched_partitions(places: Sequence[Mapping[str, Any]]) -> str:
    """Format as `orders/0-2 payments/1 (delayed)`; `(delayed)` marks delayed logs."""
    appended, delayed = (
        format_partitions((one["topic"], one["partition"]) for one in places if one["delayed"] is late)
        for late in (False, True)
    )
    named = [text for text in (appended, f"{delayed} (delayed)") if not text.startswith("-")]
    return " ".join(named) or "-"


def ended_verb(last: Mapping[str, Any]) -> str:
    return "committed" if last["state"] == "complete_commit" else "aborted"


def format_ending(last: Mapping[str, Any]) -> str:
    return f"{ended_verb(last)} {format_ago(last['ended_at'])}"


def format_lifetime(last: Mapping[str, Any]) -> str:
    nanoseconds = max(0, parse_time(last["ended_at"]) - parse_time(last["began_at"]))
    return format_duration(round(nanoseconds / 10**9, 3))


def is_open(row: Mapping[str, Any]) -> bool:
    return row["state"] in OPEN_STATES


def headline(row: Mapping[str, Any]) -> str:
    name, last = row["transactional_id"], row["last"]
    if is_open(row):
        return f"{name}: transaction {row['transaction_id']} is open for {format_rounded_duration(row['age_seconds'])}"
    ended = "" if last is None else f"; {last['transaction_id']} was {format_ending(last)}"
    return f"{name}: no transaction is open{ended}"


def describe_next_step(row: Mapping[str, Any]) -> str:
    """Describe what happens next without any intervention."""
    state = row["state"]
    if state == "ongoing":
        return _expiry(row)
    if state in OPEN_STATES:
        result = "committed" if state == "prepare_commit" else f"aborted ({row['reason']})"
        if row["obstacle"]:
            return f"will be {result}; retried every second, and blocked now: {row['obstacle']}"
        return f"is being {result}; this is final"
    return f"its next transaction is {row['transaction_id']}, which its producer has to begin"


def _expiry(row: Mapping[str, Any]) -> str:
    left, at_most = row["expires_in_seconds"], max(0.0, TRANSACTION_SECONDS_MAX - row["age_seconds"])
    if left >= at_most - 0.5:
        return f"is aborted in {format_rounded_duration(left)}, the maximum duration of a transaction"
    return (
        f"is aborted in {format_rounded_duration(left)} without a request of its producer, "
        f"and in {format_rounded_duration(at_most)} at the latest"
    )


def abort_consequences(row: Mapping[str, Any]) -> Iterator[str]:
    """Describe what aborting the transaction now means."""
    age = format_rounded_duration(row["age_seconds"])
    yield f"transaction {row['transaction_id']} of {row['transactional_id']}, open for {age}:"
    if row["messages"]:
        count = format_count(row["messages"], "message")
        yield f"  {count} of the transaction discarded: {format_touched_partitions(row['partitions'])}"
    others = row["held_back"] - row["messages"]
    if others > 0:
        yield f"  {format_count(others, 'message')} behind it become visible, unless an older transaction is open"
    for group, acked in (row["pledged"] or {}).items():
        yield f"  {format_count(acked, 'message')} acked in it by group {group} delivered again"
    yield "  its producer gets an error with its next request, and must repeat the transaction"
