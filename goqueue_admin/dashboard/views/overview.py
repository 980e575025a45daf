"""The broker as a whole: its plots, its figures, and what the doctor found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goqueue.quantities import format_count
from goqueue_admin.dashboard.views import numbers
from goqueue_admin.dashboard.views.chart import Series, bar
from goqueue_admin.dashboard.views.figure import Figure
from goqueue_admin.dashboard.views.groups import details_tone, group_columns
from goqueue_admin.dashboard.views.table import Column

if TYPE_CHECKING:
    from goqueue.client.insight import GroupDetails

_TONES = ("first", "second", "accent")
_MARKS = {"critical": ("◆", "bad"), "warning": ("▲", "warn"), "note": ("·", "muted")}


@dataclass(frozen=True)
class PlotPlan:
    """Which series of the history are drawn together."""

    id: str
    title: str
    show: Callable[[float], str]
    lines: tuple[tuple[str, str], ...]
    base: int = 1000

    def series(self, history: Mapping[str, Any]) -> list[Series]:
        known = history.get("series") or {}
        return [
            Series(label, known[name], tone)
            for (name, label), tone in zip(self.lines, _TONES, strict=False)
            if name in known
        ]


PLOTS = (
    PlotPlan("throughput", "Messages", numbers.rate, (("published", "in"), ("read", "out"))),
    PlotPlan("latency", "Publish", numbers.milliseconds, (("publish_p50_ms", "p50"), ("publish_p99_ms", "p99"))),
    PlotPlan("lag", "Lag", numbers.short, (("total_lag", "messages"),)),
    PlotPlan("disk", "Disk", numbers.size, (("disk_used_bytes", "used"),), 1024),
    PlotPlan("bytes", "Bytes", numbers.size_rate, (("published_bytes", "in"), ("read_bytes", "out")), 1024),
    PlotPlan("settled", "Work", numbers.rate, (("settled", "settled"), ("requests", "requests"))),
)
"""The most telling first: where space is short, the others are left out."""


def figures(stats: Mapping[str, Any]) -> list[Figure]:
    """The most important first."""
    if not stats:
        return []
    disk = stats.get("disk") or {}
    total = disk.get("total_bytes", 0)
    used = numbers.share(total - disk.get("free_bytes", 0), total)
    found = [Figure(numbers.count(stats["topics"]), "topics")]
    if "groups" in stats:
        found.append(Figure(numbers.count(stats["groups"]), "groups"))
    found.append(Figure(numbers.size(stats["total_size_bytes"]), "kept"))
    if total:
        tone = numbers.share_tone(used)
        found.append(Figure(f"{bar(used, 6)} {numbers.percent(used)}", "disk", tone))
    if "connections" in stats:
        found.append(Figure(numbers.count(stats["connections"]), "connections"))
    if "memory_bytes" in stats:
        found.append(Figure(numbers.size(stats["memory_bytes"]), "memory"))
    if "loop_lag_ms" in stats:
        found.append(Figure(numbers.milliseconds(stats["loop_lag_ms"]), "loop"))
    if "partitions" in stats:
        found.append(Figure(numbers.count(stats["partitions"]), "partitions"))
    return found


Finding = Mapping[str, Any]


def finding_key(one: Finding) -> str:
    return f"{one.get('code')} {one.get('subject')}"


def finding_columns() -> tuple[Column[Finding], ...]:
    return (
        Column("", _severity, lambda rank: ("◆", "▲", "·")[rank], 1, tone=_tone),
        Column("ABOUT", lambda one: one.get("subject"), width=12, grows=True, most=24, tone=_tone),
        Column("WHAT IS WRONG", lambda one: one.get("sentence"), width=24, grows=True, most=140),
    )


def _severity(one: Finding) -> int:
    names = list(_MARKS)
    name = str(one.get("severity"))
    return names.index(name) if name in names else len(names) - 1


def _tone(one: Finding) -> str:
    return _MARKS.get(str(one.get("severity")), ("", "muted"))[1]


def findings(doctor: Mapping[str, Any]) -> Sequence[Finding] | None:
    """The worst first; None as long as the doctor has not spoken."""
    if "findings" not in doctor:
        return None
    return sorted(doctor["findings"], key=_severity)


def checked(doctor: Mapping[str, Any]) -> str:
    """How much was looked at, and when."""
    if "checked_at" not in doctor:
        return ""
    count = format_count(len(doctor.get("findings", ())), "finding")
    return f"{count} in {format_count(len(doctor.get('checks', ())), 'check')} at {doctor['checked_at'][11:19]}"


def verdict(doctor: Mapping[str, Any], groups: "Sequence[GroupDetails] | None") -> list[Figure]:
    """That nothing is wrong, as far as that is known, in place of tables that would be empty."""
    found = []
    if findings(doctor) == []:
        found.append(Figure("● all is well", f"{format_count(len(doctor.get('checks', ())), 'check')} passed", "good"))
    if groups and not late(groups):
        keeps = "keeps" if len(groups) == 1 else "keep"
        found.append(Figure(f"● {format_count(len(groups), 'group')}", f"{keeps} up", "good"))
    return found


def late(groups: "Sequence[GroupDetails]") -> "list[GroupDetails]":
    """The groups that are too far behind, the worst first."""
    return sorted((one for one in groups if details_tone(one)), key=lambda one: -one.lag_seconds)


def late_columns() -> "tuple[Column[GroupDetails], ...]":
    """What an overview needs of the columns of all groups."""
    return tuple(one for one in group_columns() if one.title not in {"MEMBERS", "IN FLIGHT", "LOST"})
