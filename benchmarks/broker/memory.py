"""Memory of the broker while much more data passes through it."""

from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import VALUE_BYTES, values
from benchmarks.harness.suite import Bench, Figure, Sample, measurement
from benchmarks.storage.stock import Stopwatch

MB = 1e6
GB = 10**9
KEPT = {"retention_bytes": 256 * 2**20, "segment_bytes": 32 * 2**20}
SECONDS_MAX = 240
"""However little has passed by then."""
WARM_PART = 0.25
"""Of what passes, before growth counts: buffers, caches and the tail fill once."""


@measurement(
    f"pass data through with little kept, {OURS}",
    Figure("MB", "memory gained after the first quarter", less_is_better=True),
    Figure("MB", "memory at the most", less_is_better=True),
    Figure("MB/s", "in"),
    Figure("GB", "passed"),
    repeats=1,
)
def passage(bench: Bench) -> Iterator[Sample]:
    """Publishing as fast as it goes: 4 GB, or 20 GB with `--long`."""
    batch = values(bench)
    times = bench.size(4 * GB, GB // 2, long=20 * GB) // (VALUE_BYTES * len(batch))
    broker = GoQueue()
    with running(broker, bench.room()):
        while True:
            broker.create("passage", **KEPT)
            yield _passed(broker, batch, times)


def _passed(broker: GoQueue, batch: list[bytes], times: int) -> Sample:
    sizes = []
    watch = Stopwatch()
    with broker.client.producer() as producer:
        for _ in range(times):
            producer.send_many("passage", batch)
            sizes.append(broker.server.memory())
            if watch.seconds() > SECONDS_MAX:
                break
        producer.flush()
    passed = len(sizes) * len(batch) * VALUE_BYTES
    warm = max(1, int(len(sizes) * WARM_PART))
    gained = max(sizes[warm:]) - max(sizes[:warm])
    return max(0, gained) / MB, max(sizes) / MB, passed / MB / watch.seconds(), passed / GB
