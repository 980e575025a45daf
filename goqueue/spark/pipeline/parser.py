"""A pipeline's file read whole: a pipeline, or everything that is wrong with it."""

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from goqueue.config import document
from goqueue.config.document import DocumentEntry
from goqueue.config.problem import Origin, Problem
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.spark.inspections.catalog import INSPECTIONS
from goqueue.spark.inspections.inspection import Option
from goqueue.spark.logs.port import READ_COMMITTED
from goqueue.spark.pipeline import sections
from goqueue.spark.pipeline.model import (
    INPUT,
    FileSink,
    InspectStep,
    Pipeline,
    PipelineSource,
    QueryStep,
    Sink,
    Step,
    StreamSchedule,
    TableSink,
    TopicSink,
    WriteMode,
    feeds_itself,
    pipeline_invalid,
)
from goqueue.spark.pipeline.sections import FileContext, PipelineSection, Variables
from goqueue.spark.reading.options import parse_isolation
from goqueue.spark.reading.plan import EARLIEST, LATEST, TopicSelection

_ROOT = ("variables", "source", "steps", "sinks", "schedule")
_SOURCE = ("path", "url", "token", "topics", "from", "to", "json", "skip_damage", "isolation")
_STREAM = ("every", "available_now", "checkpoint")


def load(path: str, given: Mapping[str, str], environment: Mapping[str, str], now_ns: int) -> Pipeline:
    """Parse a pipeline; raise ConfigInvalid with all problems. `given` are values of variables, before the file's."""
    found = document.read(path)
    if found.problems:
        raise pipeline_invalid([_without_advice(problem) for problem in found.problems])
    origin = Origin("file", path)
    reading = FileContext(Variables(given, environment, now_ns))
    root = PipelineSection(reading, "", origin, found.entries, _ROOT)
    declared = _declare(reading, root)
    source = _source(root, now_ns)
    stream = _stream(root)
    steps = _steps(root, source, now_ns)
    sinks = _sinks(root, source, steps, is_stream=_is_stream(root))
    _check_given(reading, given, declared)
    if source is None:
        raise pipeline_invalid(reading.problems)
    lines = tuple(Path(path).read_text(encoding="utf-8-sig").splitlines())
    pipeline = Pipeline(path, source, steps, sinks, stream, lines)
    reading.problems += _shared_targets(pipeline)
    if _is_stream(root):
        reading.problems += _endless(pipeline, root)
    if reading.problems:
        raise pipeline_invalid(reading.problems)
    return pipeline


def _without_advice(problem: Problem) -> Problem:
    """Replace hints that are about configuration files."""
    said = problem.sentence
    if said == "does not exist":
        return replace(problem, hint="docs/pipelines.md shows one to start from")
    if "mapping of settings" in said:
        return replace(problem, sentence=said.replace("mapping of settings", "pipeline"), hint="begin with `source:`")
    return problem


def _declare(reading: FileContext, root: PipelineSection) -> list[str]:
    section = root.section("variables", None)
    for name in section or ():
        assert section is not None
        entry = section.entry(name)
        if entry.shape != "text":
            section.refuse(name, "has no value", "write name: value")
            continue
        try:
            reading.variables.declare(name, entry.text)
        except ValueError as error:
            section.refuse(name, str(error))
    return [] if section is None else list(section)


def _check_given(reading: FileContext, given: Mapping[str, str], declared: list[str]) -> None:
    for name in given:
        known = [*declared, *reading.variables.used]
        if name not in known:
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else None
            reading.refuse(Origin("flag", "--set"), "", f"{quoted(name)} is used nowhere in the pipeline", hint)


# --- source ---


def _source(root: PipelineSection, now_ns: int) -> PipelineSource | None:
    section = root.section("source", _SOURCE)
    if section is None:
        if "source" not in root:
            root.refuse(None, "has no source", "begin with `source:` and below it `path:` or `url:`")
        return None
    where = section.one_of("path", "url")
    path = section.take("path", sections.parse_text)
    url = section.take("url", sections.parse_url)
    token = section.take("token", sections.parse_text)
    if token is not None and where == "path":
        section.refuse("token", "is of no use for a directory", "remove it")
    read = partial(sections.parse_bound, now_ns=now_ns)
    return PipelineSource(
        path,
        url,
        token,
        _selection(section.many("topics")),
        section.take("from", read) or EARLIEST,
        section.take("to", read) or LATEST,
        section.placed("json"),
        section.origin,
        section.take("skip_damage", sections.parse_switch) or False,
        section.take("isolation", parse_isolation) or READ_COMMITTED,
    )


