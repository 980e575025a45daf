"""`goqueue spark-inspect run`: a pipeline that a file declares."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.commands.inspect.request import OutputFlag, SparkFlags
from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import NoHeadersFlag, expand_flags
from goqueue.console.rows import Column, Row, write_rows
from goqueue.quantities import format_count, format_duration, format_size, quoted

if TYPE_CHECKING:
    from goqueue.config.problem import Problem
    from goqueue.spark.pipeline.model import Pipeline
    from goqueue.spark.pipeline.sinks import SinkResult


def _seconds(seconds: float) -> str:
    return format_duration(round(seconds, 1))


_COLUMNS = (
    Column("SINK", "sink"),
    Column("KIND", "kind"),
    Column("TARGET", "target"),
    Column("ROWS", "rows", format_count),
    Column("FILES", "files", format_count),
    Column("SIZE", "bytes", format_size),
    Column("BATCHES", "batches", format_count, wide=True),
    Column("TIME", "seconds", _seconds),
)


@expand_flags
def run(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE.yaml", help="The file that declares it.")],
    *,
    values: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="The value of ${NAME}; may be repeated.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Find all problems, and read no message.")] = False,
    output: OutputFlag = "table",
    no_headers: NoHeadersFlag = False,
    cluster: SparkFlags,
) -> None:
    """Run a pipeline that a file declares, or find all that is wrong with it.

    \b
      goqueue spark-inspect run daily-usage.yaml
      goqueue spark-inspect run topic-to-lake.yaml --check
      goqueue spark-inspect run dead-letters.yaml --set data=/backup/goqueue \\
        --set lake=s3a://lake/dlq

    All problems of the file, its queries included, are told with line and column before anything is read, and the
    exit code is 2. Values may have ${date}, ${yesterday}, ${env:NAME} and what --set gives. The result is a row for
    each sink. A stream runs until ^C, unless it says available_now, and goes on where it ended when it is started
    again.
    """
    if output == "parquet":
        raise UsageInvalid("the result of a pipeline is not written as Parquet", hint="its sinks are: `parquet: PATH`")
    given = dict(_value(text) for text in values or [])
    from goqueue.errors import ConfigInvalid  # noqa: PLC0415

    try:
        delivered = _run(pipeline, given, cluster, only_check=check)
    except ConfigInvalid as error:
        _say_problems(error.details["problems"])
        raise typer.Exit(exit_codes.USAGE) from error
    if delivered is None:
        terminal.say(f"{pipeline} is fine")
        return
    _write(delivered, output, headers=not no_headers)


def _value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageInvalid(f"--set: {quoted(text)} gives no value", hint="write --set name=value")
    return name, value


def _run(path: str, given: dict[str, str], cluster: SparkFlags, *, only_check: bool) -> "Sequence[SinkResult] | None":
    import os  # noqa: PLC0415

    from goqueue.client import address  # noqa: PLC0415
    from goqueue.clock import SystemClock  # noqa: PLC0415
    from goqueue.console.session import reach  # noqa: PLC0415
    from goqueue.spark.pipeline import parser  # noqa: PLC0415 - it needs numpy

    pipeline = parser.load(path, given, os.environ, SystemClock().now_ns())
    if pipeline.source.url is not None:
        reach(address.parse_all(pipeline.source.url), flag="`url` below `source`")
    with cluster.session(f"goqueue {path}") as spark:
        from goqueue.spark.pipeline import run as running  # noqa: PLC0415 - it needs pyspark

        plan = running.plan_of(pipeline)
        if only_check:
            running.check(spark, pipeline)
            return None
        _say_start(pipeline)
        return running.run(spark, pipeline, plan)


def _say_start(pipeline: "Pipeline") -> None:
    stream = pipeline.stream
    if stream is not None and not stream.available_now:
        terminal.say(f"streaming into {', '.join(sink.target for sink in pipeline.sinks)}; ^C ends it")


def _say_problems(problems: "Sequence[Problem]") -> None:
    terminal.say(*map(str, problems))
    terminal.say(format_count(len(problems), "problem"))


def _write(delivered: "Sequence[SinkResult]", output: str, *, headers: bool) -> None:
    if output in {"table", "wide"}:
        for one in delivered:
            if one.content is not None:
                _show(one.sink.name, one.content, output)
    write_rows([_row(one, output) for one in delivered], _COLUMNS, output, headers=headers)


def _show(name: str, content: Sequence[Row], output: str) -> None:
    fields = list(dict.fromkeys(field for row in content for field in row))
    terminal.write(f"{terminal.escape_unprintable(name)}\n")
    write_rows(content, [Column(field.upper(), field, _text) for field in fields], output)
    terminal.write("\n")


def _text(value: object) -> str:
    from datetime import datetime  # noqa: PLC0415

    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if type(value) is int:
        return format_count(value)
    return terminal.escape_unprintable(str(value))


def _row(one: "SinkResult", output: str) -> Row:
    from goqueue.spark.pipeline.model import FileSink, TopicSink  # noqa: PLC0415

    sink = one.sink
    kind = sink.format if isinstance(sink, FileSink) else "topic" if isinstance(sink, TopicSink) else "table"
    row = {
        "sink": sink.name,
        "kind": kind,
        "target": sink.target,
        "rows": one.rows,
        "files": one.files,
        "bytes": one.bytes,
        "batches": one.batches,
        "seconds": round(one.seconds, 3),
    }
    if one.content is not None and output not in {"table", "wide"}:
        row["content"] = [{field: _plain(value) for field, value in line.items()} for line in one.content]
    return row


def _plain(value: object) -> object:
    """Convert a value to types that JSON has."""
    from datetime import date, datetime  # noqa: PLC0415
    from decimal import Decimal  # noqa: PLC0415

    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (date, Decimal)):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return value
