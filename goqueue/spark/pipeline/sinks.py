"""The results of a pipeline that is run once, each written where its sink says."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Observation, functions
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

from goqueue.config.problem import Problem
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.spark.pipeline.model import FileSink, Pipeline, Sink, TableSink, TopicSink
from goqueue.spark.reading.failure import describe_failure
from goqueue.spark.sink.options import check_columns
from goqueue.spark.source import NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = "rows"


@dataclass(frozen=True, slots=True)
class SinkResult:
    """The result of writing one sink."""

    sink: Sink
    rows: int
    seconds: float
    files: int | None = None
    """None where they cannot be counted, or there are none."""
    bytes: int | None = None
    batches: int | None = None
    content: tuple[dict[str, Any], ...] | None = None
    """What a table shows."""


def check_sink(spark: "SparkSession", pipeline: Pipeline, sink: Sink, schema: StructType) -> list[Problem]:
    """Return the problems of rows with this schema for this sink, and of the place that it names."""
    found = []
    if isinstance(sink, FileSink):
        found = _shape(sink, schema)
        if sink.mode == "fail" and pipeline.stream is None and list_directory(spark, sink.path).files:
            found.append((f"{quoted(sink.path)} holds files already", "write `mode: append` or `mode: overwrite`"))
    elif isinstance(sink, TopicSink):
        try:
            check_columns(schema, names_topic=True)
        except RequestInvalid as error:
            found = [(problem, None) for problem in error.details["problems"]]
    return [Problem(sink.origin, f"sinks.{sink.name}", sentence, hint) for sentence, hint in found]


def _shape(sink: FileSink, schema: StructType) -> list[tuple[str, str | None]]:
    names = schema.fieldNames()
    found: list[tuple[str, str | None]] = []
    for name in sink.partition_by:
        if name not in names:
            meant = nearest(name, names)
            hint = f"did you mean {meant}?" if meant else f"there are: {', '.join(names)}"
            found.append((f"partition_by: {quoted(name)} is no column of {sink.input}", hint))
    if sink.partition_by and set(names) <= set(sink.partition_by):
        found.append(("partition_by takes all columns", "leave one that is written into the files"))
    found += [(f"there are two columns {name}", None) for name in dict.fromkeys(names) if names.count(name) > 1]
    if sink.format == "csv":
        for one in schema.fields:
            if isinstance(one.dataType, (ArrayType, BinaryType, MapType, StructType)):
                kind = one.dataType.simpleString()
                found.append((f"CSV has no place for {one.name}, which is {kind}", "leave it out, or write json"))
    return found


def write_sink(spark: "SparkSession", sink: Sink, frame: "DataFrame") -> SinkResult:
    """Write all rows. An error says which sink it was."""
    try:
        return _delivered(spark, sink, frame)
    except (GoQueueError, PySparkException) as error:
        told = describe_failure(error)
        raise type(told)(f"sink {sink.name}: {told.sentence}", hint=told.hint) from error


def _delivered(spark: "SparkSession", sink: Sink, frame: "DataFrame") -> SinkResult:
    started = time.monotonic()
    if isinstance(sink, TableSink):
        content = tuple(frame.limit(sink.rows).toArrow().to_pylist())
        return SinkResult(sink, len(content), time.monotonic() - started, content=content)
    observation = Observation(f"{ROWS} of {sink.name}")
    watched = frame.observe(observation, functions.count(functions.lit(1)).alias(ROWS))
    if isinstance(sink, TopicSink):
        _write(sink, watched)
        return SinkResult(sink, int(observation.get[ROWS]), time.monotonic() - started)
    before = list_directory(spark, sink.path) if sink.mode == "append" else EMPTY_DIRECTORY
    _write(sink, watched)
    after = list_directory(spark, sink.path)
    seconds = time.monotonic() - started
    return SinkResult(sink, int(observation.get[ROWS]), seconds, after.files - before.files, after.bytes - before.bytes)


def _write(sink: FileSink | TopicSink, frame: "DataFrame") -> None:
    if isinstance(sink, FileSink):
        writer = frame.write.mode("append" if sink.mode == "fail" else sink.mode).format(sink.format)
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        writer.options(**OPTIONS[sink.format]).save(sink.path)
    else:
        frame.write.format(NAME).mode("append").options(**topic_options(sink)).save()


def topic_options(sink: TopicSink) -> dict[str, str]:
    given = {"goqueue.url": sink.url, "goqueue.token": sink.token, "topic": sink.topic, "writeId": sink.id}
    return {name: text for name, text in given.items() if text is not None}


OPTIONS = {
    "parquet": {"compression": "zstd"},
    "json": {"ignoreNullFields": "false"},
    "csv": {"header": "true"},
}


@dataclass(frozen=True, slots=True)
class DirectoryContent:
    """The files below a path."""

    files: int
    bytes: int


EMPTY_DIRECTORY = DirectoryContent(0, 0)


def list_directory(spark: "SparkSession", path: str) -> DirectoryContent:
    """Count the files below a path, without marks such as `_SUCCESS`. With a Connect server it returns none."""
    jvm: Any = getattr(spark, "_jvm", None) if not type(spark).__module__.startswith("pyspark.sql.connect") else None
    if jvm is None:
        return EMPTY_DIRECTORY
    directory = jvm.org.apache.hadoop.fs.Path(path)
    system = directory.getFileSystem(spark._jsc.hadoopConfiguration())
    if not system.exists(directory):
        return EMPTY_DIRECTORY
    files = total = 0
    listing = system.listFiles(directory, True)
    while listing.hasNext():
        status = listing.next()
        if not status.getPath().getName().startswith(("_", ".")):
            files, total = files + 1, total + status.getLen()
    return DirectoryContent(files, total)
