"""The programs from outside: what they print where, and how they end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue import __version__, errors
from goqueue.commands import main, registry
from goqueue.console import command_tree, exit_codes, failure, terminal
from tests import forked

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = {"goqueue": "goqueue", "goqueue-cli": "goqueue_cli.main", "goqueue-admin": "goqueue_admin.main"}


def run(*words: str, module: str = "goqueue", **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}
    return forked.run([sys.executable, "-m", module, *words], cwd=ROOT, env=clean | environment, text=True)


# --- every program ---


@pytest.mark.parametrize(("name", "module"), PROGRAMS.items())
def test_the_version_goes_to_stdout(name: str, module: str) -> None:
    done = run("--version", module=module)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{name} {__version__}\n", "")


@pytest.mark.parametrize(("name", "module"), PROGRAMS.items())
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_goes_to_stdout(name: str, module: str, flag: str) -> None:
    done = run(flag, module=module)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {name} ")


@pytest.mark.parametrize("module", PROGRAMS.values())
@pytest.mark.parametrize("words", [(), ("publsh",), ("--nope",)])
def test_a_wrong_command_line_ends_with_2_and_leaves_stdout_empty(module: str, words: tuple[str, ...]) -> None:
    done = run(*words, module=module)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


# --- goqueue ---


def test_the_version_is_a_command_too_and_wins_over_what_follows() -> None:
    for words in (["version"], ["version", "--debug"], ["--debug", "--version"], ["--version", "config"]):
        assert run(*words).stdout == f"goqueue {__version__}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["confg"], "error: there is no command 'confg'\nhint: did you mean `goqueue config`?\n"),
        (["CONFIG"], "error: there is no command 'CONFIG'\nhint: did you mean `goqueue config`?\n"),
        (["config", "chck"], "error: there is no command 'chck'\nhint: did you mean `goqueue config check`?\n"),
        (["zzz"], "error: there is no command 'zzz'\nhint: `goqueue --help` lists the commands\n"),
        (["config", "show", "--outptu"], "error: no such option: --outptu\nhint: did you mean --output?\n"),
        (["\x1b[31m"], "error: there is no command '\\x1b[31m'\nhint: `goqueue --help` lists the commands\n"),
    ],
)
def test_mistyped_word_gets_a_suggestion(words: list[str], said: str) -> None:
    assert run(*words).stderr == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "--server-port", "9"], "error: no such option: --server-port\nhint: did you mean --port?\n"),
        (
            ["serve", "g.yaml"],
            "error: goqueue serve takes no argument, and was given g.yaml\nhint: did you mean `--config g.yaml`?\n",
        ),
        (
            ["fsck", "d", "--jobs", "many"],
            "error: --jobs: 'many' is not a whole number\nhint: `goqueue fsck --help` shows how it is used\n",
        ),
        (
            ["fsck", "d", "--jobs", "0"],
            "error: --jobs is 0, and must be 1 to 64\nhint: `goqueue fsck --help` shows how it is used\n",
        ),
        (["fsck", "d", "-o", "xml"], "error: --output: there is no 'xml'\nhint: write one of table, json\n"),
        (["fsck"], "error: missing argument 'DIR'\nhint: `goqueue fsck --help` shows how it is used\n"),
        (["demo", "--for"], "error: --for needs a value\n"),
    ],
)
def test_what_a_command_does_not_take_is_named_with_what_it_takes(words: list[str], said: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_every_group_of_the_registry_has_its_line() -> None:
    owners = {command.path.rpartition(" ")[0] for command in registry.COMMANDS}
    assert owners - {""} == registry.GROUPS.keys()


# --- endings ---


def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal.say_error("x")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.say_error("x")
    assert capfd.readouterr().err == "\x1b[1;31merror:\x1b[0m x\nerror: x\n"


def test_an_error_names_its_cause_and_its_next_step(capfd: pytest.CaptureFixture[str]) -> None:
    error = errors.LogFenced("topic\x1b[2J is closed for writing", hint="run goqueue fsck")
    error.__cause__ = errors.DiskFailed("the device failed")
    assert failure.report_error(error, debug=False) == exit_codes.FAILED
    assert capfd.readouterr().err == (
        "error: topic\\x1b[2J is closed for writing\n"
        "cause: disk_failed: the device failed\n"
        "hint: run goqueue fsck\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigInvalid("x"), 2),
        (errors.AccessDenied("x"), 4),
        (errors.DataDirectoryInUse("x"), 2),
        (errors.PathInvalid("x"), 2),
        (errors.DiskFull("x"), 1),
        (OSError(28, "No space left on device"), 1),
        (failure.UsageInvalid("x"), 2),
        (KeyError("x"), 70),
        (RecursionError(), 70),
    ],
)
def test_the_exit_code_says_who_must_act(error: Exception, code: int) -> None:
    assert failure.report_error(error, debug=False) == code


def test_a_bug_of_ours_is_one_line_and_with_debug_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(program: command_tree.Program) -> None:
        raise KeyError(program.name)

    monkeypatch.setattr(command_tree, "root_command", fail)
    assert (main.main(["config"]), main.main(["config", "--debug"])) == (70, 70)
    short, _, rest = capfd.readouterr().err.partition("\n")
    assert short == "error: this is a bug of GoQueue, please report it: KeyError: 'goqueue' (--debug shows where)"
    assert rest.startswith("Traceback")


def test_debug_after_two_dashes_is_an_ordinary_word(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["config", "check", "--", "--debug"]) == 2
    assert "--debug: does not exist" in capfd.readouterr().out


def test_an_interruption_ends_with_130() -> None:
    program = f"""
import os, signal, sys
from goqueue.commands import main
from goqueue.console import command_tree

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

def interrupted(program):
    os.kill(os.getpid(), {signal.SIGINT.value})
    while True:  # until the interpreter takes notice
        pass

command_tree.root_command = interrupted
sys.exit(main.main(["config"]))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = forked.run([sys.executable, "-m", "goqueue", "config", "show"], cwd=ROOT, stdout=pipe)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["config", "show"]])
def test_a_full_disk_behind_stdout_is_told(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = forked.run([sys.executable, "-m", "goqueue", *words], cwd=ROOT, stdout=full)
    assert done.returncode == 1
    assert b"error: the operating system refused: No space left on device\n" in done.stderr
