"""Groups, their members, and how far behind they are, partition by partition."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_count, parse_time
from goqueue_admin.dashboard.views import numbers
from goqueue_admin.dashboard.views.figure import Figure
from goqueue_admin.dashboard.views.table import Column

if TYPE_CHECKING:
    from goqueue.client.insight import GroupDetails

Group = Mapping[str, Any]

LATE_SECONDS = 60.0
"""From here on being behind is worth a look, from ten times that on it is bad."""

_STATES = {"stable": ("●", "good"), "rebalancing": ("◐", "warn"), "empty": ("○", "muted")}


def mark_of(state: str) -> tuple[str, str]:
    """A shape and a tone."""
    return _STATES.get(state, ("·", "muted"))


def lag_tone(messages: int, seconds: float, drain: float | None) -> str:
    """Late and not getting less is bad; what only has something to do is well."""
    if not messages or seconds < LATE_SECONDS:
        return ""
    return "bad" if drain is None or seconds >= 10 * LATE_SECONDS else "warn"


def drain(messages: int, seconds: float | None) -> float | None:
    """To be sorted by: nothing where nothing is left, and no end after every end."""
    return None if not messages else inf if seconds is None else seconds


def drain_text(seconds: float) -> str:
    return numbers.seconds(None if seconds == inf else seconds)


# --- all groups ---


def group_columns() -> tuple["Column[GroupDetails]", ...]:
    return (
        Column("GROUP", lambda one: one.group_id, width=10, grows=True, tone=details_tone),
        Column("STATE", lambda one: one.state, state_text, 13, rank=2, tone=lambda one: mark_of(one.state)[1]),
        Column("MEMBERS", lambda one: one.members, numbers.count, 7, right=True, rank=4),
        Column(
            "LAG", lambda one: one.total_lag, numbers.count, 9, right=True, moves=True, rising="bad", tone=details_tone
        ),
        Column("BEHIND", lambda one: one.lag_seconds or None, numbers.seconds, 7, right=True, tone=details_tone),
        Column("DRAINS IN", lambda one: drain(one.total_lag, one.drain_seconds), drain_text, 9, right=True, rank=3),
        Column("RATE", lambda one: one.rate, numbers.rate, 7, right=True, rank=1),
        Column("IN", lambda one: one.incoming, numbers.rate, 7, right=True, rank=6),
        Column("IN FLIGHT", lambda one: one.in_flight, numbers.count, 9, right=True, rank=7),
        Column("LOST", lambda one: one.lost or None, numbers.count, 6, right=True, rank=8, tone=lambda _: "bad"),
        Column("TOPICS", lambda one: " ".join(one.topics), width=16, grows=True, rank=5, tone=lambda _: "muted"),
    )


def state_text(state: str) -> str:
    return f"{mark_of(state)[0]} {state}"


def details_tone(one: "GroupDetails") -> str:
    return lag_tone(one.total_lag, one.lag_seconds, one.drain_seconds)


# --- one group ---


class PlaceName(NamedTuple):
    """A partition of a topic; -1 is all of them."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return self.topic if self.partition < 0 else f"{self.topic}/{self.partition}"


@dataclass(frozen=True)
class PlaceLine:
    """How far behind a group is in a partition, or in all of a topic."""

    name: PlaceName
    committed: int | None
    end: int | None
    lag: int
    seconds: float
    in_flight: int
    waiting: int
    lost: int
    rate: float
    incoming: float
    drain: float | None
    member: str | None


def places(group: Group) -> list[PlaceLine] | None:
    """A line for each partition, and where there is more than one topic, one before those of each."""
    if not group:
        return None
    found: list[PlaceLine] = []
    for topic, partitions in group["lag"].items():
        lines = [_place(PlaceName(topic, int(number)), held) for number, held in partitions.items()]
        found += [_sum(topic, lines), *lines] if len(group["lag"]) > 1 and len(lines) > 1 else lines
    return found


def _place(name: PlaceName, held: Mapping[str, Any]) -> PlaceLine:
    return PlaceLine(
        name=name,
        committed=held["committed"],
        end=held["end"],
        lag=held["messages"],
        seconds=held["seconds"],
        in_flight=held["in_flight"],
        waiting=held["waiting"],
        lost=held["lost"],
        rate=held["rate"],
        incoming=held["incoming"],
        drain=drain(held["messages"], held["drain_seconds"]),
        member=held["member_id"],
    )


