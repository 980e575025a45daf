"""`goqueue spark-inspect latency`: how long messages take."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.plot import PlotFlag, check_plot, plot_lines
from goqueue.commands.inspect.texts import in_texts
from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, Row
from goqueue.quantities import format_count, format_duration, parse_duration, quoted

if TYPE_CHECKING:
    from goqueue.spark.inspections.latency import Found

_Header = Annotated[
    str | None, typer.Option("--header", metavar="NAME", help="The header in which producers tell their own time.")
]
_Field = Annotated[
    str | None, typer.Option("--field", metavar="PATH", help="The field of a JSON value that tells it: order.created.")
]
_Bucket = Annotated[
    str | None, typer.Option("--bucket", metavar="DURATION", help="Over time, in steps as in 1m, 1h or 1d.")
]


def _short(moment: str) -> str:
    return f"{moment[:19]}Z".replace("T", " ")


_COLUMNS = (
    Column("SPAN", "span"),
    Column("TOPIC", "topic"),
    Column("GROUP", "group"),
    Column("MESSAGES", "messages", format_count),
    *(Column(title.upper(), f"{title}_seconds", format_duration) for title in ("p50", "p90", "p99")),
    Column("MAX", "max_seconds", format_duration),
    Column("MEAN", "mean_seconds", format_duration, wide=True),
    Column("MIN", "min_seconds", format_duration, wide=True),
)
_TIME = Column("TIME", "time", _short)


@inquiry_flags
def latency(
    header: _Header = None, field: _Field = None, bucket: _Bucket = None, plot: PlotFlag = None, *, inquiry: Inquiry
) -> None:
    """Tell how long messages take: to the log, and until they are acknowledged.

    \b
      goqueue spark-inspect latency ./goqueue-data orders
      goqueue spark-inspect latency ./goqueue-data orders --header produced_at \\
        --bucket 1h
      goqueue spark-inspect latency --url http://127.0.0.1:8080 orders \\
        --field order.created -o json

    SPAN is publish, from the producer's own time to the log; acknowledge, from the log until a group was done; and
    work, from when a member was handed the message until then. The producer's time is RFC 3339, or a number since 1970
    in s, ms, µs or ns. Percentiles are within 0.05 %. Below zero the producer's clock is ahead. --plot draws the p99 of
    each bucket.
    """
    from goqueue.spark.inspections.latency import INSPECTION, Source, prepare, rows, together  # noqa: PLC0415 - it needs numpy
    from goqueue.spark.jobs import on_each  # noqa: PLC0415

    bucket_ns = _checked(header, field, bucket)
    check_plot(plot)
    if plot is not None and not bucket_ns:
        raise UsageInvalid("--plot draws latencies over time", hint="say in what steps: --bucket 1m")
    logs = inquiry.logs()
    prepared = prepare(logs, inquiry.plan(logs), Source(header, field), bucket_ns)
    plan = prepared.plan
    splits = plan.splits(logs)
    parts = []
    if splits:
        with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, plan):
            parts = on_each(spark, splits, prepared.look)
    found = together(prepared, parts)
    shown = in_texts(rows(found), INSPECTION.schema)
    inquiry.write(shown, _COLUMNS if not bucket_ns else (_TIME, *_COLUMNS))
    inquiry.say_what_was_read(plan)
    _say_the_rest(inquiry, found, header, field)
    if plot is not None:
        _draw(plot, shown)


def _checked(header: str | None, field: str | None, bucket: str | None) -> int:
    """The length of a bucket in nanoseconds; 0 is none."""
    if header is not None and field is not None:
        raise UsageInvalid("--header and --field are two places for one time", hint="name one of them")
    if field is not None and not all(field.split(".")):
        raise UsageInvalid(f"--field: {quoted(field)} is no path", hint="write names with dots between: order.created")
    try:
        seconds = 0.0 if bucket is None else parse_duration(bucket)
    except ValueError as error:
        raise UsageInvalid(f"--bucket: {error}") from None
    if bucket is not None and not seconds:
        raise UsageInvalid("--bucket: steps of no length have no end", hint="write it as in 1m, 1h or 1d")
    return round(seconds * 1_000_000_000)


def _draw(plot: str, rows: Sequence[Row]) -> None:
    """A line for each that is told apart; where nothing ended in a bucket it is at 0."""
    times = sorted({row["time"] for row in rows})
    series: dict[str, list[float]] = {}
    has_topics = len({row["topic"] for row in rows}) > 1
    for row in rows:
        name = " ".join(filter(None, (row["span"], row["topic"] if has_topics else None, row["group"])))
        series.setdefault(name, [0.0] * len(times))[times.index(row["time"])] = row["p99_seconds"]
    plot_lines(plot, "99 of 100 messages took no longer", [_short(time)[5:16] for time in times], series, "s")


def _say_the_rest(inquiry: Inquiry, found: "Found", header: str | None, field: str | None) -> None:
    if not inquiry.for_people:
        return
    where = f"the header {quoted(header)}" if header is not None else f"the field {quoted(field or '')}"
    if found.timeless:
        terminal.say(f"{format_count(found.timeless, 'message')} without a time in {where}")
    if header is None and field is None:
        terminal.say("--header NAME or --field PATH says where producers tell their own time")
    if found.traced:
        terminal.say(f"{format_count(found.traced, 'message')} with a trace (traceparent)")
