"""`goqueue-cli topic`: list, watch and describe topics, and show their priorities."""

from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.flags import EveryFlag, WatchOptions
from goqueue.console.formatting import PRIORITIES, format_ago, format_names, format_rate, format_size_rate
from goqueue.console.names import Results, Write, for_each_name, in_blocks
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, session_flags
from goqueue.console.topic_settings import setting_text, settings_of
from goqueue.console.watch import show_rows
from goqueue.errors import DiskFailed, LogClosed, LogFenced
from goqueue.quantities import format_count, format_duration, format_size

if TYPE_CHECKING:
    from goqueue.client import Client

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of topics.")]
_Glob = Annotated[str | None, typer.Argument(metavar="GLOB", help="Only topics that match, such as 'ord*'.")]
_Internal = Annotated[bool, typer.Option("--internal", help="Include the broker's internal topics.")]

Row = dict[str, Any]


_COLUMNS = (
    Column("TOPIC", "name"),
    Column("PARTITIONS", "partitions"),
    Column("MESSAGES", "total_messages", format_count),
    Column("OTHER", "other_records", format_count, wide=True),
    Column("SIZE", "total_size_bytes", format_size),
    Column("IN/S", "published_per_second", format_rate),
    Column("BYTES/S", "bytes_per_second", format_size_rate, wide=True),
    Column("OUT/S", "read_per_second", format_rate, wide=True),
    Column("FAULTS", "faults", format_count, wide=True),
    Column("HELD-BACK", "held_back", format_count, wide=True),
    Column("CREATED", "created_at", format_ago, wide=True),
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
_REPLICAS = (
    Column("LEADER", "leader"),
    Column("REPLICAS", "replicas", format_names),
    Column("ISR", "in_sync_replicas", format_names),
)
_HELD_BACK = Column("HELD-BACK", "held_back", format_count)
_FAULT = Column("FAULT", "fault")
_ADVISED = 3  # topics that the notes below a list mention


# --- list ---


@session_flags
def list_topics(
    glob: _Glob = None, internal: _Internal = False, *, options: WatchOptions, session: Session
) -> None:  # fmt: skip
    """List the topics, with their sizes and rates.

    \b
      goqueue-cli topic list
      goqueue-cli topic list 'ord*' --sort-by size:desc
      goqueue-cli topic list --internal -o wide
      goqueue-cli topic list --watch

    Rates are averages of the last five seconds; - means that the broker counts no rate, as beyond the first thousand
    topics. json, jsonl, yaml and csv have all fields of each topic.
    """
    _show(session, glob, internal, options)


@session_flags
def watch_topics(
    glob: _Glob = None, internal: _Internal = False, every: EveryFlag = 2.0, *, session: Session
) -> None:  # fmt: skip
    """Watch the topics: their rates and how they grow.

    \b
      goqueue-cli topic watch
      goqueue-cli topic watch 'ord*' --every 5s
      goqueue-cli topic watch -o jsonl >> topics.log

    A terminal shows the table in place; any other output gets a line for each change. ^C ends it.
    """
    _show(session, glob, internal, WatchOptions(watch=True, every=every))


def _show(session: Session, glob: str | None, internal: bool, options: WatchOptions) -> None:
    def fetch(client: "Client") -> list[Row]:
        found = client.topic_details(internal)
        return [struct_to_row(one) for one in found if glob is None or fnmatchcase(one.name, glob)]

    rows = show_rows(session, "list the topics", fetch, _COLUMNS, options)
    session.note(*_advice(rows))
    if not rows:
        session.note("there are no topics" if glob is None else f"there are no topics like {glob}")


def _advice(rows: Any) -> Iterator[str]:
    for row in rows:
        if row["faults"]:
            verb = "takes" if row["faults"] == 1 else "take"
            yield (
                f"{row['name']}: {format_count(row['faults'], 'partition')} {verb} no messages; "
                f"`goqueue-cli topic describe {row['name']}` shows why"
            )
    for row in [one for one in rows if one["held_back"]][:_ADVISED]:
        yield _held_back_note(row["name"], row["held_back"])


def _held_back_note(topic: str, count: int) -> str:
    return (
        f"{topic}: {format_count(count, 'message')} held back by open transactions; "
        f"`goqueue-cli transaction list --topic {topic}` shows which"
    )


# --- describe ---


@session_flags
def describe(names: Names, *, session: Session) -> None:
    """Show all details of topics.

    \b
      goqueue-cli topic describe orders
      goqueue-cli topic describe orders payments -o json

    A table has the settings, and a line for each partition with its offsets, its size, its leader and replicas in a
    cluster, and the reason if it takes no messages. The other formats have an entry for each topic.
    """

    def work(client: "Client", name: str) -> Row:
        facts = struct_to_row(client.topic(name))
        partitions = [
            {**one, "held_back": (one["high_watermark"] or 0) - (one["last_stable"] or 0)}
            for one in client.partitions(name)
        ]
        return {**facts, "delayed": _delayed_if_known(client, name), "partition_details": partitions}

    for_each_name(session, names, "describe topic", work, in_blocks(_write_description))


def delayed_count(client: "Client", topic: str) -> int:
    """Return how many messages of a topic are pending."""
    count: int = client.delayed(topic, limit=1)["total"]
    return count


def _delayed_if_known(client: "Client", topic: str) -> int | None:
    """Count pending messages; a damaged delayed log must not hide the rest of the description."""
    with suppress(DiskFailed, LogFenced, LogClosed):
        return delayed_count(client, topic)
    return None


def _write_description(row: Row, session: Session) -> None:
    partitions = row["partition_details"]
    held_back = sum(one["held_back"] for one in partitions)
    other = f"{format_count(row['other_records'], 'other record')}, " if row["other_records"] else ""
    delayed = f"{format_count(row['delayed'])} delayed, " if row["delayed"] else ""
    headline = (
        f"{row['name']}: {format_count(row['partitions'], 'partition')}, "
        f"{format_count(row['total_messages'], 'message')}, {other}"
        f"{format_size(row['total_size_bytes'])}, {delayed}"
        f"created {format_ago(row['created_at'])}"
    )
    terminal.write_lines([headline, *(f"  {setting}" for setting in settings_of(row["config"]))])
    is_shared = any(one["replicas"] != [0] for one in partitions)
    columns = [*_PARTITION, *(_REPLICAS if is_shared else ()), *([_HELD_BACK] if held_back else [])]
    session.write(partitions, [*columns, *([_FAULT] if any(one["fault"] for one in partitions) else [])])
    if held_back:
        terminal.say(_held_back_note(row["name"], held_back))


# --- priorities ---

_COUNTS = ("ready", "in_flight", "waiting", "enqueued", "dequeued")
_PRIORITIES = (
    Column("PRIORITY", "name"),
    *(Column(name.upper().replace("_", "-"), name, format_count) for name in _COUNTS),
    Column("LAST-SERVED", "last_served", format_ago),
    Column("WAIT", "avg_wait_time", lambda seconds: "-" if not seconds else format_duration(round(seconds, 3))),
)


@session_flags
def priorities(
    topics: Names,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="GROUP", help="Counts of this group, not of all groups.")
    ] = None,
    *,
    session: Session,
) -> None:
    """Show what is ready, in flight and was delivered of each priority.

    \b
      goqueue-cli topic priorities orders
      goqueue-cli topic priorities orders --group billing
      goqueue-cli topic priorities orders -o json

    READY can be delivered to a group now; without --group, to the group with the most. ENQUEUED and DEQUEUED count
    since the broker started. WAIT is the average time from append to delivery.
    """

    def work(client: "Client", name: str) -> Row:
        return {"partitions": client.priority_stats(name, group)["topics"].get(name, {})}

    for_each_name(session, topics, "show the priorities of topic", work, in_blocks(_write_priorities))


