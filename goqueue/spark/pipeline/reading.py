"""A pipeline's file read whole: a pipeline, or everything that is wrong with it."""

import fnmatch
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from goqueue.config import document
from goqueue.config.document import Entry
from goqueue.config.problem import Origin, Problem, nearest
from goqueue.quantities import quoted
from goqueue.spark.inspections.catalogue import INSPECTIONS
from goqueue.spark.inspections.parameters import Parameter
from goqueue.spark.logs.port import READ_COMMITTED
from goqueue.spark.options import isolation
from goqueue.spark.pipeline import values
from goqueue.spark.pipeline.destinations import read_sink
from goqueue.spark.pipeline.model import (
    INPUT,
    FileSink,
    Inspect,
    Pipeline,
    Query,
    Sink,
    Source,
    Step,
    Stream,
    TableSink,
    feeds_itself,
    invalid,
)
from goqueue.spark.pipeline.sections import Reading, Section
from goqueue.spark.pipeline.variables import Variables
from goqueue.spark.plan import Selection
from goqueue.spark.points import EARLIEST, LATEST

_ROOT = ("variables", "source", "steps", "sinks", "schedule")
_SOURCE = ("path", "url", "token", "topics", "from", "to", "json", "skip_damage", "isolation")
_STREAM = ("every", "available_now", "checkpoint")


def load(path: str, given: Mapping[str, str], environment: Mapping[str, str], now_ns: int) -> Pipeline:
    """The pipeline, or `ConfigInvalid` with all problems. `given` are values of variables, stronger than the file's."""
    found = document.read(path)
    if found.problems:
        raise invalid([_without_advice(problem) for problem in found.problems])
    origin = Origin("file", path)
    reading = Reading(Variables(given, environment, now_ns))
    root = Section(reading, "", origin, found.entries, _ROOT)
    declared = _declare(reading, root)
    source = _source(root, now_ns)
    stream = _stream(root)
    steps = _steps(root, source, now_ns)
    sinks = _sinks(root, source, steps, is_stream=_is_stream(root))
    _check_given(reading, given, declared)
    if source is None:
        raise invalid(reading.problems)
    lines = tuple(Path(path).read_text(encoding="utf-8-sig").splitlines())
    pipeline = Pipeline(path, source, steps, sinks, stream, lines)
    reading.problems += _shared_targets(pipeline)
    if _is_stream(root):
        reading.problems += _endless(pipeline, root)
    if reading.problems:
        raise invalid(reading.problems)
    return pipeline


def _without_advice(problem: Problem) -> Problem:
    """What a configuration file is advised fits no pipeline."""
    said = problem.sentence
    if said == "does not exist":
        return replace(problem, hint="docs/pipelines.md shows one to start from")
    if "mapping of settings" in said:
        return replace(problem, sentence=said.replace("mapping of settings", "pipeline"), hint="begin with `source:`")
    return problem


def _declare(reading: Reading, root: Section) -> list[str]:
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


def _check_given(reading: Reading, given: Mapping[str, str], declared: list[str]) -> None:
    for name in given:
        known = [*declared, *reading.variables.used]
        if name not in known:
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else None
            reading.refuse(Origin("flag", "--set"), "", f"{quoted(name)} is used nowhere in the pipeline", hint)


# --- source ---


def _source(root: Section, now_ns: int) -> Source | None:
    section = root.section("source", _SOURCE)
    if section is None:
        if "source" not in root:
            root.refuse(None, "has no source", "begin with `source:` and below it `path:` or `url:`")
        return None
    where = section.one_of("path", "url")
    path = section.take("path", values.some)
    url = section.take("url", values.url)
    token = section.take("token", values.some)
    if token is not None and where == "path":
        section.refuse("token", "is of no use for a directory", "remove it")
    read = partial(values.bound, now_ns=now_ns)
    return Source(
        path,
        url,
        token,
        _selection(section.many("topics")),
        section.take("from", read) or EARLIEST,
        section.take("to", read) or LATEST,
        section.placed("json"),
        section.origin,
        section.take("skip_damage", values.switch) or False,
        section.take("isolation", isolation) or READ_COMMITTED,
    )


