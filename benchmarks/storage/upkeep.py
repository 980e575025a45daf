"""Background work: compaction and retention."""

import shutil
from collections.abc import Iterator

from benchmarks.harness.suite import Bench, Figure, Sample, measurement
from benchmarks.storage.stock import LOG, Stopwatch, encoded, encoded_with_keys, fill, settings, store
from goqueue.clock import SystemClock
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.disk import SystemDisk
from goqueue.storage.retention import plan_retention

SEGMENTS = 64


@measurement("compact, 10 messages a key", Figure("messages/s"), repeats=3)
def compact(bench: Bench) -> Iterator[Sample]:
    """Keys in random order over several segments: both passes, and the swap."""
    template, batches = bench.room(), bench.size(50, 5)
    content = encoded_with_keys(20_000, batches * 2_000, bench.random)
    with store(template, settings=settings(16 * 2**20)) as opened:
        log = opened.create(LOG)
        for _ in range(batches):
            fill(opened, log, content, 1)
            content = encoded_with_keys(20_000, batches * 2_000, bench.random)
        log.roll()
        opened.flush()
    while True:
        path = bench.room()
        shutil.copytree(template, path)
        with store(path, settings=settings(16 * 2**20)) as opened:
            log = opened.log(LOG)
            watch = Stopwatch()
            job = plan_compaction(log, SystemDisk(), now_ns=SystemClock().now_ns())
            job.run()
            job.apply()
            seconds = watch.seconds()
            assert job.messages_removed
            yield log.next_offset / seconds
        bench.clear(path)


@measurement("expire by size", Figure("segments/s"))
def expire(bench: Bench) -> Iterator[Sample]:
    """Segments of 1 MiB: what it costs that each is gone from the device before the next one goes."""
    content = encoded(1_000, bench.random)
    while True:
        path = bench.room()
        with store(path, settings=settings(2**20)) as opened:
            log = opened.create(LOG)
            fill(opened, log, content, SEGMENTS * 8)
            watch = Stopwatch()
            expiry = plan_retention(log, SystemDisk(), bytes_kept=0)
            expiry.run()
            expiry.apply()
            yield len(expiry.removed) / watch.seconds()
        bench.clear(path)
