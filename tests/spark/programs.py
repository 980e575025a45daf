"""`goqueue` run in the process of a test: a start of Python and of a JVM takes far longer than most commands."""

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from goqueue.commands.main import main


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    returncode: int
    output: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.output.decode()


Inspect = Callable[..., Finished]


def run_program(*words: str, stdin: str = "") -> Finished:
    """Run `goqueue` in this process."""
    output, error = io.BytesIO(), io.StringIO()
    stdout = io.TextIOWrapper(output, "utf-8", write_through=True)
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(error):
        patch.setattr(sys, "argv", ["goqueue", *words])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        patch.setattr(sys, "stdout", stdout)
        for name in ("GOQUEUE_API_KEY", "GOQUEUE_CONTEXT", "GOQUEUE_SERVER", "GOQUEUE_OUTPUT"):
            patch.delenv(name, raising=False)
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code  # type: ignore[assignment]
    stdout.flush()
    return Finished(int(code or 0), output.getvalue(), error.getvalue())


def relatives(mark: str) -> list[int]:
    """Return all processes that have inherited this variable."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            with suppress(OSError):
                if mark.encode() in (process / "environ").read_bytes():
                    found.append(int(process.name))
    return found
