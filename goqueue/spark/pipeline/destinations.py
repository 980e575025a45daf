"""The sinks of a pipeline as its file declares them."""

from collections.abc import Sequence
from typing import Literal, cast

from goqueue.spark.pipeline import values
from goqueue.spark.pipeline.model import FileSink, Mode, Sink, Source, TableSink, TopicSink
from goqueue.spark.pipeline.sections import Section

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
    sinks: Section, name: str, source: Source | None, inputs: Sequence[str], last: str, *, is_stream: bool
) -> Sink | None:
    """One of them; None where too much of it is wrong. `last` is what it is given unless it says otherwise."""
    try:
        values.sink_name(name)
    except ValueError as error:
        sinks.refuse(name, str(error))
    section = sinks.section(name, _ALL)
    kind = section.one_of(*_KINDS) if section is not None else None
    if section is None or kind is None:
        return None
    for key in section:
        if key not in (*_KINDS, "input", *_KEYS[kind]):
            section.refuse(key, f"is of no use for {kind}", "remove it")
    given = section.take("input", lambda text: values.one_of(text, inputs, "step")) or last
    origin = sinks.entry(name).key_origin
    if kind == "table":
        rows = section.take(kind, values.rows)
        return None if rows is None else TableSink(name, origin, given, rows)
    target = section.take(kind, values.some)
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


def _topic(section: Section, topic: str, source: Source | None, bare: TopicSink) -> TopicSink | None:
    url = section.take("url", values.url) or (source.url if source is not None else None)
    if url is None:
        if source is not None and "url" not in section:
            section.refuse("topic", "has no broker to go to", "add `url: http://127.0.0.1:8080`")
        return None
    token = section.take("token", values.some)
    if token is None and source is not None and url == source.url:
        token = source.token
    return TopicSink(bare.name, bare.origin, bare.input, topic, url, token, section.take("id", values.some))


def _mode(section: Section, *, is_stream: bool) -> Mode:
    mode = section.take("mode", lambda text: values.one_of(text, _MODES, "mode"))
    if not is_stream:
        return cast("Mode", mode or "fail")
    if mode not in (None, "append"):
        section.refuse("mode", f"{mode} is no way for a stream to write", "write append, or leave it out")
    return "append"
