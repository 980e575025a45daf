"""A broker's process: found, started, awaited and ended, all by its id."""

import importlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.harness.suite import Absent

LOOPBACK = "127.0.0.1"
_SCHEDULED = 2
"""The kernel's number for the exact clock of a process, as `clock_getcpuclockid` makes it."""
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20
PLACES = os.pathsep.join(("/usr/lib/rabbitmq/bin", os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"))
"""First a place of Debian's, whose command of the same name insists on a user and a directory of its own."""


def program(name: str, *, path: str = PLACES) -> str:
    """Where a program is."""
    found = shutil.which(name, path=path)
    if found is None:
        raise Absent(f"{name} is not installed")
    return found


def library(name: str, distribution: str | None = None) -> Any:
    """A client library. Its types are its own affair: it need not be there."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Absent(f"the Python package {distribution or name} is not installed") from None


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


class Server:
    """A child process with a group of its own, so that ^C reaches it through us alone."""

    def __init__(self, command: Sequence[str], directory: str, environment: Mapping[str, str] | None = None) -> None:
        os.makedirs(directory, exist_ok=True)
        self.output = Path(directory, "output.txt")
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Until it is ready, or an error with the last that it said."""
        end = time.monotonic() + START_SECONDS_MAX
        while not is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self._process.args!r} did not start: {self.said()[-500:]}")
            time.sleep(0.02)

    def wait_for_port(self, port: int) -> None:
        self.wait_until(lambda: _is_open(port))

    def said(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def memory(self) -> int:
        """The bytes that it holds in memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise LookupError(f"process {self.pid} has no memory")

    def processor_seconds(self) -> float:
        """That it has spent so far, for itself and in the kernel."""
        return processor_seconds(self.pid)

    def end(self) -> None:
        """Ask it to stop, and end its whole group when it takes too long."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()


def processor_seconds(pid: int) -> float:
    """That a process has spent so far, with all its threads. Linux has a clock for each process, to nanoseconds."""
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


def _is_open(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True
