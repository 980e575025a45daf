"""The dashboard: how soon it is there, and whether it stays at hand while much goes on.

It draws on a terminal of its own that a thread reads; broker and publisher are other processes. A frame is as long as
the longest hold of its loop on the wall: where others are at work, their turns count too, so the most processor time
stands beside it.
"""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.broker.goqueue import GoQueue
from benchmarks.broker.rows import values
from benchmarks.broker.server import LOOPBACK
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, at_most, measurement
from benchmarks.storage.stock import Stopwatch
from benchmarks.toolkit.program import ADMIN, calling, installed

REPEATS = 3
COLUMNS, LINES = 160, 48
TOPIC, PARTITIONS = "orders", 3
OFFERED = 150_000
"""Messages in a second, in batches of which a hundred make one."""
PIECES = 100
TAIL_SECONDS, TOPICS_SECONDS = 10, 8
SECONDS_MAX = 60
_READ_BYTES = 65_536
SCREEN = "benchmarks.toolkit.screen"


@measurement(
    "dashboard tail",
    Figure("messages/s", "messages taken in a second", budget=at_least(100_000)),
    Figure("ms", "longest frame", budget=at_most(50), less_is_better=True),
    Figure("ms", "processor time of a frame at most", less_is_better=True),
    repeats=REPEATS,
)
def tail(bench: Bench) -> Iterator[Sample]:
    with calling(bench) as (broker, _):
        broker.create(TOPIC, PARTITIONS)
        with _offered(bench, broker):
            while True:
                found = _watched(bench, broker, f"messages {TOPIC}", TAIL_SECONDS)
                yield found["taken_per_second"], found["longest_ms"], found["busiest_ms"]


@measurement(
    "dashboard, topics screen",
    Figure("ms", "10,000 topics: longest hold of the loop", budget=at_most(100), less_is_better=True, is_total=True),
    repeats=REPEATS,
)
def topics(bench: Bench) -> Iterator[Sample]:
    """Opened, and refreshed some times."""
    with calling(bench) as (broker, _):
        for number in range(bench.size(10_000, 1_000)):
            broker.create(f"topic-{number:05d}")
        while True:
            yield _watched(bench, broker, "topics", TOPICS_SECONDS)["longest_ms"]


@measurement(
    "dashboard, first paint",
    Figure("ms", "from the start of the process", budget=at_most(1_000), less_is_better=True),
    repeats=5,
)
def first_paint(bench: Bench) -> Iterator[Sample]:
    with calling(bench) as (broker, _):
        while True:
            watch = Stopwatch()
            with _terminal([installed(ADMIN), "dashboard", "-s", f"http://{LOOPBACK}:{broker.port}"]) as screen:
                screen.read_until(b"overview")
                milliseconds = watch.seconds() * 1000
            yield milliseconds


def _watched(bench: Bench, broker: GoQueue, place: str, seconds: int) -> dict[str, float]:
    result = Path(bench.room())
    command = [sys.executable, "-m", SCREEN, str(broker.port), place, str(seconds), str(result)]
    with _terminal(command) as screen:
        screen.read_until(None)
    found: dict[str, float] = json.loads(result.read_text(encoding="utf-8"))
    return found


@contextmanager
def _offered(bench: Bench, broker: GoQueue) -> Iterator[None]:
    """A reader publishes, evenly, and in a process that has nothing else to do: this one."""
    batch = values(bench, count=OFFERED // PIECES)
    is_over = threading.Event()

    def publish() -> None:
        with broker.client.producer() as producer:
            watch, sent = Stopwatch(), 0
            while not is_over.wait(max(0.0, sent / PIECES - watch.seconds())):
                producer.send_many(TOPIC, batch)
                sent += 1

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        yield
    finally:
        is_over.set()
        publisher.join()


class _Screen:
    """The other end of a terminal."""

    def __init__(self, file: int) -> None:
        self._file = file

    def read_until(self, text: bytes | None) -> None:
        """Until something is drawn, or all is over."""
        drawn, watch = b"", Stopwatch()
        while text is None or text not in drawn:
            part = self._read(SECONDS_MAX - watch.seconds())
            if not part:
                break
            drawn = (drawn + part)[-2 * _READ_BYTES :]
        if text is not None and text not in drawn:
            raise RuntimeError(f"{text!r} was never drawn: {drawn[-300:]!r}")

    def _read(self, seconds: float) -> bytes:
        """Nothing where it takes too long, or the terminal is closed."""
        if not select.select([self._file], [], [], max(0.0, seconds))[0]:
            return b""
        try:
            return os.read(self._file, _READ_BYTES)
        except OSError:
            return b""


@contextmanager
def _terminal(command: list[str]) -> Iterator[_Screen]:
    """A program on a terminal of its own, which ends with it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "GOQUEUE_CONFIG": os.devnull}
    root = Path(__file__).resolve().parent.parent.parent
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=root) as process:
        os.close(theirs)
        try:
            yield _Screen(ours)
        finally:
            if process.poll() is None:
                process.kill()
            os.close(ours)
