"""`goqueue cluster dev`: the nodes of a cluster as processes of this machine.

What must stay true: all processes that it has started end with it, and no others.
"""

import fcntl
import os
import secrets
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from goqueue.client import Client
from goqueue.commands.child_broker import ChildBroker
from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid
from goqueue.errors import GoQueueError, PathInvalid
from goqueue.limits import PORT
from goqueue.quantities import format_count

_TICK_SECONDS = 0.1
_FORMATION_SECONDS = 60.0
_STOP_SECONDS = 20.0
_LOCALHOST = "127.0.0.1"


def dev(
    nodes: Annotated[int, typer.Option(metavar="N", help="Number of nodes: 1, 3 or 5.")] = 3,
    directory: Annotated[
        str | None,
        typer.Option("--dir", metavar="DIR", help="Directory to keep. Default: a temporary one, deleted at the end."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", min=0, max=65000, help="Port of the first node; the next ones follow. 0 selects free ports."
        ),
    ] = PORT,
) -> None:
    """Start the nodes of a cluster on this machine, until ^C.

    \b
      goqueue cluster dev
      goqueue cluster dev --nodes 5
      goqueue cluster dev --dir ./cluster

    Each node is a process with a data directory and a configuration file of its own. Kill one, and see what the others
    do: `goqueue-cli cluster nodes --watch`. ^C stops all of them. Each partition of a topic has replicas on three
    nodes.
    """
    if nodes not in (1, 3, 5):
        raise UsageInvalid(f"--nodes is {nodes}: 1, 3 or 5 nodes can elect a controller by majority")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        place = Path(directory or stack.enter_context(tempfile.TemporaryDirectory(prefix="goqueue-cluster-")))
        names = _configure(place, nodes, port)
        stack.enter_context(_only_user(place))
        brokers = stack.enter_context(_running(place, names))
        _introduce(place, brokers)
        _watch(place, brokers)
    terminal.say("the cluster has ended" + ("" if directory else ", and its data is deleted"))


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


# --- configuration ---


def _configure(place: Path, count: int, port: int) -> list[str]:
    """Write the files of all nodes, unless they are there; return the names of the nodes."""
    names = [f"n{number}" for number in range(1, count + 1)]
    try:
        place.mkdir(parents=True, exist_ok=True)
        found = sorted(one.stem for one in place.glob("n*.yaml"))
        if found:
            if found != names:
                raise PathInvalid(
                    f"{place} has the nodes {', '.join(found)}, and --nodes is {count}",
                    hint=f"use --nodes {len(found)}, or another directory",
                )
            return names
        _write_files(place, names, port)
    except OSError as error:
        raise PathInvalid(f"{place} cannot be used: {error.strerror or error}", hint="name a directory") from None
    return names


def _write_files(place: Path, names: list[str], first: int) -> None:
    secret = place / "secret"
    secret.touch(mode=0o600)
    secret.write_text(f"{secrets.token_hex(32)}\n")
    ports = _free_ports(len(names), first)
    peers = ", ".join(f"{name}={_LOCALHOST}:{port}" for name, port in zip(names, ports, strict=False))
    for name, port in zip(names, ports[len(names) :], strict=True):
        (place / f"{name}.yaml").write_text(
            f"data_dir: {place.resolve()}/{name}\n"
            f"server:\n  port: {port}\n"
            f"cluster:\n  node_id: {name}\n  peers: {peers}\n  secret_file: {secret.resolve()}\n"
        )


def _free_ports(count: int, first: int) -> list[int]:
    """Return free ports for nodes, then for clients: from the first one on if these are free."""
    with ExitStack() as stack:
        ports = []
        wanted = [0] * count + [first and first + number for number in range(count)]
        for port in wanted:
            listener = stack.enter_context(socket.socket())
            try:
                listener.bind((_LOCALHOST, port))
            except OSError:
                listener.bind((_LOCALHOST, 0))
            ports.append(listener.getsockname()[1])
    return ports


# --- processes ---


@contextmanager
def _only_user(place: Path) -> Iterator[None]:
    """Keep other commands like this one away from the directory."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise PathInvalid(
            f"another `goqueue cluster dev` runs the nodes in {place}", hint="stop it, or name another directory"
        ) from None
    finally:
        os.close(descriptor)


@contextmanager
def _running(place: Path, names: list[str]) -> Iterator[dict[str, ChildBroker]]:
    brokers: dict[str, ChildBroker] = {}
    try:
        for name in names:
            brokers[name] = ChildBroker("--config", f"{place}/{name}.yaml", "--log-level", "error")
        for name, broker in brokers.items():
            if not broker.is_ready():
                banner = (line for line in broker.banner if "`--" not in line)  # flags of another command
                terminal.say(f"node {name} did not start:", *banner, f"its settings are in {place}/{name}.yaml")
                raise typer.Exit(broker.exit_code)
        yield brokers
    finally:
        for broker in brokers.values():
            broker.end()
        for broker in brokers.values():
            broker.stop(_STOP_SECONDS)


def _introduce(place: Path, brokers: Mapping[str, ChildBroker]) -> None:
    controller = _await_controller(brokers)
    addresses = ",".join(broker.address for broker in brokers.values())
    terminal.say(
        f"a cluster of {format_count(len(brokers), 'node')}, in {place}; the controller is {controller}",
        "",
        *(f"  {name}  {broker.address}  process {broker.process_id}" for name, broker in brokers.items()),
        "",
        "Topics have replicas on several nodes. Try in another terminal:",
        "",
        f"  export GOQUEUE_SERVER={addresses}",
        "  goqueue-cli topic create orders --partitions 3",
        "  seq 1000 | goqueue-cli publish orders",
        "  goqueue-cli cluster partitions --topic orders",
        f"  kill -9 {brokers[controller].process_id}        # the controller: another node takes over",
        "  goqueue-cli cluster status",
        "  seq 1000 | goqueue-cli publish orders",
        "",
        "^C stops",
    )


def _await_controller(brokers: Mapping[str, ChildBroker]) -> str:
    until = time.monotonic() + _FORMATION_SECONDS
    first = next(iter(brokers.values()))
    with Client(first.address) as client:
        while time.monotonic() < until and first.is_running:
            with suppress(GoQueueError):
                controller = client.cluster_state().controller_id
                if controller is not None and controller in brokers:
                    return controller
            time.sleep(_TICK_SECONDS)
    terminal.say(f"error: the nodes have elected no controller within {_FORMATION_SECONDS:.0f} s")
    raise typer.Exit(exit_codes.FAILED)


def _watch(place: Path, brokers: Mapping[str, ChildBroker]) -> None:
    """Say which nodes end, until ^C or the end of the last one."""
    running = dict(brokers)
    while running:
        for name, broker in list(running.items()):
            if not broker.is_running:
                del running[name]
                terminal.say(
                    f"node {name} {broker.describe_end()}",
                    f"start it again with `goqueue serve --config {os.path.join(place, name)}.yaml`",
                )
        time.sleep(_TICK_SECONDS)
    terminal.say("no node is left")
