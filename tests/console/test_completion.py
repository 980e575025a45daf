"""Shell completion: proposals for a line, the scripts in a real bash, and the names from a broker."""

import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from goqueue.broker.core.topic import TopicSettings
from goqueue.client import TenantQuotas
from goqueue.commands import registry as daemon
from goqueue.console import completion, completion_names
from goqueue.console.command_tree import Program
from goqueue.console.completion import SHELLS, proposals, script
from goqueue.console.quotas import QUOTAS
from goqueue.console.rows import OUTPUTS
from goqueue.console.topic_settings import TOPIC_SETTINGS
from goqueue.storage.frame import PRIORITIES
from goqueue.testing.broker import LocalBroker
from goqueue_admin import registry as admin
from goqueue_cli.registry import PROGRAM
from goqueue_cli.transactions import State
from tests.api.keys import eventually
from tests.brokers import ask, create
from tests.cli.programs import NO_CONTEXTS, ROOT, environment

CLOSED = "http://127.0.0.1:1"
"""Where no program listens; at the default address the broker of another test may."""

PROGRAMS = [daemon.PROGRAM, PROGRAM, admin.PROGRAM]

_ASK = """
COMP_LINE=$1 COMP_POINT=${#1}; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_goqueue_cli
printf '%s\\n' "${COMPREPLY[@]}"
"""


def words(line: str) -> list[str]:
    return sorted(word for word, _ in proposals(PROGRAM, line, {"GOQUEUE_CONFIG": NO_CONTEXTS}))


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
        ("goqueue-cli topic list --output=", sorted(OUTPUTS)),
        ("goqueue-cli topic list --output='js", ["json", "jsonl"]),
        ("goqueue-cli produce orders --priority b", ["background"]),
        ("goqueue-cli publish orders --priority ", sorted(PRIORITIES)),
        ("goqueue-cli publish orders --file no", [":files"]),
        ("goqueue-cli completion ", ["bash", "fish", "zsh"]),
        ("goqueue-cli topic create or", []),
        (
            "goqueue-cli topic edit orders --set value_v",
            [f"value_validation={how}" for how in ("id", "none", "payload")],
        ),
        ("goqueue-cli topic create orders --set retention_b", ["retention_bytes="]),
        ("goqueue-cli topic list -- --inter", []),
        ("goqueue-cli config edit production --unset t", ["tenant", "timeout"]),
        ("goqueue-cli config create x --no-pro", ["--no-protected"]),
        ("goqueue-cli delayed re", ["reschedule"]),
        ("goqueue-cli delayed list orders --state c", ["cancelled"]),
        ("goqueue-cli transaction list --state ", sorted(get_args(State))),
        ("goqueue-cli wombat topic d", ["delete", "describe"]),
        ("goqueue-cli group reset billing x y", []),
    ],
)
def test_proposals_fit_the_end_of_the_line(line: str, expected: list[str]) -> None:
    assert words(line) == expected


def literals(kind: Any) -> list[str]:
    """Return the texts that a type allows, alone or beside other types."""
    return [one for part in get_args(kind) for one in ([part] if isinstance(part, str) else literals(part))]


def test_settings_of_topics_are_those_of_the_broker() -> None:
    types = {one.name: one.type for one in msgspec.structs.fields(TopicSettings)}
    assert list(TOPIC_SETTINGS) == list(types)
    for name, values in TOPIC_SETTINGS.items():
        assert not values or list(values) == literals(types[name]), name


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_command_and_flag_is_proposed_with_its_help(program: Program) -> None:
    for command in program.commands:
        noun, _, verb = f"{program.name} {command.path}".rpartition(" ")
        assert verb in {word for word, text in proposals(program, f"{noun} ", {}) if text}
        flags = dict(proposals(program, f"{noun} {verb} -", {}))
        assert {"-h", "--help"} <= flags.keys()
        assert all(flags.values()), command.path


# --- scripts ---


