"""`goqueue serve`: the broker in the foreground."""

import logging
import os
import shlex
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue import __version__
from goqueue.broker.core.names import is_internal
from goqueue.clock import NANOSECONDS
from goqueue.commands.setting_flags import setting_flags
from goqueue.config import load
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.key_file import has_content, new_key_file
from goqueue.errors import PathInvalid
from goqueue.limits import STORAGE_FILES_MAX
from goqueue.quantities import format_count, format_duration, format_size, format_time

if TYPE_CHECKING:
    from goqueue.daemon import Daemon
    from goqueue.storage.store import Store


_KeyFileFlag = Annotated[
    str | None,
    typer.Option(
        "--admin-key-file",
        metavar="FILE",
        help="Write the first API key to this file, and do not print it. A key in the file stays. Needs --auth.",
    ),
]


@setting_flags
def serve(
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="YAML file with settings.")] = None,
    *,
    auth: Annotated[
        bool, typer.Option("--auth", help="Require API keys, as --security-authentication keys does.")
    ] = False,
    admin_key_file: _KeyFileFlag = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines use the broker without authentication or TLS.")
    ] = False,
    flags: dict[str, str | None],
) -> None:
    """Start the broker, and stop it cleanly on ^C or SIGTERM.

    \b
      goqueue serve
      goqueue serve --data-dir /var/lib/goqueue --port 9000
      goqueue serve --config goqueue.yaml --storage-flush interval
      goqueue serve --auth --admin-key-file admin.key
      goqueue serve --tls-cert tls/server.pem --tls-key tls/server.key

    Without a configuration it listens on 127.0.0.1:8080, keeps its data in ./goqueue-data and syncs every
    message before it is answered. `goqueue config template` writes a file to start from. The first start
    with --auth makes an API key with the role admin, which --admin-key-file keeps; without it the key is printed on
    stdout, this once.
    """
    began = time.monotonic()
    from goqueue.daemon import Daemon  # noqa: PLC0415 - not for --help and completion

    if auth:
        flags["security.authentication"] = flags["security.authentication"] or "keys"
    if insecure:
        flags["security.insecure"] = flags["security.insecure"] or "true"
    settings = load(config, os.environ, flags)
    if admin_key_file is not None and settings.security.authentication != "keys":
        raise UsageInvalid("--admin-key-file is given, and the broker needs no API keys", hint="add --auth")
    say = terminal.say if settings.log.format == "text" else _log_line

    def started(daemon: "Daemon") -> None:
        for line in banner(daemon, time.monotonic() - began):
            say(line)
        if admin_key_file is not None:
            _report_key_file(daemon, admin_key_file, say)
        elif daemon.bootstrap_key is not None:
            say("API key     the first one, with the role admin, follows on stdout: keep it, it is shown this once")
            terminal.write(f"{daemon.bootstrap_key}\n")
        daemon.bootstrap_key = None

    try:
        daemon = Daemon(settings)
        if admin_key_file is not None:
            daemon.key_file = partial(new_key_file, admin_key_file, "--admin-key-file", may_be_empty=True)
        daemon.run(started, lambda: say("stopped cleanly"))
    except PathInvalid as error:
        error.hint = "`--data-dir DIR` names a directory; it is created if possible"
        raise


def _report_key_file(daemon: "Daemon", name: str, say: Callable[[str], None]) -> None:
    if daemon.bootstrap_key is not None:
        say(f"API key     the first one, with the role admin, is in {name}: keep it, it is stored nowhere else")
    elif not has_content(os.path.expanduser(name)):
        remedy = f"goqueue key create NAME --role admin --data-dir {shlex.quote(str(daemon.store.path))} --save {name}"
        say(f"API key     {name} has none, and the first key was made before; make another one while the broker is")
        say(f"            stopped: `{remedy}`")


def _log_line(text: str) -> None:
    """Write a line of the banner to the log: with log format json every line of stderr is one object."""
    logging.getLogger("goqueue.serve").info(" ".join(text.split()))


