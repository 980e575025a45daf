"""Messages on their way in."""

import asyncio
import statistics
from collections.abc import Iterator

from benchmarks import machine
from benchmarks.harness.suite import Bench, Best, Figure, Measurement, Sample, at_least, at_most, measurement
from benchmarks.storage.flow import publish, publish_timed, running_store
from benchmarks.storage.stock import FRAME_BYTES, LOG, MB, Stopwatch, encoded, store, values
from goqueue.storage import frame, scan
from goqueue.storage.flusher import FlushMode
from goqueue.storage.store import StoreSettings

RATE = "messages/s"
WAITERS = 64
DISK_ALONE = Best((machine.WRITE,), lambda write: write * MB / FRAME_BYTES)
SYNCS_ALONE = Best((machine.SYNC,), lambda microseconds: WAITERS / microseconds * 1e6)


def appends(batch: int, in_flight: int, *, mode: FlushMode = "always", budget: float | None = None) -> Measurement:
    """Frames that a client encoded: verified, stamped, written and synced before the answer."""
    figure = Figure(RATE, budget=at_least(budget) if budget else None, best=DISK_ALONE)
    suffix = "" if mode == "always" else f", flush: {mode}"

    @measurement(f"append {batch:,} encoded, {in_flight} in flight{suffix}", figure)
    def measure(bench: Bench) -> Iterator[Sample]:
        content = encoded(batch, bench.random)
        batches = bench.size(min(4_000_000, 10_000 * batch), 400_000) // batch
        while True:
            path = bench.room()
            yield asyncio.run(_append(path, content, batches, in_flight, mode)) * batch
            bench.clear(path)

    return measure


async def _append(path: str, content: bytes, batches: int, in_flight: int, mode: FlushMode) -> float:
    """Batches a second."""
    async with running_store(path, StoreSettings(flush=mode)) as opened:
        log = opened.create(LOG)
        watch = Stopwatch()
        await publish(log, content, batches, in_flight)
        return batches / watch.seconds()


append_1_000 = appends(1_000, 8, budget=2_000_000)
append_10_000 = appends(10_000, 8, budget=2_000_000)
append_10_000_alone = appends(10_000, 1)
append_100 = appends(100, 64)
append_1_000_interval = appends(1_000, 8, mode="interval")


def singles(mode: FlushMode, *figures: Figure) -> Measurement:
    """One message a request, from many who each wait for the answer."""

    @measurement(f"append 1 each from {WAITERS} waiters, flush: {mode}", *figures)
    def measure(bench: Bench) -> Iterator[Sample]:
        content = encoded(1, bench.random)
        requests = bench.size(100_000, 20_000)
        while True:
            path = bench.room()
            seconds, times = asyncio.run(_append_singles(path, content, requests, mode))
            cuts = statistics.quantiles(times, n=100)
            yield requests / seconds, cuts[49] * 1000, cuts[98] * 1000
            bench.clear(path)

    return measure


async def _append_singles(path: str, content: bytes, requests: int, mode: FlushMode) -> tuple[float, list[float]]:
    async with running_store(path, StoreSettings(flush=mode)) as opened:
        log = opened.create(LOG)
        await publish_timed(log, content, requests // 20, WAITERS)
        watch = Stopwatch()
        times = await publish_timed(log, content, requests, WAITERS)
        return watch.seconds(), times


HALF = Figure("ms", "half within", less_is_better=True)
MOST = Figure("ms", "99 of 100 within", budget=at_most(10), less_is_better=True)
singles_always = singles("always", Figure(RATE, budget=at_least(25_000), best=SYNCS_ALONE), HALF, MOST)
singles_interval = singles("interval", Figure(RATE), HALF, MOST)


@measurement(
    "append 1, the loop's share",
    Figure("µs", "verify and append", budget=at_most(12), less_is_better=True),
    Figure("µs", "Log.append", less_is_better=True),
)
def single_cost(bench: Bench) -> Iterator[Sample]:
    """Processor time for one message, with the flusher at rest."""
    content = encoded(1, bench.random)
    count = bench.size(20_000, 5_000)
    with store(bench.room()) as opened:
        log = opened.create(LOG)
        while True:
            watch = Stopwatch()
            for _ in range(count):
                log.append(scan.check_batch(bytearray(content)))
            both = watch.seconds()
            opened.flush()
            checked = [scan.check_batch(bytearray(content)) for _ in range(count)]
            watch = Stopwatch()
            for frames in checked:
                log.append(frames)
            yield both / count * 1e6, watch.seconds() / count * 1e6
            opened.flush()


@measurement("encode from Python values", Figure(RATE, budget=at_least(1_000_000)))
def encode(bench: Bench) -> Iterator[Sample]:
    """Encode values to batches of 10,000, as a client does."""
    batch = values(10_000, bench.random)
    batches = bench.size(100, 20)
    while True:
        watch = Stopwatch()
        for _ in range(batches):
            b"".join([frame.encode(value) for value in batch])
        yield batches * len(batch) / watch.seconds()
