"""`goqueue-cli`, or another program, as a real process, with pipes or with a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = (sys.executable, "-m", "goqueue_cli.main")
NO_CONTEXTS = "/nonexistent/config.yaml"  # those of whoever runs the tests are none of their business


def environment(**more: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GOQUEUE_", "NO_COLOR"))}
    return kept | {"TERM": "xterm", "PYTHONUTF8": "1", "GOQUEUE_CONFIG": NO_CONTEXTS} | more


@dataclass
class Done:
    """How a process ended, and what it said."""

    code: int
    out: str
    err: str


def cli(server: str, *words: str, given: str | bytes = "", command: Sequence[str] = COMMAND, **variables: str) -> Done:
    """Run to the end, with `given` on stdin."""
    content = given if isinstance(given, bytes) else given.encode()
    done = subprocess.run(
        [*command, *words],
        input=content,
        capture_output=True,
        cwd=ROOT,
        env=environment(GOQUEUE_SERVER=server, **variables),
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode())


@contextmanager
def running(server: str, *words: str, command: Sequence[str] = COMMAND) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that goes on until the end of the block at the latest."""
    with subprocess.Popen(
        [*command, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(GOQUEUE_SERVER=server),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def on_a_terminal(server: str, *words: str, typed: str = "", columns: int = 200, **variables: str) -> Done:
    """Run with stdin and stdout on a terminal; stderr is a pipe."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    try:
        with subprocess.Popen(
            [*COMMAND, *words],
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(GOQUEUE_SERVER=server, **variables),
        ) as process:
            os.close(slave)
            os.write(master, typed.encode())
            shown = b"".join(_until_hangup(master))
            assert process.stderr is not None
            said = process.stderr.read()
        return Done(process.returncode, shown.decode().replace("\r\n", "\n"), said.decode())
    finally:
        os.close(master)


def _until_hangup(master: int) -> Iterator[bytes]:
    while True:
        try:
            content = os.read(master, 4096)
        except OSError:  # the last process with the terminal has ended
            return
        yield content
