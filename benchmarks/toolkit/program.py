"""The programs as they are installed, each call a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.broker.goqueue import GoQueue
from benchmarks.broker.server import LOOPBACK, program
from benchmarks.harness.suite import Bench
from benchmarks.storage.stock import Stopwatch

CLI, ADMIN = "goqueue-cli", "goqueue-admin"
_SECONDS_MAX = 120


class Caller:
    """The program that types commands: in an environment of its own, and against one broker."""

    def __init__(self, port: int = 0) -> None:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")}
        self._environment = kept | {"GOQUEUE_SERVER": f"http://{LOOPBACK}:{port}", "GOQUEUE_CONFIG": os.devnull}

    def seconds(self, name: str, *words: str, given: str = os.devnull, into: str = os.devnull) -> float:
        """From the start of the process to its end, with files for stdin and stdout."""
        command = [installed(name), *words]
        with open(given, "rb") as source, open(into, "wb") as target:
            watch = Stopwatch()
            done = subprocess.run(
                command,
                stdin=source,
                stdout=target,
                stderr=subprocess.PIPE,
                env=self._environment,
                timeout=_SECONDS_MAX,
                check=False,
            )
            seconds = watch.seconds()
        _check(command, done.returncode, done.stderr)
        return seconds

    def piped(self, first: Sequence[str], last: Sequence[str], name: str) -> tuple[float, bytes]:
        """The seconds of a pipe of two, and what came out of it; `name` is which of the two is ours."""
        watch = Stopwatch()
        with (
            subprocess.Popen(first, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self._environment) as source,
            subprocess.Popen(
                last, stdin=source.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self._environment
            ) as target,
        ):
            assert source.stdout is not None
            source.stdout.close()  # so that the next program is its only reader
            told, said = target.communicate(timeout=_SECONDS_MAX)
            errors = source.stderr.read() if source.stderr else b""
        ours = source if Path(first[0]).name == name else target
        _check(ours.args, ours.returncode, errors + said)
        return watch.seconds(), told


def installed(name: str) -> str:
    return program(name, path=str(Path(sys.executable).parent))


@contextmanager
def calling(bench: Bench) -> Iterator[tuple[GoQueue, Caller]]:
    """A broker and its caller."""
    broker = GoQueue()
    try:
        broker.start(bench.room())
        yield broker, Caller(broker.port)
    finally:
        broker.stop()


def _check(command: object, code: int, said: bytes) -> None:
    if code:
        raise RuntimeError(f"{command!r} ended with {code}: {said.decode(errors='replace').strip()[-300:]}")
