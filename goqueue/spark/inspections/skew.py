"""Measure how unevenly the messages of a topic are spread over its partitions, and find the keys that cause it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from goqueue.spark.inspections.inspection import InspectionContext, Report, Row, format_key, format_percent
from goqueue.spark.inspections.keys import OF_KEY, PartitionKeys, added_up, key_frame, partitions_of
from goqueue.spark.logs.port import LogSource, PartitionRef
from goqueue.spark.logs.splits import Split
from goqueue.spark.reading.plan import ReadPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SKEWED = 1.5
"""Times the mean from which on a partition is called hot."""


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key that makes a part of a partition."""

    key: bytes
    messages: int


@dataclass(frozen=True, slots=True)
class PartitionShare:
    """The messages of one partition."""

    counts: PartitionKeys
    keys: tuple[HotKey, ...]
    """Those with the most messages in it, the first one first."""


@dataclass(frozen=True, slots=True)
class TopicSpread:
    """A topic's messages over its partitions."""

    topic: str
    shares: tuple[PartitionShare, ...]

    @property
    def messages(self) -> int:
        return sum(one.counts.messages for one in self.shares)

    @property
    def mean(self) -> float:
        return self.messages / len(self.shares)

    @property
    def hottest(self) -> PartitionShare:
        return max(self.shares, key=lambda one: one.counts.messages)

    @property
    def max_to_mean(self) -> float:
        """1 where all partitions hold as much as each other."""
        return self.hottest.counts.messages / self.mean if self.messages else 1.0

    @property
    def gini(self) -> float:
        """From 0, where all hold the same, up to nearly 1, where one holds everything."""
        return gini([one.counts.messages for one in self.shares])


def gini(amounts: Sequence[int]) -> float:
    total, count = sum(amounts), len(amounts)
    if not total:
        return 0.0
    ranks = np.arange(1, count + 1)
    weighted = float(np.dot(ranks, np.sort(np.array(amounts, np.float64))))
    return max(0.0, 2 * weighted / (count * total) - (count + 1) / count)


def measure_skew(
    spark: "SparkSession | None", logs: LogSource, plan: ReadPlan, splits: Sequence[Split], top: int = 3
) -> list[TopicSpread]:
    """Measure topic by topic; partitions without messages are included."""
    counts: dict[PartitionRef, PartitionKeys] = {}
    hot: dict[PartitionRef, tuple[HotKey, ...]] = {}
    if spark is not None:
        added = added_up(key_frame(spark, logs, splits)).persist()
        try:
            counts = {(one.topic, one.partition): one for one in partitions_of(added)}
            hot = _hot_keys(added, top)
        finally:
            added.unpersist()
    return [
        TopicSpread(topic, tuple(_share(one.ref, counts, hot) for one in ranges))
        for topic, ranges in groupby(plan.ranges, key=lambda one: one.ref[0])
    ]


def _share(
    ref: PartitionRef, counts: dict[PartitionRef, PartitionKeys], hot: dict[PartitionRef, tuple[HotKey, ...]]
) -> PartitionShare:
    return PartitionShare(counts.get(ref) or PartitionKeys(*ref, 0, 0, 0, 0), hot.get(ref, ()))


def _hot_keys(added: "DataFrame", top: int) -> dict[PartitionRef, tuple[HotKey, ...]]:
    from pyspark.sql import Window  # noqa: PLC0415 - loaded with the session
    from pyspark.sql import functions as f  # noqa: PLC0415

    rank = f.row_number().over(Window.partitionBy("topic", "partition").orderBy(f.desc("messages"), "key"))
    ranked = added.where(f.col("kind") == OF_KEY).withColumn("rank", rank).where(f.col("rank") <= top)
    found: defaultdict[PartitionRef, list[HotKey]] = defaultdict(list)
    for row in ranked.orderBy("topic", "partition", "rank").collect():
        found[row["topic"], row["partition"]].append(HotKey(bytes(row["key"]), row["messages"]))
    return {ref: tuple(keys) for ref, keys in found.items()}


def rows(found: Iterable[TopicSpread]) -> list[Row]:
    return [_row(spread, share) for spread in found for share in spread.shares]


def _row(spread: TopicSpread, share: PartitionShare) -> Row:
    messages = share.counts.messages
    hot = share.keys[0] if share.keys else None
    return {
        **asdict(share.counts),
        "share": messages / spread.messages if spread.messages else 0.0,
        "of_mean": messages / spread.mean if spread.messages else 0.0,
        "hot_key": None if hot is None else hot.key,
        "hot_key_share": None if hot is None else hot.messages / messages,
        "hot_keys": [one.key for one in share.keys],
        "max_to_mean": spread.max_to_mean,
        "gini": spread.gini,
        "verdict": verdict(spread) if share is spread.hottest else None,
    }


def verdict(spread: TopicSpread) -> str:
    """Return a sentence about the distribution, and its cause where it is uneven."""
    if not spread.messages:
        return "no messages"
    if len(spread.shares) == 1:
        return "a single partition"
    hottest = spread.hottest
    figures = f"max/mean {spread.max_to_mean:.2f}, Gini {spread.gini:.2f}"
    if spread.max_to_mean < SKEWED:
        return f"even ({figures})"
    found = f"partition {hottest.counts.partition} has {spread.max_to_mean:.1f} times the mean ({figures})"
    return f"{found}; {_cause(hottest)}"


def _cause(hottest: PartitionShare) -> str:
    messages, keys = hottest.counts.messages, hottest.keys
    if not keys or hottest.counts.without_key > messages / 2:
        return f"{format_percent(hottest.counts.without_key / messages)} of it have no key"
    first, *others = keys
    also = "".join(f", {format_key(one.key)} {format_percent(one.messages / messages)}" for one in others)
    return f"key {format_key(first.key)} makes {format_percent(first.messages / messages)} of it{also}"


def inspect(context: InspectionContext) -> Report:
    plan = context.plan
    splits = plan.splits(context.logs)
    with context.session(plan, is_brief=False) if splits else nullcontext() as spark:
        found = measure_skew(spark, context.logs, plan, splits)
    return Report(rows(found), plan, bar="messages", notes=[f"{one.topic}: {verdict(one)}" for one in found])