def _sum(topic: str, lines: Sequence[PlaceLine]) -> PlaceLine:
    drains = [line.drain for line in lines if line.drain is not None]
    return PlaceLine(
        name=PlaceName(topic, -1),
        committed=None,
        end=None,
        lag=sum(line.lag for line in lines),
        seconds=max(line.seconds for line in lines),
        in_flight=sum(line.in_flight for line in lines),
        waiting=sum(line.waiting for line in lines),
        lost=sum(line.lost for line in lines),
        rate=sum(line.rate for line in lines),
        incoming=sum(line.incoming for line in lines),
        drain=max(drains, default=None),
        member=None,
    )


def place_key(line: PlaceLine) -> str:
    return str(line.name)


def place_columns() -> tuple[Column[PlaceLine], ...]:
    return (
        Column("PARTITION", lambda line: line.name, width=12, grows=True, tone=_name_tone),
        Column("COMMITTED", lambda line: line.committed, numbers.count, 11, right=True, rank=3),
        Column("END", lambda line: line.end, numbers.count, 11, right=True, rank=5),
        Column("LAG", lambda line: line.lag, numbers.count, 9, right=True, moves=True, rising="bad", tone=_place_tone),
        Column("BEHIND", lambda line: line.seconds or None, numbers.seconds, 7, right=True, tone=_place_tone),
        Column("IN FLIGHT", lambda line: line.in_flight, numbers.count, 9, right=True, rank=4),
        Column("WAITING", lambda line: line.waiting, numbers.count, 7, right=True, rank=2, tone=_waiting_tone),
        Column("RATE", lambda line: line.rate, numbers.rate, 7, right=True, rank=1),
        Column("IN", lambda line: line.incoming, numbers.rate, 7, right=True, rank=7),
        Column("DRAINS IN", lambda line: line.drain, drain_text, 9, right=True, rank=6),
        Column("LOST", lambda line: line.lost or None, numbers.count, 6, right=True, rank=8, tone=lambda _: "bad"),
        Column("MEMBER", lambda line: line.member, width=14, grows=True, rank=9, tone=lambda _: "muted"),
    )


def _name_tone(line: PlaceLine) -> str:
    return "title" if line.name.partition < 0 else _place_tone(line)


def _place_tone(line: PlaceLine) -> str:
    return lag_tone(line.lag, line.seconds, None if line.drain == inf else line.drain)


def _waiting_tone(line: PlaceLine) -> str:
    return "warn" if line.waiting else ""


# --- its members ---


@dataclass(frozen=True)
class MemberLine:
    """A member; `silence` is how long ago it was heard, as a share of its session."""

    id: str
    client: str
    has: str
    gives_up: str
    heartbeat_seconds: float
    silence: float
    in_flight: int
    in_flight_max: int
    joined_seconds: float
    session_seconds: float
    topics: tuple[str, ...]


def members(group: Group, to_revoke: Mapping[str, Any], now_ns: int) -> list[MemberLine] | None:
    return (
        None if not group else [_member(one, to_revoke.get(one["member_id"], ()), now_ns) for one in group["members"]]
    )


def _member(member: Mapping[str, Any], to_revoke: Sequence[Mapping[str, Any]], now_ns: int) -> MemberLine:
    heard = _ago(member["last_heartbeat"], now_ns)
    session = float(member["session_timeout"])
    return MemberLine(
        id=member["member_id"],
        client=member["client_id"],
        has=shortened(_split(name) for name in member["assigned_partitions"]),
        gives_up=shortened((place["topic"], place["partition"]) for place in to_revoke),
        heartbeat_seconds=heard,
        silence=numbers.share(heard, session),
        in_flight=member["in_flight"],
        in_flight_max=member["max_in_flight"],
        joined_seconds=_ago(member["joined_at"], now_ns),
        session_seconds=session,
        topics=tuple(member["topics"]),
    )


