"""`goqueue spark-inspect timeline`: when messages came."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goqueue.clock import NANOSECONDS
from goqueue.commands.inspect.bars import with_bars
from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.plot import PlotFlag, check_plot, plot_lines
from goqueue.commands.inspect.texts import in_texts
from goqueue.console import terminal
from goqueue.console.figures import rate, size_rate
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column
from goqueue.quantities import DURATION_UNITS, format_count, format_duration, format_size, format_time, parse_duration

if TYPE_CHECKING:
    from goqueue.spark.inspections.timeline import Bucket, Group, Silence

By = Literal["topic", "partition", "priority"]

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
    """Tell when messages came, the peak and the silences.

    \b
      goqueue spark-inspect timeline ./goqueue-data orders
      goqueue spark-inspect timeline ./goqueue-data --from -24h --bucket 15m \\
        --by topic
      goqueue spark-inspect timeline --url http://127.0.0.1:8080 orders \\
        --plot orders.svg

    The time of a message is when the broker took it; lines begin at whole multiples of the bucket, in UTC. The peak
    is the busiest second in a line. Lines without messages are there as well.
    """
    wanted = _bucket(bucket)
    check_plot(plot)
    from goqueue.spark.inspections.timeline import GROUPS, INSPECTION, buckets, filled, fitting, rows, silences, span  # noqa: PLC0415

    logs = inquiry.logs()
    plan = inquiry.plan(logs)
    ends = span(logs, plan)
    width = fitting(ends, wanted) if ends is not None else wanted or NANOSECONDS
    with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, plan):
        found = buckets(spark, logs, plan.splits(logs), width, by)
    lines = filled(found, width)
    shown = in_texts(rows(lines, width, by), INSPECTION.schema)
    inquiry.write(*with_bars(shown, _columns(GROUPS[by], width), "messages", inquiry))
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


def _columns(groups: Sequence[str], width: int) -> list[Column]:
    """A date only where there is more than one day, and no digits that are always zero."""

    def moment(text: str) -> str:
        seconds = text[:19].replace("T", " ")
        if width % NANOSECONDS:
            return f"{seconds}{text[19:23]}"
        return seconds if width % DURATION_UNITS["m"] else seconds[:16] if width % DURATION_UNITS["d"] else seconds[:10]

    return [
        *(_GROUP_COLUMNS[field] for field in groups),
        Column("TIME", "start", moment),
        Column("MESSAGES", "messages", format_count),
        Column("RATE", "rate", rate),
        Column("PEAK", "peak_rate", rate),
        Column("SIZE", "bytes", format_size),
        Column("BYTES/S", "byte_rate", size_rate, wide=True),
        *(Column("", field) for field in ("seconds", "peak_time")),
    ]


def _say_peaks(found: "Sequence[Bucket]", width: int) -> None:
    from goqueue.spark.inspections.timeline import peak_rate  # noqa: PLC0415

    busiest = max(found, key=lambda one: one.peak)
    if busiest.peak_time is not None:
        terminal.say(
            f"busiest{_of(busiest.group)}: {rate(peak_rate(busiest, width))} at {_clock(busiest.peak_time)}; "
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
