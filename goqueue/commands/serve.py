"""`goqueue serve`: the broker in the foreground."""

import os
import time
from typing import Annotated

import typer

from goqueue import __version__
from goqueue.clock import NANOSECONDS
from goqueue.commands import terminal
from goqueue.commands.flags import setting_flags
from goqueue.config import load
from goqueue.daemon import Daemon
from goqueue.quantities import format_count, format_duration, format_size
from goqueue.storage.store import Store


@setting_flags
def serve(
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="A YAML file of settings.")] = None,
    *,
    flags: dict[str, str | None],
) -> None:
    """Start the broker, and stop it cleanly on ^C or SIGTERM.

    \b
      goqueue serve
      goqueue serve --data-dir /var/lib/goqueue
      goqueue serve --config goqueue.yaml --storage-flush interval

    Without a configuration it keeps its data in ./goqueue-data and syncs every message before it is
    answered. `goqueue config template` writes a file to start from.
    """
    began = time.monotonic()
    daemon = Daemon(load(config, os.environ, flags))
    store = daemon.start()
    for line in banner(store, time.monotonic() - began):
        terminal.say(line)
    daemon.run()
    terminal.say("stopped cleanly")


def banner(store: Store, seconds: float) -> list[str]:
    """What a person wants to know at the start: where, how much, and what recovery found."""
    logs = store.logs.values()
    messages = sum(log.next_offset - log.first_offset for log in logs)
    flush = store.settings.flush
    synced = (
        "before it is answered"
        if flush == "always"
        else f"within {format_duration(store.settings.flush_interval_ns / NANOSECONDS)}"
    )
    return [
        f"GoQueue {__version__}",
        f"data        {store.path}: {format_count(len(logs), 'log')}, {format_count(messages, 'message')}, "
        f"{format_size(sum(log.size for log in logs))}",
        f"durability  every message is synced {synced}",
        f"start       {_start(store)}, ready after {format_duration(round(seconds, 3))}",
        *_findings(store),
        "^C stops",
    ]


def _start(store: Store) -> str:
    surveyed = sum(not found.was_clean for found in store.recovered.values())
    if not surveyed:
        return "after a clean stop" if store.recovered else "in an empty directory"
    return f"the last stop was not clean, {format_count(surveyed, 'log')} surveyed"


def _findings(store: Store) -> list[str]:
    lines = [f"CLOSED      {name}: {error}" for name, error in store.unopened.items()]
    for name, found in store.recovered.items():
        if found.cut is not None:
            kept = f", kept in {found.cut.kept_in}" if found.cut.kept_in else ""
            lines.append(
                f"cut         {name}: an unanswered write at bytes {found.cut.position} to {found.cut.end}{kept}"
            )
        lines += (
            f"DAMAGE      {name}: offsets {damage.first_offset} to {damage.next_offset - 1}: {damage.reason}; "
            f"run `goqueue fsck` while the broker is stopped"
            for damage in found.damages
        )
    return lines
