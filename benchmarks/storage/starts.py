"""Opening a data directory, after a clean stop and after a crash."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from benchmarks import machine
from benchmarks.harness.suite import Bench, Best, Figure, Measurement, Sample, at_most, measurement
from benchmarks.storage.stock import (
    FRAME_BYTES,
    LOG,
    MB,
    Stopwatch,
    encoded,
    forget_clean_stop,
    make_log,
    settings,
    store,
)
from goqueue.limits import SEGMENT_BYTES
from goqueue.storage import scan
from goqueue.storage.disk import Mode, SystemDisk, SystemFile
from goqueue.storage.store import Store

GB = 10**9
SECONDS_MAX = at_most(2)


@dataclass(frozen=True, slots=True)
class Crash:
    """The state in which a log of 1 GB was left."""

    name: str
    segment_bytes: int
    loses_index: bool

    @property
    def bytes_read(self) -> int:
        """The bytes to read again without an index."""
        return min(GB, self.segment_bytes) if self.loses_index else 0


def recoveries(crash: Crash) -> Measurement:
    """Opening 1 GB in one log that was not stopped cleanly; nothing is lost."""
    best = Best((machine.READ_DEVICE,), lambda read: crash.bytes_read / MB / read) if crash.bytes_read else None
    figure = Figure("s", budget=SECONDS_MAX, best=best, less_is_better=True, is_total=True)

    @measurement(f"recover 1 GB, {crash.name}", figure)
    def measure(bench: Bench) -> Iterator[Sample]:
        path = bench.room()
        messages = bench.size(GB, GB // 10) // FRAME_BYTES // 10_000 * 10_000
        make_log(path, messages, bench.random, segment_bytes=crash.segment_bytes)
        while True:
            forget_clean_stop(path)
            if crash.loses_index:
                _remove_last_index(path)
            yield _recovered_seconds(path, messages)

    return measure


in_segments = recoveries(Crash("16 segments", SEGMENT_BYTES, loses_index=False))
in_segments_unindexed = recoveries(Crash("16 segments, the last index gone", SEGMENT_BYTES, loses_index=True))
in_one = recoveries(Crash("1 segment", 2**30, loses_index=False))
in_one_unindexed = recoveries(Crash("1 segment, its index gone", 2**30, loses_index=True))


def _recovered_seconds(path: str, messages: int) -> float:
    watch = Stopwatch()
    with store(path, settings=settings()) as opened:
        seconds = watch.seconds()
        found = opened.recovered[LOG]
        assert not found.was_clean
        assert (found.next_offset, found.cut, found.damages) == (messages, None, []), "nothing is lost"
    return seconds


def _remove_last_index(path: str) -> None:
    directory = f"{path}/logs/{LOG}"
    stem = max(name for name in os.listdir(directory) if name.endswith(".log")).removesuffix(".log")
    for suffix in ("index", "timeindex"):
        with suppress(FileNotFoundError):
            os.unlink(f"{directory}/{stem}.{suffix}")


@measurement("open 10,000 logs, clean", Figure("s", budget=at_most(3), less_is_better=True, is_total=True))
def open_clean(bench: Bench) -> Iterator[Sample]:
    path = bench.room()
    _make_logs(path, bench.size(10_000, 500), bench)
    while True:
        yield _opened_seconds(path)


@measurement("open 10,000 logs, after a crash", Figure("s", less_is_better=True, is_total=True), repeats=3)
def open_crashed(bench: Bench) -> Iterator[Sample]:
    path = bench.room()
    _make_logs(path, bench.size(10_000, 500), bench)
    while True:
        forget_clean_stop(path)
        yield _opened_seconds(path)


def _opened_seconds(path: str) -> float:
    watch = Stopwatch()
    with store(path, settings=settings()):
        return watch.seconds()


def _make_logs(path: str, count: int, bench: Bench) -> None:
    """Topics of ten partitions with some messages in each."""
    content = encoded(50, bench.random)
    with store(path, disk=UnsyncedDisk(), settings=settings()) as opened:
        for number in range(count):
            _make_small_log(opened, f"topic-{number // 10:04d}/{number % 10}", content)
            if number % 100 == 99:
                opened.flush()
    os.sync()


def _make_small_log(opened: Store, name: str, content: bytes) -> None:
    opened.create(name).append(scan.check_batch(bytearray(content)))


class UnsyncedFile(SystemFile):
    """A file that does not wait for the device."""

    def sync(self) -> None:
        pass


class UnsyncedDisk(SystemDisk):
    """A disk for preparations: `os.sync` once at their end is as good."""

    def open(self, path: str, mode: Mode) -> UnsyncedFile:
        opened = super().open(path, mode)
        descriptor, opened._descriptor = opened._descriptor, -1
        return UnsyncedFile(path, descriptor)

    def sync_directory(self, path: str) -> None:
        pass