def proposed_by_bash(line: str, directory: Path, **variables: str) -> list[str]:
    """Return what a real bash proposes at the end of a line, which it splits into words as readline does."""
    typed = re.findall(r"[^\s=:]+|[=:]+", line)
    current = [] if line[-1] not in " =" else [""]
    if line.endswith("="):
        typed, current = typed[:-1], ["="]
    program = f'goqueue-cli() {{ {sys.executable} -m goqueue_cli.main "$@"; }}\nexport PYTHONPATH={ROOT}\n'
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{program}{script('goqueue-cli', 'bash')}{_ASK}", "bash", line, *typed, *current],
        cwd=directory, env=environment(HOME=str(directory), **variables), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return sorted(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("goqueue-cli -s http://127.0.0.1:1 --no-headers topic d", ["delete", "describe"]),
        ("goqueue-cli topic list --output=js", ["json", "jsonl"]),
        ("goqueue-cli publish orders --file no", ["notes.txt"]),
        ("goqueue-cli publish orders --file=", ["notes.txt", "topics+"]),
        ("goqueue-cli topic create or", []),
    ],
)
def test_bash_proposes_what_the_program_answers(tmp_path: Path, line: str, expected: list[str]) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "topics+").touch()
    assert proposed_by_bash(line, tmp_path) == expected


def test_bash_proposes_topics_groups_and_contexts(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "orders")
    create(broker.url, "orders-eu")
    create(broker.url, "payments")
    config = tmp_path / "config.yaml"
    config.write_text(
        f"current-context: local\ncontexts:\n  local:\n    server: {broker.url}\n  lost:\n    server: {CLOSED}\n"
    )

    def found(line: str) -> list[str]:
        return proposed_by_bash(line, tmp_path, GOQUEUE_CONFIG=str(config))

    def asked(line: str) -> list[str]:
        """Ask again while nothing comes: a busy machine may take longer than a shell waits."""
        return next(names for _ in range(100) if (names := found(line)))

    assert asked("goqueue-cli topic describe or") == ["orders", "orders-eu"]
    assert asked("goqueue-cli topic describe orders pay") == ["payments"]
    assert found("goqueue-cli -c lost topic describe or") == []
    assert found("goqueue-cli -c lo") == ["local", "lost"]
    assert found("goqueue-cli config use los") == ["lost"]
    assert found("goqueue-cli group describe ") == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_scripts_of_every_shell_are_well_formed(program: Program) -> None:
    subprocess.run(["bash", "-n", "-c", script(program.name, "bash")], check=True)
    for shell in SHELLS:
        text = re.sub(r"(?m)^#.*", "", script(program.name, shell))
        assert text.count("{") == text.count("}")
        assert f"{program.name} __complete" in text
        assert shlex.split(text), "an open quote raises"


def test_a_program_that_fails_proposes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    completion.answer("goqueue_cli.nothing", "goqueue-cli ")
    assert capfd.readouterr() == ("", "")


# --- names ---


