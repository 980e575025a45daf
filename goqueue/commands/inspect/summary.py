"""`goqueue spark-inspect summary`: what a log holds."""

from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.texts import in_texts
from goqueue.console import terminal
from goqueue.console.rows import Column, Row
from goqueue.quantities import format_count, format_size


def _short(moment: str) -> str:
    return f"{moment[:19]}Z".replace("T", " ")


_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("MESSAGES", "messages", format_count),
    Column("SIZE", "bytes", format_size),
    Column("SEGMENTS", "segments", format_count),
    Column("OFFSETS", "offsets"),
    Column("FIRST", "first_time", _short),
    Column("LAST", "last_time", _short),
    Column("DAMAGES", "damages", format_count),
    Column("TOMBSTONES", "tombstones", format_count, wide=True),
    Column("WITHOUT KEY", "without_key", format_count, wide=True),
    Column("UNCOMMITTED", "uncommitted", format_count, wide=True),
)


@inquiry_flags
def summary(*, inquiry: Inquiry) -> None:
    """Tell what topics hold, every frame verified.

    \b
      goqueue spark-inspect summary ./goqueue-data
      goqueue spark-inspect summary ./goqueue-data 'orders-*' --from -24h
      goqueue spark-inspect summary --url http://127.0.0.1:8080 orders -o json

    A broker may be at work meanwhile. `verify` names the byte ranges of damage.
    """
    from goqueue.spark.inspections.summary import INSPECTION, Look, rows, summarise  # noqa: PLC0415 - it needs numpy
    from goqueue.spark.jobs import on_each  # noqa: PLC0415

    logs = inquiry.logs()
    plan = inquiry.plan(logs)
    splits = plan.splits(logs)
    with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, plan):
        found = on_each(spark, splits, Look(logs))
    parts = summarise(plan, splits, found)
    inquiry.write([_with_offsets(row) for row in in_texts(rows(parts), INSPECTION.schema)], _COLUMNS)
    inquiry.say_what_was_read(plan)
    if damages := sum(part.holding.damages for part in parts):
        terminal.say(f"{format_count(damages, 'damage')}; `goqueue spark-inspect verify` names the ranges")


def _with_offsets(row: Row) -> Row:
    first, end = row["first_offset"], row["next_offset"]
    return {**row, "offsets": f"{first}-{end - 1}" if end > first else None}
