"""Topics that are followed: into files, or into another topic, each message once however often it is started."""

import fnmatch
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted
from goqueue.spark.logs.port import LogSource
from goqueue.spark.queries.pruning import QuerySketch
from goqueue.spark.queries.query import check_query, check_reads_only, translated_refusals
from goqueue.spark.queries.schemas import JsonFields
from goqueue.spark.queries.views import ViewSchema, place_options
from goqueue.spark.reading.failure import describe_failure
from goqueue.spark.reading.plan import EARLIEST, LATEST, ReadBound, TopicSelection, make_plan
from goqueue.spark.stream.positions import Positions, from_json
from goqueue.spark.transfer.export import DIRECTORIES, EXPORTED, file_options, text_for
from goqueue.spark.transfer.replay import TopicDestination, as_messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INPUT = "input"
"""What a query over a stream calls it."""
FORMATS = ("parquet", "json", "csv")


@dataclass(frozen=True, slots=True)
class FileOutput:
    """A directory that grows by some files with each batch."""

    path: str
    format: str = "parquet"
    partition_by: tuple[str, ...] = ("day", "topic")


@dataclass(frozen=True, slots=True)
class FollowRequest:
    """The topics that are followed, and where they go."""

    topics: tuple[str, ...]
    """Names, or patterns with * and ?, which new topics may fit as well."""
    checkpoint: str
    into: FileOutput | TopicDestination
    start: ReadBound = EARLIEST
    query: str | None = None
    fields: JsonFields = field(default_factory=JsonFields)
    every_seconds: float = 10.0
    ends_with_what_is_there: bool = False
    messages_per_batch: int | None = None
    skips_damage: bool = False


@dataclass(frozen=True, slots=True)
class CompletedBatch:
    """One that has ended."""

    number: int
    messages: int
    seconds: float
    lag: int
    """Messages that were there when it began, and that it has left."""


def follow(spark: "SparkSession", logs: LogSource, wanted: FollowRequest) -> "StreamingQuery":
    """Start the query, or continue it at its checkpoint. The caller has to stop it."""
    with translated_refusals(), _failing():
        result = _result(spark, logs, wanted)
        writer = result.writeStream.outputMode("append").option("checkpointLocation", wanted.checkpoint)
        if wanted.ends_with_what_is_there:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(wanted.every_seconds * 1000)} milliseconds")
        if isinstance(wanted.into, FileOutput):
            if wanted.into.partition_by:
                writer = writer.partitionBy(*wanted.into.partition_by)
            if wanted.into.format == "parquet":
                writer = writer.option("compression", "zstd")
            writer = writer.options(**file_options(wanted.into.format)).option("path", wanted.into.path)
            return writer.format(wanted.into.format).start()
        return writer.format("goqueue").options(**wanted.into.options).start()


def batches(query: "StreamingQuery", wait_seconds: Any = 0.25) -> Iterator[CompletedBatch | None]:
    """Yield each batch that has ended, until the query does; None after each wait."""
    last = -1
    is_running = True
    while is_running:
        with _failing():
            is_running = not query.awaitTermination(wait_seconds)
            told = [_batch(one) for one in query.recentProgress if one["numInputRows"] or one["batchId"] > last]
        new = [one for one in told if one.number > last and one.messages]
        yield from new
        last = max([last, *(one.number for one in new)])
        yield None


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except StreamingQueryException as error:
        raise describe_failure(error) from error


def _result(spark: "SparkSession", logs: LogSource, wanted: FollowRequest) -> "DataFrame":
    source = _StreamSource(spark, logs, wanted)
    if wanted.query is not None:
        rows = source.asked(check_query(wanted.query))
        return _partitioned(rows, wanted.into) if isinstance(wanted.into, FileOutput) else as_messages(rows)
    if isinstance(wanted.into, FileOutput):
        directories = wanted.into.partition_by
        made = [DIRECTORIES[name]() if name in DIRECTORIES else F.col(name) for name in directories]
        stored = [text_for(name, wanted.into.format) for name in EXPORTED if name not in directories]
        named = [column.alias(name) for column, name in zip(made, directories, strict=True)]
        return source.read(EXPORTED).select(*stored, *named)
    columns = ("key", "value", "headers", "priority")
    return source.read((*columns, "partition") if wanted.into.keeps_partitions else columns)


