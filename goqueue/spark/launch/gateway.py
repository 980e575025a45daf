"""A JVM of our own: started without a shell, heard without a terminal, ended without being waited for."""

import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from goqueue.errors import SparkFailed

_START_SECONDS_MAX = 120  # a loaded machine with cold disks takes 30
_LOOK_SECONDS = 0.005
_END_SECONDS = 0.5
_LAST_WORDS_BYTES = 16 * 1024
_LAST_LINES = 12
_NO_WORDS = ("\tat ", "Picked up ", "Setting default log level", "Setting Spark log level", "To adjust logging level")


class Gateway:
    """The process and the way into it.

    Its input is a pipe that nobody writes to: when this process ends, however it ends, the pipe closes, and the JVM
    goes as well. It stands in a session of its own, so that the ^C of a terminal reaches us alone.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], scratch: Path) -> None:
        self._said = scratch / "jvm.log"
        self._information = scratch / "gateway"
        try:
            with self._said.open("wb") as said:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=said,
                    stderr=said,
                    env={**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._information)},
                    start_new_session=True,
                )
        except OSError as error:
            raise SparkFailed(f"{command[0]} could not be started: {error.strerror}") from error

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def connect(self) -> Any:
        """pyspark's own gateway, once the JVM has said where it listens."""
        port, secret = self._await_address()
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - what is imported meanwhile costs no time

        with _told_to_pyspark(port, secret):
            launch: Callable[[], Any] = launch_gateway
            return launch()

    def _await_address(self) -> tuple[int, str]:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not self._information.exists():
            if not self.is_running:
                raise SparkFailed(f"the JVM of Spark ended before it was ready{self.last_words()}")
            if time.monotonic() > deadline:
                raise SparkFailed(f"the JVM of Spark was not ready after {_START_SECONDS_MAX} s{self.last_words()}")
            time.sleep(_LOOK_SECONDS)
        content = self._information.read_bytes()
        port, length = struct.unpack_from(">ii", content)
        return port, content[8 : 8 + length].decode()

    def maps(self, path: Path) -> bool:
        """Whether the JVM has this file in its memory; where nobody can tell, it is taken to."""
        try:
            return str(path) in Path(f"/proc/{self._process.pid}/maps").read_text(errors="surrogateescape")
        except OSError:
            return True

    def last_words(self) -> str:
        """`: ` and what it said last, or nothing."""
        try:
            with self._said.open("rb") as said:
                said.seek(max(0, said.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
                text = said.read().decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_NO_WORDS)]
        return f": {'; '.join(lines[-_LAST_LINES:])}" if lines else ""

    def final_words(self) -> str:
        """The same for a JVM that may be ending: its connections break a moment before it says why."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        return "" if self.is_running else self.last_words()

    def end(self, patience: float) -> None:
        """Close its input; what has not gone by itself after `patience` seconds is killed, its workers with it."""
        workers = self._workers()
        try:
            with suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.close()
            if patience:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience)
        finally:
            self._process.kill()
            self._process.wait()
            for worker in workers:
                with suppress(OSError):
                    os.killpg(worker, signal.SIGKILL)

    def _workers(self) -> list[int]:
        """The daemons that fork Python workers: each leads a group of its own, which is all of its workers."""
        children = []
        for listing in Path(f"/proc/{self._process.pid}/task").glob("*/children"):
            with suppress(OSError, ValueError):
                children += [int(child) for child in listing.read_text().split()]
        return [child for child in children if _leads(child)]


def _leads(process: int) -> bool:
    try:
        return os.getpgid(process) == process
    except OSError:
        return False


@contextmanager
def _told_to_pyspark(port: int, secret: str) -> Iterator[None]:
    """pyspark looks for a running JVM in the environment; nothing of it may stay for our children to read."""
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        yield
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
