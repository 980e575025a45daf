"""`goqueue-cli` as a whole: where its flags come from, how it fails, and what it does not load."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from goqueue.console import exits, failure, groups
from goqueue.console.command import Command, Program
from goqueue.errors import BrokerUnreachable, PartitionNotFound, RequestTimedOut, TopicBusy
from goqueue.testing.broker import LocalBroker
from goqueue_cli import main
from goqueue_cli.registry import PROGRAM
from tests.brokers import broker, create, publish
from tests.cli.programs import COMMAND, ROOT, cli, environment, on_a_terminal

__all__ = ["broker"]

COMMANDS = [command.path for command in PROGRAM.commands]


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address at which somebody listens and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


# --- flags ---


def test_a_flag_is_stronger_than_the_environment_on_both_sides_of_the_command(broker: LocalBroker, nobody: str) -> None:
    create(broker.url, "orders")
    assert cli(nobody, "topic", "list", "-s", broker.url).code == 0
    assert cli(nobody, "--server", broker.url, "topic", "list", GOQUEUE_OUTPUT="json").out.startswith("[")
    assert cli(nobody, "-s", nobody, "-o", "json", "topic", "list", "-s", broker.url, "-o", "name").out == "orders\n"
    assert cli(broker.url, "--no-headers", "topic", "list").out.split()[0] == "orders"


def test_a_format_is_stronger_than_the_environment(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a")
    assert cli(broker.url, "consume", "orders", "--format", "%v", GOQUEUE_OUTPUT="json").out == "a"
    assert cli(broker.url, "consume", "orders", GOQUEUE_OUTPUT="name").out == "orders/0@0\n"


@pytest.mark.parametrize(
    ("variables", "words", "said"),
    [
        ({"GOQUEUE_OUTPUT": "xml"}, [], "error: GOQUEUE_OUTPUT is 'xml'\nhint: write one of table, wide,"),
        ({"GOQUEUE_TIMEOUT": "soon"}, [], "error: GOQUEUE_TIMEOUT: 'soon' is not a duration"),
        ({}, ["--timeout", "0"], "error: --timeout is 0, which leaves no time for an answer"),
        ({}, ["--server", "ht!tp"], "cause: request_invalid: 'ht!tp' is not the address of a broker"),
    ],
)
def test_what_is_configured_wrongly_is_named(
    variables: dict[str, str], words: list[str], said: str, nobody: str
) -> None:
    done = cli(nobody, "topic", "list", *words, **variables)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


# --- failures ---


@pytest.mark.parametrize("words", [["topic", "list"], ["publish", "orders", "x"], ["consume", "orders", "--follow"]])
def test_nobody_there_is_told_at_once_and_ends_with_3(nobody: str, words: list[str]) -> None:
    done = cli(nobody, *words)
    assert (done.code, done.out) == (3, "")
    assert f"cause: broker_unreachable: nobody answers at {nobody}: Connection refused\n" in done.err
    assert "hint: `goqueue serve` starts a broker on this machine" in done.err


def test_no_answer_in_time_ends_with_6(silent: str) -> None:
    done = cli(silent, "topic", "list", "--timeout", "200ms")
    assert (done.code, done.out) == (6, "")
    assert "cause: request_timed_out: " in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tpic"], "error: there is no command 'tpic'\nhint: did you mean `goqueue-cli topic`?\n"),
        (["topic", "lst"], "error: there is no command 'lst'\nhint: did you mean `goqueue-cli topic list`?\n"),
        (["topic", "list", "--intrnal"], "error: no such option: --intrnal\nhint: did you mean --internal?\n"),
    ],
)
def test_a_mistyped_word_is_told_with_the_nearest_one(words: list[str], said: str) -> None:
    done = cli("", *words)
    assert (done.code, done.out, done.err) == (2, "", said)


@pytest.mark.parametrize(
    ("error", "code"),
    [(BrokerUnreachable("x"), 3), (PartitionNotFound("x"), 5), (TopicBusy("x"), 5), (RequestTimedOut("x"), 6)],
)
def test_the_exit_code_of_a_refusal_is_that_of_its_cause(error: Exception, code: int) -> None:
    with pytest.raises(failure.Refusal) as refusal, failure.doing("do it"):
        raise error
    assert failure.explain(refusal.value, debug=False) == code


def test_a_bug_of_ours_is_one_line_and_with_debug_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(program: Program) -> None:
        raise KeyError(program.name)

    monkeypatch.setattr(groups, "root", fail)
    assert main.main(["topic", "list"]) == exits.OUR_BUG
    assert "Traceback" not in capfd.readouterr().err
    assert main.main(["topic", "list", "--debug"]) == exits.OUR_BUG
    assert "Traceback" in capfd.readouterr().err


def test_colours_are_for_terminals_that_want_them(nobody: str) -> None:
    assert "\x1b" not in cli(nobody, "topic", "list").err
    assert "\x1b" not in on_a_terminal(nobody, "topic", "list").err  # which is a pipe there
    assert "\x1b" not in on_a_terminal(nobody, "topic", "list", NO_COLOR="1").out


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["topic", "list"]])
def test_a_full_disk_behind_stdout_is_told(broker: LocalBroker, words: list[str]) -> None:
    create(broker.url, "orders")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *words], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url), stdout=full,
            stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert b"error: the operating system refused: No space left on device\n" in done.stderr


# --- help, and what is loaded ---


@pytest.mark.parametrize("command", PROGRAM.commands, ids=COMMANDS)
def test_help_begins_with_what_it_does_and_examples(command: Command) -> None:
    done = cli("", *command.path.split(), "--help")
    assert done.code == 0
    _, told, examples, *_ = done.out.split("\n\n")
    assert told.strip() == command.help
    assert examples.strip().startswith(f"goqueue-cli {command.path}")


@pytest.mark.parametrize("words", [[], ["topic"]])
def test_help_of_a_group_leads_with_what_it_is_for_and_examples(words: list[str]) -> None:
    _, told, examples, *_ = cli("", *words, "--help").out.split("\n\n")
    assert told.strip().endswith(".")
    assert examples.strip().startswith("goqueue-cli topic create")


def test_what_destroys_is_marked_as_dangerous() -> None:
    assert [command.path for command in PROGRAM.commands if command.effect == "danger"] == ["topic delete"]


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        (["--version"], {"typer", "typing", "dataclasses", "goqueue.errors", "goqueue.client"}),
        (["--help"], {"goqueue.client", "numpy", "rich", "asyncio", "yaml", "msgspec", "goqueue_cli.consume"}),
        (["topic", "list"], {"numpy", "rich", "asyncio", "yaml", "ssl", "zstandard", "goqueue_cli.consume"}),
        (["publish", "orders", "x"], {"numpy", "rich", "asyncio", "yaml", "ssl", "zstandard"}),
        (["consume", "orders"], {"numpy", "rich", "asyncio", "yaml", "ssl", "zstandard"}),
    ],
)
def test_a_command_loads_no_more_than_it_needs(broker: LocalBroker, words: list[str], absent: set[str]) -> None:
    create(broker.url, "orders")
    program = f"import sys; from goqueue_cli.main import main; main({words!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url), capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert absent.isdisjoint(done.stderr.splitlines()[-1].split())


def test_a_list_for_a_reader_that_has_left_ends_quietly(broker: LocalBroker) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [*COMMAND, "topic", "list", "-o", "json"], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url),
            stdout=pipe, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