def _write_priorities(row: Row, session: Session) -> None:
    partitions = row["partitions"].values()
    terminal.write_lines([f"{row['name']}: {format_count(len(partitions), 'partition')}"])
    session.write([_sum_lanes(name, [lanes[name] for lanes in partitions]) for name in PRIORITIES], _PRIORITIES)


def _sum_lanes(name: str, lanes: list[Row]) -> Row:
    """Add up the lanes of one priority over all partitions."""
    moments = [lane["last_served"] for lane in lanes if lane["last_served"] is not None]
    counts = {count: sum(lane[count] for lane in lanes) for count in _COUNTS}
    waited = sum(lane["avg_wait_time"] * lane["dequeued"] for lane in lanes)
    average = waited / counts["dequeued"] if counts["dequeued"] else 0.0
    return {"name": name, **counts, "last_served": max(moments, default=None), "avg_wait_time": average}


# --- changes ---


def in_changes(title: str) -> Write:
    """Return a function that writes each changed setting of topics or groups, before and after."""
    columns = (
        Column(title, "name"),
        Column("SETTING", "setting"),
        Column("BEFORE", "before"),
        Column("AFTER", "after"),
        Column("RESULT", "result"),
    )

    def write(rows: Results, session: Session) -> None:
        people = session.for_people
        session.write([line for row in rows for line in _lines(row)] if people else rows, columns if people else ())

    return write


def _lines(row: dict[str, Any]) -> list[dict[str, Any]]:
    changes: dict[str, dict[str, Any]] = row.get("changes", {})
    if not changes:
        return [{"name": row["name"], "result": row["result"]}]
    return [
        {"name": row["name"], "setting": setting, "result": row["result"]}
        | {when: setting_text(value, setting) for when, value in change.items()}
        for setting, change in changes.items()
    ]
