"""Consumer groups, their partitions and members as rows."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.console.consumer_groups import delivery_text
from goqueue.console.formatting import format_partitions
from goqueue.quantities import format_count
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import TableColumn

if TYPE_CHECKING:
    from goqueue.client.admin_requests import GroupDetails

GroupJson = Mapping[str, Any]

LATE_SECONDS = 60.0
"""Lag in seconds that is a warning; ten times as much is bad."""

_STATES = {"stable": ("●", "good"), "rebalancing": ("◐", "warn"), "empty": ("○", "muted")}


def state_mark(state: str) -> tuple[str, str]:
    return _STATES.get(state, ("·", "muted"))


def lag_tone(messages: int, seconds: float, drain: float | None) -> str:
    """Return the tone of a lag: bad if it is old and does not shrink."""
    if not messages or seconds < LATE_SECONDS:
        return ""
    return "bad" if drain is None or seconds >= 10 * LATE_SECONDS else "warn"


def drain_value(messages: int, seconds: float | None) -> float | None:
    """Return a drain estimate for sorting: None without lag, infinity if it never drains."""
    return None if not messages else inf if seconds is None else seconds


def format_drain(seconds: float) -> str:
    return formats.seconds(None if seconds == inf else seconds)


# --- all groups ---


def group_columns() -> tuple["TableColumn[GroupDetails]", ...]:
    return (
        TableColumn("GROUP", lambda one: one.group_id, width=10, grows=True, tone=group_tone),
        TableColumn("CONDITION", lambda one: one.condition, condition_text, 14, rank=1, tone=group_tone),
        TableColumn("STATE", lambda one: one.state, state_text, 13, rank=3, tone=lambda one: state_mark(one.state)[1]),
        TableColumn("MEMBERS", lambda one: one.members, formats.count, 7, right=True, rank=4),
        TableColumn(
            "LAG", lambda one: one.total_lag, formats.count, 9, right=True, moves=True, rising="bad", tone=group_tone
        ),
        TableColumn("BEHIND", lambda one: one.lag_seconds or None, formats.seconds, 7, right=True, tone=group_tone),
        TableColumn(
            "DRAINS IN", lambda one: drain_value(one.total_lag, one.drain_seconds), format_drain, 9, right=True, rank=2
        ),
        TableColumn("RATE", lambda one: one.rate, formats.rate, 7, right=True, rank=2),
        TableColumn("IN", lambda one: one.incoming, formats.rate, 7, right=True, rank=6),
        TableColumn("IN FLIGHT", lambda one: one.in_flight, formats.count, 9, right=True, rank=7),
        TableColumn("LOST", lambda one: one.lost or None, formats.count, 6, right=True, rank=8, tone="bad"),
        TableColumn("TOPICS", lambda one: " ".join(one.topics), width=16, grows=True, rank=5, tone="muted"),
    )


def state_text(state: str) -> str:
    return f"{state_mark(state)[0]} {state}"


_CONDITION_TONES = {
    "stuck": "bad",
    "falling_behind": "bad",
    "unattended": "warn",
    "behind": "warn",
    "lagging": "",
    "keeping_up": "good",
}


def group_tone(one: "GroupDetails") -> str:
    tone = _CONDITION_TONES.get(one.condition, "")
    return tone if tone != "good" else ""


def condition_text(condition: str) -> str:
    return condition.replace("_", " ")


def condition_numbers(doctor: Mapping[str, Any]) -> list[LabeledNumber]:
    """Return how many groups are in which condition as the doctor counts them, the worst first."""
    counts: Mapping[str, int] = doctor.get("groups") or {}
    return [
        LabeledNumber(format_count(count, "group"), condition_text(condition), _CONDITION_TONES[condition])
        for condition, count in counts.items()
        if condition in _CONDITION_TONES
    ]


# --- one group ---


class PartitionName(NamedTuple):
    """A partition of a topic; -1 stands for all."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return self.topic if self.partition < 0 else f"{self.topic}/{self.partition}"


_SUMS = ("messages", "in_flight", "waiting", "lost", "rate", "incoming")


class GroupPartitionRow(NamedTuple):
    """The progress of a group in a partition or a whole topic; `lag` has the fields of the broker."""

    name: PartitionName
    lag: Mapping[str, Any]
    drain: float | None


def partition_rows(group: GroupJson) -> list[GroupPartitionRow] | None:
    """Return a row per partition; with several topics, also a row per topic."""
    if not group:
        return None
    found: list[GroupPartitionRow] = []
    for topic, partitions in group["lag"].items():
        lines = [_partition_row(PartitionName(topic, int(number)), lag) for number, lag in partitions.items()]
        found += [_topic_row(topic, lines), *lines] if len(group["lag"]) > 1 and len(lines) > 1 else lines
    return found


