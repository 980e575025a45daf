"""Messages of a log, or rows of a query, published into a topic.

What must stay true: a task sends the same rows in the same order whenever it is started, since the broker knows by
their number which of them it has. So each partition is read by one task, and rows that came out of a shuffle are
sorted.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType, VariantType

from goqueue.client import Client
from goqueue.client.tls import TlsOptions
from goqueue.errors import RequestInvalid, TopicNotFound
from goqueue.spark.logs.port import LogSource
from goqueue.spark.queries.results import distinct_names
from goqueue.spark.queries.tables import RAW_COLUMNS
from goqueue.spark.queries.views import TopicViews, read_ranges
from goqueue.spark.reading.options import tls_to_options
from goqueue.spark.reading.plan import ReadPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

_MESSAGE = ("key", "value", "headers", "priority")
_PLACES = ("partition", "offset", "timestamp", "topic", "timestampType", "segment", "position", "crc_ok")
_WHOLE = 2**60  # bytes of a split that no partition has
_STEPS_A_SECOND = 20  # how finely a rate is kept
_CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TopicDestination:
    """Where messages go, and how fast."""

    server: str
    topic: str
    token: str | None = field(default=None, repr=False)
    identity: str | None = None
    """What was stored under it before is stored no second time."""
    rate: float | None = None
    """Messages a second, of all tasks together."""
    keeps_partitions: bool = False
    tls: TlsOptions | None = None

    @property
    def options(self) -> dict[str, str]:
        found = {"goqueue.url": self.server, "topic": self.topic}
        return found | ({"goqueue.token": self.token} if self.token else {}) | tls_to_options(self.tls)


def messages_of(
    spark: "SparkSession", logs: LogSource, plan: ReadPlan, to: TopicDestination, *, skips_damage: bool = False
) -> "DataFrame":
    """Return the messages as they are, with a task for each partition."""
    columns = (*_MESSAGE, "partition") if to.keeps_partitions else _MESSAGE
    return read_ranges(spark, logs, plan.ranges, columns, split_bytes=_WHOLE, skips_damage=skips_damage)


def messages_of_query(views: TopicViews, query: str, to: TopicDestination) -> "DataFrame":
    """Return the rows of a query as messages, in an order that is the same each time."""
    return _in_order(as_messages(views.frame(query, keeps_raw=True, split_bytes=_WHOLE), to.keeps_partitions))


def as_messages(rows: "DataFrame", keeps_partitions: bool = False) -> "DataFrame":
    """Select the columns that are messages. Bytes win over text; without a value, all other columns become its JSON."""
    found = distinct_names(rows)
    names = found.columns
    columns: list[Any] = []
    for name in ("key", "value"):
        raw = next(one for one, text in RAW_COLUMNS.items() if text == name)
        if raw in names or name in names:
            columns.append(_as_text(found.schema[raw if raw in names else name]).alias(name))
    if "value" not in names and "raw_value" not in names:
        others = [name for name in names if name not in (*_MESSAGE, *_PLACES, *RAW_COLUMNS)]
        if not others:
            raise RequestInvalid(
                "no column of the query can become a value",
                hint="name one value, or leave others in the result: they become its JSON",
            )
        columns.append(F.to_json(F.struct(*(F.col(f"`{name}`") for name in others))).alias("value"))
    columns += [F.col(name) for name in ("headers", "priority") if name in names]
    if keeps_partitions:
        if "partition" not in names:
            raise RequestInvalid("--keep-partitions needs a column partition in the result of the query")
        columns.append(F.col("partition"))
    return found.select(*columns)


def _as_text(field: "StructField") -> Any:
    """Return a key or value as text; values with parts become JSON."""
    if isinstance(field.dataType, (BinaryType, StringType)):
        return F.col(field.name)
    if isinstance(field.dataType, (ArrayType, MapType, StructType, VariantType)):
        return F.to_json(F.col(field.name))
    return F.col(field.name).cast("string")


def check_destination(to: TopicDestination, plan: ReadPlan | None) -> None:
    """Check that the topic exists and has enough partitions, before anything is read."""
    with Client(to.server, connect_timeout=_CONNECT_SECONDS, api_key=to.token, tenant="", tls=to.tls) as client:
        try:
            found = client.topic(to.topic)
        except TopicNotFound as error:
            error.hint = f"`goqueue-cli topic create {to.topic}` creates it"
            raise
    highest = max((one.ref[1] for one in plan.ranges), default=0) if plan is not None else 0
    if to.keeps_partitions and highest >= found.partitions:
        raise RequestInvalid(
            f"topic {to.topic} has {found.partitions} partitions, and there are messages of partition {highest}",
            hint="leave out --keep-partitions, or replay into a topic with as many partitions",
        )


def replay(messages: "DataFrame", to: TopicDestination, *, tasks: int | None = None) -> int:
    """Publish all of them; how many there were. A rate is shared by as many tasks as may run at a time."""
    from pyspark.sql import Observation  # noqa: PLC0415

    counted = Observation("replay")
    frame = messages.observe(counted, F.count(F.lit(1)).alias("rows"))
    if to.rate is not None:
        session: Any = messages.sparkSession
        slots = session.sparkContext.defaultParallelism if hasattr(session, "_jsparkSession") else tasks or 1
        frame = frame.mapInArrow(Throttle(to.rate / max(1, min(slots, tasks or slots))), frame.schema)
    writer = frame.write.format("goqueue").mode("append")
    if to.identity is not None:
        writer = writer.option("writeId", to.identity)
    for name, value in to.options.items():
        writer = writer.option(name, value)
    writer.save()
    return int(counted.get["rows"])


@dataclass(frozen=True, slots=True)
class Throttle:
    """Lets so many rows a second through."""

    rate: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = max(1, int(self.rate / _STEPS_A_SECOND))
        began, done = time.monotonic(), 0
        for batch in batches:
            for first in range(0, len(batch), step):
                piece = batch.slice(first, step)
                ahead = done / self.rate - (time.monotonic() - began)
                if ahead > 0:
                    time.sleep(ahead)
                yield piece
                done += len(piece)


def _in_order(messages: "DataFrame") -> "DataFrame":
    """Sort rows that a shuffle brought; rows that the query has ordered are sent by one task."""
    execution: Any = getattr(messages, "_jdf", None)
    if execution is None:  # a Connect server does not show its plans
        return _sorted(messages)
    queried = execution.queryExecution()
    node = queried.optimizedPlan()
    while node.getClass().getSimpleName() in _THROUGH:
        node = node.children().apply(0)
    if node.getClass().getSimpleName() == "Sort":
        return messages.coalesce(1)
    plan = queried.sparkPlan().treeString()
    return _sorted(messages) if any(word in plan for word in _SHUFFLING) else messages


_THROUGH = {"Project", "GlobalLimit", "LocalLimit"}
_SHUFFLING = ("Exchange", "Join", "Aggregate", "Window")


def _sorted(messages: "DataFrame") -> "DataFrame":
    unordered = (MapType, VariantType)
    names = [one.name for one in messages.schema.fields if not isinstance(one.dataType, unordered)]
    return messages.sortWithinPartitions(*names)
