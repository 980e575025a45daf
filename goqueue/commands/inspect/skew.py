"""`goqueue spark-inspect skew`: how evenly messages lie over partitions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.commands.inspect.bars import with_bars
from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.keys import percent
from goqueue.commands.inspect.texts import in_texts, key_text
from goqueue.console import terminal
from goqueue.console.rows import Column, Row
from goqueue.quantities import format_count, format_size

if TYPE_CHECKING:
    from goqueue.spark.inspections.skew import Share, Spread

_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("MESSAGES", "messages", format_count),
    Column("SHARE", "share", percent),
    Column("SIZE", "bytes", format_size),
    Column("OF MEAN", "of_mean", lambda times: f"{times:.2f}"),
    Column("HOTTEST KEY", "hot_key"),
    Column("ITS SHARE", "hot_key_share", percent),
    *(Column("", field) for field in ("tombstones", "without_key", "hot_keys", "max_to_mean", "gini", "verdict")),
)


@inquiry_flags
def skew(*, inquiry: Inquiry) -> None:
    """Tell how unevenly messages lie over partitions, and why.

    \b
      goqueue spark-inspect skew ./goqueue-data
      goqueue spark-inspect skew ./goqueue-data 'orders-*' --from -24h
      goqueue spark-inspect skew --url http://127.0.0.1:8080 orders -o json

    OF MEAN is how many times the mean a partition holds. The Gini coefficient is 0 where all partitions hold the same
    number of messages, and nearly 1 where one holds all of them. The share of a key is that of its partition.
    """
    from goqueue.spark.inspections.skew import INSPECTION, rows, spreads  # noqa: PLC0415 - it needs numpy

    logs = inquiry.logs()
    plan = inquiry.plan(logs)
    with inquiry.spark() as spark, inquiry.progress(spark, plan):
        found = spreads(spark, logs, plan, plan.splits(logs))
    told = {(one.topic, one.hottest.counts.partition): verdict(one) for one in found}
    shown = [_with_words(row, told) for row in in_texts(rows(found), INSPECTION.schema)]
    inquiry.write(*with_bars(shown, _COLUMNS, "messages", inquiry))
    inquiry.say_what_was_read(plan)
    if inquiry.for_people:
        terminal.say(*(f"{spread.topic}: {verdict(spread)}" for spread in found))


def verdict(spread: "Spread") -> str:
    """What to think of it, in a sentence."""
    from goqueue.spark.inspections.skew import SKEWED  # noqa: PLC0415

    if not spread.messages:
        return "no messages"
    if len(spread.shares) == 1:
        return "a single partition, so nothing can be uneven"
    hottest = spread.hottest
    figures = f"max/mean {spread.max_to_mean:.2f}, Gini {spread.gini:.2f}"
    if spread.max_to_mean < SKEWED:
        return f"even ({figures})"
    found = f"partition {hottest.counts.partition} has {spread.max_to_mean:.1f} times the mean ({figures})"
    return f"{found}; {_cause(hottest)}"


def _cause(hottest: "Share") -> str:
    messages, keys = hottest.counts.messages, hottest.keys
    if not keys or hottest.counts.without_key > messages / 2:
        return f"{percent(hottest.counts.without_key / messages)} of it have no key"
    first, *others = keys
    also = "".join(f", {key_text(one.key)} {percent(one.messages / messages)}" for one in others)
    return f"key {key_text(first.key)} makes {percent(first.messages / messages)} of it{also}"


def _with_words(row: Row, verdicts: Mapping[tuple[str, int], str]) -> Row:
    """Each topic's verdict stands with its hottest partition."""
    keys = ", ".join(map(key_text, row["hot_keys"]))
    return {**row, "hot_keys": keys or None, "verdict": verdicts.get((row["topic"], row["partition"]))}
