"""`goqueue spark-inspect sizes`: how large messages are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goqueue.commands.inspect.bars import with_bars
from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.plot import PlotFlag, check_plot, plot_bars
from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, Row, write_rows
from goqueue.quantities import format_count, format_size

if TYPE_CHECKING:
    from goqueue.spark.inspections.sizes import TopicSizes

Part = Literal["frame", "value", "key", "headers"]

_PERCENTILES = (50, 90, 95, 99)
_BIGGEST_TOLD = 10

_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("PART", "part"),
    Column("MESSAGES", "messages", format_count),
    Column("MEAN", "mean", lambda size: format_size(round(size))),
    *(Column(f"P{share}", f"p{share}", format_size) for share in _PERCENTILES),
    Column("MAX", "max", format_size),
    Column("TOTAL", "bytes", format_size),
    Column("COMPRESSED", "compressed", format_count, wide=True),
    Column("RATIO", "ratio", lambda ratio: f"{ratio:.2f}", wide=True),
)
_STEP_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("PART", "part"),
    Column("FROM", "from", format_size),
    Column("BELOW", "below", format_size),
    Column("MESSAGES", "messages", format_count),
)
_BIG_COLUMNS = (
    Column("SIZE", "size", format_size),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("OFFSET", "offset"),
    Column("SEGMENT", "segment"),
)


@inquiry_flags
def sizes(
    *,
    histogram: Annotated[
        Part | None,
        typer.Option("--histogram", help="Print how often each size is, by powers of two."),
    ] = None,
    biggest: Annotated[
        int | None, typer.Option("--biggest", metavar="NUMBER", min=1, max=1000, help="Print the largest messages.")
    ] = None,
    plot: PlotFlag = None,
    inquiry: Inquiry,
) -> None:
    """Tell how large messages are: percentiles, histogram, the largest.

    \b
      goqueue spark-inspect sizes ./goqueue-data
      goqueue spark-inspect sizes ./goqueue-data orders --histogram value
      goqueue spark-inspect sizes --url http://127.0.0.1:8080 orders \\
        --biggest 20 -o json

    A person sees the histogram of frames and the ten largest messages as well; programs ask for them by --histogram
    and --biggest. A frame is a message as it stands on disk. Percentiles are exact up to a MiB, and right to a KiB
    above. Values that their producer compressed count as they were sent; RATIO (-o wide) tells how much larger they
    had been.
    """
    if histogram is not None and biggest is not None:
        raise UsageInvalid("--histogram and --biggest are two different tables", hint="ask for one at a time")
    check_plot(plot)
    from goqueue.spark.inspections.sizes import largest, measure, rows, steps  # noqa: PLC0415 - it needs numpy

    logs = inquiry.logs()
    plan = inquiry.plan(logs)
    with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, plan):
        topics, biggest_ones = measure(spark, logs, plan.splits(logs), biggest or _BIGGEST_TOLD)
    if biggest is not None:
        inquiry.write(largest(biggest_ones), _BIG_COLUMNS)
    elif histogram is not None:
        inquiry.write(*with_bars(steps(topics, histogram), _STEP_COLUMNS, "messages", inquiry))
    else:
        inquiry.write(rows(topics), _COLUMNS)
        if inquiry.for_people and topics:
            _write_more(steps(topics, "frame"), largest(biggest_ones), inquiry)
    inquiry.say_what_was_read(plan)
    if inquiry.for_people:
        _say_ratios(topics)
    if plot is not None:
        _plot(plot, topics, histogram or "frame")


def _write_more(steps: Sequence[Row], biggest: Sequence[Row], inquiry: Inquiry) -> None:
    """What a person wants to see as well; programs ask for it."""
    for rows, columns in (with_bars(steps, _STEP_COLUMNS, "messages", inquiry), (biggest, _BIG_COLUMNS)):
        terminal.write("\n")
        write_rows(rows, columns, inquiry.output, headers=inquiry.headers)


def _say_ratios(topics: "list[TopicSizes]") -> None:
    for one in topics:
        if one.ratio is not None:
            terminal.say(
                f"{one.topic}: {format_count(one.compressed, 'value')} compressed, "
                f"{format_size(one.plain_bytes)} to {format_size(one.stored_bytes)}, {one.ratio:.2f} to 1"
            )


def _plot(path: str, topics: "list[TopicSizes]", part: Part) -> None:
    counts: dict[int, int] = {}
    for one in topics:
        for _, below, messages in one.parts[part].histogram():
            counts[below] = counts.get(below, 0) + messages
    ends = sorted(counts)
    labels = [f"below {format_size(end)}" for end in ends]
    plot_bars(path, f"Sizes: {part}", labels, [counts[end] for end in ends], "messages")
