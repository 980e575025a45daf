"""`goqueue-admin` as a whole: its help, how it fails, and what it does not load."""

import subprocess
import sys

import pytest

from goqueue import __version__
from goqueue.console.command import Command
from goqueue.testing.broker import LocalBroker
from goqueue_admin.registry import PROGRAM
from tests.admin.programs import admin
from tests.brokers import broker, nobody
from tests.cli.programs import ROOT, environment

__all__ = ["broker", "nobody"]

COMMANDS = [command.path for command in PROGRAM.commands]


def test_it_says_its_version() -> None:
    assert admin("", "--version").out == f"goqueue-admin {__version__}\n"


@pytest.mark.parametrize("command", PROGRAM.commands, ids=COMMANDS)
def test_help_begins_with_what_it_does_and_examples(command: Command) -> None:
    done = admin("", *command.path.split(), "--help")
    assert done.code == 0, done.err
    _, told, examples, *_ = done.out.split("\n\n")
    assert told.strip() == command.help
    assert examples.strip().startswith(f"goqueue-admin {command.path}")


@pytest.mark.parametrize("words", [[], ["broker"], ["rebalance"]])
def test_help_of_a_group_leads_with_what_it_is_for_and_examples(words: list[str]) -> None:
    _, told, examples, *_ = admin("", *words, "--help").out.split("\n\n")
    assert told.strip().endswith(".")
    assert examples.strip().startswith("goqueue-admin ")


@pytest.mark.parametrize(
    "words", [["doctor"], ["broker", "describe"], ["broker", "watch"], ["rebalance", "list"], ["rebalance", "watch"]]
)
def test_nobody_there_is_told_at_once_and_ends_with_3(nobody: str, words: list[str]) -> None:
    done = admin(nobody, *words)
    assert (done.code, done.out) == (3, "")
    assert f"cause: broker_unreachable: nobody answers at {nobody}: Connection refused\n" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["docter"], "error: there is no command 'docter'\nhint: did you mean `goqueue-admin doctor`?\n"),
        (["broker", "x"], "error: there is no command 'x'\nhint: `goqueue-admin broker --help` lists the commands\n"),
        (["doctor", "--severty", "note"], "error: no such option: --severty\nhint: did you mean --severity?\n"),
        (["doctor", "--severity", "x"], "error: --severity: there is no 'x'\nhint: write one of critical, "),
        (["rebalance", "describe", ""], "error: '' is not the name of a group\n"),
    ],
)  # fmt: skip
def test_what_is_typed_wrongly_is_told_with_what_was_meant(words: list[str], said: str) -> None:
    done = admin("", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said)


def test_no_command_here_destroys_anything() -> None:
    ours = [command for command in PROGRAM.commands if not command.path.startswith("config ")]
    assert {command.effect for command in ours} == {"read"}


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (["--version"], {"typer", "typing", "dataclasses", "goqueue.errors", "goqueue.client"}),
        (["--help"], {"goqueue.client", "numpy", "rich", "textual", "asyncio", "yaml", "msgspec"}),
        (["doctor"], {"numpy", "rich", "textual", "asyncio", "yaml", "ssl", "goqueue.observe"}),
        (["broker", "describe"], {"numpy", "rich", "textual", "asyncio", "yaml", "ssl"}),
        (["rebalance", "list"], {"numpy", "rich", "textual", "asyncio", "yaml", "ssl"}),
    ],
)
def test_a_command_loads_no_more_than_it_needs(broker: LocalBroker, words: list[str], absent: set[str]) -> None:
    program = f"import sys; from goqueue_admin.main import main; main({words!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert absent.isdisjoint(done.stderr.splitlines()[-1].split())
