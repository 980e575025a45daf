"""A pipeline checked to the end, and run."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions

from goqueue.config.problem import Problem
from goqueue.errors import GoQueueError
from goqueue.spark.inspections.inspection import InspectionContext, Row
from goqueue.spark.logs.port import LogSource
from goqueue.spark.pipeline import sinks
from goqueue.spark.pipeline.model import (
    FileSink,
    InspectStep,
    Pipeline,
    Sink,
    StreamSchedule,
    TopicSink,
    pipeline_invalid,
)
from goqueue.spark.pipeline.sinks import ROWS, SinkResult, topic_options
from goqueue.spark.pipeline.tables import PipelineAnalysis, PipelineTables, analyzed_tables, open_source, tables
from goqueue.spark.queries.query import describe_refusal
from goqueue.spark.reading.plan import ReadPlan, make_plan
from goqueue.spark.source import NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def plan_of(pipeline: Pipeline) -> ReadPlan:
    """Plan what is read, without Spark; raise ConfigInvalid where a topic or the logs do not exist."""
    source = pipeline.source
    try:
        with open_source(source) as logs:
            return make_plan(logs, source.selection, source.start, source.end)
    except GoQueueError as error:
        if pipeline.stream is not None and error.code == "topic_not_found" and source.selection.pattern:
            return ReadPlan(())  # what fits may be created later
        raise pipeline_invalid([Problem(source.origin, "source", error.sentence, error.hint)]) from error


def check(spark: "SparkSession", pipeline: Pipeline) -> PipelineAnalysis:
    """Analyse every query and every sink; `ConfigInvalid` has all that is wrong. No message is read."""
    with analyzed_tables(spark, pipeline) as (made, found):
        problems = list(made.problems)
        for sink in pipeline.sinks:
            schema = made.schema(sink.input)
            if schema is not None:
                problems += sinks.check_sink(spark, pipeline, sink, schema)
    if problems:
        raise pipeline_invalid(problems)
    if pipeline.stream is not None:
        _check_stream(spark, pipeline, found)
    return found


def run(spark: "SparkSession", pipeline: Pipeline, plan: ReadPlan) -> list[SinkResult]:
    """Check, then do it. A stream that does not end by itself is ended by an interruption."""
    found = check(spark, pipeline)
    if pipeline.stream is not None:
        with tables(spark, pipeline, plan, found) as made:
            return stream(pipeline, made)
    rows = _inspect(spark, pipeline, plan)
    with tables(spark, pipeline, plan, replace(found, rows=rows)) as made:
        return [sinks.write_sink(spark, sink, made.frames[sink.input]) for sink in pipeline.sinks]


def _check_stream(spark: "SparkSession", pipeline: Pipeline, found: PipelineAnalysis) -> None:
    with tables(spark, pipeline, ReadPlan(()), found) as made:
        refused = [(sink, stream_refusal(spark, made.frames[sink.input])) for sink in pipeline.sinks]
    problems = [Problem(sink.origin, f"sinks.{sink.name}", said) for sink, said in refused if said is not None]
    if problems:
        raise pipeline_invalid(problems)


def _inspect(spark: "SparkSession", pipeline: Pipeline, plan: ReadPlan) -> dict[str, Sequence[Row]]:
    steps = [step for step in pipeline.steps if isinstance(step, InspectStep)]
    with open_source(pipeline.source) as logs:
        context = PipelineContext(spark, logs, plan)
        return {step.name: context.rows(step) for step in steps}


class PipelineContext(InspectionContext):
    """The source of a pipeline, for its inspections; they use the pipeline's own Spark session."""

    time_range = (None, None)

    def __init__(self, spark: "SparkSession", logs: LogSource, plan: ReadPlan) -> None:
        self._spark = spark
        self._plan = plan
        self.logs = logs
        self.topics = tuple(dict.fromkeys(one.ref[0] for one in plan.ranges))
        self.now_ns = time.time_ns()

    @property
    def plan(self) -> ReadPlan:
        return self._plan

    def plan_of(self, topics: tuple[str, ...]) -> ReadPlan:
        return ReadPlan(tuple(one for one in self._plan.ranges if one.ref[0] in topics))

    @contextmanager
    def session(
        self,
        plan: ReadPlan,  # noqa: ARG002 - a pipeline shows no progress
        *,
        is_brief: bool = True,  # noqa: ARG002
        action: str = "reading",  # noqa: ARG002
    ) -> "Iterator[SparkSession]":
        yield self._spark

    def rows(self, step: InspectStep) -> list[Row]:
        if not self.topics and not step.inspection.has_range:
            return []  # no topic would mean all topics
        return step.inspection.run(self, step.options).rows


_LOOK_SECONDS = 1


class RunningQuery:
    """One query, and what it has done since it was started."""

    def __init__(self, sink: Sink, query: "StreamingQuery") -> None:
        self.sink = sink
        self.query = query
        self._started = time.monotonic()
        self._rows: dict[int, int] = {}

    def look(self) -> None:
        """Record the latest batches. Spark keeps the last hundred only, so this is called repeatedly."""
        for one in self.query.recentProgress:
            told: Any = one.observedMetrics.get(ROWS)
            if told is not None and one.numInputRows:
                self._rows[one.batchId] = int(told[ROWS])

    def delivered(self) -> SinkResult:
        self.look()
        return SinkResult(
            self.sink, sum(self._rows.values()), time.monotonic() - self._started, batches=len(self._rows)
        )


def stream(pipeline: Pipeline, made: PipelineTables) -> list[SinkResult]:
    """Run until all there is has been read, or until it is interrupted. A batch that is cut off is done again later."""
    assert pipeline.stream is not None
    running: list[RunningQuery] = []
    try:
        for sink in pipeline.sinks:
            query = _start(sink, pipeline.stream, made.frames[sink.input])
            running.append(RunningQuery(sink, query))
        while any(one.query.isActive for one in running):
            for one in running:
                one.query.awaitTermination(_LOOK_SECONDS)  # raises what ended it
                one.look()
    finally:
        for one in running:
            with suppress(Exception):  # nor may it hide what ended the others, an interruption above all
                one.query.stop()
    return [one.delivered() for one in running]


def _start(sink: Sink, plan: StreamSchedule, frame: "DataFrame") -> "StreamingQuery":
    watched = frame.observe(ROWS, functions.count(functions.lit(1)).alias(ROWS))
    writer = watched.writeStream.outputMode("append").queryName(sink.name)
    writer = writer.option("checkpointLocation", f"{plan.checkpoint.rstrip('/')}/{sink.name}")
    if plan.available_now:
        writer = writer.trigger(availableNow=True)
    elif plan.every_seconds is not None:
        writer = writer.trigger(processingTime=f"{round(plan.every_seconds * 1000)} milliseconds")
    if isinstance(sink, FileSink):
        writer = writer.format(sink.format).options(**sinks.OPTIONS[sink.format])
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        return writer.start(sink.path)
    assert isinstance(sink, TopicSink)
    return writer.format(NAME).options(**topic_options(sink)).start()


def stream_refusal(spark: "SparkSession", frame: "DataFrame") -> str | None:
    """Return the error with which Spark would refuse to start the query; a Connect server is not asked."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    jvm: Any = spark._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    mode = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    try:
        plan: Any = frame._jdf.queryExecution().analyzed()
        checker.checkForStreaming(plan, mode)
    except AnalysisException as error:
        return describe_refusal(error).sentence
    return None
