"""A pipeline as streaming queries, one for each sink, which go on where they ended."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions

from goqueue.spark.pipeline import files
from goqueue.spark.pipeline.delivery import ROWS, Delivered, topic_options
from goqueue.spark.pipeline.model import FileSink, Pipeline, Sink, Stream, TopicSink
from goqueue.spark.pipeline.tables import Tables
from goqueue.spark.queries.query import refusal
from goqueue.spark.source import NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 1


class Running:
    """One query, and what it has done since it was started."""

    def __init__(self, sink: Sink, query: "StreamingQuery") -> None:
        self.sink = sink
        self.query = query
        self._started = time.monotonic()
        self._rows: dict[int, int] = {}

    def look(self) -> None:
        """Spark keeps the last hundred batches alone, so this is asked again and again."""
        for one in self.query.recentProgress:
            told: Any = one.observedMetrics.get(ROWS)
            if told is not None and one.numInputRows:
                self._rows[one.batchId] = int(told[ROWS])

    def delivered(self) -> Delivered:
        self.look()
        return Delivered(self.sink, sum(self._rows.values()), time.monotonic() - self._started, batches=len(self._rows))


def stream(pipeline: Pipeline, made: Tables) -> list[Delivered]:
    """Run until all there is has been read, or until it is interrupted. A batch that is cut off is done again later."""
    assert pipeline.stream is not None
    running: list[Running] = []
    try:
        for sink in pipeline.sinks:
            query = _start(sink, pipeline.stream, made.frames[sink.input])
            running.append(Running(sink, query))
        while any(one.query.isActive for one in running):
            for one in running:
                one.query.awaitTermination(_LOOK_SECONDS)  # raises what ended it
                one.look()
    finally:
        for one in running:
            with suppress(Exception):  # nor may it hide what ended the others, an interruption above all
                one.query.stop()
    return [one.delivered() for one in running]


def _start(sink: Sink, plan: Stream, frame: "DataFrame") -> "StreamingQuery":
    watched = frame.observe(ROWS, functions.count(functions.lit(1)).alias(ROWS))
    writer = watched.writeStream.outputMode("append").queryName(sink.name)
    writer = writer.option("checkpointLocation", f"{plan.checkpoint.rstrip('/')}/{sink.name}")
    if plan.available_now:
        writer = writer.trigger(availableNow=True)
    elif plan.every_seconds is not None:
        writer = writer.trigger(processingTime=f"{round(plan.every_seconds * 1000)} milliseconds")
    if isinstance(sink, FileSink):
        writer = writer.format(sink.format).options(**files.OPTIONS[sink.format])
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        return writer.start(sink.path)
    assert isinstance(sink, TopicSink)
    return writer.format(NAME).options(**topic_options(sink)).start()


def refused(spark: "SparkSession", frame: "DataFrame") -> str | None:
    """What Spark would say when the query is started. A Connect server is not asked."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    jvm: Any = spark._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    mode = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    try:
        plan: Any = frame._jdf.queryExecution().analyzed()
        checker.checkForStreaming(plan, mode)
    except AnalysisException as error:
        return refusal(error).sentence
    return None