def _partitioned(rows: "DataFrame", files: FileOutput) -> "DataFrame":
    """Add the columns that name directories."""
    for name in files.partition_by:
        if name in rows.columns:
            continue
        if name not in DIRECTORIES or "timestamp" not in rows.columns:
            raise RequestInvalid(
                f"the result has no column {quoted(name)} to make directories of",
                hint="name one that it has, or none: --partition-by none",
            )
        rows = rows.withColumn(name, DIRECTORIES[name]())
    return rows


@dataclass(frozen=True, slots=True)
class _StreamSource:
    spark: "SparkSession"
    logs: LogSource
    wanted: FollowRequest

    def asked(self, query: str) -> "DataFrame":
        """Return the result of a query over the stream, which reads only the columns that it needs."""
        shape = ViewSchema(self.wanted.fields.of(self.spark, self.logs, make_plan(self.logs, self._selection())))
        check_reads_only(self.spark, query)
        try:
            needed: frozenset[str] | None = None
            if hasattr(self.spark, "_jsparkSession"):
                with QuerySketch(self.spark) as sketch:
                    name, frame = sketch.frame(shape.schema)
                    frame.createOrReplaceTempView(INPUT)
                    found = sketch.needs(query)
                    needed = found[name].columns if name in found else None
            stream = self.read(shape.stored(shape.columns if needed is None else needed))
            shape.of(stream, needed).createOrReplaceTempView(INPUT)
            result = self.spark.sql(query)
        finally:
            self.spark.catalog.dropTempView(INPUT)
        if not result.isStreaming:
            raise RequestInvalid("the query does not read the stream", hint=f"its table is called {INPUT}")
        return result

    def read(self, columns: tuple[str, ...]) -> "DataFrame":
        reader = self.spark.readStream.format("goqueue").option("columns", ",".join(columns))
        reader = reader.options(**place_options(self.logs)).options(**self._topics()).options(**self._start())
        if self.wanted.messages_per_batch is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(self.wanted.messages_per_batch))
        if self.wanted.skips_damage:
            reader = reader.option("failOnDataLoss", "false")
        return reader.load()

    def _topics(self) -> dict[str, str]:
        if any(character in topic for topic in self.wanted.topics for character in "*?["):
            return {"subscribePattern": "|".join(fnmatch.translate(topic) for topic in self.wanted.topics)}
        return {"subscribe": ",".join(self.wanted.topics)}

    def _selection(self) -> TopicSelection:
        topics = self._topics()
        return (
            TopicSelection(pattern=topics["subscribePattern"])
            if "subscribePattern" in topics
            else TopicSelection(self.wanted.topics)
        )

    def _start(self) -> Mapping[str, str]:
        start = self.wanted.start
        if start in (EARLIEST, LATEST):
            return {"startingOffsets": str(start.otherwise)}
        found: dict[str, dict[str, int]] = {}
        for one in make_plan(self.logs, self._selection(), start).ranges:
            found.setdefault(one.ref[0], {})[str(one.ref[1])] = one.first
        return {"startingOffsets": json.dumps(found)}


def _batch(progress: Mapping[str, Any]) -> CompletedBatch:
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    lag = sum(_left(source) for source in progress["sources"])
    return CompletedBatch(progress["batchId"], progress["numInputRows"], seconds, lag)


def _left(source: Mapping[str, Any]) -> int:
    """Count the messages of the source behind the end of the batch."""
    end, latest = _positions(source["endOffset"]), _positions(source["latestOffset"])
    return sum(max(0, last - end.get(ref, 0)) for ref, last in latest.items())


def _positions(told: Any) -> Positions:
    """Parse positions, which Spark gives as text or as they are."""
    found = json.loads(told) if isinstance(told, str) else told
    return from_json(found) if isinstance(found, dict) else {}
