"""`goqueue-cli` as a whole: where its flags come from, how it fails, and what it does not load."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.console import context_file, exits, failure, groups
from goqueue.console.command import Command, Program
from goqueue.console.completion import tree
from goqueue.console.contexts import Context, Contexts
from goqueue.errors import BrokerUnreachable, PartitionNotFound, RequestTimedOut, TopicBusy
from goqueue.testing.broker import LocalBroker
from goqueue_admin import registry as admin
from goqueue_cli import main
from goqueue_cli.registry import PROGRAM
from tests.brokers import broker, create, nobody, publish
from tests.cli.programs import COMMAND, ROOT, cli, environment, on_a_terminal

__all__ = ["broker", "nobody"]

COMMANDS = [command.path for command in PROGRAM.commands]


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
        (["prodce"], "error: there is no command 'prodce'\nhint: did you mean `goqueue-cli produce`?\n"),
        (["topic", "list", "-o", "jsn"], "error: --output: there is no 'jsn'\nhint: did you mean json?\n"),
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


def test_colours_can_be_asked_for_and_declined(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    assert "\x1b[1mTOPIC\x1b[0m" in on_a_terminal(broker.url, "topic", "list").out
    assert "\x1b[1mTOPIC\x1b[0m" in cli(broker.url, "topic", "list", "--color", "always", NO_COLOR="1").out
    assert "\x1b[1mTOPIC\x1b[0m" in cli(broker.url, "--color", "always", "topic", "list").out
    assert "\x1b[1;31merror:\x1b[0m" in cli(broker.url, "topic", "describe", "x", "--color", "always").err
    assert "\x1b" not in on_a_terminal(broker.url, "topic", "list", NO_COLOR="1").out
    assert "\x1b" not in on_a_terminal(broker.url, "topic", "list", TERM="dumb").out
    assert "\x1b" not in on_a_terminal(broker.url, "topic", "list", "--color", "never").out
    assert "\x1b" not in cli(broker.url, "topic", "list", "-o", "json", "--color", "always").out


def test_a_list_is_sorted_as_it_is_told(broker: LocalBroker) -> None:
    for name, partitions in (("a", 2), ("b", 3), ("c", 1)):
        create(broker.url, name, partitions)

    def listed(*words: str) -> str:
        return cli(broker.url, "topic", "list", "-o", "name", *words).out.replace("\n", "")

    assert cli(broker.url, "topic", "list", "-o", "jsonl", "--sort-by", "partitions").out.count("\n") == 3
    rows = cli(broker.url, "topic", "list", "--no-headers", "--sort-by", "PARTITIONS:desc").out.splitlines()
    assert [row.split()[0] for row in rows] == ["b", "a", "c"]
    assert listed("--sort-by", "name:desc") == "cba"
    wrong = cli(broker.url, "topic", "list", "--sort-by", "partition")
    assert (wrong.code, wrong.out) == (2, "")
    assert "hint: did you mean partitions?" in wrong.err


def test_a_narrow_terminal_gets_lines_that_fit(broker: LocalBroker) -> None:
    name = "a-topic-with-a-name-that-is-longer-than-others"
    create(broker.url, name)
    narrow = on_a_terminal(broker.url, "topic", "list", "-o", "wide", columns=40, NO_COLOR="1")
    assert all(len(line) <= 40 for line in narrow.out.splitlines())
    assert "…" in narrow.out
    assert name in cli(broker.url, "topic", "list", "-o", "wide").out, "what goes into a pipe is whole"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("words", ["topic list", "topic delete none", "config view", "--help"])
def test_a_stream_that_is_closed_is_no_bug(broker: LocalBroker, closed: str, words: str) -> None:
    command = f"{sys.executable} -m goqueue_cli.main {words} {closed}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url), capture_output=True, check=False
    )
    assert done.returncode == (2 if "delete" in words else 0)
    assert b"Traceback" not in done.stderr
    assert b"bug" not in done.stderr


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


@pytest.mark.parametrize("program", [PROGRAM, admin.PROGRAM], ids=lambda program: program.name)
def test_what_is_marked_as_dangerous_asks_before_or_shows_what_it_would_do(program: Program) -> None:
    flags = {node.paths[0]: {name for flag in node.flags for name in flag.names} for node in tree.nodes(program)}
    dangers = {command.path for command in program.commands if command.effect == "danger"}
    assert all(flags[path] >= {"--yes", "--confirm"} or "--dry-run" in flags[path] for path in dangers)


def test_a_list_of_commands_marks_what_wants_care() -> None:
    shown = cli("", "topic", "--help").out
    assert re.search(r"\n  delete ! +Delete topics and all of their messages\.\n", shown)
    assert shown.endswith("\n  ! wants care: its --help says why.\n")
    assert "!" not in cli("", "completion", "--help").out


_SLOW = {"numpy", "rich", "asyncio", "yaml", "textual"}
_OFTEN_NEEDLESS = _SLOW | {"ssl", "zstandard", "goqueue_cli.consuming.command", "goqueue.config"}
_UNREAD = _SLOW | {"goqueue.client", "msgspec", "goqueue_cli.consuming.command"}


@pytest.mark.parametrize(
    ("program", "words", "absent"),
    [
        ("goqueue_cli", ["--version"], {"typer", "typing", "dataclasses", "goqueue.errors", "goqueue.client"}),
        ("goqueue_cli", ["--help"], _UNREAD),
        ("goqueue_cli", ["__complete", "topics", "or"], _UNREAD | {"typer", "ssl", "http.client"}),
        ("goqueue_cli", ["__complete", "contexts", ""], _UNREAD | {"typer", "socket"}),
        ("goqueue_cli", ["config", "list"], _UNREAD | {"goqueue.config"}),
        ("goqueue_cli", ["topic", "describe", "orders"], _OFTEN_NEEDLESS),
        ("goqueue_cli", ["publish", "orders", "x"], _SLOW | {"ssl", "zstandard", "goqueue.config"}),
        ("goqueue_cli", ["consume", "orders"], _SLOW | {"ssl", "zstandard", "goqueue.config"}),
        ("goqueue_admin", ["--version"], {"typer", "typing", "dataclasses", "goqueue.errors", "goqueue.client"}),
        ("goqueue_admin", ["--help"], _UNREAD),
        ("goqueue_admin", ["config", "view"], _UNREAD | {"goqueue.config"}),
        ("goqueue_admin", ["broker", "describe"], _SLOW | {"ssl", "zstandard", "goqueue.config"}),
    ],
)
def test_a_command_loads_no_more_than_it_needs(
    broker: LocalBroker, program: str, words: list[str], absent: set[str], tmp_path: Path
) -> None:
    create(broker.url, "orders")
    config = tmp_path / "config.yaml"
    context_file.save(Contexts(str(config), "local", {"local": Context(server=broker.url)}))
    run = f"import sys; from {program}.main import main; main({words!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=ROOT, capture_output=True, text=True, check=True,
        env=environment(GOQUEUE_CONFIG=str(config), XDG_CACHE_HOME=str(tmp_path)),
    )  # fmt: skip
    assert absent & set(done.stderr.splitlines()[-1].split()) == set()


def test_a_list_for_a_reader_that_has_left_ends_quietly(broker: LocalBroker) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [*COMMAND, "topic", "list", "-o", "json"], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url),
            stdout=pipe, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [("topic", "create", b"a\xff"), ("publish", "orders", "x", "--header", b"a\xff=1")])
def test_a_name_that_is_no_text_is_a_wrong_command_and_no_bug(broker: LocalBroker, words: tuple[str, ...]) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: 'a\\udcff' is not text in UTF-8\n")


def test_more_than_there_is_may_be_asked_for(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a", "b")
    for flag in ("--last", "--limit"):
        done = cli(broker.url, "consume", "orders", flag, str(2**63 - 1))
        assert (done.code, done.out) == (0, "a\nb\n")
