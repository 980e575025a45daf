"""Lag: how far behind a group is, in messages and in seconds, its drain estimate, and what waits in each lane."""

from dataclasses import dataclass, field
from math import exp

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.remote_partition import refreshed
from goqueue.broker.core.view import Backlog, PartitionView, count_between, measure_backlog
from goqueue.broker.core.work import Work
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.fetch import MessageSlice
from goqueue.broker.groups.records import CursorKey
from goqueue.broker.groups.split_gate import Obstacle, SplitGate
from goqueue.broker.groups.store import GroupDirectory, GroupRules, GroupServices
from goqueue.clock import NANOSECONDS
from goqueue.errors import LeaderUnavailable
from goqueue.limits import GROUP_BEHIND_RATIO, OFFSET_MAX, PRIORITY_COUNT
from goqueue.storage import frame
from goqueue.storage.lanes import LANES

_RATE_SECONDS = 60.0
_UP_TO_DATE_SECONDS = 5.0
"""A partition without older messages, and without more than are finished in this time, is up to date."""


class RateMeter:
    """A rate per second over about the last minute: a count fades exponentially with its age."""

    __slots__ = ("_at_ns", "_began_ns", "_sum", "total")

    def __init__(self, now_ns: int) -> None:
        self.total = 0
        self._sum = 0.0
        self._at_ns = self._began_ns = now_ns

    def add(self, count: int, now_ns: int) -> None:
        self.total += count
        self._sum = self._sum * self._fading(now_ns) + count
        self._at_ns = now_ns

    def rate(self, now_ns: int) -> float:
        age = max((now_ns - self._began_ns) / NANOSECONDS, 1.0)
        # A meter that began recently has had less time to gather.
        return self._sum * self._fading(now_ns) / (_RATE_SECONDS * (1 - exp(-age / _RATE_SECONDS)))

    @property
    def at_ns(self) -> int:
        return self._at_ns

    def _fading(self, now_ns: int) -> float:
        return exp(-(now_ns - self._at_ns) / NANOSECONDS / _RATE_SECONDS)


@dataclass(frozen=True, slots=True)
class GroupLag:
    ref: PartitionRef
    member: str | None
    floor: int
    end: int
    messages: int
    ready: int
    """Those that could be processed now: not waiting for a retry, an earlier one of their key, a move or a parent."""
    seconds: float
    """The age of the oldest unfinished message; 0 when there is none."""
    in_flight: int
    waiting: int
    moving: int
    transactional: int
    lost: int
    rate: float
    """Messages settled per second, lately."""
    incoming: float
    """Messages published per second, lately."""
    idle_seconds: float
    """Since the last message was finished, or since startup."""
    obstacle: Obstacle | None = None
    """Why nothing of the partition is delivered yet: older messages of its keys are unfinished in its parent."""

    @property
    def drain_seconds(self) -> float | None:
        """The time until the lag is zero; None when it does not shrink, or the partition has no owner.

        A group that keeps up always has some lag, which neither shrinks nor grows: only what waits now counts then.
        """
        if not self.messages:
            return 0.0
        if self.member is None:
            return None
        if self._is_up_to_date:
            return self.messages / self.rate
        gain = self.rate - self.incoming
        return self.messages / gain if gain > 0 else None

    @property
    def _is_up_to_date(self) -> bool:
        is_little = self.seconds < _UP_TO_DATE_SECONDS and self.messages <= self.rate * _UP_TO_DATE_SECONDS
        return is_little and self.incoming <= self.rate * GROUP_BEHIND_RATIO


def group_backlog(cursor: Cursor, view: PartitionView) -> Work[Backlog]:
    if cursor.heads is None:
        return (yield from measure_backlog(view, cursor.floor, cursor.settled()))
    end, position, reach = view.end, cursor.position, cursor.reach
    open_ranges = list(cursor.open_from(max(position, view.earliest), reach))
    heads, settled = list(cursor.heads), [*cursor.settled(), (max(position, cursor.floor), OFFSET_MAX)]
    before = yield from measure_backlog(view, cursor.floor, settled)
    ahead = yield from measure_backlog(view, reach, ())
    messages = before.messages + sum(stop - first for first, stop in open_ranges) + ahead.messages
    firsts = [first for first, _ in open_ranges]
    for lane, head in enumerate(heads):
        messages += yield from view.count_in_lane(lane, head, min(end, reach))
        following = yield from view.partition.lanes.next(lane, head, end)
        firsts += [] if following is None else [following]
    oldest_ns = before.oldest_ns
    if oldest_ns is None and firsts and messages:
        oldest_ns = yield from _time_from(view, min(firsts))
    return Backlog(messages, oldest_ns)


