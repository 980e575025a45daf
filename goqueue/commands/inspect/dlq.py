"""`goqueue spark-inspect dlq`: why messages failed."""

from dataclasses import replace
from typing import Annotated, Literal

import typer

from goqueue.commands.inspect.inquiry import Inquiry, inquiry_flags
from goqueue.commands.inspect.texts import in_texts
from goqueue.console import terminal
from goqueue.console.figures import age
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column
from goqueue.quantities import format_count

_By = Annotated[Literal["error", "origin", "group", "hour"], typer.Option("--by", help="What is counted together.")]
_Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Count apart what is new since a time, a day, or -24h.")
]
_Top = Annotated[int, typer.Option("--top", metavar="N", min=1, max=100_000, help="So many rows at most.")]


def _columns(by: str, *, has_since: bool) -> tuple[Column, ...]:
    return (
        Column(by.upper(), by),
        Column("LETTERS", "letters", format_count),
        Column("LEFT", "left", format_count),
        Column("SENT BACK", "sent_back", format_count, wide=True),
        *([Column("NEW", "new", format_count)] if has_since else []),
        Column("ATTEMPTS", "attempts_mean", lambda mean: f"{mean:.1f}"),
        Column("AT MOST", "attempts_max", format_count, wide=True),
        Column("OLDEST LEFT", "oldest_left", age),
        Column("FIRST", "first_time", _short, wide=True),
        Column("LAST", "last_time", _short),
        Column("SAMPLES", "samples", " ".join),
    )


def _short(moment: str) -> str:
    return f"{moment[:19]}Z".replace("T", " ")


@inquiry_flags
def dlq(by: _By = "error", since: _Since = None, top: _Top = 50, *, inquiry: Inquiry) -> None:
    """Tell why messages became dead letters, and what was sent back.

    \b
      goqueue spark-inspect dlq ./goqueue-data
      goqueue spark-inspect dlq ./goqueue-data jobs --since -24h
      goqueue spark-inspect dlq --url http://127.0.0.1:8080 --by origin -o json

    TOPIC is one with dead letters, or theirs. Errors that differ in numbers, ids or quoted words only are one class.
    LEFT are those that were not sent back; SAMPLES are the topic, partition and offset of the latest ones.
    `goqueue-cli dlq redrive` sends back.
    """
    from goqueue.spark.inspections.dead_letters import INSPECTION, dead_letters, letter_topics, rows  # noqa: PLC0415

    since_ns = None if since is None else _moment(since)
    logs = inquiry.logs()
    topics = letter_topics(logs, inquiry.selection(logs).names)
    plan = replace(inquiry, topics=topics).plan(logs) if topics else None
    if plan is None or not plan.messages:
        inquiry.write([], _columns(by, has_since=since is not None))
        terminal.say("there are no dead letters")
        return
    splits = plan.splits(logs)
    with inquiry.spark(is_brief=True) as spark, inquiry.progress(spark, plan):
        found = dead_letters(spark, logs, splits, by=by, since_ns=since_ns, top=top)
    shown = in_texts(rows(found, by, has_since=since is not None), INSPECTION.schema)
    inquiry.write(shown, _columns(by, has_since=since is not None))
    inquiry.say_what_was_read(plan)
    if len(found) == top:
        terminal.say(f"the largest {format_count(top)} are shown; --top {top * 10} shows more")


def _moment(text: str) -> int:
    from goqueue.client.times import Nanoseconds  # noqa: PLC0415 - the client is not needed for wrong flags
    from goqueue.console.places import parse_start  # noqa: PLC0415

    place = parse_start(text)
    if not isinstance(place, Nanoseconds):
        raise UsageInvalid(
            f"--since: {text} is no time", hint="write it as in -24h, 2026-03-01 or 2026-03-01T12:00:00Z"
        )
    return place
