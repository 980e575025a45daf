"""Measure the lag of groups in messages, bytes and time, their speed, and when retention overtakes them.

What a group has settled is told by the log of the groups; what is left for it is counted where the messages are, so
that what compaction has removed, and control records, are none. A broker counts by itself, and is asked.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.groups.cursor import Cursor
from goqueue.broker.groups.records import GroupRecord
from goqueue.clock import NANOSECONDS
from goqueue.limits import OFFSET_MAX
from goqueue.spark.inspections.inspection import InspectionContext, Report, Row
from goqueue.spark.inspections.internal_logs import (
    GroupLogState,
    TopicConfiguration,
    read_group_logs,
    read_topics,
    settled_ranges,
)
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.plan import PartitionRange, ReadPlan, TopicSelection, find_offset_at

if TYPE_CHECKING:
    pass

WINDOW_SECONDS = 600.0
"""What speeds look back, unless it is said."""
_HOUR_SECONDS = 3600


Ranges = tuple[tuple[int, ...], tuple[int, ...]]
"""Where each begins, and where each ends."""


@dataclass(frozen=True, slots=True)
class GroupProgressView:
    """The progress of a group in a partition: all below the floor, and these ranges above it."""

    group: str
    floor: int
    done: Ranges
    lanes_from: int = OFFSET_MAX
    """From here on a message is done with if its lane was handed out beyond it, and it is not among these:"""
    taken: Ranges = ((), ())
    heads: tuple[int, ...] = ()

    @classmethod
    def of(cls, cursor: Cursor) -> Self:
        heads = tuple(cursor.heads or ())
        taken = sorted(cursor.open_from(cursor.position, cursor.reach)) if heads else []
        return cls(cursor.group, cursor.floor, _columns(cursor.settled()), cursor.position, _columns(taken), heads)

    def left_of(self, offsets: NDArray[np.int64], lanes: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return which of these rising offsets it has not settled."""
        left: NDArray[np.bool_] = offsets >= self.floor
        left &= ~_within(offsets, self.done)
        if self.heads and offsets[-1] >= self.lanes_from:
            unread = offsets >= np.array(self.heads, np.int64)[lanes]
            left &= (offsets < self.lanes_from) | unread | _within(offsets, self.taken)
        return left


def _within(offsets: NDArray[np.int64], ranges: Ranges) -> NDArray[np.bool_]:
    """Return which of these rising offsets lie in the ranges."""
    firsts, ends = ranges
    steps = np.zeros(len(offsets) + 1, np.int64)
    if len(firsts):
        np.add.at(steps, np.searchsorted(offsets, firsts), 1)
        np.add.at(steps, np.searchsorted(offsets, ends), -1)
    inside: NDArray[np.bool_] = np.cumsum(steps[:-1]) > 0
    return inside


def _columns(ranges: Sequence[tuple[int, int]]) -> Ranges:
    return tuple(first for first, _ in ranges), tuple(end for _, end in ranges)


class GroupPartition(NamedTuple):
    """A group and a place of it."""

    group: str
    topic: str
    partition: int


@dataclass(slots=True)
class UnreadCounts:
    """The messages of a partition that a group has not settled."""

    messages: int = 0
    bytes: int = 0
    oldest_ns: int | None = None

    def add(self, messages: int, size: int, oldest_ns: int | None) -> None:
        """Add messages with later offsets."""
        self.messages += messages
        self.bytes += size
        self.oldest_ns = oldest_ns if self.oldest_ns is None else self.oldest_ns


@dataclass(slots=True)
class LagCounts:
    """The counts of a task."""

    left: dict[str, UnreadCounts] = field(default_factory=dict)
    incoming: int = 0
    incoming_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LagScan:
    """The work of a task."""

    logs: LogSource
    readers: Mapping[PartitionRef, Sequence[GroupProgressView]]
    since_ns: int
    """From when on messages are counted as what comes in."""

    def __call__(self, split: Split) -> LagCounts:
        tally = LagCounts()
        for piece in read_messages(self.logs, split):
            if isinstance(piece, FrameRun):
                self._add(tally, split, piece)
        return tally

    def _add(self, tally: LagCounts, split: Split, run: FrameRun) -> None:
        frames, real = run.frames, run.real
        offsets, times, lengths = frames.offsets, frames.timestamps, frames.lengths
        recent = real & (times >= self.since_ns)
        tally.incoming += int(np.count_nonzero(recent))
        tally.incoming_bytes += int(lengths[recent].sum())
        for reader in self.readers[PartitionRef(split.topic, split.partition)]:
            left = np.flatnonzero(reader.left_of(offsets, frames.priorities) & real)
            if len(left):
                known = tally.left.setdefault(reader.group, UnreadCounts())
                known.add(len(left), int(lengths[left].sum()), int(times[left[0]]))


