"""Priorities in numbers: what is ready of each, what is in hand, what came and went."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goqueue.clock import NANOSECONDS
from goqueue.console.figures import PRIORITIES
from goqueue.quantities import parse_time
from goqueue_admin.dashboard.views import numbers
from goqueue_admin.dashboard.views.table import Column

Stats = Mapping[str, Any]


@dataclass(frozen=True)
class LaneLine:
    """A priority, over all partitions."""

    priority: str
    ready: int
    in_flight: int
    waiting: int
    enqueued: int
    dequeued: int
    served_seconds: float | None
    """Since a group was handed some of it last."""
    wait_seconds: float | None

    @property
    def is_used(self) -> bool:
        return any((self.ready, self.in_flight, self.waiting, self.enqueued, self.dequeued))


def lines(answers: Sequence[Stats], now_ns: int) -> list[LaneLine]:
    """Of the priorities that are in use, the most urgent first; none where it is one alone."""
    found = [_line(name, list(_lanes(answers, name)), now_ns) for name in PRIORITIES]
    used = [line for line in found if line.is_used]
    return used if len(used) > 1 else []


def _lanes(answers: Sequence[Stats], priority: str) -> Iterator[Stats]:
    for answer in answers:
        for partitions in (answer.get("topics") or {}).values():
            yield from (lanes[priority] for lanes in partitions.values())


def _line(name: str, lanes: Sequence[Stats], now_ns: int) -> LaneLine:
    dequeued = sum(one["dequeued"] for one in lanes)
    waited = sum(one["avg_wait_time"] * one["dequeued"] for one in lanes)  # partitions that gave more count for more
    served = max((one["last_served"] for one in lanes if one["last_served"]), default=None)
    return LaneLine(
        priority=name,
        ready=sum(one["ready"] for one in lanes),
        in_flight=sum(one["in_flight"] for one in lanes),
        waiting=sum(one["waiting"] for one in lanes),
        enqueued=sum(one["enqueued"] for one in lanes),
        dequeued=dequeued,
        served_seconds=None if served is None else max(0, now_ns - parse_time(served)) / NANOSECONDS,
        wait_seconds=waited / dequeued if dequeued else None,
    )


def lane_key(line: LaneLine) -> str:
    return line.priority


def columns() -> tuple[Column[LaneLine], ...]:
    return (
        Column("PRIORITY", _rank, lambda rank: PRIORITIES[rank], 10),
        Column("READY", lambda line: line.ready, numbers.short, 7, right=True, moves=True, rising="bad"),
        Column("IN FLIGHT", lambda line: line.in_flight, numbers.short, 9, right=True, rank=1),
        Column(
            "WAITING", lambda line: line.waiting or None, numbers.short, 7, right=True, rank=2, tone=lambda _: "warn"
        ),
        Column("ENQUEUED", lambda line: line.enqueued, numbers.short, right=True, rank=5),
        Column("DEQUEUED", lambda line: line.dequeued, numbers.short, right=True, rank=4),
        Column("SERVED", lambda line: line.served_seconds, _ago, 9, right=True, rank=3),
        Column("AVG WAIT", lambda line: line.wait_seconds, numbers.seconds, right=True),
    )


def _rank(line: LaneLine) -> int:
    return PRIORITIES.index(line.priority)


def _waiting(line: LaneLine) -> int | None:
    return line.waiting or None


def _ago(seconds: float) -> str:
    return f"{numbers.seconds(round(seconds))} ago"
