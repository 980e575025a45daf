"""The rebalances of all groups: number, duration and reasons."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.widget import Widget

from goqueue_admin.dashboard.broker.service import (
    REBALANCES,
    BrokerCall,
    CallResults,
    broker_call,
    group_calls,
    known_groups,
)
from goqueue_admin.dashboard.screens.base import DashboardScreen
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.groups import format_whole_seconds, state_mark, state_text
from goqueue_admin.dashboard.views.table import SortOrder, TableColumn
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client.admin_requests import GroupDetails


RebalanceJson = Mapping[str, Any]

_TIMEOUTS = "total_revocation_timeouts"


@dataclass(frozen=True)
class RebalanceRow:
    """A group and its rebalance statistics, empty until they are known."""

    group: str
    state: str
    phase: str
    generation: int
    ago_seconds: float | None
    stats: RebalanceJson


def rebalance_rows(
    groups: Sequence["GroupDetails"] | None, stats: Mapping[str, RebalanceJson], now_ns: int
) -> list[RebalanceRow] | None:
    return None if groups is None else [_rebalance_row(one, stats.get(one.group_id, {}), now_ns) for one in groups]


def _rebalance_row(group: "GroupDetails", stats: RebalanceJson, now_ns: int) -> RebalanceRow:
    last = stats.get("last_rebalance_at")
    ago = None if last is None else formats.age_seconds(last, now_ns)
    return RebalanceRow(group.group_id, group.state, group.rebalance_state, group.generation, ago, stats)


def rebalance_columns() -> tuple[TableColumn[RebalanceRow], ...]:
    return (
        TableColumn("GROUP", lambda line: line.group, width=12, grows=True),
        TableColumn("STATE", lambda line: line.state, state_text, 13, tone=lambda line: state_mark(line.state)[1]),
        TableColumn("REBALANCE", lambda line: line.phase or None, _phase, 14, rank=4, tone=_phase_tone),
        TableColumn("GEN", lambda line: line.generation, formats.count, 6, right=True, moves=True),
        TableColumn("AGO", lambda line: line.ago_seconds, format_whole_seconds, 8, right=True),
        _milliseconds("LAST", "last_rebalance_duration_ms", 1),
        _milliseconds("AVERAGE", "average_rebalance_duration_ms", 2),
        _milliseconds("LONGEST", "longest_rebalance_duration_ms", 3),
        TableColumn("TIMES", lambda line: line.stats.get("total_rebalances"), formats.count, 5, right=True, rank=6),
        TableColumn(
            "LATE", lambda line: line.stats.get(_TIMEOUTS) or None, formats.count, 4, right=True, rank=7, tone="warn"
        ),
        TableColumn("REASONS", lambda line: _reasons(line.stats) or None, width=14, grows=True, rank=5, tone="muted"),
    )


def _phase(phase: str) -> str:
    return phase.replace("_", " ")


def _phase_tone(line: RebalanceRow) -> str:
    return "warn" if line.phase.startswith("pending") else "muted"


def _milliseconds(title: str, field: str, rank: int) -> TableColumn[RebalanceRow]:
    def value(line: RebalanceRow) -> float | None:
        return line.stats.get(field) if line.stats.get("last_rebalance_at") else None

    return TableColumn(title, value, formats.milliseconds, 7, right=True, rank=rank)


def _reasons(stats: RebalanceJson) -> str:
    return " ".join(f"{reason} {count:,}" for reason, count in _ordered_reasons(stats))


def _ordered_reasons(stats: RebalanceJson) -> list[tuple[str, int]]:
    counts = Counter[str](stats.get("rebalances_by_reason") or {})
    return [(reason.replace("_", " "), count) for reason, count in counts.most_common()]


def total_numbers(stats: RebalanceJson) -> list[LabeledNumber]:
    if not stats:
        return []
    failed, late = stats["failed_rebalances"], stats[_TIMEOUTS]
    found = [
        LabeledNumber(formats.count(stats["total_rebalances"]), "rebalances"),
        LabeledNumber(formats.milliseconds(stats["last_rebalance_duration_ms"]), "the last"),
        LabeledNumber(formats.milliseconds(stats["average_rebalance_duration_ms"]), "on average"),
    ]
    if "longest_rebalance_duration_ms" in stats:
        found.append(LabeledNumber(formats.milliseconds(stats["longest_rebalance_duration_ms"]), "the longest"))
    found += [
        LabeledNumber(formats.count(stats["total_partitions_assigned"]), "partitions given"),
        LabeledNumber(formats.count(stats["total_partitions_revoked"]), "taken"),
        LabeledNumber(formats.count(failed), "failed", "bad" if failed else ""),
        LabeledNumber(formats.count(late), "too late", "warn" if late else ""),
    ]
    return found


def reason_numbers(stats: RebalanceJson) -> list[LabeledNumber]:
    return [LabeledNumber(formats.count(count), reason) for reason, count in _ordered_reasons(stats)]


class RebalancesScreen(DashboardScreen):
    """Each group is asked for alone, so only those are that are on the screen. The list of groups. Enter opens one."""

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self._known_of: set[str] = set()

    def calls(self) -> Sequence[BrokerCall]:
        of_seen = [broker_call("rebalance_stats", name) for name in self._seen()]
        return (*group_calls(self.dashboard.service.known), REBALANCES, *of_seen)

    def _seen(self) -> list[str]:
        return [key for table in self.query(RowTable) for key in table.seen_keys]

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield NumbersBar()
        yield RowTable(rebalance_columns(), lambda line: line.group, SortOrder("GROUP"), empty="there are no groups")

    def show(self, known: CallResults) -> None:
        totals = known.facts(REBALANCES)
        first, second = self.query(NumbersBar)
        first.show(total_numbers(totals))
        second.show(reason_numbers(totals))
        groups = known_groups(known)
        stats = {one.group_id: known.facts(broker_call("rebalance_stats", one.group_id)) for one in groups or ()}
        table = self.query_one(RowTable)
        table.fill(rebalance_rows(groups, stats, self.dashboard.service.clock.now_ns()), table.records)
        self._ask_for_new(known)

    def _ask_for_new(self, known: CallResults) -> None:
        """Read the statistics of newly visible groups at once."""
        missing = {name for name in self._seen() if not known.facts(broker_call("rebalance_stats", name))}
        if missing - self._known_of:
            self._known_of |= missing
            self.call_next(self.dashboard.look)

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "rebalance", "list")

    def open(self, key: str) -> Location:
        return Location("group", (key,))
