"""Rebalances of all groups: how often, how long, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goqueue.clock import NANOSECONDS
from goqueue.quantities import parse_time
from goqueue_admin.dashboard.views import numbers
from goqueue_admin.dashboard.views.figure import Figure
from goqueue_admin.dashboard.views.groups import mark_of, state_text, whole_seconds
from goqueue_admin.dashboard.views.table import Column

if TYPE_CHECKING:
    from goqueue.client.insight import GroupDetails

Numbers = Mapping[str, Any]

_LATE = "total_revocation_timeouts"


@dataclass(frozen=True)
class RebalanceLine:
    """A group, and what is known of its rebalances: `stats` is empty as long as the broker was not asked."""

    group: str
    state: str
    phase: str
    generation: int
    ago_seconds: float | None
    stats: Numbers

    def number(self, name: str) -> Any:
        return self.stats.get(name)


def lines(
    groups: Sequence["GroupDetails"] | None, stats: Mapping[str, Numbers], now_ns: int
) -> list[RebalanceLine] | None:
    return None if groups is None else [_line(one, stats.get(one.group_id, {}), now_ns) for one in groups]


def _line(group: "GroupDetails", stats: Numbers, now_ns: int) -> RebalanceLine:
    last = stats.get("last_rebalance_at")
    ago = None if last is None else max(0, now_ns - parse_time(last)) / NANOSECONDS
    return RebalanceLine(group.group_id, group.state, group.rebalance_state, group.generation, ago, stats)


def line_key(line: RebalanceLine) -> str:
    return line.group


def columns() -> tuple[Column[RebalanceLine], ...]:
    return (
        Column("GROUP", line_key, width=12, grows=True),
        Column("STATE", lambda line: line.state, state_text, 13, tone=lambda line: mark_of(line.state)[1]),
        Column("REBALANCE", lambda line: line.phase or None, _phase, 14, rank=4, tone=_phase_tone),
        Column("GEN", lambda line: line.generation, numbers.count, 6, right=True, moves=True),
        Column("AGO", lambda line: line.ago_seconds, whole_seconds, 8, right=True),
        _milliseconds("LAST", "last_rebalance_duration_ms", 1),
        _milliseconds("AVERAGE", "average_rebalance_duration_ms", 2),
        _milliseconds("LONGEST", "longest_rebalance_duration_ms", 3),
        Column("TIMES", lambda line: line.number("total_rebalances"), numbers.count, 5, right=True, rank=6),
        Column(
            "LATE", lambda line: line.number(_LATE) or None, numbers.count, 4, right=True, rank=7, tone=lambda _: "warn"
        ),
        Column(
            "REASONS", lambda line: _reasons(line.stats) or None, width=14, grows=True, rank=5, tone=lambda _: "muted"
        ),
    )


def _phase(phase: str) -> str:
    return phase.replace("_", " ")


def _phase_tone(line: RebalanceLine) -> str:
    return "warn" if line.phase.startswith("pending") else "muted"


def _milliseconds(title: str, field: str, rank: int) -> Column[RebalanceLine]:
    def value(line: RebalanceLine) -> float | None:
        """Of a group that was never rebalanced there is none."""
        return line.number(field) if line.number("last_rebalance_at") else None

    return Column(title, value, numbers.milliseconds, 7, right=True, rank=rank)


def _reasons(stats: Numbers) -> str:
    """The most frequent first."""
    counts = stats.get("rebalances_by_reason") or {}
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return " ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in ordered)


def totals(stats: Numbers) -> list[Figure]:
    """Of all groups together, since the broker started."""
    if not stats:
        return []
    failed, late = stats["failed_rebalances"], stats[_LATE]
    found = [
        Figure(numbers.count(stats["total_rebalances"]), "rebalances"),
        Figure(numbers.milliseconds(stats["last_rebalance_duration_ms"]), "the last"),
        Figure(numbers.milliseconds(stats["average_rebalance_duration_ms"]), "on average"),
    ]
    if "longest_rebalance_duration_ms" in stats:
        found.append(Figure(numbers.milliseconds(stats["longest_rebalance_duration_ms"]), "the longest"))
    found += [
        Figure(numbers.count(stats["total_partitions_assigned"]), "partitions given"),
        Figure(numbers.count(stats["total_partitions_revoked"]), "taken"),
        Figure(numbers.count(failed), "failed", "bad" if failed else ""),
        Figure(numbers.count(late), "too late", "warn" if late else ""),
    ]
    return found


def reasons(stats: Numbers) -> list[Figure]:
    counts = stats.get("rebalances_by_reason") or {}
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return [Figure(numbers.count(count), reason.replace("_", " ")) for reason, count in ordered]
