"""The source and the steps of a pipeline as tables of a session, each under its own name.

Queries are analysed over a sketch of the source, which reads nothing, and shows which columns are needed. All that is
wrong with them is found before anything is raised.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from goqueue.config.problem import Origin, Problem
from goqueue.errors import GoQueueError
from goqueue.quantities import format_time, quoted
from goqueue.spark.inspections.inspection import Inspection, Row
from goqueue.spark.logs.port import LogSource
from goqueue.spark.pipeline.model import INPUT, InspectStep, LocatedText, Pipeline, PipelineSource, QueryStep
from goqueue.spark.pipeline.sections import suggest
from goqueue.spark.queries.pruning import QuerySketch
from goqueue.spark.queries.query import (
    check_query,
    check_reads_only,
    describe_refusal,
    missing_relation,
    translated_refusals,
)
from goqueue.spark.queries.schemas import parse_schema
from goqueue.spark.queries.tables import RAW_COLUMNS
from goqueue.spark.queries.views import ViewSchema, place_options, read_ranges
from goqueue.spark.reading.plan import ReadBound, ReadPlan, TimePoint
from goqueue.spark.source import NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TIME = pa.timestamp("us", "UTC")
_ARROW = {
    "string": pa.string(),
    "binary": pa.binary(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "timestamp": _TIME,
    "list<string>": pa.list_(pa.string()),
    "list<binary>": pa.list_(pa.binary()),
}
_POSITION = re.compile(r" \(line (\d+), column (\d+)\)$")


@dataclass
class PipelineTables:
    """The frames of the steps, by name."""

    frames: "dict[str, DataFrame]" = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def schema(self, name: str) -> StructType | None:
        """Return the schema of a step; None where its query, or one that it reads, is wrong."""
        frame = self.frames.get(name)
        return None if frame is None else frame.schema

    def add(self, name: str, frame: "DataFrame") -> None:
        frame.createOrReplaceTempView(name)
        self.frames[name] = frame


@dataclass(frozen=True)
class PipelineAnalysis:
    """The columns and inspection rows that are needed before messages are read."""

    shape: ViewSchema
    columns: frozenset[str] | None
    """Those of the source that any sink needs; None is all of them."""
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """What inspections found."""


@contextmanager
def open_source(source: PipelineSource) -> Iterator[LogSource]:
    """Open the logs that a pipeline reads; a broker needs the client and a directory does not."""
    if source.url is not None:
        from goqueue.spark.logs.broker import BrokerLogs  # noqa: PLC0415

        with closing(BrokerLogs(source.url, source.token, isolation=source.isolation)) as logs:
            yield logs
    else:
        from goqueue.spark.logs.directory import DirectoryLogs  # noqa: PLC0415

        assert source.path is not None
        yield DirectoryLogs.at(source.path, isolation=source.isolation)


@contextmanager
def analyzed_tables(spark: "SparkSession", pipeline: Pipeline) -> Iterator[tuple[PipelineTables, PipelineAnalysis]]:
    """Make all steps over a source without messages, and find what they need of the real one."""
    made = PipelineTables()
    shape = ViewSchema(_json_fields(pipeline.source, made))
    with ExitStack() as owned:
        owned.callback(_drop, spark, made)
        sketch = None if _is_remote(spark) else owned.enter_context(QuerySketch(spark))
        frame = spark.createDataFrame([], shape.schema) if sketch is None else sketch.frame(shape.schema)[1]
        made.add(INPUT, _without_raw(pipeline, frame))
        _add_steps(spark, pipeline, made, {})
        columns = None
        if sketch is not None and not made.problems:
            needs = [sketch.needs(f"SELECT * FROM {sink.input}") for sink in pipeline.sinks]  # noqa: S608 - our names
            columns = frozenset(name for need in needs for one in need.values() for name in one.columns)
        yield made, PipelineAnalysis(shape, columns)


@contextmanager
def tables(
    spark: "SparkSession", pipeline: Pipeline, plan: ReadPlan, found: PipelineAnalysis
) -> Iterator[PipelineTables]:
    """Make the source and all steps, to be written from."""
    made = PipelineTables()
    try:
        stored = found.shape.stored(found.shape.columns if found.columns is None else found.columns)
        if pipeline.stream is not None:
            options = _stream_options(pipeline.source)
            frame = spark.readStream.format(NAME).options(columns=",".join(stored), **options).load()
        else:
            with open_source(pipeline.source) as logs:
                frame = read_ranges(spark, logs, plan.ranges, stored, skips_damage=pipeline.source.skips_damage)
        made.add(INPUT, _without_raw(pipeline, found.shape.of(frame, found.columns)))
        _add_steps(spark, pipeline, made, found.rows)
        if made.problems:  # they are found over the sketch, unless the tables have changed since
            raise AssertionError(made.problems)
        yield made
    finally:
        _drop(spark, made)


def inspection_frame(spark: "SparkSession", rows: Sequence[Row], inspection: Inspection) -> "DataFrame":
    table = inspection_table(rows, inspection)
    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def inspection_table(rows: Iterable[Row], inspection: Inspection) -> pa.Table:
    """Make an Arrow table of the rows. Times lose what is finer than a microsecond; a missing field is null."""
    schema = inspection_schema(inspection)
    times = {field.name for field in schema if field.type == _TIME}

    def value(row: Row, name: str) -> Any:
        found = row.get(name)
        return found // 1000 if name in times and found is not None else found

    return pa.Table.from_pylist([{name: value(row, name) for name in schema.names} for row in rows], schema)


def inspection_schema(inspection: Inspection) -> pa.Schema:
    return pa.schema([pa.field(field.name, _ARROW[field.type.arrow]) for field in inspection.stored_fields])


def _drop(spark: "SparkSession", made: PipelineTables) -> None:
    with suppress(Exception):  # a session that was interrupted may not listen any more
        for name in made.frames:
            spark.catalog.dropTempView(name)


def _is_remote(spark: "SparkSession") -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


# --- the source ---


def _json_fields(source: PipelineSource, made: PipelineTables) -> StructType | None:
    if source.json is None:
        return None
    try:
        return parse_schema(source.json.text)
    except GoQueueError as error:
        made.problems.append(Problem(source.json.origin, "source.json", error.sentence, error.hint))
        return None


def _without_raw(pipeline: Pipeline, frame: "DataFrame") -> "DataFrame":
    """Drop the columns that repeat others as bytes, unless a query names them."""
    texts = " ".join(step.sql.text for step in pipeline.steps if isinstance(step, QueryStep)).lower()
    return frame.drop(*(name for name in RAW_COLUMNS if name not in texts))


def _stream_options(source: PipelineSource) -> dict[str, str]:
    selection = source.selection
    with open_source(source) as logs:
        location = place_options(logs)
    chosen = {
        **location,
        "subscribe": ",".join(selection.names) or None,
        "subscribePattern": selection.pattern,
        **_beginning(source.start),
        "failOnDataLoss": "false" if source.skips_damage else None,
    }
    return {name: text for name, text in chosen.items() if text is not None}


def _beginning(bound: ReadBound) -> dict[str, str]:
    if isinstance(bound.otherwise, TimePoint):
        return {"startingTimestamp": format_time(bound.otherwise.time_ns)}
    return {"startingOffsets": str(bound.otherwise)}


# --- steps ---


def _add_steps(
    spark: "SparkSession", pipeline: Pipeline, made: PipelineTables, found: Mapping[str, Sequence[Row]]
) -> None:
    for step in pipeline.steps:
        if isinstance(step, InspectStep):
            made.add(step.name, inspection_frame(spark, found.get(step.name, ()), step.inspection))
            continue
        with translated_refusals():  # it keeps pyspark from writing each refusal to stderr
            problem = _add_query(spark, pipeline, step, made)
        if problem is not None:
            made.problems.append(problem)


def _add_query(spark: "SparkSession", pipeline: Pipeline, step: QueryStep, made: PipelineTables) -> Problem | None:
    try:
        query = check_query(step.sql.text)
        check_reads_only(spark, query)
        frame = spark.sql(query)
        _ = frame.schema  # a server that is elsewhere is asked for its opinion here
        made.add(step.name, frame)
    except (AnalysisException, ParseException) as error:
        return None if _follows(error, made) else _told(error, pipeline, step, made)
    except GoQueueError as error:
        return Problem(step.sql.origin, f"steps.{step.name}", error.sentence, error.hint)
    return None


def _missing(error: Any) -> str | None:
    """Return the name of the missing table that a query reads."""
    parts = missing_relation(error)
    return None if parts is None else ".".join(parts)


def _follows(error: Any, made: PipelineTables) -> bool:
    """Test if an error is only the consequence of an error in an earlier step or the source."""
    wrong = {problem.key.removeprefix("steps.").lower() for problem in made.problems}
    missing = _missing(error)
    return "source.json" in wrong if missing is None else missing.lower() in wrong


def _told(error: Any, pipeline: Pipeline, step: QueryStep, made: PipelineTables) -> Problem:
    refused = describe_refusal(error)
    found = _POSITION.search(refused.sentence)
    sentence, hint, origin = refused.sentence, refused.hint, step.sql.origin
    if found is not None:
        sentence = sentence[: found.start()]
        origin = _place(pipeline, step.sql, int(found[1]), int(found[2]))
    missing = _missing(error)
    if missing is not None:
        sentence, hint = _unknown(missing, pipeline, step, made)
    return Problem(origin, f"steps.{step.name}", sentence, hint)


def _unknown(missing: str, pipeline: Pipeline, step: QueryStep, made: PipelineTables) -> tuple[str, str]:
    if missing.lower() == step.name.lower():
        return "reads itself", "read another step, or input"
    if missing.lower() in {one.name.lower() for one in pipeline.steps}:
        return f"reads {quoted(missing)}, which comes below it", "put it behind the steps that it reads"
    return f"there is no step {quoted(missing)}", suggest(missing, made.frames)


def _place(pipeline: Pipeline, sql: LocatedText, line: int, column: int) -> Origin:
    """Return the place in the file of a place in a query; the start of the query if its lines were folded or filled."""
    written = sql.text.strip().splitlines()
    text = written[line - 1].rstrip() if 0 < line <= len(written) else ""
    start = (sql.origin.line or 1) + line - 1
    for number in range(start, start + 3):  # on the line of its key, or in a block below it
        whole = pipeline.lines[number - 1] if number <= len(pipeline.lines) else ""
        if text and text in whole:
            return Origin("file", sql.origin.name, number, whole.index(text) + column)
    return sql.origin
