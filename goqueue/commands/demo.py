"""`goqueue demo`: a temporary broker with traffic.

What must stay true: nothing is left behind. The broker ends with this process, however it ends (on Linux), and what
a killed demo leaves on the disk is removed by the next one.
"""

import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated

import typer

from goqueue.client import Client
from goqueue.commands.child_broker import END_OF_BANNER, ChildBroker
from goqueue.commands.demo_traffic import STOP_SECONDS, TOPICS, UNATTENDED, DemoConsumers, DemoTraffic
from goqueue.console import exit_codes, terminal
from goqueue.console.flags import parse_duration_flag
from goqueue.errors import DataDirectoryInUse, GoQueueError
from goqueue.limits import PORT
from goqueue.quantities import format_count, format_duration
from goqueue.storage.disk import SystemDisk

_TICK_SECONDS = 0.1
_CALL_SECONDS = 5.0
"""Maximum time for one call, so that the end of the broker is noticed."""
_BACKUP_INTERVAL = "1m"


def demo(
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Port to listen on. Default: 8080, or a free port if 8080 is in use.",
        ),
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="End after this time. Default: on ^C.")
    ] = None,
    rate: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Messages per second.")] = 50,
) -> None:
    """Start a temporary broker with traffic.

    \b
      goqueue demo
      goqueue demo --for 1m --rate 500
      goqueue demo --port 9000

    An imaginary shop publishes orders, payments, page views, tickets with priorities and reminders that are delayed.
    Invoices are written in transactions, of which a few are aborted. Invalid payments become dead letters. One group
    falls behind, and one has no members. A backup is made each minute. All data is in a temporary directory, which is
    deleted at the end.
    """
    seconds = None if duration is None else parse_duration_flag("--for", duration)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with (
        _temporary_directory() as directory,
        suppress(KeyboardInterrupt),
        _broker(directory, (PORT, 0) if port is None else (port,)) as broker,
        Client(broker.address, _CALL_SECONDS) as client,
    ):
        for topic, partitions in TOPICS.items():
            client.create_topic(topic, partitions)
        client.reset_offsets(UNATTENDED, "orders", "earliest")
        terminal.say(*_introduction(broker.address))
        with DemoConsumers(broker.address, rate):
            _run(client, broker, rate, seconds)
    terminal.say("the demo has ended, and its data is deleted")


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    signal.signal(number, signal.SIG_IGN)  # `make` passes on what it gets, and its whole group may get it
    raise KeyboardInterrupt


def _run(client: Client, broker: "ChildBroker", rate: int, seconds: float | None) -> None:
    """Publish until the time is over, ^C, or the end of the broker."""
    began = shown = time.monotonic()
    pause = threading.Event()
    producer = client.producer()
    traffic = DemoTraffic(producer, rate)
    try:
        while broker.is_running:
            now = time.monotonic()
            traffic.catch_up(now - began if seconds is None else min(now - began, seconds))
            if seconds is not None and now - began >= seconds:
                break
            if now - shown >= 1:
                shown = now
                terminal.show_status(_status(traffic, now - began))
            pause.wait(_TICK_SECONDS)
    finally:
        terminal.show_status("")
        terminal.say(f"{_status(traffic, time.monotonic() - began)}; stopping")
        if broker.is_running:
            producer.close(STOP_SECONDS)
        else:
            with suppress(GoQueueError):  # there is no broker for what is left
                producer.close(0)


def _status(traffic: DemoTraffic, seconds: float) -> str:
    per_second = traffic.count / seconds if seconds else 0.0
    return f"{format_count(traffic.count, 'message')} in {format_duration(round(seconds, 1))}, {per_second:,.0f}/s"


_COMMANDS = (
    ("goqueue-admin dashboard", "everything on one screen"),
    ("goqueue-admin doctor", "what is wrong: one group falls behind, one has no members"),
    ("goqueue-cli group list", "lag of all groups, and when it will be gone"),
    ("goqueue-cli consume orders --follow", "messages as they come"),
    ("goqueue-cli dlq errors payments", "dead letters: why payments failed"),
    ("goqueue-cli delayed timeline reminders", "delayed messages: what is due when"),
    ("goqueue-cli topic priorities tickets", "priorities: what waits in each"),
    ("goqueue-cli transaction list --all", "transactions: orders become invoices"),
    ("goqueue-admin backup list", "backups: one a minute, verified"),
)


def _introduction(address: str) -> list[str]:
    width = max(len(command) for command, _ in _COMMANDS)
    return [
        f"GoQueue is at {address}, with the traffic of a small shop. Try in another terminal:",
        "",
        f"  export GOQUEUE_SERVER={address}",
        *(f"  {command:<{width}}  # {about}" for command, about in _COMMANDS),
        f"  curl '{address}/topics/page-views/partitions/0/messages?limit=3'",
        "",
        END_OF_BANNER,
    ]


# --- the broker ---


@contextmanager
def _broker(directory: str, ports: Sequence[int]) -> Iterator[ChildBroker]:
    """Run a broker on the first free port, and end with an error when it ends first."""
    for port in ports:
        broker = ChildBroker(
            *("--data-dir", f"{directory}/data", "--port", str(port), "--log-level", "error"),
            *("--backup-target", f"{directory}/backups", "--backup-interval", _BACKUP_INTERVAL),
        )
        try:
            if broker.is_ready():
                yield from _watched(broker)
                return
        finally:
            broker.stop()
        if port != ports[-1]:
            reason = broker.banner[0].removeprefix("error: ") if broker.banner else f"no broker started on port {port}"
            terminal.say(f"{reason}; using a free port, --port selects another")
    terminal.say(*broker.banner)
    raise typer.Exit(broker.exit_code)


def _watched(broker: ChildBroker) -> Iterator[ChildBroker]:
    try:
        yield broker
    except GoQueueError:
        if broker.is_running:
            raise
    if not broker.is_running:
        terminal.say(f"error: the broker of the demo {broker.describe_end()}")
        raise typer.Exit(exit_codes.FAILED)


# --- the directory ---

_PREFIX = "goqueue-demo-"


@contextmanager
def _temporary_directory() -> Iterator[str]:
    """Make a directory that is named after this process, and remove those of demos that were killed."""
    place = tempfile.gettempdir()
    for name in os.listdir(place):
        owner = re.fullmatch(rf"{_PREFIX}(\d+)-\w+", name)
        if owner is not None and not _is_running(int(owner[1])) and not _is_in_use(f"{place}/{name}/data"):
            shutil.rmtree(f"{place}/{name}", ignore_errors=True)  # it may be another user's
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as directory:
        yield directory


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _is_in_use(data_directory: str) -> bool:
    """Return whether a broker has the directory, perhaps in a container with process ids of its own."""
    try:
        SystemDisk().lock(f"{data_directory}/lock", "goqueue demo").release()
    except DataDirectoryInUse:
        return True
    except GoQueueError:  # the demo was killed before its broker started, or it is another user's
        return False
    return False
