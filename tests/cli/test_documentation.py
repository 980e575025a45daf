"""What is said of commands: those of `docs/cli.md` run, one after the other, and every help fits a terminal."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.commands import registry as daemon_registry
from goqueue.console import groups
from goqueue.console.command import Program
from goqueue.testing.broker import LocalBroker
from goqueue_admin import registry as admin_registry
from goqueue_cli import registry as cli_registry
from tests.brokers import broker
from tests.cli.programs import ROOT, environment

__all__ = ["broker"]


def test_every_command_of_the_page_runs(broker: LocalBroker, tmp_path: Path) -> None:
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs/cli.md").read_text(), re.MULTILINE | re.DOTALL))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path,
        env=environment(GOQUEUE_SERVER=broker.url, PATH=path),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"tea=450" in done.stdout


def texts(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    """The help of a command and of all below it, at 80 columns."""
    yield context.command_path, command.get_help(context)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        with below.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            yield from texts(below, inner)


@pytest.mark.parametrize("program", [cli_registry.PROGRAM, admin_registry.PROGRAM, daemon_registry.PROGRAM])
def test_no_help_is_wider_than_a_terminal(program: Program) -> None:
    root = groups.root(program)
    with root.make_context(program.name, [], resilient_parsing=True, terminal_width=80) as context:
        wide = [(path, line) for path, text in texts(root, context) for line in text.splitlines() if len(line) > 80]
    assert wide == []
