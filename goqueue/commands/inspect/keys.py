"""`goqueue spark-inspect keys`: which keys a log is made of."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.commands.inspect.bars import with_bars
from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.plot import PlotFlag, check_plot, plot_bars
from goqueue.commands.inspect.texts import in_texts
from goqueue.console import terminal
from goqueue.console.rows import Column
from goqueue.quantities import format_count, format_size

if TYPE_CHECKING:
    from goqueue.spark.inspections.keys import KeyCounts


def percent(share: float) -> str:
    """As many digits as tell something."""
    if 0 < share < 0.0001:
        return "<0.01%"
    return f"{share:.1%}" if share >= 0.1 else f"{share:.2%}"


_COLUMNS = (
    Column("KEY", "key"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("MESSAGES", "messages", format_count),
    Column("SHARE", "share", percent),
    Column("SIZE", "bytes", format_size),
    Column("TOMBSTONES", "tombstones", format_count, wide=True),
    Column("PARTITIONS", "partitions", format_count, wide=True),
)


@inquiry_flags
def keys(
    *,
    top: Annotated[
        int, typer.Option("--top", metavar="NUMBER", min=1, max=100_000, help="How many keys are printed.")
    ] = 20,
    approx: Annotated[
        bool, typer.Option("--approx", help="Estimate: in bounded memory, whatever the number of keys.")
    ] = False,
    plot: PlotFlag = None,
    inquiry: Inquiry,
) -> None:
    """Tell which keys there are, and which are hot.

    \b
      goqueue spark-inspect keys ./goqueue-data orders
      goqueue spark-inspect keys ./goqueue-data orders --top 100 -o csv
      goqueue spark-inspect keys --url http://127.0.0.1:8080 orders --approx

    A key that is no text is shown as 0x and hexadecimal digits. The share is that of all messages read, those
    without a key included. With --approx the number of keys is right to some 2 %, and a key that is frequent is
    counted right or, where there are very many, a little too low. `skew` tells what hot keys do to partitions.
    """
    check_plot(plot)
    from goqueue.spark.inspections.keys import INSPECTION, count_keys, rows  # noqa: PLC0415 - it needs numpy

    logs = inquiry.logs()
    plan = inquiry.plan(logs)
    with inquiry.spark() as spark, inquiry.progress(spark, plan):
        found = count_keys(spark, logs, plan.splits(logs), top, approx=approx)
    shown = in_texts(rows(found), INSPECTION.schema)
    inquiry.write(*with_bars(shown, _COLUMNS, "messages", inquiry))
    inquiry.say_what_was_read(plan)
    if inquiry.for_people and found.messages:
        _say_sums(found)
    if plot is not None:
        title = f"Messages of the {format_count(len(shown), 'most frequent key')}"
        plot_bars(plot, title, [row["key"] for row in shown], [row["messages"] for row in shown], "messages")


def _say_sums(found: "KeyCounts") -> None:
    about = "about " if found.is_estimate else ""
    shown = sum(one.messages for one in found.top)
    terminal.say(
        f"{format_count(found.messages, 'message')} with {about}{format_count(found.distinct, 'different key')}; "
        f"{percent(shown / found.messages)} of them have the keys above",
        f"{format_count(found.without_key, 'message')} without a key, {format_count(found.tombstones, 'tombstone')}",
    )
    hottest = found.hottest
    if hottest is not None and len(found.partitions) > 1:
        share = percent(hottest.messages / found.messages)
        terminal.say(f"the hottest partition is {hottest.topic}/{hottest.partition}, with {share} of the messages")
