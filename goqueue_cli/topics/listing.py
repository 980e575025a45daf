"""`goqueue-cli topic`: list, watch and describe topics."""

import json
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.each import each, write_blocks
from goqueue.console.failure import doing
from goqueue.console.figures import ago, rate, size_rate
from goqueue.console.rows import Column, of_fields
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import EveryFlag, WatchFlag, watch
from goqueue.errors import DiskFailed, LogClosed, LogFenced
from goqueue.quantities import format_count, format_size

if TYPE_CHECKING:
    from goqueue.client import Client

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of the topics.")]
_Glob = Annotated[str | None, typer.Argument(metavar="GLOB", help="Only topics whose names fit, such as 'ord*'.")]
_Internal = Annotated[
    bool, typer.Option("--internal", help="List the topics too that the broker keeps for itself.")
]  # fmt: skip

Row = dict[str, Any]


def settings_of(config: Row) -> Iterator[str]:
    """As `--set` takes them."""
    return (f"{name}={setting_text(value)}" for name, value in config.items())


def setting_text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(setting_text, value))
    return value if isinstance(value, str) else json.dumps(value)


_SUMMARY = (
    Column("TOPIC", "name"),
    Column("PARTITIONS", "partitions"),
    Column("MESSAGES", "total_messages", format_count),
    Column("SIZE", "total_size_bytes", format_size),
    Column("IN/S", "published_per_second", rate),
    Column("BYTES/S", "bytes_per_second", size_rate, wide=True),
    Column("OUT/S", "read_per_second", rate, wide=True),
    Column("FAULTS", "faults", format_count, wide=True),
    Column("HELD-BACK", "held_back", format_count, wide=True),
    Column("CREATED", "created_at", ago, wide=True),
    Column("CONFIG", "config", lambda config: " ".join(settings_of(config)), wide=True),
)
_PARTITION = (
    Column("PARTITION", "partition"),
    Column("EARLIEST", "earliest", format_count),
    Column("LATEST", "latest", format_count),
    Column("SIZE", "size_bytes", format_size),
    Column("SEGMENTS", "segments", format_count),
    Column("DURABLE", "durable_end", format_count, wide=True),
    Column("END", "log_end", format_count, wide=True),
)
_HELD_BACK = Column("HELD-BACK", "held_back", format_count)
_FAULT = Column("FAULT", "fault")
_ADVISED = 3  # topics that a list says the same of


@session_flags
def list_topics(
    glob: _Glob = None,
    internal: _Internal = False,
    watched: WatchFlag = False,
    every: EveryFlag = 2.0,
    *,
    session: Session,
) -> None:
    """List the topics, with their sizes and rates.

    \b
      goqueue-cli topic list
      goqueue-cli topic list 'ord*' --sort-by size:desc
      goqueue-cli topic list --internal -o wide
      goqueue-cli topic list --watch

    Rates are those of the last five seconds; - is of a topic beyond the thousand whose rates the broker counts. The
    forms for programs (json, jsonl, yaml, csv) hold all that is known of each.
    """
    if watched:
        _follow(session, glob, internal, every)
        return
    with doing("list the topics"), session.client() as client:
        rows = _known(client, glob, internal)
    session.write(rows, _SUMMARY)
    if session.for_people:
        terminal.say(*_advice(rows))
        if not rows:
            terminal.say("there are no topics" if glob is None else f"there are no topics like {glob}")


@session_flags
def watch_topics(
    glob: _Glob = None, internal: _Internal = False, every: EveryFlag = 2.0, *, session: Session
) -> None:  # fmt: skip
    """Watch the topics: what comes in, and how they grow.

    \b
      goqueue-cli topic watch
      goqueue-cli topic watch 'ord*' --every 5s
      goqueue-cli topic watch -o jsonl >> topics.log

    A terminal shows the table as it is now; anything else gets a line for each change. ^C ends it.
    """
    _follow(session, glob, internal, every)


def _follow(session: Session, glob: str | None, internal: bool, every: float) -> None:
    with doing("watch the topics"), session.client() as client:
        watch(session, lambda: _known(client, glob, internal), _SUMMARY, every=every)


def _known(client: "Client", glob: str | None, internal: bool) -> list[Row]:
    """In one request."""
    return [of_fields(one) for one in client.topic_details(internal) if glob is None or fnmatchcase(one.name, glob)]


def _advice(rows: list[Row]) -> Iterator[str]:
    for row in rows:
        if row["faults"]:
            verb = "takes" if row["faults"] == 1 else "take"
            yield (
                f"{row['name']}: {format_count(row['faults'], 'partition')} {verb} no messages; "
                f"`goqueue-cli topic describe {row['name']}` says why"
            )
    yield from (_behind(row["name"], row["held_back"]) for row in [one for one in rows if one["held_back"]][:_ADVISED])


def _behind(topic: str, count: int) -> str:
    return (
        f"{topic}: {format_count(count, 'message')} held back by open transactions; "
        f"`goqueue-cli transaction list --topic {topic}` shows which"
    )


# --- describe ---


@session_flags
def describe(names: Names, *, session: Session) -> None:
    """Show all about topics.

    \b
      goqueue-cli topic describe orders
      goqueue-cli topic describe orders payments -o json

    For people: the settings, and a line for each partition with the offsets it holds, its size, and why it takes no
    messages where that is so. The other forms have an entry for each topic.
    """

    def work(client: "Client", name: str) -> Row:
        facts = of_fields(client.topic(name))
        places = [{**one, "held_back": _held_back(one)} for one in client.partitions(name)]
        return {**facts, "delayed": _delayed_if_known(client, name), "partition_details": places}

    each(session, names, "describe topic", work, partial(write_blocks, write_one=_write_description))


def _held_back(place: Row) -> int:
    """What readers do not see because a transaction is open in front of it."""
    count: int = place["high_watermark"] - place["last_stable"]
    return count


def delayed_count(client: "Client", topic: str) -> int:
    """How many messages wait to be delivered to it."""
    count: int = client.delayed(topic, limit=1)["total"]
    return count


def _delayed_if_known(client: "Client", topic: str) -> int | None:
    """What is wrong with their log must not hide what else there is to say."""
    with suppress(DiskFailed, LogFenced, LogClosed):
        return delayed_count(client, topic)
    return None


def _write_description(row: Row, session: Session) -> None:
    """Facts, and a table of partitions."""
    terminal.write_lines(_facts(row))
    partitions = row["partition_details"]
    held_back = sum(one["held_back"] for one in partitions)
    more = [_HELD_BACK] if held_back else []
    more += [_FAULT] if any(one["fault"] for one in partitions) else []
    session.write(partitions, (*_PARTITION, *more))
    if held_back:
        terminal.say(_behind(row["name"], held_back))


def _facts(row: Row) -> Iterator[str]:
    delayed = f"{format_count(row['delayed'])} delayed, " if row["delayed"] else ""
    yield (
        f"{row['name']}: {format_count(row['partitions'], 'partition')}, "
        f"{format_count(row['total_messages'], 'message')}, {format_size(row['total_size_bytes'])}, {delayed}"
        f"created {ago(row['created_at'])}"
    )
    yield from (f"  {setting}" for setting in settings_of(row["config"]))
