"""`goqueue key`: API keys of a data directory whose broker is stopped."""

import os
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.clock import NANOSECONDS
from goqueue.config import load
from goqueue.console import terminal
from goqueue.console.flags import parse_duration_flag
from goqueue.console.key_file import new_key_file

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.broker.core.work import Work


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for the key.")],
    role: Annotated[
        list[str] | None, typer.Option("--role", metavar="ROLE", help="A role of the key; may be repeated.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="DURATION", help="Lifetime such as 90d. Default: no limit.")
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", metavar="PATH", help="Data directory of the broker.")
    ] = None,
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="YAML file with settings.")] = None,
    save: Annotated[
        str | None,
        typer.Option(
            "--save", metavar="FILE", help="Write the key to a new or empty file for its owner alone, not to stdout."
        ),
    ] = None,
) -> None:
    """Create an API key while the broker is stopped, and print it this once.

    \b
      goqueue key create admin --role admin --data-dir data --save admin.key

    This is the way back when no key with the role admin is left. While the broker runs, `goqueue-admin key create` does
    the same.
    """
    from goqueue.daemon import change_offline  # noqa: PLC0415 - not for --help and completion

    settings = load(config, os.environ, {"data_dir": data_dir})
    lifetime = None if expires is None else parse_duration_flag("--expires", expires)
    expires_ns = None if lifetime is None else time.time_ns() + round(lifetime * NANOSECONDS)
    with nullcontext() if save is None else new_key_file(save, "--save", may_be_empty=True) as file:
        text = change_offline(settings, lambda broker: _create(broker, name, role or [], expires_ns))
        if file is None:
            terminal.write(f"{text}\n")
        else:
            file.write(f"{text}\n")
    terminal.say("keep the key: only its digest is stored, and it is shown never again")


def _create(broker: "Broker", name: str, roles: list[str], expires_ns: int | None) -> "Work[str]":
    """Create a key, and record that in the audit trail."""
    from goqueue.broker.core.work import Promise  # noqa: PLC0415 - as above
    from goqueue.broker.security.audit import AuditEntry  # noqa: PLC0415

    _, text = yield from broker.security.create_key(name, roles, expires_ns, "")
    assert text is not None, "it belongs to no certificate"
    recorded: Promise[None] = Promise()
    broker.audit.record(AuditEntry("", "goqueue key create", name, "done"), recorded)
    yield from recorded.kept()
    return text