def _selection(topics: tuple[str, ...]) -> Selection:
    """Names, or with one pattern among them a pattern for all, which topics made later fit as well."""
    if any(character in topic for topic in topics for character in "*?["):
        return Selection(pattern="|".join(fnmatch.translate(topic) for topic in topics))
    return Selection(tuple(dict.fromkeys(topics)))


# --- steps ---


def _steps(root: Section, source: Source | None, now_ns: int) -> tuple[Step, ...]:
    section = root.section("steps", None)
    steps: list[Step] = []
    for name in section or ():
        assert section is not None
        try:
            values.identifier(name)
        except ValueError as error:
            section.refuse(name, str(error))
        if name.lower() in {INPUT, *(step.name.lower() for step in steps)}:
            section.refuse(name, f"is a name that is taken: {quoted(name.lower())}", "give it another one")
        step = _step(section, name, source, now_ns)
        if step is not None:
            steps.append(step)
    return tuple(steps)


def _step(steps: Section, name: str, source: Source | None, now_ns: int) -> Step | None:
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
    return None if sql is None else Query(name, sql)


def _inspect(section: Section, name: str, source: Source | None, now_ns: int) -> Inspect | None:
    chosen = section.take("inspect", lambda text: values.one_of(text, INSPECTIONS, "inspection"))
    if chosen is None:
        return None
    inspection = INSPECTIONS[chosen]
    given: dict[str, Any] = {}
    for key in section:
        if key in inspection.parameters:
            given[key] = _parameter(section, key, inspection.parameters[key], now_ns)
            if key in inspection.of_files and source is not None and source.url is not None:
                section.refuse(key, "is about files, and the source is a broker", "remove it, or read its directory")
        elif key != "inspect":
            section.refuse(key, f"is no parameter of {chosen}", values.advice(key, inspection.parameters))
    if (clash := inspection.clash(given)) is not None:
        section.refuse(clash.parameter, clash.sentence, clash.hint)
    return Inspect(name, inspection, given)


def _parameter(section: Section, key: str, parameter: Parameter, now_ns: int) -> Any:
    read = partial(_read, parameter, now_ns)
    return section.each(key, read) if parameter.is_list else section.take(key, read)


def _read(parameter: Parameter, now_ns: int, text: str) -> Any:
    return parameter.read(text, now_ns)


# --- sinks ---


def _sinks(root: Section, source: Source | None, steps: tuple[Step, ...], *, is_stream: bool) -> tuple[Sink, ...]:
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


def _step_names(root: Section) -> list[str]:
    """Also of those that are wrong, so that one problem is told once."""
    return [entry.key for entry in _entries(root, "steps")]


def _shared_targets(pipeline: Pipeline) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for sink in pipeline.sinks:
        if isinstance(sink, FileSink):
            place = sink.path if "://" in sink.path else os.path.abspath(sink.path)
            if place in seen:
                sentence = f"writes to {quoted(sink.path)}, as {seen[place]} does"
                yield Problem(sink.origin, f"sinks.{sink.name}", sentence, "give each a directory of its own")
            seen.setdefault(place, sink.name)


# --- schedule ---


def _is_stream(root: Section) -> bool:
    return "schedule" in root and root.entry("schedule").shape == "section"


def _stream(root: Section) -> Stream | None:
    if "schedule" not in root:
        return None
    if not _is_stream(root):
        root.take("schedule", lambda text: values.one_of(text, ("once", "streaming"), "schedule"))
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
    return Stream(
        section.take("checkpoint", values.some) or "",
        section.take("every", values.interval),
        section.take("available_now", values.switch) or False,
    )


def _endless(pipeline: Pipeline, root: Section) -> Iterator[Problem]:
    """What a stream cannot have, since it has no end."""
    origins = {entry.key: entry.key_origin for key in ("source", "steps") for entry in _entries(root, key)}
    for step in pipeline.steps:
        if isinstance(step, Inspect):
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


def _entries(root: Section, key: str) -> tuple[Entry, ...]:
    return root.entry(key).entries if key in root else ()
