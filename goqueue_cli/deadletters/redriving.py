"""Sending dead letters back, request after request: what would go, what went, and the record of it.

What must stay true: only what lay there when it began is sent, so that a message which fails again and comes back is
not sent a second time; and what is counted as moved is durably where it was sent.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goqueue.console import terminal
from goqueue.console.redrives import Record, is_particular
from goqueue.console.rows import Column
from goqueue.quantities import format_count, format_duration, parse_time

if TYPE_CHECKING:
    from goqueue.client import Client

_Row = dict[str, Any]

_PLANNED_AT_ONCE = 10_000
_MOVED_AT_ONCE = 1_000  # of a request without a rate: about a second

COLUMNS = (
    Column("COUNT", "count", format_count),
    Column("TARGET", "target"),
    Column("ERROR", "error", lambda error: error or "(nobody has said why)"),
    Column("PROBLEM", "problem", wide=True),
)


@dataclass(slots=True)
class Plan:
    """What would go where."""

    rows: list[_Row]
    scanned: int
    wishes: dict[str, Any]
    """With an end, behind which nothing counts."""

    @property
    def count(self) -> int:
        return sum(row["count"] for row in self.rows if row["problem"] is None)

    @property
    def targets(self) -> list[str]:
        return sorted({row["target"] for row in self.rows if row["problem"] is None})

    @property
    def stuck(self) -> list[_Row]:
        """Those that cannot be sent."""
        return [row for row in self.rows if row["problem"] is not None]


def plan(client: "Client", topic: str, wishes: Mapping[str, Any], limit: int | None) -> Plan:
    """Look at all that lies there, in the words of the broker; nothing is moved."""
    now = parse_time(client.health()["timestamp"])  # of the broker: the clock of this machine may be another
    chosen = {**wishes, "to_time": min(int(wishes.get("to_time", now)), now)}
    found: Counter[tuple[str, str, str | None]] = Counter()
    sentences: dict[str, str] = {}
    scanned, left, start = 0, limit, None
    while left is None or left > 0:
        most = _PLANNED_AT_ONCE if left is None else min(left, _PLANNED_AT_ONCE)
        answer = client.redrive(topic, **chosen, limit=most, start=start, dry_run=True)
        scanned, start = scanned + answer["scanned"], answer["next"]
        for one in answer["results"]:
            problem = one.get("error")
            found[one["reason"], one["target_topic"], problem and problem["code"]] += 1
            left = left if left is None or problem else left - 1
            if problem:
                sentences[problem["code"]] = problem["error"]
        if answer["complete"]:
            break
        terminal.show_status(f"looked at {format_count(scanned, 'dead letter')}")
    terminal.show_status("")
    rows = [
        {
            "name": f"{target or '-'}: {error}",
            "count": count,
            "target": target or None,
            "error": error,
            "problem": code and f"{code}: {sentences[code]}",
        }
        for (error, target, code), count in found.most_common()
    ]
    return Plan(rows, scanned, chosen)


@dataclass(frozen=True, slots=True)
class Pace:
    """How many in all, and how many in a second."""

    limit: int | None
    rate: float | None

    def next(self, moved: int) -> int:
        """How many one request may move: a second's worth, so that whoever stops it need not wait."""
        most = _MOVED_AT_ONCE if self.rate is None else max(1, min(_MOVED_AT_ONCE, int(self.rate)))
        return most if self.limit is None else max(0, min(most, self.limit - moved))


@dataclass(slots=True)
class Outcome:
    """How far it has come."""

    moved: int = 0
    scanned: int = 0
    complete: bool = False
    failures: Counter[str] = field(default_factory=Counter)
    """How many were not moved, by why."""
    hints: dict[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        return self.failures.total()


def carry_out(
    client: "Client",
    topic: str,
    planned: Plan,
    pace: Pace,
    record: Record,
    is_stopped: Callable[[], bool],
    outcome: Outcome,
) -> None:
    """Until all that was planned went, somebody stops it, or the broker cannot go on."""
    start: dict[str, int] | None = None
    began = time.monotonic()
    while not outcome.complete and not is_stopped() and (most := pace.next(outcome.moved)):
        answer = client.redrive(topic, **planned.wishes, limit=most, rate=pace.rate, start=start)
        start = answer["next"]
        outcome.moved += answer["moved"]
        outcome.scanned += answer["scanned"]
        outcome.complete = answer["complete"]
        record.add(topic, answer["results"])
        if _is_hopeless(answer["results"], outcome):
            return
        if not is_stopped():
            terminal.show_status(_progress(outcome, planned.count, time.monotonic() - began))


def _is_hopeless(results: Sequence[Mapping[str, Any]], outcome: Outcome) -> bool:
    """Count what did not go; whether the reason is one that the next ones would meet as well."""
    errors = [one["error"] for one in results if one.get("error")]
    for error in errors:
        told = f"{error['code']}: {error['error']}"
        outcome.failures[told] += 1
        if error.get("hint"):
            outcome.hints[told] = error["hint"]
    return any(not is_particular(error["code"]) for error in errors)


def _progress(outcome: Outcome, total: int, seconds: float) -> str:
    rate = outcome.moved / max(seconds, 0.001)
    left = max(total - outcome.moved, 0)
    ahead = f", {format_duration(left / rate)} left" if rate and left else ""
    return f"{format_count(outcome.moved)} of {format_count(max(total, outcome.moved))} sent back, {rate:,.0f}/s{ahead}"


def lines(planned: Plan, most: int = 10) -> Iterator[str]:
    """The plan for a person who is asked."""
    for row in planned.rows[:most]:
        count = format_count(row["count"])
        told = f"  {count} that failed with {row['error'] or 'nothing said'}"
        yield f"{told}: cannot go, {row['problem']}" if row["problem"] else f"{told} -> {row['target']}"
    if len(planned.rows) > most:
        yield f"  and {format_count(len(planned.rows) - most, 'more reason')}"
