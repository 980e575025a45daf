"""`goqueue spark-inspect usage`: who writes and reads how much."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.texts import in_texts
from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, Row
from goqueue.quantities import format_count, format_size

if TYPE_CHECKING:
    from goqueue.spark.inspections.usage import Count, Reading

_By = Annotated[
    Literal["topic", "partition", "producer", "group"],
    typer.Option("--by", help="Whose use is told; group is what was read."),
]
_Header = Annotated[
    str | None, typer.Option("--by-header", metavar="NAME", help="Tell apart what this header says, as in tenant.")
]
_Per = Annotated[Literal["day", "hour"] | None, typer.Option("--per", help="Over time, in days or hours of UTC.")]


def _columns(by: str, header: str | None, per: str | None) -> tuple[Column, ...]:
    whose = {"partition": [Column("PARTITION", "partition")], "producer": [Column("PRODUCER", "producer")]}.get(by, [])
    return (
        *([Column(per.upper(), per, lambda text: text[: 10 if per == "day" else 16].replace("T", " "))] if per else []),
        *([Column("GROUP", "group")] if by == "group" else []),
        Column("TOPIC", "topic"),
        *whose,
        *([Column(header.upper(), header)] if header else []),
        *(_READ if by == "group" else _WRITTEN),
    )


_WRITTEN = (
    Column("MESSAGES", "messages", format_count),
    Column("SIZE", "bytes", format_size),
    Column("KEYS AND VALUES", "payload_bytes", format_size),
)
_READ = (
    Column("ACKNOWLEDGED", "acknowledged", format_count),
    Column("DEAD LETTERS", "dead_letters", format_count),
)


@inquiry_flags
def usage(by: _By = "topic", by_header: _Header = None, per: _Per = None, *, inquiry: Inquiry) -> None:
    """Tell who writes and reads how much.

    \b
      goqueue spark-inspect usage ./goqueue-data --per day
      goqueue spark-inspect usage ./goqueue-data orders --by-header tenant \\
        --per day -o csv
      goqueue spark-inspect usage --url http://127.0.0.1:8080 --by producer \\
        --from -24h
      goqueue spark-inspect usage ./goqueue-data --by group

    SIZE is whole messages as they stand on disk. A PRODUCER is the id that it got for its retries; - are messages that
    were published without one. What groups have read is told by their log, which forgets: it is said since when.
    """
    if by == "group":
        if by_header is not None:
            raise UsageInvalid("--by-header tells of messages, --by group of what was read", hint="leave one out")
        _usage_of_groups(inquiry, per)
        return
    from goqueue.spark.inspections.usage import INSPECTION, Wish, rows  # noqa: PLC0415 - it needs numpy
    from goqueue.spark.inspections.usage import usage as find  # noqa: PLC0415

    logs = inquiry.logs()
    plan = inquiry.plan(logs)
    found = []
    if plan.messages:
        with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, plan):
            found = find(spark, logs, plan, Wish(by, by_header, per))
    shown = in_texts(rows(found), INSPECTION.schema)
    inquiry.write([_row(row, by, by_header, per) for row in shown], _columns(by, by_header, per))
    inquiry.say_what_was_read(plan)


def _usage_of_groups(inquiry: Inquiry, per: Literal["day", "hour"] | None) -> None:
    from goqueue.console.places import parse_end, parse_start  # noqa: PLC0415
    from goqueue.quantities import format_time  # noqa: PLC0415
    from goqueue.spark.inspections.usage import Wish, consumption  # noqa: PLC0415

    first, end = _moment("--from", inquiry.first, parse_start), _moment("--to", inquiry.last, parse_end)
    logs = inquiry.logs()
    topics = list(dict.fromkeys(topic for topic, _ in inquiry.selection(logs).places(logs)))
    found, since_ns = consumption(logs, topics, Wish("topic", per=per), first, end)
    inquiry.write([_reading(reading, count, per) for reading, count in found.items()], _columns("group", None, per))
    if since_ns is not None:
        terminal.say(f"what was read before {format_time(since_ns)[:19]}Z is not in the log any more, at least in part")


def _moment(flag: str, text: str | None, parse: Any) -> int | None:
    from goqueue.client.times import Nanoseconds  # noqa: PLC0415

    if text is None or (place := parse(text)) in {"earliest", "now", "latest"}:
        return None
    if not isinstance(place, Nanoseconds):
        raise UsageInvalid(f"{flag}: what groups have read has no offset {text}", hint="name a time, a day, or -24h")
    return place


def _row(row: Row, by: str, header: str | None, per: str | None) -> Row:
    """With what is told apart alone, and by the names that it has for whoever asked."""
    names = {**({per: "start"} if per else {}), "topic": "topic", **({by: by} if by != "topic" else {})}
    names |= ({header: "header"} if header else {}) | {name: name for name in ("messages", "bytes", "payload_bytes")}
    return {name: row[field] for name, field in names.items()}


def _reading(reading: "Reading", count: "Count", per: str | None) -> Row:
    return {
        **_bucket(reading.bucket_ns, per),
        "group": reading.group,
        "topic": reading.topic,
        "acknowledged": count.acknowledged,
        "dead_letters": count.moved,
    }


def _bucket(bucket_ns: int | None, per: str | None) -> dict[str, Any]:
    from goqueue.quantities import format_time  # noqa: PLC0415

    return {} if per is None or bucket_ns is None else {per: format_time(bucket_ns)}