def _partition_row(name: PartitionName, lag: Mapping[str, Any]) -> GroupPartitionRow:
    return GroupPartitionRow(name, lag, drain_value(lag["messages"], lag["drain_seconds"]))


def _topic_row(topic: str, lines: Sequence[GroupPartitionRow]) -> GroupPartitionRow:
    sums = {field: sum(line.lag[field] for line in lines) for field in _SUMS}
    lag = {**sums, "seconds": max(line.lag["seconds"] for line in lines)}
    drains = [line.drain for line in lines if line.drain is not None]
    return GroupPartitionRow(PartitionName(topic, -1), lag, max(drains, default=None))


def partition_key(line: GroupPartitionRow) -> str:
    return str(line.name)


def partition_columns() -> tuple[TableColumn[GroupPartitionRow], ...]:
    return (
        TableColumn("PARTITION", lambda line: line.name, width=12, grows=True, tone=_name_tone),
        TableColumn("COMMITTED", lambda line: line.lag.get("committed"), formats.count, 11, right=True, rank=3),
        TableColumn("END", lambda line: line.lag.get("end"), formats.count, 11, right=True, rank=5),
        TableColumn(
            "LAG",
            lambda line: line.lag["messages"],
            formats.count,
            9,
            right=True,
            moves=True,
            rising="bad",
            tone=_lag_tone,
        ),
        TableColumn("BEHIND", lambda line: line.lag["seconds"] or None, formats.seconds, 7, right=True, tone=_lag_tone),
        TableColumn("IN FLIGHT", lambda line: line.lag["in_flight"], formats.count, 9, right=True, rank=4),
        TableColumn(
            "WAITING", lambda line: line.lag["waiting"], formats.count, 7, right=True, rank=2, tone=_waiting_tone
        ),
        TableColumn("RATE", lambda line: line.lag["rate"], formats.rate, 7, right=True, rank=1),
        TableColumn("IN", lambda line: line.lag["incoming"], formats.rate, 7, right=True, rank=7),
        TableColumn("DRAINS IN", lambda line: line.drain, format_drain, 9, right=True, rank=6),
        TableColumn("LOST", lambda line: line.lag["lost"] or None, formats.count, 6, right=True, rank=8, tone="bad"),
        TableColumn("MEMBER", lambda line: line.lag.get("member_id"), width=14, grows=True, rank=9, tone="muted"),
    )


def _name_tone(line: GroupPartitionRow) -> str:
    return "title" if line.name.partition < 0 else _lag_tone(line)


def _lag_tone(line: GroupPartitionRow) -> str:
    return lag_tone(line.lag["messages"], line.lag["seconds"], None if line.drain == inf else line.drain)


def _waiting_tone(line: GroupPartitionRow) -> str:
    return "warn" if line.lag["waiting"] else ""


# --- its members ---


class MemberRow(NamedTuple):
    """A member of a group; `told` has the fields of the broker."""

    told: Mapping[str, Any]
    has: str
    gives_up: str
    heartbeat_seconds: float
    joined_seconds: float

    @property
    def id(self) -> str:
        return str(self.told["member_id"])

    @property
    def silence(self) -> float:
        """The time since its heartbeat as a share of its session timeout."""
        return formats.share(self.heartbeat_seconds, self.told["session_timeout"])


def member_rows(group: GroupJson, to_revoke: Mapping[str, Any], now_ns: int) -> list[MemberRow] | None:
    if not group:
        return None
    return [_member_row(one, to_revoke.get(one["member_id"], ()), now_ns) for one in group["members"]]


def _member_row(member: Mapping[str, Any], to_revoke: Sequence[Mapping[str, Any]], now_ns: int) -> MemberRow:
    assigned = (name.rpartition("-") for name in member["assigned_partitions"])
    return MemberRow(
        member,
        _partition_text([(topic, int(number)) for topic, _, number in assigned]),
        _partition_text([(place["topic"], place["partition"]) for place in to_revoke]),
        formats.age_seconds(member["last_heartbeat"], now_ns),
        formats.age_seconds(member["joined_at"], now_ns),
    )


def _partition_text(places: list[tuple[str, int]]) -> str:
    return format_partitions(places) if places else ""


def member_columns(*, is_rebalancing: bool) -> tuple[TableColumn[MemberRow], ...]:
    """Return the columns; GIVES UP only during a rebalance."""
    return tuple(one for one in _member_columns() if is_rebalancing or one.title != "GIVES UP")


