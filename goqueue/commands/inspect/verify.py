"""`goqueue spark-inspect verify`: whether every frame is what was written."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.console import exits, terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, Row
from goqueue.quantities import format_count, format_size

if TYPE_CHECKING:
    from goqueue.spark.inspections.verify import Fault
    from goqueue.spark.logs.port import Logs
    from goqueue.spark.plan import Plan

_COLUMNS = (
    Column("FINDING", "code", style=lambda row: "bad" if row["damage"] else "moving"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("OFFSETS", "offsets"),
    Column("BYTES", "range"),
    Column("REASON", "reason"),
    Column("FILE", "path"),
    *(Column("", field) for field in ("position", "end", "first_offset", "next_offset", "damage")),
)


@inquiry_flags
def verify(
    *,
    index: Annotated[
        bool, typer.Option("--index", help="Compare each index with what its log says as well: reads twice.")
    ] = False,
    inquiry: Inquiry,
) -> None:
    """Check every frame and its order, and name what is damaged.

    \b
      goqueue spark-inspect verify ./goqueue-data
      goqueue spark-inspect verify ./goqueue-data 'orders-*' --index
      goqueue spark-inspect verify --url http://127.0.0.1:8080 orders -o json

    It tells the byte ranges that `goqueue fsck` tells, and a broker may be at work meanwhile. The exit code is 1
    where messages are damaged or missing, or an index is wrong. Nothing is changed: `goqueue fsck --repair` does that.
    """
    if index and inquiry.url is not None:
        raise UsageInvalid("--index compares files, and --url names a broker", hint="name its data directory instead")
    from goqueue.spark.inspections import gaps  # noqa: PLC0415 - it needs numpy
    from goqueue.spark.inspections.verify import faults_of, in_order, index_faults, rows  # noqa: PLC0415
    from goqueue.spark.jobs import on_each  # noqa: PLC0415
    from goqueue.spark.logs.directory import DirectoryLogs  # noqa: PLC0415

    logs = inquiry.logs(are_whole=True)
    plan = inquiry.plan(logs)
    splits = plan.splits(logs)
    below = gaps.compacted_below(logs, plan)
    with inquiry.spark(is_brief=True) as spark:
        with inquiry.progress(spark, plan, "verifying"):
            traces = on_each(spark, splits, gaps.Look(logs, below))
        faults = _of_files(logs, plan, inquiry)
        if index and isinstance(logs, DirectoryLogs):
            with inquiry.progress(spark, plan, "comparing indexes"):
                faults += index_faults(spark, logs, plan)
    found = gaps.find_gaps(logs, plan, splits, traces, gaps.compacted_below(logs, plan))
    faults = in_order([*faults_of(found), *faults], plan)
    inquiry.write([_with_ranges(row) for row in rows(faults)], _COLUMNS)
    damages = sum(fault.is_damage for fault in faults) + sum(trace.unnamed for trace in traces)
    inquiry.say_what_was_read(plan)
    if inquiry.for_people:
        frames, size = sum(trace.messages for trace in traces), sum(trace.bytes for trace in traces)
        verdict = format_count(damages, "damage") if damages else "no damage"
        terminal.say(f"{format_count(frames, 'frame')}, {format_size(size)} verified: {verdict}")
    if unnamed := sum(trace.unnamed for trace in traces):
        terminal.say(f"{format_count(unnamed, 'gap')} more than can be named one by one")
    if damages:
        raise typer.Exit(exits.FAILED)


def _of_files(logs: "Logs", plan: "Plan", inquiry: Inquiry) -> "list[Fault]":
    from goqueue.spark.inspections.verify import lost_ends  # noqa: PLC0415
    from goqueue.spark.logs.directory import DirectoryLogs  # noqa: PLC0415

    if not isinstance(logs, DirectoryLogs):
        return []
    return lost_ends(logs, plan, is_whole=not inquiry.topics)


def _with_ranges(row: Row) -> Row:
    from goqueue.storage.check import offsets  # noqa: PLC0415

    told = None
    if row["first_offset"] is not None and row["next_offset"] is not None:
        told = offsets(row["first_offset"], row["next_offset"]).partition(" ")[2].replace(" to ", "-")
    return {
        **row,
        "offsets": told,
        "range": None if row["position"] is None else f"{row['position']}-{row['end']}",
    }
