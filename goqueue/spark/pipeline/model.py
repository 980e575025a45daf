"""A pipeline as it was declared, all of it checked that can be without Spark."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from goqueue.config.problem import Origin, Problem
from goqueue.errors import ConfigInvalid
from goqueue.spark.inspections.inspection import Inspection
from goqueue.spark.logs.port import READ_COMMITTED, Isolation
from goqueue.spark.reading.plan import ReadBound, TopicSelection

INPUT = "input"
"""What queries call the messages of the source."""

WriteMode = Literal["fail", "append", "overwrite"]


@dataclass(frozen=True, slots=True)
class LocatedText:
    """A text, and where in the file it stands."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class PipelineSource:
    """The logs that a pipeline reads."""

    path: str | None
    url: str | None
    token: str | None = field(repr=False)
    selection: TopicSelection
    start: ReadBound
    end: ReadBound
    json: LocatedText | None
    origin: Origin
    skips_damage: bool = False
    isolation: Isolation = READ_COMMITTED


@dataclass(frozen=True, slots=True)
class QueryStep:
    """A step in SQL."""

    name: str
    sql: LocatedText


@dataclass(frozen=True, slots=True)
class InspectStep:
    """A step that asks the source what `goqueue spark-inspect` asks."""

    name: str
    inspection: Inspection
    options: Mapping[str, Any]


Step = QueryStep | InspectStep


@dataclass(frozen=True, slots=True)
class FileSink:
    """Files of a format below a path."""

    name: str
    origin: Origin
    input: str
    format: Literal["parquet", "json", "csv"]
    path: str
    mode: WriteMode
    partition_by: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class TopicSink:
    """A topic of a broker."""

    name: str
    origin: Origin
    input: str
    topic: str
    url: str
    token: str | None = field(repr=False)
    id: str | None = None
    """Under one identity nothing is stored twice, however often it is run."""

    @property
    def target(self) -> str:
        return f"{self.url} {self.topic}"


@dataclass(frozen=True, slots=True)
class TableSink:
    """So many rows for people."""

    name: str
    origin: Origin
    input: str
    rows: int

    @property
    def target(self) -> str:
        return "stdout"


Sink = FileSink | TopicSink | TableSink


@dataclass(frozen=True, slots=True)
class StreamSchedule:
    """The schedule of a pipeline that runs as a stream."""

    checkpoint: str
    every_seconds: float | None
    available_now: bool


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All of it, and the lines it was read from."""

    path: str
    source: PipelineSource
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]
    stream: StreamSchedule | None
    lines: tuple[str, ...] = field(repr=False)


def feeds_itself(pipeline: Pipeline) -> Iterator[TopicSink]:
    """Yield the sinks that write into what the source reads: such a stream never ends."""
    source = pipeline.source
    for sink in pipeline.sinks:
        if isinstance(sink, TopicSink) and sink.url == source.url and _reads(source.selection, sink.topic):
            yield sink


def _reads(selection: TopicSelection, topic: str) -> bool:
    if selection.names:
        return topic in selection.names
    return selection.pattern is None or re.fullmatch(selection.pattern, topic) is not None


def pipeline_invalid(problems: list[Problem]) -> ConfigInvalid:
    """Return an error with all problems, in the order of the file."""
    ordered = sorted(problems, key=lambda one: (one.origin.kind, one.origin.line or 0, one.origin.column or 0))
    if len(ordered) == 1:
        return ConfigInvalid(f"the pipeline has a problem: {ordered[0]}", problems=tuple(ordered))
    sentence = f"the pipeline has {len(ordered)} problems, the first of them: {ordered[0]}"
    return ConfigInvalid(sentence, problems=tuple(ordered))
