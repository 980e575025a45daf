"""`goqueue-admin broker`: what a broker is, what it has, and how fast it goes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from goqueue.console import terminal
from goqueue.console.failure import doing
from goqueue.console.figures import milliseconds, rate, size_rate
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import EveryFlag, watch
from goqueue.quantities import format_count, format_duration, format_size

if TYPE_CHECKING:
    from goqueue.client import Client

_Row = dict[str, Any]


_CHECKS = (
    Column("CHECK", "name"),
    Column("STATUS", "status"),
    Column("MESSAGE", "message"),
)
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
    Column("PUBLISHED", "published_per_second", rate),
    Column("IN", "published_bytes_per_second", size_rate),
    Column("READ", "read_per_second", rate),
    Column("SETTLED", "settled_per_second", rate),
    Column("REQUESTS", "requests_per_second", rate),
    Column("LOOP-LAG", "loop_lag_ms", milliseconds),
    Column("CONNECTIONS", "connections", format_count),
    Column("FREE", "disk_free_bytes", format_size),
    Column("OUT", "read_bytes_per_second", size_rate, wide=True),
    Column("MEMORY", "memory_bytes", format_size, wide=True),
    Column("DATA", "total_size_bytes", format_size, wide=True),
    Column("TOPICS", "topics", format_count, wide=True),
    Column("GROUPS", "groups", format_count, wide=True),
)


@session_flags
def describe(*, session: Session) -> None:
    """Show what a broker is and has.

    \b
      goqueue-admin broker describe
      goqueue-admin broker describe --server http://broker:8080
      goqueue-admin broker describe -o json

    Its version, health, single checks, rates of the last seconds, and what is left of its disk. `goqueue-admin
    doctor` says what to do where something is wrong.
    """
    with doing("describe the broker"), session.client() as client:
        row = _description(client, _name(session))
    if not session.for_people:
        session.write([row], _DESCRIPTION)
        return
    terminal.write_lines(_facts(row))
    terminal.write("\n")
    session.write(row["checks"], _CHECKS)


@session_flags
def watch_broker(every: EveryFlag = 2.0, *, session: Session) -> None:
    """Watch how fast a broker goes.

    \b
      goqueue-admin broker watch
      goqueue-admin broker watch --every 10s -o wide
      goqueue-admin broker watch -o jsonl >> broker.log

    A terminal shows the numbers as they are now; anything else gets a line for each change. ^C ends it.
    """
    with doing("watch the broker"), session.client() as client:
        watch(session, lambda: [_numbers(client, _name(session))], _NOW, every=every)


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
    """Flat, so that each number that changes is a change of its own."""
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
    """The address, which is what tells brokers apart."""
    from goqueue.client import address  # noqa: PLC0415 - loaded with the client

    return str(address.parse(session.server))


def _health(ready: _Row) -> str:
    """As `/health` would say: a check that fails leaves the broker ready and not well."""
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
        f"  published {rate(rates['published_per_second'])} "
        f"({size_rate(rates['published_bytes_per_second'])}), "
        f"read {rate(rates['read_per_second'])} ({size_rate(rates['read_bytes_per_second'])}), "
        f"settled {rate(rates['settled_per_second'])}, requests {rate(rates['requests_per_second'])}"
    )
    if disk is not None:
        yield f"  disk: {format_size(disk['free_bytes'])} of {format_size(disk['total_bytes'])} free"
    yield f"  {format_count(row['connections'], 'connection')}, {format_size(row['memory_bytes'])} of memory"
    yield f"  ready: {row['ready_message']}"
