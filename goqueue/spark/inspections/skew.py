"""How unevenly the messages of a topic lie over its partitions, and which keys are to blame."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from goqueue.spark.inspections.inspection import Inspection, Row, schema
from goqueue.spark.inspections.keys import OF_KEY, PartitionKeys, added_up, key_frame, partitions_of
from goqueue.spark.logs.port import Logs
from goqueue.spark.plan import Plan
from goqueue.spark.points import Place
from goqueue.spark.reading import Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SKEWED = 1.5
"""Times the mean from which on a partition is called hot."""


@dataclass(frozen=True, slots=True)
class Hot:
    """A key that makes a part of a partition."""

    key: bytes
    messages: int


@dataclass(frozen=True, slots=True)
class Share:
    """What lies in one partition."""

    counts: PartitionKeys
    keys: tuple[Hot, ...]
    """Those with the most messages in it, the first one first."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A topic's messages over its partitions."""

    topic: str
    shares: tuple[Share, ...]

    @property
    def messages(self) -> int:
        return sum(one.counts.messages for one in self.shares)

    @property
    def mean(self) -> float:
        return self.messages / len(self.shares)

    @property
    def hottest(self) -> Share:
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


def spreads(spark: "SparkSession", logs: Logs, plan: Plan, splits: Sequence[Split], top: int = 3) -> list[Spread]:
    """Topic by topic, with the partitions that hold nothing."""
    counts: dict[Place, PartitionKeys] = {}
    hot: dict[Place, tuple[Hot, ...]] = {}
    if splits:
        added = added_up(key_frame(spark, logs, splits)).persist()
        try:
            counts = {(one.topic, one.partition): one for one in partitions_of(added)}
            hot = _hot_keys(added, top)
        finally:
            added.unpersist()
    return [
        Spread(topic, tuple(_share(one.place, counts, hot) for one in ranges))
        for topic, ranges in groupby(plan.ranges, key=lambda one: one.place[0])
    ]


def _share(place: Place, counts: dict[Place, PartitionKeys], hot: dict[Place, tuple[Hot, ...]]) -> Share:
    return Share(counts.get(place) or PartitionKeys(*place, 0, 0, 0, 0), hot.get(place, ()))


def _hot_keys(added: "DataFrame", top: int) -> dict[Place, tuple[Hot, ...]]:
    from pyspark.sql import Window  # noqa: PLC0415 - loaded with the session
    from pyspark.sql import functions as f  # noqa: PLC0415

    rank = f.row_number().over(Window.partitionBy("topic", "partition").orderBy(f.desc("messages"), "key"))
    ranked = added.where(f.col("kind") == OF_KEY).withColumn("rank", rank).where(f.col("rank") <= top)
    found: defaultdict[Place, list[Hot]] = defaultdict(list)
    for row in ranked.orderBy("topic", "partition", "rank").collect():
        found[row["topic"], row["partition"]].append(Hot(bytes(row["key"]), row["messages"]))
    return {place: tuple(keys) for place, keys in found.items()}


def rows(found: Iterable[Spread]) -> list[Row]:
    return [_row(spread, share) for spread in found for share in spread.shares]


def _row(spread: Spread, share: Share) -> Row:
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
    }


def inspect(spark: "SparkSession", logs: Logs, plan: Plan) -> list[Row]:
    return rows(spreads(spark, logs, plan, plan.splits(logs)))


INSPECTION = Inspection(
    inspect,
    schema(
        topic=pa.string(),
        partition=pa.int32(),
        messages=pa.int64(),
        bytes=pa.int64(),
        tombstones=pa.int64(),
        without_key=pa.int64(),
        share=pa.float64(),
        of_mean=pa.float64(),
        hot_key=pa.binary(),
        hot_key_share=pa.float64(),
        hot_keys=pa.list_(pa.binary()),
        max_to_mean=pa.float64(),
        gini=pa.float64(),
    ),
)
