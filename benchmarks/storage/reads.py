"""Messages on their way out."""

import random
from collections.abc import Iterator

from benchmarks import machine
from benchmarks.harness.suite import Bench, Best, Figure, Measurement, Sample, at_least, measurement
from benchmarks.storage.stock import FRAME_BYTES, LOG, MB, Stopwatch, encoded, fill, make_log, settings, store
from goqueue.storage import frame
from goqueue.storage.log import Log
from goqueue.storage.reads import TimeSearch

RATE = "messages/s"
KIB = 1024


def _checked(read: float, checksum: float) -> float:
    """Messages a second, when each byte is read from the page cache and then enters a checksum."""
    return MB / FRAME_BYTES / (1 / read + 1 / checksum)


READ_AND_CHECK = Best((machine.READ_CACHE, machine.CRC), _checked)


def reads(kibibytes: int, *, budget: float | None = None) -> Measurement:
    """From files in the page cache, verified, in order."""
    figure = Figure(RATE, budget=at_least(budget) if budget else None, best=READ_AND_CHECK)

    @measurement(f"read from files, {kibibytes} KiB at a time", figure)
    def measure(bench: Bench) -> Iterator[Sample]:
        path = bench.room()
        make_log(path, bench.size(4_000_000, 400_000), bench.random)
        with store(path, settings=settings()) as opened:
            log = opened.log(LOG)
            _read_through(log, kibibytes * KIB)
            while True:
                yield _read_through(log, kibibytes * KIB)

    return measure


read_1_mib = reads(1024, budget=2_000_000)
read_64_kib = reads(64)


def _read_through(log: Log, max_bytes: int) -> float:
    """Messages a second, from the first to the last."""
    offset, size = 0, 0
    watch = Stopwatch()
    while offset < log.next_offset:
        read = log.read(offset, max_bytes)
        offset, size = read.next_offset, size + read.size
    seconds = watch.seconds()
    assert size == log.size, "every frame was read once"
    return log.next_offset / seconds


def tail_reads(batch: int, messages: int) -> Measurement:
    """Read at the end of the log."""

    @measurement(f"read from memory, 64 KiB at a time, appended by {batch:,}", Figure(RATE))
    def measure(bench: Bench) -> Iterator[Sample]:
        with store(bench.room(), settings=settings(tail_bytes=2**30)) as opened:
            log = opened.create(LOG)
            fill(opened, log, encoded(batch, bench.random), messages // batch)
            while True:
                yield _read_through(log, 64 * KIB)

    return measure


read_tail = tail_reads(1_000, 400_000)
read_tail_of_singles = tail_reads(1, 50_000)


@measurement("read 1 at random, from files", Figure("reads/s"))
def read_random(bench: Bench) -> Iterator[Sample]:
    """One message from anywhere in 16 segments."""
    path = bench.room()
    make_log(path, bench.size(8_000_000, 800_000), bench.random)
    with store(path, settings=settings()) as opened:
        log = opened.log(LOG)
        offsets = _anywhere(bench.random, log.next_offset, bench.size(5_000, 1_000))
        while True:
            watch = Stopwatch()
            for offset in offsets:
                log.read(offset, 1)
            yield len(offsets) / watch.seconds()


@measurement("find the offset for a time", Figure("lookups/s"))
def find_time(bench: Bench) -> Iterator[Sample]:
    """Any time between the first message and the last, in 16 segments."""
    path = bench.room()
    make_log(path, bench.size(8_000_000, 800_000), bench.random)
    with store(path, settings=settings()) as opened:
        log = opened.log(LOG)
        first = _first_time(log)
        times = [bench.random.randint(first, log.last_time) for _ in range(bench.size(1_000, 200))]
        while True:
            watch = Stopwatch()
            for time in times:
                found = log.moment(time)
                if isinstance(found, TimeSearch):
                    found.load()
            yield len(times) / watch.seconds()


def _first_time(log: Log) -> int:
    return frame.timestamp_at(log.read(0, 1).buffers[0])


def _anywhere(source: random.Random, end: int, count: int) -> list[int]:
    return [source.randrange(end) for _ in range(count)]
