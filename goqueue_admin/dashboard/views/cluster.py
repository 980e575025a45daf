"""The nodes of a cluster, and what happened to them, as rows and lines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.console.formatting import format_to_second
from goqueue.quantities import format_count, format_duration
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import TableColumn

if TYPE_CHECKING:
    from goqueue.client import ClusterHealthInfo, ClusterNodeInfo, ClusterPartitionInfo, ClusterStateInfo

_STATUSES = {
    "alive": ("●", "good"),
    "suspect": ("◐", "warn"),
    "dead": ("◆", "bad"),
    "leaving": ("○", "muted"),
    "unknown": ("◇", "warn"),
}
_HEALTH = {"ok": "good", "degraded": "warn", "fail": "bad"}
_EVENTS = {"died": "bad", "suspected": "warn", "recovered": "good", "joined": "good"}


# --- nodes ---


@dataclass(frozen=True)
class NodeRow:
    """A node as the broker of the dashboard sees it."""

    told: "ClusterNodeInfo"
    is_here: bool
    """The dashboard asks this node."""

    @property
    def name(self) -> str:
        return self.told.node_id


def node_rows(found: "ClusterStateInfo | None") -> list[NodeRow] | None:
    return None if found is None else [NodeRow(one, one.node_id == found.node_id) for one in found.nodes]


def node_columns() -> tuple[TableColumn[NodeRow], ...]:
    return (
        TableColumn("NODE", lambda row: row.name + (" *" if row.is_here else ""), width=8, grows=True, most=30),
        TableColumn("STATUS", lambda row: row.told.status, _status_text, 9, tone=lambda row: _tone(row.told.status)),
        TableColumn("ROLE", lambda row: row.told.role, width=10, tone=_role_tone),
        TableColumn("SILENT", _silence, _silence_text, 7, right=True, rank=1, tone=lambda row: _tone(row.told.status)),
        TableColumn("ADDRESS", lambda row: row.told.address, width=21, grows=True, rank=2),
        TableColumn("PEERS AT", lambda row: row.told.peer_address, width=14, grows=True, rank=5, tone="muted"),
        TableColumn("STARTED", lambda row: row.told.registered_at, format_to_second, 20, rank=6, tone="muted"),
        TableColumn("VERSION", lambda row: row.told.version, width=7, rank=4, tone="muted"),
        TableColumn("PROBLEM", lambda row: row.told.problem, width=8, grows=True, most=120, rank=3, tone="bad"),
    )


def _status_text(status: str) -> str:
    return f"{_STATUSES[status][0]} {status}"


def _tone(status: str) -> str:
    return _STATUSES[status][1]


def _role_tone(row: NodeRow) -> str:
    return {"controller": "accent", "observer": "muted"}.get(row.told.role, "")


def _silence(row: NodeRow) -> float | None:
    return None if row.is_here else row.told.silent_seconds


def _silence_text(seconds: float) -> str:
    return formats.seconds(seconds) if seconds >= 1 else "-"


def node_facts(one: "ClusterNodeInfo") -> list[tuple[str, str, str]]:
    """Return everything about a node: name, text and tone of each line."""
    silence = "never heard" if one.silent_seconds is None else format_duration(round(one.silent_seconds, 1))
    return [
        ("status", f"{_status_text(one.status)}, {one.role}", _tone(one.status)),
        ("silent", silence, ""),
        ("clients", one.address or "not registered yet", ""),
        ("peers", one.peer_address or "dials the others", ""),
        ("directory", one.directory_id or "not known yet", ""),
        ("epoch", "not registered yet" if one.broker_epoch is None else f"{one.broker_epoch:,}", ""),
        ("version", one.version or "not registered yet", ""),
        *([("problem", one.problem, "bad")] if one.problem else []),
    ]


# --- the cluster ---


def cluster_numbers(state: "ClusterStateInfo | None", health: "ClusterHealthInfo | None") -> list[LabeledNumber]:
    if state is None or health is None:
        return []
    controller = state.controller_id
    return [
        LabeledNumber(health.status, "", _HEALTH[health.status]),
        LabeledNumber(controller or "none", "controller", "" if controller else "bad"),
        LabeledNumber(formats.count(state.epoch), "epoch"),
        LabeledNumber(f"{health.voters_alive} of {health.voters}", "voters alive", _voters_tone(health)),
        LabeledNumber(formats.count(state.version), "records"),
    ]


def _voters_tone(health: "ClusterHealthInfo") -> str:
    return "" if health.voters_alive == health.voters else "warn" if health.quorum else "bad"


def cluster_facts(state: "ClusterStateInfo | None") -> list[tuple[str, str, str]]:
    """Return what needs attention besides the nodes: name, text and tone of each line."""
    if state is None:
        return []
    told = []
    if state.waiting_for:
        told.append(("waits", f"the first formation waits for {', '.join(state.waiting_for)}", "warn"))
    elif not state.has_vote:
        told.append(("vote", f"node {state.node_id}, which answers, has none", "warn"))
    return told


# --- events ---


def event_facts(state: "ClusterStateInfo | None", now_ns: int, most: int) -> list[tuple[str, str, str]]:
    """Return the newest events: age, text and tone of each line."""
    events = [] if state is None else state.events
    told = [
        (_age(one["at"], now_ns), _event_text(one["event"], one["node_id"]), _EVENTS.get(one["event"], ""))
        for one in events
    ]
    more = len(told) - most
    return [*told[:most], *([("", f"and {format_count(more, 'earlier event')}", "muted")] if more > 0 else [])]


def _age(at: str, now_ns: int) -> str:
    return formats.seconds(formats.age_seconds(at, now_ns))


def _event_text(kind: str, node: str) -> str:
    return f"{node} became the controller" if kind == "controller_changed" else f"{node} {kind}"


# --- partitions ---

_CONDITIONS = {"ok": "good", "under_replicated": "warn", "under_min_isr": "bad", "offline": "bad"}


def partition_columns() -> "tuple[TableColumn[ClusterPartitionInfo], ...]":
    return (
        TableColumn("PARTITION", partition_name, width=12, grows=True),
        TableColumn("STATUS", lambda one: one.status, _words, 16, tone=lambda one: _CONDITIONS[one.status]),
        TableColumn("LEADER", lambda one: one.leader, width=8, grows=True, most=20),
        TableColumn("EPOCH", lambda one: one.leader_epoch, formats.count, 6, right=True, rank=3),
        TableColumn("ISR", lambda one: " ".join(one.isr) or None, width=10, grows=True, most=40),
        TableColumn("LACKING", _lacking, width=8, grows=True, most=60, tone="warn"),
        TableColumn("MIN ISR", lambda one: one.min_isr, formats.count, 7, right=True, rank=2, tone="muted"),
        TableColumn("ELR", lambda one: " ".join(one.elr) or None, width=6, grows=True, rank=1),
        TableColumn("PREFERRED", lambda one: one.preferred_leader, width=9, rank=4, tone="muted"),
    )


def partition_name(one: "ClusterPartitionInfo") -> str:
    return f"{one.topic}/{one.partition}"


def _words(status: str) -> str:
    return status.replace("_", " ")


def _lacking(one: "ClusterPartitionInfo") -> str | None:
    """Return the replicas that are not in sync, or lag, with the messages that they lack where that is known."""
    found = [
        f"{replica.node}{f' -{formats.count(replica.lag)}' if replica.lag else ''}"
        for replica in one.replicas
        if not replica.in_sync or replica.lag
    ]
    return " ".join(found) or None


def partition_numbers(found: "Sequence[ClusterPartitionInfo] | None") -> list[LabeledNumber]:
    if found is None:
        return []
    counts = Counter(one.status for one in found)
    wrong = [status for status in ("offline", "under_min_isr", "under_replicated") if counts[status]]
    return [
        LabeledNumber(formats.count(len(found)), "partitions"),
        *(LabeledNumber(formats.count(counts[status]), _words(status), _CONDITIONS[status]) for status in wrong),
    ]
