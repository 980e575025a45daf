"""The table of priorities, visible only if more than one is in use."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from goqueue.console.formatting import PRIORITIES
from goqueue_admin.dashboard.broker.service import BrokerCall, CallResults
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.table import TableColumn
from goqueue_admin.dashboard.widgets.table import RowTable

PriorityJson = Mapping[str, Any]


_COUNTS = ("ready", "in_flight", "waiting", "enqueued", "dequeued")


class PriorityRow(NamedTuple):
    """A priority over all partitions."""

    priority: str
    counts: Mapping[str, int]
    served_seconds: float | None
    """Since its last delivery to a group."""
    wait_seconds: float | None


def priority_rows(answers: Sequence[PriorityJson], now_ns: int) -> list[PriorityRow]:
    """Return the used priorities, the highest first; none if only one is used."""
    found = [_priority_row(name, list(_lanes(answers, name)), now_ns) for name in PRIORITIES]
    used = [line for line in found if any(line.counts.values())]
    return used if len(used) > 1 else []


def _lanes(answers: Sequence[PriorityJson], priority: str) -> Iterator[PriorityJson]:
    for answer in answers:
        for partitions in (answer.get("topics") or {}).values():
            yield from (lanes[priority] for lanes in partitions.values())


def _priority_row(name: str, lanes: Sequence[PriorityJson], now_ns: int) -> PriorityRow:
    counts = {count: sum(one[count] for one in lanes) for count in _COUNTS}
    waited = sum(one["avg_wait_time"] * one["dequeued"] for one in lanes)  # partitions that gave more count for more
    served = max((one["last_served"] for one in lanes if one["last_served"]), default=None)
    return PriorityRow(
        name,
        counts,
        None if served is None else formats.age_seconds(served, now_ns),
        waited / counts["dequeued"] if counts["dequeued"] else None,
    )


def priority_columns() -> tuple[TableColumn[PriorityRow], ...]:
    return (
        TableColumn("PRIORITY", _rank, lambda rank: PRIORITIES[rank], 10),
        TableColumn("READY", lambda line: line.counts["ready"], formats.short, 7, right=True, moves=True, rising="bad"),
        TableColumn("IN FLIGHT", lambda line: line.counts["in_flight"], formats.short, 9, right=True, rank=1),
        TableColumn(
            "WAITING", lambda line: line.counts["waiting"] or None, formats.short, 7, right=True, rank=2, tone="warn"
        ),
        TableColumn("ENQUEUED", lambda line: line.counts["enqueued"], formats.short, right=True, rank=5),
        TableColumn("DEQUEUED", lambda line: line.counts["dequeued"], formats.short, right=True, rank=4),
        TableColumn("SERVED", lambda line: line.served_seconds, _seconds_ago, 9, right=True, rank=3),
        TableColumn("AVG WAIT", lambda line: line.wait_seconds, formats.seconds, right=True),
    )


def _rank(line: PriorityRow) -> int:
    return PRIORITIES.index(line.priority)


def _seconds_ago(seconds: float) -> str:
    return f"{formats.seconds(round(seconds))} ago"


class PriorityTable(RowTable[PriorityRow]):
    def __init__(self) -> None:
        super().__init__(priority_columns(), lambda line: line.priority, id="lanes")

    def show(self, known: CallResults, asked: Sequence[BrokerCall], now_ns: int) -> None:
        """Add up the results of these calls."""
        found = priority_rows([known.facts(one) for one in asked], now_ns)
        self.fill(found, priority_rows([known.before(one) or {} for one in asked], now_ns))
        self.display = bool(found)
        self.styles.height = len(found) + 1