def _member_columns() -> tuple[TableColumn[MemberRow], ...]:
    return (
        TableColumn("MEMBER", lambda line: line.id, width=20, grows=True, most=48),
        TableColumn("PARTITIONS", lambda line: line.has or None, width=18, grows=True),
        TableColumn("GIVES UP", lambda line: line.gives_up or None, width=12, grows=True, rank=2, tone="warn"),
        TableColumn(
            "HEARD", lambda line: line.heartbeat_seconds, format_whole_seconds, 6, right=True, tone=_heard_tone
        ),
        TableColumn(
            "IN FLIGHT", lambda line: line.told["in_flight"], formats.count, 9, right=True, rank=1, tone=_in_flight_tone
        ),
        TableColumn("OF", lambda line: line.told["max_in_flight"], formats.count, 6, right=True, rank=4, tone="muted"),
        TableColumn("JOINED", lambda line: line.joined_seconds, format_whole_seconds, 8, right=True, rank=3),
        TableColumn("SESSION", lambda line: line.told["session_timeout"], formats.seconds, 7, right=True, rank=5),
    )


def format_whole_seconds(seconds: float) -> str:
    return formats.seconds(float(int(seconds)))


def _heard_tone(line: MemberRow) -> str:
    return formats.share_tone(line.silence)


def _in_flight_tone(line: MemberRow) -> str:
    return formats.share_tone(formats.share(line.told["in_flight"], line.told["max_in_flight"]))


# --- its facts ---


def group_numbers(group: GroupJson) -> list[LabeledNumber]:
    if not group:
        return []
    mark, tone = state_mark(group["state"])
    return [
        LabeledNumber(f"{mark} {group['state']}", "", tone),
        LabeledNumber(formats.count(len(group["members"])), "member" if len(group["members"]) == 1 else "members"),
        LabeledNumber(formats.count(group["generation"]), "generation"),
        LabeledNumber(group["protocol"], ""),
        LabeledNumber(group["assignment_strategy"].replace("_", " "), "assignment"),
        LabeledNumber("no" if group["order"] == "none" else f"by {group['order']}", "order"),
        LabeledNumber(group["rebalance_state"].replace("_", " "), "rebalance", "" if tone != "warn" else tone),
    ]


def lag_numbers(group: GroupJson) -> list[LabeledNumber]:
    if not group:
        return []
    held = [one for partitions in group["lag"].values() for one in partitions.values()]
    sums = {field: sum(one[field] for one in held) for field in _SUMS}
    total, late, left = group["total_lag"], group["lag_seconds"], group["drain_seconds"]
    tone = lag_tone(total, late, left)
    found = [
        LabeledNumber(formats.count(total), "behind", tone or ("good" if not total else "")),
        LabeledNumber(formats.seconds(late), "the oldest", tone),
    ]
    if total:
        found.append(LabeledNumber(formats.seconds(left), "to drain", "bad" if left is None and tone else ""))
    found += [
        LabeledNumber(formats.rate(sums["rate"]), "done"),
        LabeledNumber(formats.rate(sums["incoming"]), "in"),
        LabeledNumber(formats.count(sums["in_flight"]), "in flight"),
        LabeledNumber(formats.count(sums["waiting"]), "waiting"),
    ]
    return [*found, LabeledNumber(formats.count(sums["lost"]), "lost", "bad")] if sums["lost"] else found


def delivery_lines(group: GroupJson, most: int = 3) -> list[str]:
    """Return a line about the retries and dead letters of each topic, with whose setting each is."""
    lines = [f"{topic}: {delivery_text(told)}" for topic, told in (group.get("delivery") or {}).items()]
    if len(lines) > most:
        lines[most - 1 :] = [f"{lines[most - 1]}; and {format_count(len(lines) - most, 'more topic')}"]
    return lines


def rebalance_lines(group: GroupJson, cooperative: GroupJson, most: int = 4) -> list[str]:
    """Return lines about a running rebalance: the partitions each member must revoke."""
    state = str(group.get("rebalance_state", ""))
    if not state.startswith("pending"):
        return []
    to_revoke = cooperative.get("partitions_to_revoke") or {}
    if not to_revoke:
        return ["rebalancing: the assignment is complete; a member has not received it yet"]
    lines = []
    for member, held in list(to_revoke.items())[:most]:
        what = format_partitions((place["topic"], place["partition"]) for place in held)
        does = "must join again, and had" if group["protocol"] == "eager" else "must give up"
        lines.append(f"rebalancing: {member} {does} {what}")
    if len(to_revoke) > most:
        lines.append(f"and {format_count(len(to_revoke) - most, 'more member')}")
    return lines
