"""The documentation is part of the program: what it says is run, and what exists is in it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from goqueue import errors
from goqueue.client import Client
from goqueue.commands import registry as daemon
from goqueue.console import exit_codes
from goqueue.storage.check import FsckCode
from goqueue.testing.broker import LocalBroker
from goqueue_admin import registry as admin
from goqueue_cli import registry as cli
from tests.brokers import ask

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def error_classes(base: type[errors.GoQueueError] = errors.GoQueueError) -> list[type[errors.GoQueueError]]:
    return [base, *(found for child in base.__subclasses__() for found in error_classes(child))]


def test_every_error_code_is_documented() -> None:
    documented = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert documented == {kind.code for kind in error_classes() if "code" in vars(kind)} - {"error"}


def test_every_exit_code_is_documented() -> None:
    documented = set(re.findall(r"^\| (\d+) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert documented == {
        str(value) for name, value in vars(exit_codes).items() if name.isupper() and type(value) is int
    }


def test_every_finding_of_fsck_is_documented() -> None:
    documented = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/operations.md").read_text(), re.MULTILINE))
    assert documented == set(get_args(FsckCode))


def test_every_command_is_mentioned() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for program in (daemon.PROGRAM, cli.PROGRAM, admin.PROGRAM):
        for command in program.commands:
            assert f"{program.name} {command.path}" in text or command.path == "version"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_a_place_that_was_to_be_filled(page: Path) -> None:
    assert not re.findall(r"^[A-Z]{4,}$", page.read_text(), re.MULTILINE)


def test_every_case_of_the_reliability_page_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| \d+ \|.*$", (ROOT / "docs/reliability.md").read_text(), re.MULTILINE)
    assert len(rows) >= 18
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named
        assert all((ROOT / name).exists() for name in named), row


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    demo, run, commands = blocks("README.md", "sh")
    worker, example = blocks("README.md", "python")
    assert (demo, run) == ("make demo\n", "make run\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / "billing.py").write_text(worker)
    with LocalBroker(str(tmp_path / "data")) as broker:
        there = _environment() | {"GOQUEUE_SERVER": broker.url}
        shell = _run(["bash", "-euc", commands], tmp_path, there)
        python = _run([sys.executable, "-c", example], tmp_path, there)
        printed = _until_dead_letter([".venv/bin/goqueue-cli", "worker", "billing"], tmp_path, there)
    assert shell.returncode == 0, shell.stderr
    assert python.returncode == 0, python.stderr
    assert len(python.stdout.splitlines()) == 1001, "all messages but the delayed one"
    promised = re.findall(r"failed at attempt.*", blocks("README.md", "text")[1])
    assert re.findall(r"failed at attempt.*", printed) == promised


def test_the_commands_for_the_demo_run(tmp_path: Path) -> None:
    demo, _, queries = (block.splitlines() for block in blocks("README.md", "text"))
    dashboard = "goqueue-admin dashboard"  # needs a terminal
    commands = [line.split("#")[0].strip() for line in [*demo, *queries] if re.match("goqueue-(cli|admin)", line)]
    assert dashboard in commands
    with LocalBroker(str(tmp_path / "data")) as broker, Client(broker.url) as client:
        for topic in ("payments", "reminders"):
            client.create_topic(topic)
        client.publish("payments", '{"method": "voucher", "cents": 420}')
        with client.consumer("billing", ["payments"]) as consumer:
            next(iter(consumer)).reject("no rule for the method 'voucher'")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        there = _environment() | {"GOQUEUE_SERVER": broker.url, "PATH": path}
        for command in commands:
            if command != dashboard:
                agreed = f"{command} --yes" if " reset " in command else command
                done = _run(["bash", "-euc", agreed], tmp_path, there)
                assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_the_addresses_of_the_readme_answer(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        client.create_topic("orders")
    for path in re.findall(r"curl localhost:8080(/[^`]+)`", (ROOT / "README.md").read_text()):
        assert ask(broker.url, "GET", path).status == 200, path


def _until_dead_letter(command: list[str], directory: Path, environment: dict[str, str]) -> str:
    """Run a worker until it reports a dead letter, then stop it."""
    process = subprocess.Popen(command, cwd=directory, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "dead letter" in line:
            break
    process.terminate()
    process.communicate()
    return "".join(lines)


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(
    ("target", "arguments", "end"),
    [("run", "--data-dir {}/data --port 0", "stopped cleanly"), ("demo", "--port 0", "the demo has ended")],
)
def test_make_starts_the_broker(tmp_path: Path, target: str, arguments: str, end: str) -> None:
    """In a directory with the environment of this process: another one would take a minute and the network."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / ".venv" / "runtime").touch()
    process = subprocess.Popen(
        ["make", "-s", target, f"ARGS={arguments.format(tmp_path)}"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment() | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("^C"):
            break
    os.killpg(process.pid, 15)
    assert end in process.communicate()[1]


@pytest.mark.parametrize("page", ["docs/embedding.md", "docs/storage.md"])
def test_the_examples_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    (printed,) = blocks(page, "")
    done = subprocess.run(
        [sys.executable, "-c", "".join(blocks(page, "python"))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=_environment() | {"PYTHONPATH": str(ROOT)},
    )
    assert (done.stdout, done.stderr) == (printed, "")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("GOQUEUE_", "MAKE"))}
