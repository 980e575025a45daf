"""Common behavior of all programs: help, loaded modules, and a broker that is not there."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.commands import registry as daemon
from goqueue.console import command_tree, contexts
from goqueue.console.command_tree import Program
from goqueue.console.contexts import Context, Contexts
from goqueue.testing.broker import LocalBroker
from goqueue_admin import registry as admin
from goqueue_cli import registry as client
from tests.brokers import create
from tests.cli.programs import ROOT, cli, environment

PROGRAMS = [daemon.PROGRAM, client.PROGRAM, admin.PROGRAM]


def helps(command: Any, context: Any) -> Iterator[tuple[str, str]]:
    """Yield the path and the help of a command and of all below it, at 80 columns."""
    yield context.command_path, command.get_help(context)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        with below.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            yield from helps(below, inner)


def helps_of(program: Program) -> dict[str, str]:
    root = command_tree.root_command(program)
    with root.make_context(program.name, [], resilient_parsing=True, terminal_width=80) as context:
        return dict(helps(root, context))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_help_begins_with_what_it_does_and_fits_a_terminal(program: Program) -> None:
    found = helps_of(program)
    sentences = {f"{program.name} {command.path}": command.help for command in program.commands}
    assert sentences.keys() < found.keys()
    for path, text in found.items():
        _, told, *_ = text.split("\n\n")
        assert " ".join(told.split()) == sentences.get(path, " ".join(told.split())), path
        assert told.strip().endswith("."), path
        assert [line for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("program", PROGRAMS[1:], ids=lambda program: program.name)
def test_help_has_examples_of_the_command(program: Program) -> None:
    for path, text in helps_of(program).items():
        example = text.split("\n\n")[2].strip()
        assert example.startswith(
            path if path in {f"{program.name} {one.path}" for one in program.commands} else program.name
        )


SLOW = {"numpy", "rich", "asyncio", "yaml", "textual", "pydantic", "goqueue.observe"}
WITHOUT_TLS = SLOW | {"ssl", "zstandard", "goqueue.config"}
UNREAD = SLOW | {"goqueue.client", "msgspec", "goqueue_cli.consuming.command", "goqueue.storage", "goqueue.config"}
VERSION = {"typer", "typing", "dataclasses", "goqueue.errors", "goqueue.client"}


@pytest.mark.parametrize(
    ("module", "words", "absent"),
    [
        ("goqueue.commands.main", ["--version"], VERSION | {"re"}),
        ("goqueue.commands.main", ["--help"], SLOW | {"goqueue.storage", "goqueue.config"}),
        ("goqueue_cli.main", ["--version"], VERSION),
        ("goqueue_cli.main", ["--help"], UNREAD),
        ("goqueue_cli.main", ["__complete", "goqueue-cli topic describe or"], UNREAD | {"ssl", "http.client"}),
        ("goqueue_cli.main", ["__complete", "goqueue-cli -c "], UNREAD | {"socket"}),
        ("goqueue_cli.main", ["config", "list"], UNREAD),
        ("goqueue_cli.main", ["topic", "describe", "orders"], WITHOUT_TLS | {"goqueue_cli.consuming.command"}),
        ("goqueue_cli.main", ["group", "list"], SLOW | {"ssl"}),
        ("goqueue_cli.main", ["dlq", "browse", "orders"], SLOW | {"ssl"}),
        ("goqueue_cli.main", ["publish", "orders", "x"], WITHOUT_TLS),
        ("goqueue_cli.main", ["consume", "orders"], WITHOUT_TLS),
        ("goqueue_admin.main", ["--version"], VERSION),
        ("goqueue_admin.main", ["--help"], UNREAD),
        ("goqueue_admin.main", ["doctor"], SLOW | {"ssl"}),
        ("goqueue_admin.main", ["broker", "describe"], WITHOUT_TLS),
        ("goqueue_admin.main", ["rebalance", "list"], SLOW | {"ssl"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value if isinstance(value, str) else "",
)
def test_a_command_loads_no_more_than_it_needs(
    shared_broker: LocalBroker, module: str, words: list[str], absent: set[str], tmp_path: Path
) -> None:
    if "orders" not in cli(shared_broker.url, "topic", "list", "-o", "name").out.split():
        create(shared_broker.url, "orders")
    config = tmp_path / "config.yaml"
    contexts.save(Contexts(str(config), "local", {"local": Context(server=shared_broker.url)}))
    code = f"import sys; from {module} import main; main({words!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
        env=environment(GOQUEUE_CONFIG=str(config), XDG_CACHE_HOME=str(tmp_path)),
    )  # fmt: skip
    assert absent & set(done.stderr.splitlines()[-1].split()) == set()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("goqueue_cli.main", ["topic", "list"]),
        ("goqueue_cli.main", ["publish", "orders", "x"]),
        ("goqueue_cli.main", ["consume", "orders", "--follow"]),
        ("goqueue_admin.main", ["doctor"]),
        ("goqueue_admin.main", ["broker", "watch"]),
        ("goqueue_admin.main", ["rebalance", "list"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value if isinstance(value, str) else "",
)
def test_unreachable_broker_ends_with_3(closed_url: str, module: str, words: list[str]) -> None:
    done = cli(closed_url, *words, command=(sys.executable, "-m", module))
    assert (done.code, done.out) == (3, "")
    assert f"cause: broker_unreachable: no broker answers at {closed_url}: Connection refused\n" in done.err
    assert "hint: `goqueue serve` starts a broker on this machine" in done.err
