"""`goqueue-admin broker`: version, health, contents, rates and log of a broker."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import doing
from goqueue.console.flags import EveryFlag
from goqueue.console.formatting import format_fields, format_milliseconds, format_rate, format_size_rate
from goqueue.console.rows import Column, write_rows
from goqueue.console.session import Session, session_flags, stream_flags
from goqueue.console.table import Cell
from goqueue.console.watch import watch
from goqueue.errors import TransientError
from goqueue.limits import RECENT_LOG_LINES
from goqueue.quantities import format_count, format_disk, format_duration, format_size

if TYPE_CHECKING:
    from goqueue.client import Client

_Row = dict[str, Any]


CHECKS = (Column("CHECK", "name"), Column("STATUS", "status"), Column("MESSAGE", "message"))
_DESCRIPTION = (
    Column("", "name"),
    Column("", "version"),
    Column("", "health"),
    Column("", "ready"),
    Column("", "uptime"),
)
_NOW = (
    Column("BROKER", "name"),
    Column("HEALTH", "health"),
    Column("PUBLISHED", "published_per_second", format_rate),
    Column("IN", "published_bytes_per_second", format_size_rate),
    Column("READ", "read_per_second", format_rate),
    Column("SETTLED", "settled_per_second", format_rate),
    Column("REQUESTS", "requests_per_second", format_rate),
    Column("LOOP-LAG", "loop_lag_ms", format_milliseconds),
    Column("CONNECTIONS", "connections", format_count),
    Column("FREE", "disk_free_bytes", format_size),
    Column("OUT", "read_bytes_per_second", format_size_rate, wide=True),
    Column("MEMORY", "memory_bytes", format_size, wide=True),
    Column("DATA", "total_size_bytes", format_size, wide=True),
    Column("TOPICS", "topics", format_count, wide=True),
    Column("GROUPS", "groups", format_count, wide=True),
)


@session_flags
def describe(*, session: Session) -> None:
    """Show version, health and contents of a broker.

    \b
      goqueue-admin broker describe
      goqueue-admin broker describe --server http://broker:8080
      goqueue-admin broker describe -o json

    Shows its version, health, checks, current rates and free disk space. `goqueue-admin doctor` explains problems.
    """
    with doing("describe the broker"), session.client() as client:
        row = _description(client, _name(session))
    if not session.for_people:
        session.write([row], _DESCRIPTION)
        return
    terminal.write_lines(_facts(row))
    terminal.write("\n")
    session.write(row["checks"], CHECKS)


@session_flags
def watch_broker(every: EveryFlag = 2.0, *, session: Session) -> None:
    """Watch the rates of a broker.

    \b
      goqueue-admin broker watch
      goqueue-admin broker watch --every 10s -o wide
      goqueue-admin broker watch -o jsonl >> broker.log

    A terminal shows the current numbers; a pipe gets a line per change. ^C ends it.
    """
    with doing("watch the broker"), session.client() as client:
        watch(session, lambda: [_numbers(client, _name(session))], _NOW, every=every)


# --- the log ---

LogLevel = Literal["debug", "info", "warning", "error"]
_LOG = (
    Column("TIME", "time"),
    Column("LEVEL", "level"),
    Column("LOGGER", "logger", wide=True),
    Column("EVENT", "event"),
    Column("FIELDS", "fields", format_fields),
)
_LEVEL_STYLES = {"warning": "moving", "error": "bad", "critical": "bad"}
_FOLLOW_SECONDS = 0.5


@stream_flags
def logs(
    level: Annotated[
        LogLevel, typer.Option("--level", metavar="LEVEL", help="Lowest level: debug, info, warning or error.")
    ] = "info",
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=RECENT_LOG_LINES, help="Maximum number of past lines.")
    ] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new lines as they come.")] = False,
    requests: Annotated[
        bool, typer.Option("--requests/--no-requests", help="Include requests that did not fail. Default: included.")
    ] = True,
    *,
    session: Session,
) -> None:
    """Show the last lines of the broker's log.

    \b
      goqueue-admin broker logs
      goqueue-admin broker logs --level warning
      goqueue-admin broker logs --follow --no-requests
      goqueue-admin broker logs --level warning --limit 1000 -o jsonl

    The broker keeps 1,000 warnings and errors, 1,000 requests and 1,000 other lines since it started. Its setting
    log.level decides which levels there are. With --follow, ^C ends it; a broker that is away is asked again.
    """
    with doing("read the broker's log"), session.client() as client:
        answer = client.logs(level, limit, requests=requests)
        _write_log(answer["lines"], session, follow=follow)
        if not follow:
            session.note(*([] if answer["lines"] else [f"the log has no lines of level {level} or above"]))
            return
        try:
            _follow_log(client, level, answer["last"], session, requests=requests)
        except KeyboardInterrupt:
            raise typer.Exit(exit_codes.INTERRUPTED) from None


def _follow_log(client: "Client", level: str, last: int, session: Session, *, requests: bool) -> None:
    """Write new lines until ^C. Line numbers begin again when the broker is restarted."""
    is_away = False
    while True:
        time.sleep(_FOLLOW_SECONDS)
        try:
            answer = client.logs(level, RECENT_LOG_LINES, last, requests=requests)
            if answer["last"] < last:
                terminal.say("the broker was restarted")
                answer = client.logs(level, RECENT_LOG_LINES, requests=requests)
        except TransientError as error:
            if not is_away:
                terminal.say(f"{error.sentence}; continuing when the broker answers")
            is_away = True
            continue
        is_away, last = False, answer["last"]
        _write_log(answer["lines"], session, follow=True)


def _write_log(lines: Sequence[_Row], session: Session, *, follow: bool) -> None:
    if session.for_people:
        terminal.write("".join(f"{_log_line(one)}\n" for one in lines))
    elif lines or not follow:
        rows = [{"name": str(one["number"]), **one} for one in lines]
        write_rows(rows, _LOG, "jsonl" if follow and session.output == "json" else session.output, headers=not follow)


def _log_line(line: _Row) -> str:
    """Format a line as the broker writes it, with its level in color; it is never cut."""
    level = line["level"].upper()
    shown = terminal.render_line([Cell(level, _LEVEL_STYLES.get(line["level"], ""))], None) + " " * (7 - len(level))
    text = " ".join(filter(None, (line["event"], format_fields(line["fields"]))))
    return " ".join((f"{line['time'][:23]}Z", shown, terminal.escape_unprintable(text)))


def _description(client: "Client", name: str) -> _Row:
    version, ready, stats = client.version(), client.readiness(), client.stats()
    checks = [{"name": name, **check} for name, check in ready.get("checks", {}).items()]
    topics = stats.pop("topic_stats")
    return {
        "name": name,
        **version,
        "health": _health(ready),
        "ready": ready["status"],
        "ready_message": ready["message"],
        **stats,
        "messages": sum(one["messages"] for one in topics.values()),
        "checks": checks,
    }


def _numbers(client: "Client", name: str) -> _Row:
    """Return a flat row, so that each changed number is reported."""
    stats, ready = client.stats(), client.readiness()
    disk = stats["disk"] or {}
    kept = ("connections", "memory_bytes", "loop_lag_ms", "topics", "groups", "partitions", "total_size_bytes")
    return {
        "name": name,
        "health": _health(ready),
        **stats["rates"],
        **{field: stats[field] for field in kept},
        "disk_free_bytes": disk.get("free_bytes"),
        "disk_total_bytes": disk.get("total_bytes"),
    }


def _name(session: Session) -> str:
    from goqueue.client import address  # noqa: PLC0415 - loaded with the client

    return ",".join(map(str, address.parse_all(session.server)))


def _health(ready: _Row) -> str:
    """Return the status as in `/health`."""
    if ready["status"] != "pass":
        return "fail"
    return "degraded" if any(one["status"] != "pass" for one in ready.get("checks", {}).values()) else "ok"


def _facts(row: _Row) -> Iterator[str]:
    yield f"{row['name']}: GoQueue {row['version']}, {row['health']}, up for {format_duration(round(row['uptime'], 3))}"
    yield (
        f"  {format_count(row['topics'], 'topic')}, {format_count(row['partitions'], 'partition')}, "
        f"{format_count(row['groups'], 'group')}, {format_count(row['messages'], 'message')}, "
        f"{format_size(row['total_size_bytes'])}"
    )
    rates, disk = row["rates"], row["disk"]
    yield (
        f"  published {format_rate(rates['published_per_second'])} "
        f"({format_size_rate(rates['published_bytes_per_second'])}), "
        f"read {format_rate(rates['read_per_second'])} ({format_size_rate(rates['read_bytes_per_second'])}), "
        f"settled {format_rate(rates['settled_per_second'])}, requests {format_rate(rates['requests_per_second'])}"
    )
    if disk is not None:
        yield f"  disk: {format_disk(disk['used_bytes'], disk['free_bytes'], disk['total_bytes'])}"
    yield f"  {format_count(row['connections'], 'connection')}, {format_size(row['memory_bytes'])} of memory"
    yield f"  ready: {row['ready_message']}"