@dataclass(slots=True)
class ConsumptionRate:
    """Hears how many messages each group has done since a moment, as the log is replayed."""

    since_ns: int
    done: defaultdict[GroupPartition, int] = field(default_factory=lambda: defaultdict(int))

    def __call__(self, record: GroupRecord, time_ns: int, cursor: Cursor | None) -> None:
        if cursor is not None and time_ns >= self.since_ns:
            count = sum(end - first for first, end in settled_ranges(record, cursor))
            self.done[GroupPartition(cursor.group, *cursor.ref)] += count


@dataclass(frozen=True, slots=True)
class GroupPartitionLag:
    """One partition of one group."""

    key: GroupPartition
    member: str | None
    committed: int
    end: int
    messages: int
    seconds: float
    in_flight: int
    waiting: int
    lost: int
    rate: float
    """Messages done in a second."""
    incoming: float
    """Messages published in a second."""
    bytes: int | None = None
    """What is left, as it stands on disk."""
    incoming_bytes: float = 0.0
    settings: TopicSettings = field(default_factory=lambda: TopicSettings(retention_hours=None))

    @property
    def drain_seconds(self) -> float | None:
        """The time until the lag is 0; None where it does not shrink, or the group has no members."""
        if not self.messages:
            return 0.0
        if self.member is None or self.rate <= self.incoming:
            return None
        return self.messages / (self.rate - self.incoming)

    @property
    def retention_seconds(self) -> float | None:
        hours = self.settings.retention_hours if "delete" in self.settings.cleanup else None
        return None if hours is None else hours * _HOUR_SECONDS

    @property
    def retention_bytes(self) -> int | None:
        return self.settings.retention_bytes if "delete" in self.settings.cleanup else None

    @property
    def retention_share(self) -> float | None:
        """The share of the retention limits that is behind the group; from 1 on, unread messages are removed."""
        shares = []
        if self.retention_seconds is not None:
            shares.append(self.seconds / self.retention_seconds if self.retention_seconds else float(self.messages > 0))
        if self.retention_bytes is not None and self.bytes is not None:
            shares.append(self.bytes / self.retention_bytes if self.retention_bytes else float(self.messages > 0))
        return max(shares, default=None)

    @property
    def loss_seconds(self) -> float | None:
        """Until messages go unread, if all goes on so; None where that will not be."""
        if not self.messages:
            return None
        times = [self._until_too_old(), self._until_too_large()]
        return min((one for one in times if one is not None), default=None)

    def _until_too_old(self) -> float | None:
        """Return the time until retention by age reaches the group; None where the group is fast enough."""
        if self.retention_seconds is None:
            return None
        left = max(0.0, self.retention_seconds - self.seconds)
        speed = self.rate * self.seconds / self.messages
        return left / (1 - speed) if speed < 1 else None

    def _until_too_large(self) -> float | None:
        if self.retention_bytes is None or self.bytes is None:
            return None
        growth = self.incoming_bytes - self.rate * self.bytes / self.messages
        return max(0.0, self.retention_bytes - self.bytes) / growth if growth > 0 else None


@dataclass(frozen=True, slots=True)
class LagPlan:
    """The state of the groups, and what has to be read."""

    plan: ReadPlan
    look: LagScan
    ledger: GroupLogState
    topics: Mapping[str, TopicConfiguration]
    speed: ConsumptionRate
    cursors: tuple[Cursor, ...]
    now_ns: int


def plan_lag(
    logs: LogSource, topics: Sequence[str], groups: Sequence[str], *, now_ns: int, window_seconds: float
) -> LagPlan:
    """Plan to read the messages that a group has not settled, of the named topics and groups or of all."""
    since_ns = now_ns - round(window_seconds * NANOSECONDS)
    speed = ConsumptionRate(since_ns)
    ledger, known = read_group_logs(logs, speed), read_topics(logs)
    cursors = tuple(
        cursor
        for cursor in ledger.of_users()
        if (not topics or cursor.topic in topics)
        and (not groups or cursor.group in groups)
        and cursor.topic in known
        and known[cursor.topic].created_ns == cursor.topic_ns
    )
    readers: defaultdict[PartitionRef, list[GroupProgressView]] = defaultdict(list)
    for cursor in cursors:
        readers[cursor.ref].append(GroupProgressView.of(cursor))
    plan = ReadPlan(tuple(_range(logs, ref, one, since_ns) for ref, one in sorted(readers.items())))
    return LagPlan(plan, LagScan(logs, dict(readers), since_ns), ledger, known, speed, cursors, now_ns)


def _range(logs: LogSource, ref: PartitionRef, readers: Sequence[GroupProgressView], since_ns: int) -> PartitionRange:
    view = logs.view(*ref)
    first = min(*(reader.floor for reader in readers), find_offset_at(logs, ref, view, since_ns))
    first = min(max(first, view.earliest), view.end)
    return PartitionRange(ref, first, view.end, view)