def _selection(topics: tuple[str, ...]) -> TopicSelection:
    """Select names, or patterns, which match topics that are created later as well."""
    if any(character in topic for topic in topics for character in "*?["):
        return TopicSelection(pattern="|".join(fnmatch.translate(topic) for topic in topics))
    return TopicSelection(tuple(dict.fromkeys(topics)))


# --- steps ---


def _steps(root: PipelineSection, source: PipelineSource | None, now_ns: int) -> tuple[Step, ...]:
    section = root.section("steps", None)
    steps: list[Step] = []
    for name in section or ():
        assert section is not None
        try:
            sections.check_identifier(name)
        except ValueError as error:
            section.refuse(name, str(error))
        if name.lower() in {INPUT, *(step.name.lower() for step in steps)}:
            section.refuse(name, f"is a name that is taken: {quoted(name.lower())}", "give it another one")
        step = _step(section, name, source, now_ns)
        if step is not None:
            steps.append(step)
    return tuple(steps)


def _step(steps: PipelineSection, name: str, source: PipelineSource | None, now_ns: int) -> Step | None:
    section = steps.section(name, None)
    if section is None:
        return None
    kind = section.one_of("sql", "inspect")
    if kind == "inspect":
        return _inspect(section, name, source, now_ns)
    for other in section:
        if other not in ("sql", "inspect"):
            section.refuse(other, "is not known here", "a step of SQL has `sql:` alone")
    sql = section.placed("sql") if kind == "sql" else None
    return None if sql is None else QueryStep(name, sql)


def _inspect(section: PipelineSection, name: str, source: PipelineSource | None, now_ns: int) -> InspectStep | None:
    chosen = section.take("inspect", lambda text: sections.check_choice(text, INSPECTIONS, "inspection"))
    if chosen is None:
        return None
    inspection = INSPECTIONS[chosen]
    given: dict[str, Any] = {}
    for key in section:
        if key in inspection.options_by_name:
            given[key] = _option(section, key, inspection.options_by_name[key], now_ns)
            if key in inspection.file_options and source is not None and source.url is not None:
                section.refuse(key, "is about files, and the source is a broker", "remove it, or read its directory")
        elif key != "inspect":
            section.refuse(key, f"is not an option of {chosen}", sections.suggest(key, inspection.options_by_name))
    if (conflict := inspection.conflict(given)) is not None:
        section.refuse(conflict.option, conflict.sentence, conflict.hint)
    return InspectStep(name, inspection, given)


def _option(section: PipelineSection, key: str, option: Option, now_ns: int) -> Any:
    def read(text: str) -> Any:
        return option.read(text, now_ns)

    return section.each(key, read) if option.is_list else section.take(key, read)


# --- sinks ---


def _sinks(
    root: PipelineSection, source: PipelineSource | None, steps: tuple[Step, ...], *, is_stream: bool
) -> tuple[Sink, ...]:
    section = root.section("sinks", None)
    names = [INPUT, *_step_names(root)]
    last = steps[-1].name if steps else INPUT
    found = []
    for name in section or ():
        assert section is not None
        sink = read_sink(section, name, source, names, last, is_stream=is_stream)
        if sink is not None:
            found.append(sink)
    if section is None or not list(section):
        root.refuse("sinks" if section else None, "has no sinks", "name one below `sinks:`, as in `show: {table: 20}`")
    return tuple(found)


def _step_names(root: PipelineSection) -> list[str]:
    """Return the names of all steps, including wrong ones, so that a problem is reported once."""
    return [entry.key for entry in _entries(root, "steps")]


def _shared_targets(pipeline: Pipeline) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for sink in pipeline.sinks:
        if isinstance(sink, FileSink):
            directory = sink.path if "://" in sink.path else os.path.abspath(sink.path)
            if directory in seen:
                sentence = f"writes to {quoted(sink.path)}, as {seen[directory]} does"
                yield Problem(sink.origin, f"sinks.{sink.name}", sentence, "give each a directory of its own")
            seen.setdefault(directory, sink.name)


# --- schedule ---


def _is_stream(root: PipelineSection) -> bool:
    return "schedule" in root and root.entry("schedule").shape == "section"


def _stream(root: PipelineSection) -> StreamSchedule | None:
    if "schedule" not in root:
        return None
    if not _is_stream(root):
        root.take("schedule", lambda text: sections.check_choice(text, ("once", "streaming"), "schedule"))
        if root.entry("schedule").text == "streaming":
            root.refuse("schedule", "streaming needs a checkpoint", "write streaming: with checkpoint: below it")
        return None
    schedule = root.section("schedule", ("streaming",))
    section = schedule.section("streaming", _STREAM) if schedule is not None else None
    if section is None:
        if schedule is not None:
            schedule.refuse("streaming", "needs a checkpoint", "add `checkpoint: PATH` below it")
        return None
    if "checkpoint" not in section:
        section.refuse(None, "has no checkpoint", "add `checkpoint: PATH`: where a stream goes on when it is restarted")
    if "every" in section and "available_now" in section:
        section.refuse("every", "stands beside available_now", "keep one: what ends has no pace")
    return StreamSchedule(
        section.take("checkpoint", sections.parse_text) or "",
        section.take("every", sections.parse_interval),
        section.take("available_now", sections.parse_switch) or False,
    )


