"""`goqueue cluster forget`: a data directory of a node becomes that of a broker of its own, with all that it has."""

import os
from typing import Annotated

import typer

from goqueue.config import load
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid


def forget(
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", metavar="PATH", help="Data directory of the stopped node.")
    ] = None,
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="YAML file with settings.")] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; without it, only say what would be done.")] = False,
) -> None:
    """Have a stopped node forget its cluster, to begin a new one with its topics.

    \b
      goqueue cluster forget --data-dir /var/lib/goqueue --yes

    For a cluster that has lost the majority of its voters for good. The node keeps its topics, groups and keys, and
    brings them to the next cluster that it is started in. It loses its vote in the former one.
    """
    from goqueue.daemon import forget_cluster  # noqa: PLC0415 - not for --help and completion

    place = os.path.abspath(load(config, os.environ, {"data_dir": data_dir}).data_dir)
    if not yes:
        raise UsageInvalid(
            f"confirmation required: the node of {place} would lose its vote for good", hint="`--yes` confirms it"
        )
    forget_cluster(place)
    terminal.say(f"{place} belongs to no cluster: start it, alone or with `cluster.peers`")
