"""`goqueue-cli` as a whole: where its flags come from, how it fails, and what it does not load."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from goqueue.console import completion, failure
from goqueue.console.command_tree import Program
from goqueue.errors import BrokerUnreachable, PartitionNotFound, RequestTimedOut, TopicBusy
from goqueue.testing.broker import LocalBroker
from goqueue_admin import registry as admin
from goqueue_cli.registry import PROGRAM
from tests.brokers import create, publish
from tests.cli.programs import ROOT, cli, environment, on_a_terminal

COMMANDS = [command.path for command in PROGRAM.commands]


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


# --- flags ---


def test_a_flag_is_stronger_than_the_environment_on_both_sides_of_the_command(
    broker: LocalBroker, closed_url: str
) -> None:
    create(broker.url, "orders")
    assert cli(closed_url, "topic", "list", "-s", broker.url).code == 0
    assert cli(closed_url, "--server", broker.url, "topic", "list", GOQUEUE_OUTPUT="json").out.startswith("[")
    assert (
        cli(closed_url, "-s", closed_url, "-o", "json", "topic", "list", "-s", broker.url, "-o", "name").out
        == "orders\n"
    )
    assert cli(broker.url, "--no-headers", "topic", "list").out.split()[0] == "orders"


def test_a_format_is_stronger_than_the_environment(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a")
    assert cli(broker.url, "consume", "orders", "--format", "%v", GOQUEUE_OUTPUT="json").out == "a"
    assert cli(broker.url, "consume", "orders", GOQUEUE_OUTPUT="name").out == "orders/0@0\n"


@pytest.mark.parametrize(
    ("variables", "words", "said"),
    [
        ({"GOQUEUE_OUTPUT": "xml"}, [], "error: GOQUEUE_OUTPUT is 'xml'\nhint: use one of table, wide,"),
        ({"GOQUEUE_TIMEOUT": "soon"}, [], "error: GOQUEUE_TIMEOUT: 'soon' is not a duration"),
        ({}, ["--timeout", "0"], "error: --timeout is 0, and must be above 0"),
        ({}, ["--server", "ht!tp"], "cause: request_invalid: 'ht!tp' is not the address of a broker"),
    ],
)
def test_invalid_option_is_reported_with_its_origin(
    variables: dict[str, str], words: list[str], said: str, closed_url: str
) -> None:
    done = cli(closed_url, "topic", "list", *words, **variables)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


# --- failures ---


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
        (["dashboard"], "error: there is no command 'dashboard'\nhint: did you mean `goqueue-admin dashboard`?\n"),
        (
            ["broker", "watch", "--every", "1s"],
            "error: there is no command 'broker'\nhint: did you mean `goqueue-admin broker watch`?\n",
        ),
        (["fsck", "data"], "error: there is no command 'fsck'\nhint: did you mean `goqueue fsck`?\n"),
        (["prodce"], "error: there is no command 'prodce'\nhint: did you mean `goqueue-cli produce`?\n"),
        (["topic", "list", "-o", "jsn"], "error: --output: there is no 'jsn'\nhint: did you mean json?\n"),
    ],
)
def test_mistyped_word_gets_a_suggestion(words: list[str], said: str) -> None:
    done = cli("", *words)
    assert (done.code, done.out, done.err) == (2, "", said)


@pytest.mark.parametrize(
    ("error", "code"),
    [(BrokerUnreachable("x"), 3), (PartitionNotFound("x"), 5), (TopicBusy("x"), 5), (RequestTimedOut("x"), 6)],
)
def test_the_exit_code_of_a_refusal_is_that_of_its_cause(error: Exception, code: int) -> None:
    with pytest.raises(failure.ActionFailed) as refusal, failure.doing("do it"):
        raise error
    assert failure.report_error(refusal.value, debug=False) == code


def test_colours_are_for_terminals_that_want_them(closed_url: str) -> None:
    assert "\x1b" not in cli(closed_url, "topic", "list").err
    assert "\x1b" not in on_a_terminal(closed_url, "topic", "list").err  # which is a pipe there
    assert "\x1b" not in on_a_terminal(closed_url, "topic", "list", NO_COLOR="1").out


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


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        *(("topic list", closed) for closed in (">&-", "2>&-", "<&-", ">&- 2>&- <&-")),
        ("topic delete none", "<&-"),
        ("topic delete none", "2>&-"),
        ("config view", ">&- 2>&- <&-"),
        ("--help", ">&- 2>&- <&-"),
    ],
)
def test_a_stream_that_is_closed_is_no_bug(broker: LocalBroker, words: str, closed: str) -> None:
    command = f"{sys.executable} -m goqueue_cli.main {words} {closed}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url), capture_output=True, check=False
    )
    assert done.returncode == (2 if "delete" in words else 0)
    assert b"Traceback" not in done.stderr
    assert b"bug" not in done.stderr


# --- help, and what is loaded ---


@pytest.mark.parametrize("program", [PROGRAM, admin.PROGRAM], ids=lambda program: program.name)
def test_what_is_marked_as_dangerous_asks_before_or_shows_what_it_would_do(program: Program) -> None:
    for command in program.commands:
        if command.effect == "danger":
            flags = {flag for flag, _ in completion.proposals(program, f"{program.name} {command.path} -", {})}
            assert flags >= {"--yes", "--confirm"} or "--dry-run" in flags, command.path


def test_a_list_of_commands_marks_what_wants_care() -> None:
    shown = cli("", "topic", "--help").out
    assert re.search(r"\n  delete ! +Delete topics and all of their messages\.\n", shown)
    assert shown.endswith("\n  ! can lose data or stop consumers; see its --help.\n")
    assert "!" not in cli("", "completion", "--help").out


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
