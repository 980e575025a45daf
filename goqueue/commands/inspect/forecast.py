"""`goqueue spark-inspect forecast`: how topics grow, and when the disk will be full."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column
from goqueue.quantities import format_count, format_duration, format_size, parse_size, parse_time

if TYPE_CHECKING:
    from goqueue.spark.inspections.forecast import Fullness, Outlook

_Disk = Annotated[
    str | None, typer.Option("--disk", metavar="SIZE", help="What all topics may fill: 500GB. Else what is free there.")
]
_At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="As of this moment, and not of now: for a copy that is old.")
]
_DAYS = 30
_HOUR_SECONDS = 3600

_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("SIZE", "bytes", format_size),
    Column("A DAY", "bytes_per_day", format_size),
    Column("MESSAGES A DAY", "messages_per_day", format_count),
    Column("TREND", "trend"),
    Column("KEPT", "kept"),
    Column("IN BALANCE", "balance_bytes", format_size),
    Column(f"IN {_DAYS} DAYS", "bytes_in_30_days", format_size),
    Column("AT LEAST", "bytes_in_30_days_least", format_size, wide=True),
    Column("AT MOST", "bytes_in_30_days_most", format_size),
    Column("LOOKED AT", "hours", lambda hours: format_duration(hours * _HOUR_SECONDS)),
    Column("FULL IN", "full_seconds", format_duration),
)


@inquiry_flags
def forecast(disk: _Disk = None, at: _At = None, *, inquiry: Inquiry) -> None:
    """Tell how topics grow, and when the disk will be full.

    \b
      goqueue spark-inspect forecast ./goqueue-data
      goqueue spark-inspect forecast ./goqueue-data --disk 500GB
      goqueue spark-inspect forecast --url http://127.0.0.1:8080 --disk 2TB \\
        -o json

    IN BALANCE is the size of a topic once as much goes as comes. TREND is how much more comes each day than the day
    before, and steady where that cannot be told from chance; it takes four whole days, and days of the week differ from
    two weeks on. AT MOST holds in 19 of 20 cases if all goes on so. What compaction will remove is not foreseen.
    """
    from goqueue.spark.inspections.forecast import Look, all_together, free_bytes, fullness, outlooks, rows  # noqa: PLC0415
    from goqueue.spark.inspections.ledger import read_topics  # noqa: PLC0415
    from goqueue.spark.jobs import on_each  # noqa: PLC0415

    size, now_ns = _size(disk), _now(at)
    logs = inquiry.logs()
    plan, topics = inquiry.plan(logs), read_topics(logs)
    splits = plan.splits(logs)
    hours = []
    if splits:
        with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, plan):
            hours = on_each(spark, splits, Look(logs))
    found = outlooks(plan, zip(splits, hours, strict=True), topics, now_ns)
    whole = all_together(found)
    free = free_bytes(logs, size, whole.bytes)
    inquiry.write(rows(found, whole, free), _COLUMNS)
    if inquiry.for_people:
        _say(found, None if free is None else fullness(whole, free), free)


def _size(disk: str | None) -> int | None:
    try:
        return None if disk is None else parse_size(disk)
    except ValueError as error:
        raise UsageInvalid(f"--disk: {error}") from None


def _now(at: str | None) -> int:
    try:
        return time.time_ns() if at is None else parse_time(at)
    except ValueError as error:
        raise UsageInvalid(f"--at: {error}") from None


def _say(found: "list[Outlook]", full: "Fullness | None", free: int | None) -> None:
    from goqueue.spark.inspections.forecast import HOURS_LEAST  # noqa: PLC0415

    little = [one.topic for one in found if one.trend is None]
    if little:
        names = ", ".join(little[:5]) + (", …" if len(little) > 5 else "")
        terminal.say(f"too little to foresee anything of {names}: it takes {HOURS_LEAST} whole hours")
    if free is None:
        terminal.say("--disk SIZE says what may be filled; only the broker knows its disk")
    elif full is not None:
        terminal.say(_verdict(full, free))


def _verdict(full: "Fullness", free: int) -> str:
    beginning = f"{format_size(free)} may yet be filled:"
    if full.likely is None:
        doubt = "" if full.earliest is None else f", though in {_in(full.earliest)} at the worst"
        return f"{beginning} that is not within a year, if all goes on so{doubt}"
    latest = f"{_in(full.latest)} at the best" if full.latest is not None else "not within a year at the best"
    worst = _in(full.earliest) if full.earliest is not None else _in(full.likely)
    return f"{beginning} that is in {_in(full.likely)}, if all goes on so; {worst} at the worst, {latest}"


def _in(hours: int) -> str:
    return format_duration(hours * _HOUR_SECONDS)