def names(kind: str, prefix: str, line: Sequence[str], home: Path, **variables: str) -> list[str]:
    there = {"XDG_CACHE_HOME": str(home), "GOQUEUE_CONFIG": NO_CONTEXTS, **variables}
    return completion_names.names(kind, prefix, line, there)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer for an answer, and between two, than a shell waits."""
    monkeypatch.setattr(completion_names, "_SECONDS_MAX", 60.0)
    monkeypatch.setattr(completion_names, "_KEPT_SECONDS", 600.0)


@pytest.mark.usefixtures("patient")
def test_names_come_from_the_broker_of_the_line(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "orders")
    assert names("topics", "or", ["topic", "describe", "--server", broker.url], tmp_path) == ["orders"]
    assert names("topics", "or", [f"--server={broker.url}", "-s"], tmp_path) == ["orders"]
    assert names("topics", "x", [], tmp_path, GOQUEUE_SERVER=broker.url) == []


@pytest.mark.usefixtures("patient")
def test_transactional_ids_are_names(broker: LocalBroker, tmp_path: Path) -> None:
    for name in ("till-1", "till-2"):
        assert ask(broker.url, "POST", "/producers/init", {"transactional_id": name}).status == 200
    assert names("transactions", "till", [], tmp_path, GOQUEUE_SERVER=broker.url) == ["till-1", "till-2"]


@pytest.mark.usefixtures("patient")
def test_subjects_are_names(broker: LocalBroker, tmp_path: Path) -> None:
    assert ask(broker.url, "POST", "/subjects/orders-value/versions", {"schema": '"string"'}).status == 200
    there = {"GOQUEUE_SERVER": broker.url, "XDG_CACHE_HOME": str(tmp_path), "GOQUEUE_CONFIG": NO_CONTEXTS}
    for line in ("publish orders --schema or", "publish orders --key-schema=or", "schema describe "):
        assert proposals(PROGRAM, f"goqueue-cli {line}", there) == [("orders-value", "")]


@pytest.mark.usefixtures("patient")
def test_versions_tenants_backups_and_quotas_are_names(tmp_path: Path) -> None:
    target, there = tmp_path / "backups", {"XDG_CACHE_HOME": str(tmp_path), "GOQUEUE_CONFIG": NO_CONTEXTS}

    def proposed(program: Program, line: str) -> list[str]:
        return [word for word, _ in proposals(program, f"{program.name} {line}", there)]

    with LocalBroker(str(tmp_path / "data"), tenants__enabled="true", backup__target=str(target)) as broker:
        there["GOQUEUE_SERVER"] = broker.url
        for text in ('"string"', '["string","null"]'):
            assert ask(broker.url, "POST", "/subjects/a%2Fb/versions", {"schema": text}).status == 200
        assert ask(broker.url, "POST", "/admin/tenants", {"name": "Team A"}).status in {200, 201}
        made = ask(broker.url, "POST", "/admin/backup").json["id"]
        eventually(lambda: ask(broker.url, "GET", f"/admin/backup/{made}").json["state"] != "running")
        for line in ("schema diff a/b ", "schema diff a/b 1 ", "schema describe a/b --version "):
            assert proposed(PROGRAM, line) == ["1", "2"], line
        for line in (
            "tenant describe te",
            "usage te",
            "quota set te",
            "key create x --tenant ",
            "tenant list --tenant=",
        ):
            assert proposed(admin.PROGRAM, line) == ["team-a"], line
        for line in ("quota set team-b max_to", "quota test max_to"):
            assert proposed(admin.PROGRAM, line) == ["max_topics=", "max_total_partitions="], line
        assert proposed(admin.PROGRAM, "backup describe ") == [made]
    kept = sorted(one.name for one in (target / "backups").iterdir())
    for line in ("restore", "backup verify", "backup describe", "backup diff"):
        assert proposed(daemon.PROGRAM, f"{line} --from {target} ") == kept, line
    assert {*QUOTAS} == {name for name in TenantQuotas.__struct_fields__ if name.endswith("_limit") or "max_" in name}


@pytest.mark.usefixtures("patient")
def test_names_are_cached_for_each_broker_and_key(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "orders")
    assert names("topics", "", [], tmp_path, GOQUEUE_SERVER=broker.url) == ["orders"]
    create(broker.url, "payments")
    assert names("topics", "", [], tmp_path, GOQUEUE_SERVER=broker.url) == ["orders"]
    assert names("topics", "", ["--api-key", "k"], tmp_path, GOQUEUE_SERVER=broker.url) == ["orders", "payments"]


def test_names_are_of_the_first_address_that_answers(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker.url, "orders")
    assert names("topics", "", ["-s", f"{CLOSED},{broker.url}"], tmp_path) == ["orders"]


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "ht!tp", "https://127.0.0.1:1", "", "http://[::1"])
def test_an_unreachable_broker_has_no_names(server: str, tmp_path: Path) -> None:
    assert names("topics", "", ["-s", server], tmp_path, GOQUEUE_SERVER=CLOSED) == []


def test_a_broker_that_does_not_answer_has_no_names(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert names("topics", "", ["-s", server], tmp_path) == []


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 500 x\r\n\r\n", b"HTTP/1.1 200 x\r\n\r\nno json", b"HTTP/1.1 200 x\r\n\r\n[]"]
)
def test_an_invalid_answer_has_no_names(answer: bytes, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        program = (
            "import sys, json; from goqueue.console.completion_names import names;"
            "print(json.dumps(names('topics', '', ['-s', sys.argv[1]], {'XDG_CACHE_HOME': sys.argv[2]})))"
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


def test_an_invalid_file_of_contexts_has_no_names(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("contexts: [")
    assert names("contexts", "", [], tmp_path, GOQUEUE_CONFIG=str(config)) == []
    assert names("wombats", "", [], tmp_path) == []
