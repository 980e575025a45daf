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

from tests.forked import Program, run

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = (sys.executable, "-m", "goqueue_cli.main")
NO_CONTEXTS = "/nonexistent/config.yaml"  # not the contexts of the user who runs the tests


def environment(**more: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GOQUEUE_", "NO_COLOR"))}
    return kept | {"TERM": "xterm", "PYTHONUTF8": "1", "GOQUEUE_CONFIG": NO_CONTEXTS} | more


def protecting(directory: str | Path, server: str) -> str:
    """Write a file with a protected context of a broker, and return its path."""
    config = Path(directory, "contexts.yaml")
    config.write_text(
        f"current-context: production\ncontexts: {{production: {{server: '{server}', protected: true}}}}\n"
    )
    return str(config)


@dataclass
class Done:
    """The exit code and the output of a process."""

    code: int
    out: str
    err: str


def cli(server: str, *words: str, given: str | bytes = "", command: Sequence[str] = COMMAND, **variables: str) -> Done:
    """Run to the end, with `given` on stdin."""
    content = given if isinstance(given, bytes) else given.encode()
    done = run([*command, *words], content, cwd=ROOT, env=environment(GOQUEUE_SERVER=server, **variables))
    return Done(done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode())


@contextmanager
def running(server: str, *words: str, command: Sequence[str] = COMMAND) -> Iterator[Program]:
    """A process that goes on until the end of the block at the latest."""
    with Program(
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
        with Program(
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