def _endless(pipeline: Pipeline, root: PipelineSection) -> Iterator[Problem]:
    """Yield problems of a stream with parts that need an end."""
    origins = {entry.key: entry.key_origin for key in ("source", "steps") for entry in _entries(root, key)}
    for step in pipeline.steps:
        if isinstance(step, InspectStep):
            sentence = "is an inspection, which needs an end to what it looks at"
            yield Problem(origins[step.name], f"steps.{step.name}", sentence, "a stream has steps of SQL")
    for sink in pipeline.sinks:
        if isinstance(sink, TableSink):
            sentence = "is a table, which needs an end to what it shows"
            yield Problem(sink.origin, f"sinks.{sink.name}", sentence, "write to files or a topic")
    for topic in feeds_itself(pipeline):
        sentence = f"writes into {quoted(topic.topic)}, which the source reads: it would never end"
        yield Problem(topic.origin, f"sinks.{topic.name}", sentence, "name another topic")
    if pipeline.source.end != LATEST:
        yield Problem(origins["to"], "source.to", "ends what has no end", "remove it: a stream reads on")


def _entries(root: PipelineSection, key: str) -> tuple[DocumentEntry, ...]:
    return root.entry(key).entries if key in root else ()


_FORMATS = ("parquet", "json", "csv")
_KINDS = (*_FORMATS, "topic", "table")
_MODES = ("fail", "append", "overwrite")
_ALL = (*_KINDS, "input", "mode", "partition_by", "url", "token", "id")
_KEYS = {
    **dict.fromkeys(_FORMATS, ("mode", "partition_by")),
    "topic": ("url", "token", "id"),
    "table": (),
}


def read_sink(
    sinks: PipelineSection,
    name: str,
    source: PipelineSource | None,
    inputs: Sequence[str],
    last: str,
    *,
    is_stream: bool,
) -> Sink | None:
    """Parse a sink; None where too much of it is wrong. `last` is its input unless it names another."""
    try:
        sections.check_sink_name(name)
    except ValueError as error:
        sinks.refuse(name, str(error))
    section = sinks.section(name, _ALL)
    kind = section.one_of(*_KINDS) if section is not None else None
    if section is None or kind is None:
        return None
    for key in section:
        if key not in (*_KINDS, "input", *_KEYS[kind]):
            section.refuse(key, f"is of no use for {kind}", "remove it")
    given = section.take("input", lambda text: sections.check_choice(text, inputs, "step")) or last
    origin = sinks.entry(name).key_origin
    if kind == "table":
        rows = section.take(kind, sections.parse_row_count)
        return None if rows is None else TableSink(name, origin, given, rows)
    target = section.take(kind, sections.parse_text)
    if target is None:
        return None
    if kind == "topic":
        if is_stream and "id" in section:
            section.refuse("id", "is for pipelines that run once: a stream is known by its checkpoint", "remove it")
        return _topic(section, target, source, TopicSink(name, origin, given, target, "", None))
    return FileSink(
        name,
        origin,
        given,
        cast("Literal['parquet', 'json', 'csv']", kind),
        target,
        _mode(section, is_stream=is_stream),
        section.many("partition_by"),
    )


def _topic(section: PipelineSection, topic: str, source: PipelineSource | None, bare: TopicSink) -> TopicSink | None:
    url = section.take("url", sections.parse_url) or (source.url if source is not None else None)
    if url is None:
        if source is not None and "url" not in section:
            section.refuse("topic", "has no broker to go to", "add `url: http://127.0.0.1:8080`")
        return None
    token = section.take("token", sections.parse_text)
    if token is None and source is not None and url == source.url:
        token = source.token
    return TopicSink(bare.name, bare.origin, bare.input, topic, url, token, section.take("id", sections.parse_text))


def _mode(section: PipelineSection, *, is_stream: bool) -> WriteMode:
    mode = section.take("mode", lambda text: sections.check_choice(text, _MODES, "mode"))
    if not is_stream:
        return cast("WriteMode", mode or "fail")
    if mode not in (None, "append"):
        section.refuse("mode", f"{mode} is no way for a stream to write", "write append, or leave it out")
    return "append"