def _time_from(view: PartitionView, offset: int) -> Work[int | None]:
    """Return the time of the first message at or after an offset; the message there may have been removed."""
    read = yield from view.read(max(offset, view.earliest), 1, skip_damage=True)
    return frame.timestamp_at(read.buffers[0]) if read.buffers else None


class LagReader(GroupRules):
    def __init__(self, services: GroupServices, gate: SplitGate) -> None:
        super().__init__(services)
        self._gate = gate
        self._began_ns = self._clock.now_ns()
        self._meters: dict[CursorKey, RateMeter] = {}

    def count_progress(self, cursor: Cursor, count: int) -> None:
        key, now_ns = (cursor.group, cursor.ref), self._clock.now_ns()
        meter = self._meters.get(key)
        if meter is None:
            meter = self._meters[key] = RateMeter(now_ns)
        meter.add(count, now_ns)

    def settled_total(self, group: str, ref: PartitionRef) -> int:
        """Return how many messages were settled since startup."""
        meter = self._meters.get((group, ref))
        return 0 if meter is None else meter.total

    def idle_seconds(self, group: str, ref: PartitionRef) -> float:
        """Return the seconds since something was settled, or since startup."""
        meter = self._meters.get((group, ref))
        return max(0, self._clock.now_ns() - (self._began_ns if meter is None else meter.at_ns)) / NANOSECONDS

    def forget(self, group: str) -> None:
        for key in [key for key in self._meters if key[0] == group]:
            del self._meters[key]

    def of_group(self, name: str) -> Work[list[GroupLag]]:
        group = self._store.group(name)
        owners = group.owners() if group is not None else {}
        found: list[GroupLag] = []
        for ref in sorted(self._store.cursors(name)):
            lag = yield from self.of_partition(name, ref, owners.get(ref))
            if lag is not None:
                found.append(lag)
        return found

    def of_partition(
        self, name: str, ref: PartitionRef, owner: str | None, incoming: dict[PartitionRef, float] | None = None
    ) -> Work[GroupLag | None]:
        """Measure one partition; None when it is gone. `incoming` caches publish rates for other groups."""
        cursor, topic = self._store.cursor(name, ref), self._topics.topics.get(ref.topic)
        if cursor is None or topic is None:
            return None
        partition, now_ns = topic.partition(ref.partition), self._clock.now_ns()
        view = PartitionView(partition, self._store.isolation(name))
        known = {} if incoming is None else incoming
        try:
            yield from refreshed(partition)
            backlog = yield from group_backlog(cursor, view)
            if ref not in known:
                known[ref] = yield from _publish_rate(view, now_ns)
        except LeaderUnavailable:  # it is at other nodes, and none can be asked: by the positions that are known
            backlog, known[ref] = Backlog(max(0, view.end - cursor.floor), None), 0.0
        seconds = 0.0 if backlog.oldest_ns is None else max(0.0, (now_ns - backlog.oldest_ns) / NANOSECONDS)
        meter = self._meters.get((name, ref))
        obstacle = self._gate.obstacle(name, ref)
        unready = cursor.moving.count + cursor.transactional.count + _held_back(cursor, now_ns)
        return GroupLag(
            ref,
            owner,
            cursor.floor,
            view.end,
            backlog.messages,
            cursor.leased if obstacle is not None else max(0, backlog.messages - unready),
            seconds,
            cursor.leased,
            cursor.waiting.count,
            cursor.moving.count,
            cursor.transactional.count,
            cursor.lost + cursor.lost_before(view.earliest),
            meter.rate(now_ns) if meter is not None else 0.0,
            known[ref],
            self.idle_seconds(name, ref),
            obstacle,
        )


