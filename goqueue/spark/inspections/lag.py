"""How far behind groups are: in messages, bytes and time, how fast they are, and when retention overtakes them.

What a group has settled is told by the log of the groups; what is left for it is counted where the messages are, so
that what compaction has removed, and control records, are none. A broker counts by itself, and is asked.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from goqueue.broker.delivery.changes import Place
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.groups.state import Record
from goqueue.broker.topic import TopicSettings
from goqueue.clock import NANOSECONDS
from goqueue.spark.inspections import parameters
from goqueue.spark.inspections.inspection import Inspection, Row, schema
from goqueue.spark.inspections.ledger import Ledger, TopicFacts, done_by, read_ledger, read_topics
from goqueue.spark.inspections.reader import Reader
from goqueue.spark.jobs import on_each
from goqueue.spark.logs.broker import BrokerLogs
from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import read_messages
from goqueue.spark.plan import Plan, Range
from goqueue.spark.points import offset_at
from goqueue.spark.reading import Run, Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW_SECONDS = 600.0
"""What speeds look back, unless it is said."""
_HOUR_SECONDS = 3600


class Whose(NamedTuple):
    """A group and a place of it."""

    group: str
    topic: str
    partition: int


@dataclass(slots=True)
class Left:
    """What of a partition a group has not done."""

    messages: int = 0
    bytes: int = 0
    oldest_ns: int | None = None

    def add(self, messages: int, size: int, oldest_ns: int | None) -> None:
        """More of it, from further behind."""
        self.messages += messages
        self.bytes += size
        self.oldest_ns = oldest_ns if self.oldest_ns is None else self.oldest_ns


@dataclass(slots=True)
class Tally:
    """What a task has counted."""

    left: dict[str, Left] = field(default_factory=dict)
    incoming: int = 0
    incoming_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """The work of a task."""

    logs: Logs
    readers: Mapping[Place, Sequence[Reader]]
    since_ns: int
    """From when on messages are counted as what comes in."""

    def __call__(self, split: Split) -> Tally:
        tally = Tally()
        for piece in read_messages(self.logs, split):
            if isinstance(piece, Run):
                self._add(tally, split, piece)
        return tally

    def _add(self, tally: Tally, split: Split, run: Run) -> None:
        frames, real = run.frames, run.real
        offsets, times, lengths = frames.offsets, frames.timestamps, frames.lengths
        recent = real & (times >= self.since_ns)
        tally.incoming += int(np.count_nonzero(recent))
        tally.incoming_bytes += int(lengths[recent].sum())
        for reader in self.readers[split.topic, split.partition]:
            left = np.flatnonzero(reader.left_of(offsets, frames.priorities) & real)
            if len(left):
                known = tally.left.setdefault(reader.group, Left())
                known.add(len(left), int(lengths[left].sum()), int(times[left[0]]))


@dataclass(slots=True)
class Speed:
    """Hears how many messages each group has done since a moment, as the log is replayed."""

    since_ns: int
    done: defaultdict[Whose, int] = field(default_factory=lambda: defaultdict(int))

    def __call__(self, record: Record, time_ns: int, cursor: Cursor | None) -> None:
        if cursor is not None and time_ns >= self.since_ns:
            count = sum(end - first for first, end in done_by(record, cursor))
            self.done[Whose(cursor.group, *cursor.place)] += count


@dataclass(frozen=True, slots=True)
class Lag:
    """One partition of one group."""

    whose: Whose
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
        """Until nothing is left; None when it grows, or stands, or nobody is there to read it."""
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
        """How much of what retention allows is behind it; from 1 on messages go before they were read."""
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
        """The group goes through the time of the log at some speed; below 1 it falls behind."""
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
class Preparation:
    """What the driver finds out before anything is read."""

    plan: Plan
    look: Look
    ledger: Ledger
    topics: Mapping[str, TopicFacts]
    speed: Speed
    cursors: tuple[Cursor, ...]
    now_ns: int


def prepare(
    logs: Logs, topics: Sequence[str], groups: Sequence[str], *, now_ns: int, window_seconds: float
) -> Preparation:
    """Of the topics and groups that are named, or of all: what has to be read is what one of them has not done."""
    since_ns = now_ns - round(window_seconds * NANOSECONDS)
    speed = Speed(since_ns)
    ledger, known = read_ledger(logs, speed), read_topics(logs)
    cursors = tuple(
        cursor
        for cursor in ledger.of_users()
        if (not topics or cursor.topic in topics)
        and (not groups or cursor.group in groups)
        and cursor.topic in known
        and known[cursor.topic].created_ns == cursor.topic_ns
    )
    readers: defaultdict[Place, list[Reader]] = defaultdict(list)
    for cursor in cursors:
        readers[cursor.place].append(Reader.of(cursor))
    plan = Plan(tuple(_range(logs, place, one, since_ns) for place, one in sorted(readers.items())))
    return Preparation(plan, Look(logs, dict(readers), since_ns), ledger, known, speed, cursors, now_ns)


def _range(logs: Logs, place: Place, readers: Sequence[Reader], since_ns: int) -> Range:
    view = logs.view(*place)
    first = min(*(reader.floor for reader in readers), offset_at(logs, place, view, since_ns))
    first = min(max(first, view.earliest), view.end)
    return Range(place, first, view.end, view)


def lags(prepared: Preparation, splits: Iterable[Split], tallies: Iterable[Tally], window_seconds: float) -> list[Lag]:
    """The parts of each partition put together."""
    left: defaultdict[Whose, Left] = defaultdict(Left)
    incoming: defaultdict[Place, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for split, tally in zip(splits, tallies, strict=True):
        place = (split.topic, split.partition)
        count, size = incoming[place]
        incoming[place] = (count + tally.incoming, size + tally.incoming_bytes)
        for name, found in tally.left.items():
            left[Whose(name, *place)].add(found.messages, found.bytes, found.oldest_ns)
    ends = {one.place: one.view.end for one in prepared.plan.ranges}
    found_lags = []
    for cursor in prepared.cursors:
        whose = Whose(cursor.group, *cursor.place)
        rest, (count, size) = left[whose], incoming[cursor.place]
        group = prepared.ledger.groups.get(cursor.group)
        found_lags.append(
            Lag(
                whose,
                group.owners().get(cursor.place) if group is not None else None,
                cursor.floor,
                ends[cursor.place],
                rest.messages,
                0.0 if rest.oldest_ns is None else max(0.0, (prepared.now_ns - rest.oldest_ns) / NANOSECONDS),
                cursor.leased,
                cursor.waiting.count,
                cursor.lost,
                prepared.speed.done[whose] / window_seconds,
                count / window_seconds,
                rest.bytes,
                size / window_seconds,
                prepared.topics[cursor.topic].settings,
            )
        )
    return found_lags


def lags_of_broker(logs: BrokerLogs, topics: Sequence[str], groups: Sequence[str]) -> list[Lag]:
    """The broker's own numbers; its speeds are those of the last minute."""
    client = logs.client
    details, known = {topic.name: topic for topic in client.topic_details()}, read_topics(logs)
    found = []
    for name in groups or sorted(client.groups()):
        for topic, partitions in client.group(name)["lag"].items():
            if topic in details and (not topics or topic in topics):
                size = details[topic].total_size_bytes / max(1, details[topic].total_messages)
                found += [
                    _sized(_told(Whose(name, topic, int(number)), numbers, known[topic].settings), size)
                    for number, numbers in partitions.items()
                ]
    return found


