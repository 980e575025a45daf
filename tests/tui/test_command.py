"""`goqueue-admin dashboard` as a process."""

import os
import pty
import subprocess
import sys

import pytest

from tests.cli.programs import ROOT, environment
from tests.forked import run

COMMAND = (sys.executable, "-m", "goqueue_admin.main", "dashboard")


def piped(*words: str) -> "subprocess.CompletedProcess[str]":
    return run([*COMMAND, *words], cwd=ROOT, env=environment(), text=True)


def test_without_a_terminal_it_says_what_to_use_instead() -> None:
    done = piped()
    assert (done.returncode, done.stdout) == (2, "")
    assert "the dashboard needs a terminal" in done.stderr
    assert "goqueue-admin doctor" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--every", "often"), "--every: 'often' is not a duration"),
        (("--every", "1ms"), "--every is 1ms, and must be at least 0.2s"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], said: str) -> None:
    done = piped(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_on_a_terminal_it_draws_and_leaves_with_q() -> None:
    shown = on_a_terminal("--server", "http://127.0.0.1:9", wait_for=b"broker is away", typed=b"q")
    assert b"overview" in shown
    assert b"Traceback" not in shown


def test_a_theme_that_is_not_there_is_refused() -> None:
    assert b"there is no theme 'pink'" in on_a_terminal("--theme", "pink")


def on_a_terminal(*words: str, wait_for: bytes = b"", typed: bytes = b"") -> bytes:
    """All that was drawn until the end; `typed` once something stands there."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *words], stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment()
    ) as it:
        os.close(slave)
        shown = b""
        try:
            while part := _read(master):
                shown += part
                if typed and wait_for in shown:
                    os.write(master, typed)
                    typed = b""
        finally:
            os.close(master)
            it.kill()
    return shown


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65_536)
    except OSError:  # the other end is gone
        return b""
