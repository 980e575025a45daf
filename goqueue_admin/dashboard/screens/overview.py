"""The first screen: findings of the doctor, groups that are behind, and plots of the last minutes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding
from textual.containers import Container
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goqueue.console.terminal import escape_unprintable
from goqueue.drawing.bars import bar
from goqueue.quantities import format_count
from goqueue_admin.dashboard.broker.service import (
    DOCTOR,
    HISTORY,
    STATS,
    BrokerCall,
    CallResults,
    broker_call,
    group_calls,
    known_groups,
)
from goqueue_admin.dashboard.screens.base import MUTED, DashboardScreen
from goqueue_admin.dashboard.screens.findings import (
    FindingJson,
    finding_advice,
    finding_reason,
    finding_route,
    finding_window,
)
from goqueue_admin.dashboard.screens.routes import Location
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.groups import condition_numbers, group_columns, group_tone
from goqueue_admin.dashboard.views.table import TableColumn
from goqueue_admin.dashboard.widgets.frame import NumbersBar
from goqueue_admin.dashboard.widgets.plots import RANGES, LinePlot, history_series
from goqueue_admin.dashboard.widgets.table import RowTable

if TYPE_CHECKING:
    from goqueue.client import TenantStats
    from goqueue.client.admin_requests import GroupDetails


_TONES = ("first", "second", "accent")
_MARKS = {"critical": ("◆", "bad"), "warning": ("▲", "warn"), "note": ("·", "muted")}


@dataclass(frozen=True)
class PlotSpec:
    """A plot: its title, format and series of the history."""

    id: str
    title: str
    show: Callable[[float], str]
    lines: tuple[tuple[str, str], ...]
    base: int = 1000


PLOTS = (
    PlotSpec("throughput", "Messages", formats.rate, (("published", "in"), ("read", "out"))),
    PlotSpec("latency", "Publish", formats.milliseconds, (("publish_p50_ms", "p50"), ("publish_p99_ms", "p99"))),
    PlotSpec("lag", "Lag", formats.short, (("total_lag", "messages"),)),
    PlotSpec("stored", "Stored", formats.size, (("stored_bytes", "all logs"),), 1024),
    PlotSpec("bytes", "Bytes", formats.size_rate, (("published_bytes", "in"), ("read_bytes", "out")), 1024),
    PlotSpec("settled", "Work", formats.rate, (("settled", "settled"), ("requests", "requests"))),
)
"""The most important first: small screens omit the last."""


def overview_numbers(stats: Mapping[str, Any]) -> list[LabeledNumber]:
    if not stats:
        return []
    here = "" if stats.get("node_id", "0") == "0" else " here"  # in a cluster the numbers are those of one node
    disk = stats.get("disk") or {}
    used_bytes, free_bytes = disk.get("used_bytes", 0), disk.get("free_bytes", 0)
    used = formats.share(used_bytes, used_bytes + free_bytes)
    found = [
        LabeledNumber(formats.count(stats["topics"]), "topics"),
        LabeledNumber(formats.size(stats["total_size_bytes"]), f"in topics{here}"),
    ]
    if disk:
        tone = formats.share_tone(used)
        found.append(LabeledNumber(f"{bar(used, 1.0, 6):<6} {formats.percent(used)}", "disk", tone))
        found.append(LabeledNumber(formats.size(used_bytes), "used", tone))
        found.append(LabeledNumber(formats.size(free_bytes), "available", tone))
    if "groups" in stats:
        found.append(LabeledNumber(formats.count(stats["groups"]), f"groups{here}"))
    if "connections" in stats:
        found.append(LabeledNumber(formats.count(stats["connections"]), "connections"))
    if "memory_bytes" in stats:
        found.append(LabeledNumber(formats.size(stats["memory_bytes"]), "memory"))
    if "loop_lag_ms" in stats:
        found.append(LabeledNumber(formats.milliseconds(stats["loop_lag_ms"]), "loop"))
    if "partitions" in stats:
        found.append(LabeledNumber(formats.count(stats["partitions"]), "partitions"))
    return found


def finding_key(one: FindingJson) -> str:
    return f"{one.get('code')} {one.get('subject')}"


def finding_columns() -> tuple[TableColumn[FindingJson], ...]:
    return (
        TableColumn("", _severity_rank, lambda rank: ("◆", "▲", "·")[rank], 1, tone=_finding_tone),
        TableColumn("ABOUT", lambda one: one.get("subject"), width=12, grows=True, most=24, tone=_finding_tone),
        TableColumn("WHAT IS WRONG", lambda one: one.get("sentence"), width=24, grows=True, most=140),
    )


def _severity_rank(one: FindingJson) -> int:
    names = list(_MARKS)
    name = str(one.get("severity"))
    return names.index(name) if name in names else len(names) - 1


def _finding_tone(one: FindingJson) -> str:
    return _MARKS.get(str(one.get("severity")), ("", "muted"))[1]


def sorted_findings(doctor: Mapping[str, Any]) -> Sequence[FindingJson] | None:
    """Return the findings, the worst first; None before the first answer."""
    if "findings" not in doctor:
        return None
    return sorted(doctor["findings"], key=_severity_rank)


def check_summary(doctor: Mapping[str, Any]) -> str:
    """Return the number of findings and checks, and the time."""
    if "checked_at" not in doctor:
        return ""
    count = format_count(len(doctor.get("findings", ())), "finding")
    return f"{count} in {format_count(len(doctor.get('checks', ())), 'check')} at {doctor['checked_at'][11:19]}"


def verdict_numbers(doctor: Mapping[str, Any]) -> list[LabeledNumber]:
    """Say that nothing is wrong, and how the groups do."""
    found = []
    if sorted_findings(doctor) == []:
        found.append(
            LabeledNumber("● all is well", f"{format_count(len(doctor.get('checks', ())), 'check')} passed", "good")
        )
    return found + condition_numbers(doctor)


def late_groups(groups: "Sequence[GroupDetails]") -> "list[GroupDetails]":
    """Return the groups that are behind, the worst first."""
    return sorted((one for one in groups if group_tone(one)), key=lambda one: -one.lag_seconds)


def late_group_columns() -> "tuple[TableColumn[GroupDetails], ...]":
    return tuple(one for one in group_columns() if one.title not in {"MEMBERS", "IN FLIGHT", "LOST"})


_FINDINGS, _GROUPS = "#findings", "#late"


def tenant_of_key(known: CallResults) -> str:
    """Return the tenant that the key belongs to; empty for a key of the operators, and before the first answer."""
    error = known.error(STATS)
    return "" if error is None else str(error.details.get("tenant", ""))


def tenant_lines(tenant: str, stats: "TenantStats | None") -> list[Content]:
    """Say what a key of a tenant may see, and how to come there."""
    numbers = []
    if stats is not None:
        counts = (format_count(stats.topics, "topic"), format_count(stats.groups, "group"))
        numbers = [f"{', '.join(counts)}, {formats.size(stats.size_bytes)} stored; it is {stats.status}"]
        numbers += [f"{name}: {percent:.0f}% used" for name, percent in sorted(stats.percentages.items())]
    return [
        Content.assemble("This key belongs to the tenant ", (escape_unprintable(tenant), "bold"), "."),
        *map(Content, numbers),
        Content(""),
        Content("It sees the tenant's own topics, groups, schemas, traces, transactions and delayed messages."),
        Content("Findings, rates, logs, keys and other tenants are about the broker: its operators see those."),
        Content(""),
        Content.assemble(("f3 or :topics", "bold"), "  the topics"),
        Content.assemble(("f4 or :groups", "bold"), "  the groups, and how far behind they are"),
        Content.assemble((f":tenant {escape_unprintable(tenant)}", "bold"), "  quotas and usage"),
    ]


class OverviewScreen(DashboardScreen):
    """The overview. Enter opens the subject of a finding, or a group; `i` shows the finding in full.

    A key of a tenant may not ask about the broker: it is told what it may see.
    """

    AUTO_FOCUS = "RowTable"
    BINDINGS: ClassVar = [
        Binding("i", "finding", "In full", id="finding"),
        Binding("t", "show_range", "Time range", id="overview.range"),
        Binding("tab", "app.focus_next", "Other table", show=False, id="other"),
    ]

    def calls(self) -> Sequence[BrokerCall]:
        known = self.dashboard.service.known
        groups = group_calls(known)
        if tenant := tenant_of_key(known):
            return (broker_call("tenant_stats", tenant), *groups)
        return (STATS, DOCTOR, *groups, HISTORY, *self.history_calls())

    def needed(self) -> Sequence[BrokerCall]:
        if tenant := tenant_of_key(self.dashboard.service.known):
            return (broker_call("tenant_stats", tenant), *group_calls(self.dashboard.service.known))
        return (STATS, DOCTOR, *group_calls(self.dashboard.service.known), HISTORY, self.history_call())

    def body(self) -> Iterator[Widget]:
        yield NumbersBar()
        yield NumbersBar(id="verdict")
        yield Static(id="tenant", markup=False)
        yield RowTable(finding_columns(), finding_key, id="findings")
        yield Static(id="advice", markup=False)
        yield RowTable(late_group_columns(), lambda one: one.group_id, id="late")
        plots = (LinePlot(plan.title, plan.show, id=plan.id, base=plan.base) for plan in PLOTS)
        yield Container(*plots, id="plots")

    def show(self, known: CallResults) -> None:
        history, doctor = known.facts(HISTORY), known.facts(DOCTOR)
        groups, tenant = known_groups(known), tenant_of_key(known)
        self.query_one("#tenant").display, self.query_one("#plots").display = bool(tenant), not tenant
        if tenant:
            lines = tenant_lines(tenant, known.get(broker_call("tenant_stats", tenant)))
            self.query_one("#tenant", Static).update(Content("\n").join(lines))
        self.query_one(NumbersBar).show(overview_numbers(known.facts(STATS)))
        verdict = verdict_numbers(doctor)
        self.query_one("#verdict", NumbersBar).show(verdict)
        self.query_one("#verdict").display = bool(verdict)
        is_wrong = self._fill(_FINDINGS, sorted_findings(doctor))
        is_late = self._fill(_GROUPS, None if groups is None else late_groups(groups))
        if self.query_one("#advice").display != is_wrong:
            self.query_one("#advice").display = is_wrong
            self.refresh_bindings()
        self.set_class(is_wrong or is_late, "-troubled")
        time = self.plot_range
        shown = history if time is RANGES[0] else known.facts(self.history_call())
        for plan in PLOTS:
            self.query_one(f"#{plan.id}", LinePlot).show(history_series(shown, plan.lines, _TONES), time)
        if self.focused is None and (is_wrong or is_late) and not self.has_class("-asking"):
            self.refocus()

    def _fill(self, name: str, records: Sequence[Any] | None) -> bool:
        """Fill a table; its height follows its rows, and it is hidden if empty."""
        table = self.query_one(name, RowTable)
        table.fill(records)
        lines = len(table.records)
        table.display = bool(lines)
        height = self.app.size.height
        table.styles.height = 1 + min(lines, 2 if height < 20 else 3 if height < 32 else 6)
        return bool(lines)

    def on_row_table_pointed(self) -> None:
        """Show what to do about the finding under the cursor."""
        finding = self.query_one(_FINDINGS, RowTable).current or {}
        lines = finding_advice(finding, read_only=self.dashboard.read_only)
        parts = [Content.assemble((line[:12], MUTED), escape_unprintable(line[12:])) for line in lines]
        self.query_one("#advice", Static).update(Content("\n").join(parts))

    def note(self) -> str:
        return check_summary(self.dashboard.service.known.facts(DOCTOR))

    def command(self) -> str:
        return self.dashboard.shell_command("goqueue-admin", "doctor")

    def open(self, key: str) -> Location | None:
        if self.table is self.query_one(_GROUPS):
            return Location("group", (key,))
        found = self.query_one(_FINDINGS, RowTable).current
        route = None if found is None else finding_route(found)
        if found is None or route is None:
            self.action_finding()
            return None
        reason = finding_reason(found, "" if self.dashboard.read_only else route.repair)
        self.dashboard.go(route.place, row=route.row, reason=reason)
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the text of a finding where there is none."""
        if action == "finding" and self.is_mounted and not self.query_one(_FINDINGS, RowTable).records:
            return False
        return super().check_action(action, parameters)

    def action_finding(self) -> None:
        """Show everything that the finding under the cursor says."""
        found = self.query_one(_FINDINGS, RowTable).current
        if found is not None:
            self.app.push_screen(finding_window(found))