def _split(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def _ago(moment: str, now_ns: int) -> float:
    """The clock of the broker may be ahead of ours."""
    return max(0, now_ns - parse_time(moment)) / NANOSECONDS


def shortened(found: Iterator[tuple[str, int]]) -> str:
    """`orders/0-2,5 payments/1`."""
    by_topic = groupby(sorted(found), key=lambda place: place[0])
    return " ".join(f"{topic}/{','.join(_ranges([number for _, number in held]))}" for topic, held in by_topic)


def _ranges(partitions: Sequence[int]) -> Iterator[str]:
    for _, run in groupby(enumerate(partitions), key=lambda pair: pair[1] - pair[0]):
        numbers_of_run = [number for _, number in run]
        first, last = numbers_of_run[0], numbers_of_run[-1]
        yield str(first) if first == last else f"{first}-{last}"


def member_columns(*, is_rebalancing: bool) -> tuple[Column[MemberLine], ...]:
    """What is given up is a column only where there is something to give up."""
    return tuple(one for one in _member_columns() if is_rebalancing or one.title != "GIVES UP")


def _member_columns() -> tuple[Column[MemberLine], ...]:
    return (
        Column("MEMBER", lambda line: line.id, width=20, grows=True, most=48),
        Column("PARTITIONS", lambda line: line.has or None, width=18, grows=True),
        Column("GIVES UP", lambda line: line.gives_up or None, width=12, grows=True, rank=2, tone=lambda _: "warn"),
        Column("HEARD", lambda line: line.heartbeat_seconds, whole_seconds, 6, right=True, tone=_silence_tone),
        Column("IN FLIGHT", lambda line: line.in_flight, numbers.count, 9, right=True, rank=1, tone=_in_flight_tone),
        Column("OF", lambda line: line.in_flight_max, numbers.count, 6, right=True, rank=4, tone=lambda _: "muted"),
        Column("JOINED", lambda line: line.joined_seconds, whole_seconds, 8, right=True, rank=3),
        Column("SESSION", lambda line: line.session_seconds, numbers.seconds, 7, right=True, rank=5),
    )


def whole_seconds(seconds: float) -> str:
    return numbers.seconds(float(int(seconds)))


def _silence_tone(line: MemberLine) -> str:
    return numbers.share_tone(line.silence)


def _in_flight_tone(line: MemberLine) -> str:
    return numbers.share_tone(numbers.share(line.in_flight, line.in_flight_max))


# --- its facts ---


def facts(group: Group) -> list[Figure]:
    """What it is."""
    if not group:
        return []
    mark, tone = mark_of(group["state"])
    return [
        Figure(f"{mark} {group['state']}", "", tone),
        Figure(numbers.count(len(group["members"])), "member" if len(group["members"]) == 1 else "members"),
        Figure(numbers.count(group["generation"]), "generation"),
        Figure(group["protocol"], ""),
        Figure(group["assignment_strategy"].replace("_", " "), "assignment"),
        Figure("no" if group["order"] == "none" else f"by {group['order']}", "order"),
        Figure(group["rebalance_state"].replace("_", " "), "rebalance", "" if tone != "warn" else tone),
    ]


def distance(group: Group) -> list[Figure]:
    """How far behind it is."""
    if not group:
        return []
    lines = [_place(PlaceName(topic, 0), held) for topic, one in group["lag"].items() for held in one.values()]
    total, late, left = group["total_lag"], group["lag_seconds"], group["drain_seconds"]
    tone = lag_tone(total, late, left)
    found = [
        Figure(numbers.count(total), "behind", tone or ("good" if not total else "")),
        Figure(numbers.seconds(late), "the oldest", tone),
    ]
    if total:
        found.append(Figure(numbers.seconds(left), "to drain", "bad" if left is None and tone else ""))
    found += [
        Figure(numbers.rate(sum(line.rate for line in lines)), "done"),
        Figure(numbers.rate(sum(line.incoming for line in lines)), "in"),
        Figure(numbers.count(sum(line.in_flight for line in lines)), "in flight"),
        Figure(numbers.count(sum(line.waiting for line in lines)), "waiting"),
    ]
    lost = sum(line.lost for line in lines)
    return [*found, Figure(numbers.count(lost), "lost", "bad")] if lost else found


def revocations(group: Group, cooperative: Group, most: int = 4) -> list[str]:
    """Of a rebalance under way: who must give up what."""
    state = str(group.get("rebalance_state", ""))
    if not state.startswith("pending"):
        return []
    to_revoke = cooperative.get("partitions_to_revoke") or {}
    if not to_revoke:
        return ["rebalancing: everything is given out, and somebody has yet to hear of it"]
    lines = []
    for member, held in list(to_revoke.items())[:most]:
        what = shortened((place["topic"], place["partition"]) for place in held)
        does = "must join again, and had" if group["protocol"] == "eager" else "must give up"
        lines.append(f"rebalancing: {member} {does} {what}")
    if len(to_revoke) > most:
        lines.append(f"and {format_count(len(to_revoke) - most, 'more member')}")
    return lines
