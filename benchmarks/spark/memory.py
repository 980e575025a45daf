"""Peak memory of a session: its JVM, and the largest Python worker."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement
from benchmarks.spark import stage, tables
from benchmarks.spark.inspections import by_key, over_time, summarised
from benchmarks.spark.reads import seconds

MB = 1e6
MOST = at_most(1_500)
LOOK_SECONDS = 0.1


@measurement(
    "a session that inspects, reads and exports, GoQueue",
    Figure("MB", "the JVM at most", budget=MOST, less_is_better=True),
    Figure("MB", "a worker at most", budget=MOST, less_is_better=True),
    Figure("workers", "at a time", less_is_better=True),
    repeats=1,
)
def peaks(bench: Bench) -> Iterator[Sample]:
    """With the memory that commands give the JVM, and a log that is larger than both."""
    logs = stage.log(bench)
    plan = stage.plan_of(logs)
    while True:
        with stage.fresh_spark() as spark, watched() as seen:
            from goqueue.spark.transfer.export import ExportRequest, export  # noqa: PLC0415 - it loads pyspark

            for question in (summarised, over_time, by_key):
                question(spark, logs, plan)
            seconds(tables.goqueue(spark, bench))
            path = bench.room()
            export(spark, logs, plan, ExportRequest(path))
            bench.clear(path)
        assert min(seen.machine, seen.worker) > 0, "both were there"
        yield seen.machine / MB, seen.worker / MB, float(seen.workers)


@dataclass(slots=True)
class Seen:
    """Bytes in memory at the most, and how many workers there were at a time."""

    machine: int = 0
    worker: int = 0
    workers: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self.over.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """The kernel keeps the peak of each process; so only those that come and go must not be missed."""
        for machine in (process for process in _children(os.getpid()) if _name(process) == "java"):
            self.machine = max(self.machine, _peak(machine))
            workers = [worker for daemon in _children(machine) for worker in _children(daemon)]
            self.worker = max([self.worker, *map(_peak, workers)])
            self.workers = max(self.workers, len(workers))


@contextmanager
def watched() -> Iterator[Seen]:
    seen = Seen()
    watcher = threading.Thread(target=seen.watch)
    watcher.start()
    try:
        yield seen
    finally:
        seen.look()
        seen.over.set()
        watcher.join()


def _children(process: int) -> list[int]:
    found: list[int] = []
    for listing in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, listing.read_text(encoding="ascii").split())
    return found


def _name(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8").strip()
    return ""


def _peak(process: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