def _publish_rate(view: PartitionView, now_ns: int) -> Work[float]:
    """Return messages per second over the last minute, or since the first message if that is less."""
    recent = yield from view.partition.offset_for_time(now_ns - round(_RATE_SECONDS * NANOSECONDS))
    published = yield from count_between(view, recent, view.end)
    seconds = _RATE_SECONDS
    if published and recent <= view.earliest:
        first_ns = yield from _time_from(view, recent)
        if first_ns is not None:
            seconds = min(max((now_ns - first_ns) / NANOSECONDS, 1.0), _RATE_SECONDS)
    return published / seconds


def _held_back(cursor: Cursor, now_ns: int) -> int:
    """Count messages that wait for a retry delay or for an earlier one of their key."""
    return sum(end - first for first, end, retry in cursor.waiting.runs() if not retry.due_ns or retry.due_ns > now_ns)


# --- lanes ---


@dataclass(slots=True)
class LaneDeliveryStats:
    """Deliveries from one lane of one partition, to all groups."""

    messages: int = 0
    leases: int = 0
    waited_seconds: float = 0.0
    """The sum over leases of the age of their first message."""
    last_ns: int = 0

    def count(self, messages: int, waited_seconds: float, now_ns: int) -> None:
        self.messages += messages
        self.leases += 1
        self.waited_seconds += waited_seconds
        self.last_ns = now_ns

    @property
    def wait_seconds(self) -> float:
        """The average time from append to lease."""
        return self.waited_seconds / self.leases if self.leases else 0.0


def _no_deliveries() -> list[LaneDeliveryStats]:
    return [LaneDeliveryStats() for _ in range(PRIORITY_COUNT)]


@dataclass(slots=True)
class DeliveryStats:
    partitions: dict[PartitionRef, list[LaneDeliveryStats]] = field(default_factory=dict)
    totals: list[LaneDeliveryStats] = field(default_factory=_no_deliveries)
    """By lane, deleted partitions included."""

    def count(self, ref: PartitionRef, lane: int, content: MessageSlice, now_ns: int) -> None:
        lanes = self.partitions.get(ref)
        if lanes is None:
            lanes = self.partitions[ref] = _no_deliveries()
        count, waited = content.count, max(0, now_ns - frame.timestamp_at(content.buffers[0])) / NANOSECONDS
        lanes[lane].count(count, waited, now_ns)
        self.totals[lane].count(count, waited, now_ns)

    def forget(self, topic: str) -> None:
        for ref in [ref for ref in self.partitions if ref.topic == topic]:
            del self.partitions[ref]


@dataclass(slots=True)
class LaneCounts:
    ready: int = 0
    """Can be delivered now, in the group with the most. Without any group: all messages of the lane."""
    in_flight: int = 0
    waiting: int = 0
    """Wait for a retry."""
    enqueued: int = 0
    """Appended since the broker started."""
    delivered: LaneDeliveryStats | None = None


def lane_counts(
    groups: GroupDirectory, stats: DeliveryStats, partition: Partition, group: str | None = None
) -> Work[list[LaneCounts]]:
    ref = PartitionRef(partition.topic, partition.number)
    names = [group] if group is not None else [one.group for one in groups.groups()]
    found = [LaneCounts(enqueued=count) for count in partition.log.lanes.appended]
    cursors = [cursor for name in names if (cursor := groups.cursors(name).get(ref)) is not None]
    heads = [cursor.heads or [cursor.position] * PRIORITY_COUNT for cursor in cursors]
    if not cursors and group is None:
        heads = [[partition.earliest] * PRIORITY_COUNT]
    view = PartitionView(partition) if group is None else PartitionView(partition, groups.isolation(group))
    for lane in LANES:
        first = min((one[lane] for one in heads), default=OFFSET_MAX)
        found[lane].ready = yield from view.count_in_lane(lane, first, view.end)
    delivered = stats.partitions.get(ref)
    for lane, counts in enumerate(found):
        counts.delivered = delivered[lane] if delivered is not None else None
    for cursor in cursors:
        for lease in cursor.leases.values():
            found[lease.grant.lane].in_flight += lease.left.count
        for first, end, history in cursor.waiting.runs():
            found[history.queue].waiting += end - first
    return found
