"""One row of the table for each broker that can do the same thing."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from benchmarks.broker.contract import Broker, running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.nats import Nats
from benchmarks.broker.rabbit import Rabbit
from benchmarks.broker.redis import Redis
from benchmarks.harness.suite import Bench, Figure, Measurement, Sample, measurement

BROKERS: tuple[Callable[[], Broker], ...] = (
    GoQueue,
    partial(Redis, "always"),
    partial(Redis, "everysec"),
    partial(Nats, is_synced=True),
    partial(Nats, is_synced=False),
    Rabbit,
)
REPEATS = 3
VALUE_BYTES = 100
BATCH = 10_000
RATE = "messages/s"
Take = Callable[[Broker, Iterator[str], Bench], Iterator[Sample]]
Rows = tuple[Measurement, ...]
SYNC = Figure("ms", "a sync of the disk alone", less_is_better=True)
"""Beside what waits for single syncs. Some disks take thirty times as long at one moment as at another, and such a
moment must not be taken for a broker's doing: rows compare where this figure is the same."""
SYNCS = 50


def compared(row: str, *figures: Figure) -> Callable[[Take], Rows]:
    """Make a row a broker of a generator that gets a running broker and names of empty topics.

    Budgets are GoQueue's; the others are there to be compared with it.
    """
    return lambda take: tuple(_row(row, figures, take, make) for make in BROKERS)


def _row(row: str, figures: tuple[Figure, ...], take: Take, make: Callable[[], Broker]) -> Measurement:
    name = make().name
    is_ours = name == OURS
    shown = figures if is_ours else tuple(replace(figure, budget=None) for figure in figures)
    compared_with = "" if is_ours else f"{row}, {OURS}"

    @measurement(f"{row}, {name}", *shown, repeats=REPEATS, ours=compared_with)
    def measure(bench: Bench) -> Iterator[Sample]:
        broker = make()
        with running(broker, bench.room()) as topics:
            yield from take(broker, topics, bench)

    return measure


def values(bench: Bench, *, size: int = VALUE_BYTES, count: int = BATCH) -> list[bytes]:
    """Values that differ, as real ones do."""
    return [bench.random.randbytes(size) for _ in range(count)]


def batches(broker: Broker, bench: Bench) -> int:
    """As many as keep a broker busy for some seconds."""
    return max(2, broker.pace * bench.size(4, 1) // BATCH)


def sync_alone(bench: Bench) -> float:
    """The milliseconds that half of some appends of 4 KiB took with their sync, just now."""
    path, block = bench.room(), os.urandom(4096)
    times = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for number in range(SYNCS):
            begin = time.perf_counter()
            os.pwrite(descriptor, block, number * len(block))
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - begin)
    finally:
        os.close(descriptor)
        os.unlink(path)
    return statistics.median(times) * 1000
