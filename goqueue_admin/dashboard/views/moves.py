"""Reassignments as rows: how far their moves are, and how long they take."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.console.formatting import format_size_rate, format_to_second
from goqueue.quantities import format_duration, format_size
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import TableColumn

if TYPE_CHECKING:
    from goqueue.client import ReassignmentInfo

_STATES = {"running": "good", "paused": "warn", "completed": "muted", "cancelled": "muted"}
_BAR_CELLS = 10


def reassignment_columns() -> "tuple[TableColumn[ReassignmentInfo], ...]":
    return (
        TableColumn("ID", lambda one: one.id, width=5),
        TableColumn("STATE", lambda one: one.state, width=10, tone=lambda one: _STATES[one.state]),
        TableColumn("PROGRESS", _progress, width=24, grows=True),
        TableColumn("LEFT", lambda one: one.bytes_left or None, format_size, 9, right=True),
        TableColumn("RATE", lambda one: one.rate or None, format_size_rate, 11, right=True, rank=1),
        TableColumn("TIME LEFT", lambda one: one.seconds_left, _left, 9, right=True),
        TableColumn("THROTTLE", lambda one: one.throttle or None, format_size_rate, 11, right=True, rank=3),
        TableColumn("STARTED", lambda one: one.started_at, format_to_second, 20, rank=4, tone="muted"),
    )


def _left(seconds: float) -> str:
    return format_duration(round(seconds))


def _progress(one: "ReassignmentInfo") -> str:
    filled = "█" * (one.done * _BAR_CELLS // max(one.moves, 1))
    return f"{filled:░<{_BAR_CELLS}} {formats.count(one.done)} of {formats.count(one.moves)}"


def reassignment_numbers(found: "Sequence[ReassignmentInfo] | None") -> list[LabeledNumber]:
    if found is None:
        return []
    active = [one for one in found if one.ended_at is None]
    left = sum(one.bytes_left for one in active)
    return [
        LabeledNumber(formats.count(len(active)), "under way"),
        LabeledNumber(format_size(left), "left"),
        LabeledNumber(format_size_rate(sum(one.rate for one in active)), "rate"),
    ]