def _told(whose: Whose, numbers: Mapping[str, Any], settings: TopicSettings) -> Lag:
    return Lag(
        whose,
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


def _sized(lag: Lag, message_bytes: float) -> Lag:
    """With bytes as if all messages of the topic were of one size."""
    return replace(lag, bytes=round(lag.messages * message_bytes), incoming_bytes=lag.incoming * message_bytes)


def rows(found: Iterable[Lag]) -> list[Row]:
    return [
        {
            "group": one.whose.group,
            "topic": one.whose.topic,
            "partition": one.whose.partition,
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


def inspect(
    spark: "SparkSession",
    logs: Logs,
    plan: Plan,
    group: Sequence[str] = (),
    window: float = WINDOW_SECONDS,
    at: int | None = None,
) -> list[Row]:
    """Of the topics of the plan. Where in them it begins and ends is of no matter: what is left is told."""
    topics = tuple(dict.fromkeys(one.place[0] for one in plan.ranges))
    if not topics:
        return []
    if isinstance(logs, BrokerLogs):
        return rows(lags_of_broker(logs, topics, group))
    now_ns = time.time_ns() if at is None else at
    prepared = prepare(logs, topics, group, now_ns=now_ns, window_seconds=window)
    splits = prepared.plan.splits(logs)
    return rows(lags(prepared, splits, on_each(spark, splits, prepared.look), window))


INSPECTION = Inspection(
    inspect,
    schema(
        group=pa.string(),
        topic=pa.string(),
        partition=pa.int32(),
        member_id=pa.string(),
        committed=pa.int64(),
        end=pa.int64(),
        messages=pa.int64(),
        bytes=pa.int64(),
        seconds=pa.float64(),
        retention_seconds=pa.float64(),
        retention_bytes=pa.int64(),
        retention_share=pa.float64(),
        loss_seconds=pa.float64(),
        in_flight=pa.int64(),
        waiting=pa.int64(),
        lost=pa.int64(),
        rate=pa.float64(),
        incoming=pa.float64(),
        drain_seconds=pa.float64(),
    ),
    {"group": parameters.texts(), "window": parameters.seconds(), "at": parameters.moment()},
)
