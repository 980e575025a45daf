"""Completion: the scripts, in a real bash where that says more than its text, and the names from a broker."""

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from goqueue.commands import registry as daemon
from goqueue.console.command import Program
from goqueue.console.completion import live, tree
from goqueue.console.completion.command import SHELLS, Shell, script
from goqueue.storage.frame import PRIORITIES
from goqueue.testing.broker import LocalBroker
from goqueue_admin import registry as admin
from goqueue_cli.registry import PROGRAM
from goqueue_cli.transactions.listing import State
from tests.brokers import ask, broker, create
from tests.cli.programs import NO_CONTEXTS, ROOT, environment

__all__ = ["broker"]

PROGRAMS = [daemon.PROGRAM, PROGRAM, admin.PROGRAM]
NODES = tree.nodes(PROGRAM)

_ASK = """
COMP_LINE=$1 COMP_POINT=${#1}; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_goqueue_cli
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def bash_script() -> str:
    return script(PROGRAM, "bash")


def proposed(bash_script: str, line: str, directory: Path, **variables: str) -> list[str]:
    """What a real bash proposes at the end of a line, which it breaks into words as readline does."""
    words = re.findall(r"[^\s=:]+|[=:]+", line)
    current = [] if line[-1] not in " =" else [""]
    if line.endswith("="):
        words, current = words[:-1], ["="]
    program = f'goqueue-cli() {{ {sys.executable} -m goqueue_cli.main "$@"; }}\nexport PYTHONPATH={ROOT}\n'
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{program}{bash_script}{_ASK}", "bash", line, *words, *current], cwd=directory,
        env=environment(HOME=str(directory), **variables), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return sorted(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("goqueue-cli to", ["topic"]),
        ("goqueue-cli topic d", ["delete", "describe"]),
        ("goqueue-cli -s http://127.0.0.1:1 --no-headers topic d", ["delete", "describe"]),
        ("goqueue-cli --output=json topic d", ["delete", "describe"]),
        ("goqueue-cli topic list --inter", ["--internal"]),
        ("goqueue-cli topic list -o js", ["json", "jsonl"]),
        ("goqueue-cli topic list --output=js", ["json", "jsonl"]),
        ("goqueue-cli topic list --output=", sorted(["table", "wide", "name", "json", "jsonl", "yaml", "csv"])),
        ("goqueue-cli produce orders --priority b", ["background"]),
        ("goqueue-cli publish orders --file no", ["notes.txt"]),
        ("goqueue-cli completion ", ["bash", "fish", "zsh"]),
        ("goqueue-cli topic create or", []),
        ("goqueue-cli config edit production --unset t", ["timeout"]),
        ("goqueue-cli delayed re", ["reschedule"]),
        ("goqueue-cli delayed list orders --state c", ["cancelled"]),
        ("goqueue-cli wombat ", []),
    ],
)
def test_bash_proposes_what_fits(bash_script: str, tmp_path: Path, line: str, expected: list[str]) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "topics+").touch()
    if line == "goqueue-cli wombat ":
        expected = sorted(name for name, _ in NODES[0].children)
    assert proposed(bash_script, line, tmp_path) == expected


def test_bash_proposes_topics_groups_and_contexts(bash_script: str, broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "orders")
    create(broker.url, "orders-eu")
    create(broker.url, "payments")
    config = tmp_path / "config.yaml"
    config.write_text(f"current-context: local\ncontexts:\n  local:\n    server: {broker.url}\n  lost: {{}}\n")

    def found(line: str) -> list[str]:
        return proposed(bash_script, line, tmp_path, GOQUEUE_CONFIG=str(config))

    assert found("goqueue-cli topic describe or") == ["orders", "orders-eu"]
    assert found("goqueue-cli topic describe orders pay") == ["payments"]
    assert found("goqueue-cli -c lost topic describe or") == []
    assert found("goqueue-cli -c lo") == ["local", "lost"]
    assert found("goqueue-cli config use los") == ["lost"]
    assert found("goqueue-cli group describe ") == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_bash_understands_the_script_of_every_program(program: Program) -> None:
    subprocess.run(["bash", "-n", "-c", script(program, "bash")], check=True)


# --- what every script has ---


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_flag_is_in_the_script(program: Program, shell: Shell) -> None:
    text = script(program, shell)
    for node in tree.nodes(program):
        for flag in node.flags:
            for name in flag.names:
                assert (f"-l {name[2:]} " if shell == "fish" and name.startswith("--") else name.lstrip("-")) in text
    for command in program.commands:
        place = command.path if shell != "zsh" else command.path.replace(" ", "__").replace("-", "_")
        assert place in text


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_quotes_and_braces_of_a_script_are_closed(program: Program) -> None:
    for shell in SHELLS:
        text = re.sub(r"(?m)^#.*", "", script(program, shell))
        assert text.count("{") == text.count("}")
        quoted = text.replace("\\'", "") if shell == "fish" else text
        assert shlex.split(quoted), "every quote is closed, or this raises"


def test_zsh_takes_the_value_of_a_flag_in_both_ways_and_the_other_name_of_a_command() -> None:
    text = script(PROGRAM, "zsh")
    assert text.startswith("#compdef goqueue-cli\n")
    assert "'(-o --output)--output=[How to print]:value:(table wide name json jsonl yaml csv)'" in text
    assert "publish|produce) _goqueue_cli__publish ;;" in text
    assert "'*:name: _goqueue_cli_live topics'" in text


def test_fish_proposes_values_where_they_stand() -> None:
    text = script(PROGRAM, "fish")
    assert "-s o -l output -d 'How to print' -x -a 'table wide name json jsonl yaml csv'" in text
    assert """-n '__goqueue_cli_place -ge 0 "topic describe"' -a '(__goqueue_cli_live topics)\'""" in text
    assert "-l api-key-file -d 'The file that has the key' -r -F" in text


