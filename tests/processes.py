"""`goqueue serve` as a process of its own, which can be asked, stopped and killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Self

from tests.forked import Program

ROOT = Path(__file__).resolve().parent.parent
END_OF_BANNER = "^C stops"


@contextmanager
def in_foreground(directory: Path, *words: str) -> Iterator[Program]:
    """A command that runs until it is ended, with its temporary directory in `directory`."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")}
    with Program(
        [sys.executable, "-m", "goqueue", *words],
        cwd=ROOT,
        env=environment | {"TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def banner_of(process: Program) -> list[str]:
    """Read what a command says until it waits for its end, or has ended."""
    lines = []
    for line in process.stderr:
        lines.append(line.rstrip())
        if lines[-1] == END_OF_BANNER:
            break
    return lines


class Served:
    """`with Served("--data-dir", path) as served:` and then `served.url`. What is left at the end is killed."""

    program: tuple[str, ...] = ("goqueue",)
    """The module that is run, and what it is told before `serve`."""

    def __init__(self, *words: str) -> None:
        self._words = ("--port", "0", "--log-level", "error", *words)
        self.process: Program
        self.banner: list[str] = []
        self.url = ""

    def launch(self) -> Self:
        """Start it, and do not wait."""
        environment = {name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")}
        self.process = Program(
            [sys.executable, "-m", *self.program, "serve", *self._words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self

    def await_start(self) -> Self:
        """Until clients can come."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.banner.append(line.rstrip())
            if self.banner[-1] == END_OF_BANNER:
                self.url = self.banner[0].split()[-1]
                return self
        raise AssertionError(f"the broker did not start: {self.banner}")

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.process.returncode is None:
            self._end(SIGKILL)

    def stop(self) -> tuple[int, str]:
        """As an operator does: the exit code, and what it said."""
        return self._end(SIGTERM)

    def _end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, said = self.process.communicate()
        return self.process.returncode, said

    def __enter__(self) -> Self:
        try:
            return self.launch().await_start()
        except BaseException:
            self.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()
