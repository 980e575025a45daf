"""A progress line on the terminal for jobs that take longer than a second."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goqueue.quantities import format_count, format_duration, format_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_SECONDS = 0.25  # what is done by then needs no bar
_EVERY_SECONDS = 0.25
_BAR_CELLS = 20


@dataclass(frozen=True)
class ProgressSnapshot:
    """The share of the work that is done, and the time it took."""

    done: float
    """From 0 to 1: tasks that have ended, of all tasks."""
    seconds: float


@contextmanager
def progress(
    spark: "SparkSession", *, what: str, total_messages: int | None = None, total_bytes: int | None = None
) -> Iterator[None]:
    """Show how the jobs inside go on, where a person sees it; the line is gone at the end."""
    if not _is_watched():
        yield
        return
    stop = threading.Event()
    tasks = _Tasks(spark)
    watcher = threading.Thread(
        target=_watch, args=(stop, tasks, what, total_messages, total_bytes), name="progress", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join(_EVERY_SECONDS * 4)


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _watch(
    stop: threading.Event, tasks: "_Tasks", what: str, total_messages: int | None, total_bytes: int | None
) -> None:
    began = time.monotonic()
    wait = _PATIENCE_SECONDS
    while not stop.wait(wait):
        wait = _EVERY_SECONDS
        try:
            done = tasks.done()
        except Exception:  # a session without a tracker, or one that ends
            return _put("\r\x1b[K")
        _put(
            f"\r{cut(line(what, ProgressSnapshot(done, time.monotonic() - began), total_messages, total_bytes))}\x1b[K"
        )
    return _put("\r\x1b[K") if wait == _EVERY_SECONDS else None


class _Tasks:
    """The tasks of all jobs since this was made. A stage counts from when Spark knows how many tasks it has."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._stages: dict[int, tuple[int, int]] = {}

    def done(self) -> float:
        tracker: Any = self._spark.sparkContext.statusTracker()
        for stage in tracker.getActiveStageIds():
            self._stages.setdefault(stage, (0, 0))
        for stage in self._stages:
            if (told := tracker.getStageInfo(stage)) is not None:
                self._stages[stage] = (told.numCompletedTasks, told.numTasks)
        total = sum(tasks for _, tasks in self._stages.values())
        return sum(ended for ended, _ in self._stages.values()) / total if total else 0.0


def line(what: str, look: ProgressSnapshot, total_messages: int | None = None, total_bytes: int | None = None) -> str:
    """Return a line as in `reading ███████░░░ 35 %  1,234,567 messages/s  180MiB/s  12s left`."""
    full = round(look.done * _BAR_CELLS)
    pieces = [f"{what} {'█' * full}{'░' * (_BAR_CELLS - full)} {look.done:.0%}"]
    if look.done and look.seconds:
        share = look.done / look.seconds
        if total_messages:
            pieces.append(f"{format_count(round(total_messages * share))} messages/s")
        if total_bytes:
            pieces.append(f"{format_size(round(total_bytes * share))}/s")
        pieces.append(f"{format_duration(max(1, round((1 - look.done) / share)))} left")
    return "  ".join(pieces)


def cut(text: str) -> str:
    """Cut a line to the width of the terminal on stderr, if that is known."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
        return text[: columns - 1] if columns else text  # 0 is a terminal that does not know its width
    except (OSError, ValueError):
        return text


def _put(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
