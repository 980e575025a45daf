"""`goqueue spark-inspect lag`: how far behind groups are."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.console import terminal
from goqueue.console.figures import rate
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, Row
from goqueue.quantities import format_count, format_duration, format_size, parse_duration, parse_time

if TYPE_CHECKING:
    from goqueue.spark.inspections.lag import Lag

_Groups = Annotated[
    list[str] | None, typer.Option("--group", "-g", metavar="NAME", help="Of this group alone; may be repeated.")
]
_Window = Annotated[str, typer.Option("--window", metavar="DURATION", help="What speeds look back.")]
_At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="As of this moment, and not of now: for a copy that is old.")
]

_SOON_SECONDS = 24 * 3600


def _danger(row: Row) -> str:
    soon = row.get("loss_seconds")
    return "bad" if soon is not None and soon < _SOON_SECONDS else ""


_COLUMNS = (
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("COMMITTED", "committed", format_count),
    Column("END", "end", format_count),
    Column("LAG", "messages", format_count),
    Column("SIZE", "bytes", format_size),
    Column("BEHIND", "seconds", format_duration),
    Column("OF RETENTION", "retention_share", lambda share: f"{share:.1%}"),
    Column("LOSES IN", "loss_seconds", format_duration, style=_danger),
    Column("RATE", "rate", rate),
    Column("INCOMING", "incoming", rate),
    Column("DRAINS IN", "drain_seconds", format_duration),
    Column("IN FLIGHT", "in_flight", format_count, wide=True),
    Column("WAITING", "waiting", format_count, wide=True),
    Column("LOST", "lost", format_count, wide=True),
    Column("MEMBER", "member_id", wide=True),
)


@inquiry_flags
def lag(group: _Groups = None, window: _Window = "10m", at: _At = None, *, inquiry: Inquiry) -> None:
    """Tell how far behind groups are, and when retention overtakes them.

    \b
      goqueue spark-inspect lag ./goqueue-data
      goqueue spark-inspect lag ./goqueue-data orders --group billing --window 1h
      goqueue spark-inspect lag --url http://127.0.0.1:8080 -o json

    BEHIND is the age of the oldest message that is not done, OF RETENTION how much of what the topic keeps lies there,
    and LOSES IN when messages go unread if all goes on as in the window: - is never. RATE is what the group has done,
    and DRAINS IN is - where it does not get less or has no members. A broker is asked for its own numbers, whose
    speeds are those of a minute.
    """
    from goqueue.spark.inspections.lag import rows  # noqa: PLC0415 - it needs numpy

    window_seconds, now_ns = _duration(window), _now(at)
    if inquiry.first or inquiry.last:
        raise UsageInvalid("--from and --to choose nothing here", hint="what is left is told; --at chooses the moment")
    found = _of_broker(inquiry, group or []) if inquiry.url else _of_logs(inquiry, group or [], window_seconds, now_ns)
    inquiry.write(rows(found), _COLUMNS)
    if not found and inquiry.for_people:
        terminal.say("no group has read any of these topics")


def _of_broker(inquiry: Inquiry, groups: list[str]) -> "list[Lag]":
    from goqueue.spark.inspections.lag import lags_of_broker  # noqa: PLC0415
    from goqueue.spark.logs.broker import BrokerLogs  # noqa: PLC0415

    assert inquiry.url is not None
    logs = BrokerLogs(inquiry.url, inquiry.token)
    return lags_of_broker(logs, inquiry.selection(logs).names, groups)


def _of_logs(inquiry: Inquiry, groups: list[str], window_seconds: float, now_ns: int) -> "list[Lag]":
    from goqueue.spark.inspections.lag import lags, prepare  # noqa: PLC0415
    from goqueue.spark.jobs import on_each  # noqa: PLC0415

    logs = inquiry.logs()
    selection = inquiry.selection(logs)
    selection.places(logs)  # refuses topics that are not there
    prepared = prepare(logs, selection.names, groups, now_ns=now_ns, window_seconds=window_seconds)
    splits = prepared.plan.splits(logs)
    tallies = []
    if splits:
        with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, prepared.plan):
            tallies = on_each(spark, splits, prepared.look)
    return lags(prepared, splits, tallies, window_seconds)


def _duration(window: str) -> float:
    try:
        seconds = parse_duration(window)
    except ValueError as error:
        raise UsageInvalid(f"--window: {error}") from None
    if not seconds:
        raise UsageInvalid("--window: nothing happens in no time", hint="write it as in 10m or 1h")
    return seconds


def _now(at: str | None) -> int:
    try:
        return time.time_ns() if at is None else parse_time(at)
    except ValueError as error:
        raise UsageInvalid(f"--at: {error}") from None