def banner(daemon: "Daemon", seconds: float) -> list[str]:
    """Return the lines at the start: address, amount of data, and the result of recovery."""
    store, topics = daemon.store, daemon.runtime.broker.topics
    logs = store.logs.values()
    own = [topic for name, topic in topics.items() if not is_internal(name)]
    offsets = sum(topic.offset_count for topic in own)
    flush = store.settings.flush
    synced = (
        "before it is answered"
        if flush == "always"
        else f"within {format_duration(store.settings.flush_interval_ns / NANOSECONDS)}"
    )
    return [
        f"GoQueue {__version__}  {daemon.address}",
        f"data        {store.path}: {format_count(len(own), 'topic')}, {format_count(offsets, 'record')}, "
        f"{format_size(sum(log.size for log in logs))}",
        *([] if daemon.registry_address is None else [f"schemas     {daemon.registry_address}"]),
        *([] if daemon.rpc_address is None else [f"gRPC        {daemon.rpc_address}"]),
        *_cluster(daemon),
        *_tls(daemon),
        *_authentication(daemon),
        f"durability  every message is synced {synced}",
        f"start       {_start(store)}, ready after {format_duration(round(seconds, 3))}",
        *_lowered(daemon),
        *_findings(store),
        *(f"unclaimed   {name}: no topic has this log; it stays unchanged" for name in daemon.runtime.broker.unclaimed),
        *(
            f"LOST        {lost.log}: {format_count(lost.count, 'record')} cannot be read, "
            f"which may be about {', '.join(lost.names) or 'nothing that is known'}"
            for lost in daemon.runtime.broker.lost_records()
        ),
        "^C stops",
    ]


def _cluster(daemon: "Daemon") -> list[str]:
    member = daemon.service.context.cluster
    if member is None:
        return []
    return [f"cluster     {cluster_role(member.settings.node, member.settings.peers)}"]


def cluster_role(node: str, peers: Collection[str]) -> str:
    """Return the part that a node has in elections, by its settings."""
    names = ", ".join(sorted(peers))
    return f"node {node}, elects with {names}" if node in peers else f"node {node}, without a vote, follows {names}"


def _tls(daemon: "Daemon") -> list[str]:
    if daemon.certificates is None:
        return []
    facts = daemon.certificates.facts()
    clients = {"none": "", "optional": ", client certificates optional", "required": ", client certificates required"}
    return [f"TLS         certificate valid until {format_time(facts.expires_ns)}{clients[facts.client_auth]}"]


def _authentication(daemon: "Daemon") -> list[str]:
    if daemon.config.security.authentication == "none":
        return []
    return [f"access      {format_count(len(daemon.runtime.broker.security.state.keys), 'API key')}"]


def _lowered(daemon: "Daemon") -> list[str]:
    most, wanted = daemon.connections_max, daemon.config.server.connections
    if most >= wanted:
        return []
    why = f"the limit of open files leaves no more; raise it above {wanted + STORAGE_FILES_MAX:,} (`ulimit -n`)"
    return [f"connections at most {most:,} instead of {wanted:,}: {why}"]


def _start(store: "Store") -> str:
    surveyed = sum(not found.was_clean for found in store.recovered.values())
    if not surveyed:
        return "after a clean stop" if store.recovered else "in an empty directory"
    return f"the last stop was not clean, {format_count(surveyed, 'log')} surveyed"


def _findings(store: "Store") -> list[str]:
    lines = [f"CLOSED      {name}: {error}" for name, error in store.unopened.items()]
    for name, found in store.recovered.items():
        if found.cut is not None:
            kept = f", kept in {found.cut.kept_in}" if found.cut.kept_in else ""
            lines.append(
                f"cut         {name}: an unanswered write at bytes {found.cut.position} to {found.cut.end}{kept}"
            )
        if found.restored:
            size = format_size(sum(one.size for one in found.restored))
            lines.append(f"restored    {name}: {size} were damaged and were restored from the copy")
        lines += (
            f"DAMAGE      {name}: offsets {damage.first_offset} to {damage.next_offset - 1}: {damage.reason}; "
            f"run `goqueue fsck` while the broker is stopped"
            for damage in found.damages
        )
    return lines
