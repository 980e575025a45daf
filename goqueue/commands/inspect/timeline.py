"""`goqueue spark-inspect timeline`: when messages came."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goqueue.clock import NANOSECONDS
from goqueue.commands.inspect.bars import with_bars
from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.plot import PlotFlag, check_plot, plot_lines
from goqueue.console import terminal
from goqueue.console.figures import rate, size_rate
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, Row
from goqueue.quantities import DURATION_UNITS, format_count, format_duration, format_size, format_time, parse_duration

if TYPE_CHECKING:
    from goqueue.spark.inspections.timeline import Bucket, Group, Silence
    from goqueue.spark.logs.port import Logs
    from goqueue.spark.plan import Plan

By = Literal["topic", "partition", "priority"]

_FIELDS: dict[By | None, tuple[str, ...]] = {
    None: (),
    "topic": ("topic",),
    "partition": ("topic", "partition"),
    "priority": ("priority",),
}
_GROUP_COLUMNS = {field: Column(field.upper(), field) for field in ("topic", "partition", "priority")}
_BUCKET_NS_MIN = DURATION_UNITS["ms"]
_SILENCES_TOLD = 3


@inquiry_flags
def timeline(
    *,
    bucket: Annotated[
        str | None,
        typer.Option("--bucket", metavar="DURATION", help="Of one line, as in 1m; fitting without it."),
    ] = None,
    by: Annotated[By | None, typer.Option("--by", help="A timeline for each of these.")] = None,
    plot: PlotFlag = None,
    inquiry: Inquiry,
) -> None:
    """When did messages come, how many at the peak, and when none? Messages and bytes over time.

    \b
      goqueue spark-inspect timeline ./goqueue-data orders
      goqueue spark-inspect timeline ./goqueue-data --from -24h --bucket 15m --by topic
      goqueue spark-inspect timeline --url http://127.0.0.1:8080 orders --plot orders.svg

    The time of a message is when the broker took it; lines begin at whole multiples of the bucket, in UTC. The peak
    is the busiest second in a line. Lines without messages are there as well.
    """
    wanted = _bucket(bucket)
    check_plot(plot)
    from goqueue.spark.inspections.timeline import buckets, filled, silences  # noqa: PLC0415 - it needs numpy

    logs = inquiry.logs()
    plan = inquiry.plan(logs)
    width = _fitting(logs, plan, wanted)
    with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, plan):
        found = buckets(spark, logs, plan.splits(logs), width, by)
    lines = filled(found, width)
    rows = [_row(one, width, by) for one in lines]
    inquiry.write(*with_bars(rows, _columns(width, by), "messages", inquiry))
    inquiry.say_what_was_read(plan)
    if inquiry.for_people and found:
        _say_peaks(found, width)
        _say_silences(silences(found, width))
    if plot is not None:
        _plot(plot, lines, width)


def _bucket(text: str | None) -> int | None:
    """In nanoseconds."""
    if text is None:
        return None
    try:
        found = round(parse_duration(text) * NANOSECONDS)
    except ValueError as error:
        raise UsageInvalid(f"--bucket: {error}", hint="write it as in --bucket 15m") from None
    if found < _BUCKET_NS_MIN:
        raise UsageInvalid(f"--bucket {text} is too short", hint="the shortest is 1ms")
    return found


def _fitting(logs: "Logs", plan: "Plan", wanted: int | None) -> int:
    """The bucket that was asked for, if it does not make too many lines; or one that makes a good picture."""
    from goqueue.spark.inspections.timeline import BUCKETS_MAX, bucket_for, count_buckets, span  # noqa: PLC0415

    ends = span(logs, plan)
    if ends is None:
        return wanted or NANOSECONDS
    if wanted is not None and (count := count_buckets(*ends, wanted)) > BUCKETS_MAX:
        fitting = format_duration(bucket_for(*ends) / NANOSECONDS)
        raise UsageInvalid(
            f"this makes {count:,} lines, {BUCKETS_MAX:,} is the most",
            hint=f"take a longer --bucket, such as {fitting}, or less time with --from and --to",
        )
    return wanted or bucket_for(*ends)


def _columns(width: int, by: By | None) -> list[Column]:
    """A date only where there is more than one day, and no digits that are always zero."""

    def moment(text: str) -> str:
        seconds = text[:19].replace("T", " ")
        if width % NANOSECONDS:
            return f"{seconds}{text[19:23]}"
        return seconds if width % DURATION_UNITS["m"] else seconds[:16] if width % DURATION_UNITS["d"] else seconds[:10]

    return [
        *(_GROUP_COLUMNS[field] for field in _FIELDS[by]),
        Column("TIME", "start", moment),
        Column("MESSAGES", "messages", format_count),
        Column("RATE", "rate", rate),
        Column("PEAK", "peak_rate", rate),
        Column("SIZE", "bytes", format_size),
        Column("BYTES/S", "byte_rate", size_rate, wide=True),
        *(Column("", field) for field in ("seconds", "peak_time")),
    ]


def _row(one: "Bucket", width: int, by: By | None) -> Row:
    seconds = width / NANOSECONDS
    return {
        **dict(zip(_FIELDS[by], one.group, strict=True)),
        "start": format_time(one.start),
        "seconds": seconds,
        "messages": one.messages,
        "bytes": one.bytes,
        "rate": one.messages / seconds,
        "byte_rate": one.bytes / seconds,
        "peak_rate": _peak_rate(one, width),
        "peak_time": None if one.peak_time is None else format_time(one.peak_time),
    }


def _peak_rate(one: "Bucket", width: int) -> float:
    from goqueue.spark.inspections.timeline import unit_of  # noqa: PLC0415

    return one.peak * NANOSECONDS / unit_of(width)


def _say_peaks(found: "Sequence[Bucket]", width: int) -> None:
    busiest = max(found, key=lambda one: one.peak)
    if busiest.peak_time is not None:
        terminal.say(
            f"busiest{_of(busiest.group)}: {rate(_peak_rate(busiest, width))} at {_clock(busiest.peak_time)}; "
            f"a line is {format_duration(width / NANOSECONDS)}"
        )


def _say_silences(quiet: "Sequence[Silence]") -> None:
    for one in quiet[:_SILENCES_TOLD]:
        length = format_duration((one.end - one.start) / NANOSECONDS)
        terminal.say(f"nothing{_of(one.group)} for {length}: from {_clock(one.start)} to {_clock(one.end)}")
    if len(quiet) > _SILENCES_TOLD:
        terminal.say(f"and {format_count(len(quiet) - _SILENCES_TOLD, 'shorter silence')}")


def _of(group: "Group") -> str:
    return f" of {_name(group)}" if group else ""


def _name(group: "Group") -> str:
    return "/".join(map(str, group))


def _clock(time_ns: int) -> str:
    return f"{format_time(time_ns)[:19]}Z".replace("T", " ")


def _plot(path: str, lines: "Sequence[Bucket]", width: int) -> None:
    series: dict[str, list[float]] = {}
    for one in lines:
        series.setdefault(_name(one.group) or "all", []).append(one.messages * NANOSECONDS / width)
    starts = sorted({one.start for one in lines})
    plot_lines(path, "Messages over time", [_clock(start)[:-1] for start in starts], series, "messages/s")