def join_lags(
    prepared: LagPlan, found: Iterable[tuple[Split, LagCounts]], window_seconds: float
) -> list[GroupPartitionLag]:
    """Join the counts of each partition."""
    left: defaultdict[GroupPartition, UnreadCounts] = defaultdict(UnreadCounts)
    incoming: defaultdict[PartitionRef, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for split, tally in found:
        ref = PartitionRef(split.topic, split.partition)
        count, size = incoming[ref]
        incoming[ref] = (count + tally.incoming, size + tally.incoming_bytes)
        for name, unread in tally.left.items():
            left[GroupPartition(name, *ref)].add(unread.messages, unread.bytes, unread.oldest_ns)
    ends = {one.ref: one.view.end for one in prepared.plan.ranges}
    found_lags = []
    for cursor in prepared.cursors:
        key = GroupPartition(cursor.group, *cursor.ref)
        rest, (count, size) = left[key], incoming[cursor.ref]
        group = prepared.ledger.groups.get(cursor.group)
        found_lags.append(
            GroupPartitionLag(
                key,
                group.owners().get(cursor.ref) if group is not None else None,
                cursor.floor,
                ends[cursor.ref],
                rest.messages,
                0.0 if rest.oldest_ns is None else max(0.0, (prepared.now_ns - rest.oldest_ns) / NANOSECONDS),
                cursor.leased,
                cursor.waiting.count,
                cursor.lost,
                prepared.speed.done[key] / window_seconds,
                count / window_seconds,
                rest.bytes,
                size / window_seconds,
                prepared.topics[cursor.topic].settings,
            )
        )
    return found_lags


def broker_lags(logs: BrokerLogs, topics: Sequence[str], groups: Sequence[str]) -> list[GroupPartitionLag]:
    """Ask the broker for its own numbers; its speeds are those of the last minute."""
    client = logs.client
    details, known = {topic.name: topic for topic in client.topic_details()}, read_topics(logs)
    found = []
    for name in groups or sorted(client.groups()):
        for topic, partitions in client.group(name)["lag"].items():
            if topic in details and (not topics or topic in topics):
                size = details[topic].total_size_bytes / max(1, details[topic].total_messages)
                found += [
                    _with_estimated_bytes(
                        _broker_lag(GroupPartition(name, topic, int(number)), numbers, known[topic].settings), size
                    )
                    for number, numbers in partitions.items()
                ]
    return found


def _broker_lag(key: GroupPartition, numbers: Mapping[str, Any], settings: TopicSettings) -> GroupPartitionLag:
    return GroupPartitionLag(
        key,
        numbers["member_id"],
        numbers["committed"],
        numbers["end"],
        numbers["messages"],
        numbers["seconds"],
        numbers["in_flight"],
        numbers["waiting"],
        numbers["lost"],
        numbers["rate"],
        numbers["incoming"],
        settings=settings,
    )


def _with_estimated_bytes(lag: GroupPartitionLag, message_bytes: float) -> GroupPartitionLag:
    """Estimate bytes as if all messages of the topic had the same size."""
    return replace(lag, bytes=round(lag.messages * message_bytes), incoming_bytes=lag.incoming * message_bytes)


def rows(found: Iterable[GroupPartitionLag]) -> list[Row]:
    return [
        {
            "group": one.key.group,
            "topic": one.key.topic,
            "partition": one.key.partition,
            "member_id": one.member,
            "committed": one.committed,
            "end": one.end,
            "messages": one.messages,
            "bytes": one.bytes,
            "seconds": round(one.seconds, 3),
            "retention_seconds": one.retention_seconds,
            "retention_bytes": one.retention_bytes,
            "retention_share": one.retention_share,
            "loss_seconds": one.loss_seconds,
            "in_flight": one.in_flight,
            "waiting": one.waiting,
            "lost": one.lost,
            "rate": round(one.rate, 3),
            "incoming": round(one.incoming, 3),
            "drain_seconds": one.drain_seconds,
        }
        for one in found
    ]


def inspect(context: InspectionContext, group: Sequence[str], window: float, at: int | None) -> Report:
    """Measure the lag on the selected topics. A broker is asked for its own numbers."""
    logs, topics = context.logs, context.topics
    if isinstance(logs, BrokerLogs):
        found = broker_lags(logs, topics, group)
    else:
        TopicSelection(topics).places(logs)  # refuses topics that do not exist
        now_ns = context.now_ns if at is None else at
        planned = plan_lag(logs, topics, group, now_ns=now_ns, window_seconds=window)
        found = join_lags(planned, context.scan(planned.plan, planned.look), window)
    return Report(rows(found), notes=[] if found else ["no group has read any of these topics"])