def test_priorities_are_those_of_the_broker() -> None:
    flags = [flag for node in NODES for flag in node.flags if "--priority" in flag.names]
    assert {flag.value for flag in flags} == {tree.Value(choices=PRIORITIES)}


# --- names ---


def names(kind: str, prefix: str, line: Sequence[str], home: Path, **variables: str) -> list[str]:
    there = {"XDG_CACHE_HOME": str(home), "GOQUEUE_CONFIG": NO_CONTEXTS, **variables}
    return live.names([kind, prefix, *line], there)


def test_names_come_from_the_broker_of_the_line(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "orders")
    assert names("topics", "or", ["topic", "describe", "--server", broker.url], tmp_path) == ["orders"]
    assert names("topics", "or", [f"--server={broker.url}", "-s"], tmp_path) == ["orders"]
    assert names("topics", "x", [], tmp_path, GOQUEUE_SERVER=broker.url) == []


def test_transactional_ids_are_names_too(broker: LocalBroker, tmp_path: Path) -> None:
    for name in ("till-1", "till-2"):
        assert ask(broker.url, "POST", "/producers/init", {"transactional_id": name}).status == 200
    assert names("transactions", "till", [], tmp_path, GOQUEUE_SERVER=broker.url) == ["till-1", "till-2"]
    (node,) = [node for node in NODES if "transaction list" in node.paths]
    (state,) = [flag.value for flag in node.flags if "--state" in flag.names]
    assert state == tree.Value(choices=get_args(State))


def test_names_are_kept_for_a_moment_for_each_broker_and_key(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "orders")
    assert names("topics", "", [], tmp_path, GOQUEUE_SERVER=broker.url) == ["orders"]
    create(broker.url, "payments")
    assert names("topics", "", [], tmp_path, GOQUEUE_SERVER=broker.url) == ["orders"]
    assert names("topics", "", ["--api-key", "k"], tmp_path, GOQUEUE_SERVER=broker.url) == ["orders", "payments"]


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "ht!tp", "https://127.0.0.1:1", "", "http://[::1"])
def test_a_broker_that_is_not_there_has_no_names(server: str, tmp_path: Path) -> None:
    assert names("topics", "", ["-s", server], tmp_path) == []


def test_a_broker_that_never_answers_has_none_either(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert names("topics", "", ["-s", server], tmp_path) == []


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 500 x\r\n\r\n", b"HTTP/1.1 200 x\r\n\r\nno json", b"HTTP/1.1 200 x\r\n\r\n[]"]
)
def test_an_answer_that_is_none_has_no_names(answer: bytes, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        program = (
            "import sys, json; from goqueue.console.completion import live;"
            "print(json.dumps(live.names(['topics', '', '-s', sys.argv[1]], {'XDG_CACHE_HOME': sys.argv[2]})))"
        )
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with subprocess.Popen(
            [sys.executable, "-c", program, url, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True,
            env=environment(),
        ) as process:  # fmt: skip
            connection, _ = server.accept()
            connection.recv(4096)
            connection.sendall(answer)
            connection.close()
            assert process.stdout is not None
            assert json.load(process.stdout) == []


def test_a_file_of_contexts_that_is_wrong_is_passed_over(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("contexts: [")
    assert names("contexts", "", [], tmp_path, GOQUEUE_CONFIG=str(config)) == []
    assert names("wombats", "", [], tmp_path) == []
