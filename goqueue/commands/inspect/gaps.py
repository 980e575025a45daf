"""`goqueue spark-inspect gaps`: which offsets are missing, and what stands in the log twice."""

from typing import Annotated

import typer

from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.texts import in_texts
from goqueue.console import exits, terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, Row
from goqueue.quantities import format_count, format_size

_STYLES = {"compacted": "faint", "removed": "faint"}
_COLUMNS = (
    Column("WHAT", "what", lambda what: what.replace("_", " "), style=lambda row: _STYLES.get(row["what"], "bad")),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("FIRST", "first_offset"),
    Column("LAST", "last_offset"),
    Column("OFFSETS", "count", format_count),
    Column("EXPLAINED", "explained", lambda explained: "yes" if explained else "no"),
    Column("REASON", "reason"),
    Column("FILE", "path", wide=True),
    *(Column("", field) for field in ("next_offset", "position", "end")),
)
_CONTENT_COLUMNS = (
    Column("COPIES", "copies", format_count),
    Column("TOPIC", "topic"),
    Column("KEY", "key"),
    Column("VALUE", "value_bytes", format_size),
    Column("FIRST AT", "first"),
    Column("LAST AT", "last"),
    Column("FIRST TIME", "first_time", lambda moment: moment[:23].replace("T", " ")),
    Column("LAST TIME", "last_time", lambda moment: moment[:23].replace("T", " ")),
    *(Column("", field) for field in ("first_partition", "first_offset", "last_partition", "last_offset")),
)


@inquiry_flags
def gaps(
    *,
    most: Annotated[
        int, typer.Option("--max", metavar="NUMBER", min=1, max=1_000_000, help="Print so many rows at most.")
    ] = 100,
    content: Annotated[
        bool, typer.Option("--content", help="Find messages with the same key and value instead.")
    ] = False,
    inquiry: Inquiry,
) -> None:
    """Find missing offsets, broken order and what was published twice.

    \b
      goqueue spark-inspect gaps ./goqueue-data
      goqueue spark-inspect gaps ./goqueue-data orders --max 1000 -o csv
      goqueue spark-inspect gaps --url http://127.0.0.1:8080 orders --content

    Compaction and retention explain gaps; what they do not explain comes first where --max cuts, and makes the exit
    code 1. Of a topic that a broker compacts, all gaps below its last segment count as explained. An offset that
    stands twice, and times that fall, are told as damage: no reader takes them.
    """
    if content:
        return _contents(most, inquiry)
    from goqueue.spark.inspections.gaps import Look, compacted_below, find_gaps, rows  # noqa: PLC0415 - it needs numpy
    from goqueue.spark.jobs import on_each  # noqa: PLC0415

    logs = inquiry.logs(are_whole=True)
    plan = inquiry.plan(logs)
    splits = plan.splits(logs)
    below = compacted_below(logs, plan)
    with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, plan):
        traces = on_each(spark, splits, Look(logs, below))
    found = find_gaps(logs, plan, splits, traces, compacted_below(logs, plan))
    chosen = rows(found, most)
    inquiry.write(chosen, _COLUMNS)
    inquiry.say_what_was_read(plan)
    unnamed = sum(trace.unnamed + trace.unnamed_compacted for trace in traces)
    if left := len(found) - len(chosen) + unnamed:
        terminal.say(f"{format_count(left, 'row')} more; --max prints up to {most + left}")
    losses = sum(not gap.is_explained for gap in found) + sum(trace.unnamed for trace in traces)
    if inquiry.for_people:
        explained = len(found) + unnamed - losses
        terminal.say(f"{format_count(losses, 'gap')} that nothing explains, {explained:,} explained")
    if losses:
        raise typer.Exit(exits.FAILED)
    return None


def _contents(most: int, inquiry: Inquiry) -> None:
    from goqueue.spark.inspections.repeats import REPEATS_MAX, SCHEMA, find_repeats, rows  # noqa: PLC0415

    if most > REPEATS_MAX:
        raise UsageInvalid(f"--content names {REPEATS_MAX:,} at most", hint="take a smaller --max")

    logs = inquiry.logs()
    plan = inquiry.plan(logs)
    with inquiry.spark() as spark, inquiry.progress(spark, plan):
        found = find_repeats(spark, logs, plan, plan.splits(logs), most)
    inquiry.write([_with_places(row) for row in in_texts(rows(found.most), SCHEMA)], _CONTENT_COLUMNS)
    inquiry.say_what_was_read(plan)
    if inquiry.for_people:
        terminal.say(
            f"{format_count(found.contents, 'content')} published more than once: "
            f"{format_count(found.copies, 'message')} more than there need be"
        )


def _with_places(row: Row) -> Row:
    return {**row, **{end: f"{row[f'{end}_partition']}/{row[f'{end}_offset']}" for end in ("first", "last")}}
