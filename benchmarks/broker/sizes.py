"""GoQueue with values and topics of several sizes.

Messages have keys, which spread them over all partitions: those without go to one partition a request.
"""

from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import RATE, values
from benchmarks.harness.suite import Bench, Figure, Measurement, Sample, measurement
from benchmarks.storage.stock import Stopwatch

MB = 1e6
BATCH_BYTES = 4 * 2**20
BATCH_MESSAGES = 10_000
BATCH_MESSAGES_MIN = 1_000
"""So many keys leave no partition empty."""
MESSAGES = 2_000_000
BYTES = 2**30
SIZES = {"10 B": 10, "100 B": 100, "1 KiB": 2**10, "100 KiB": 100 * 2**10}
PARTITIONS = {"1 partition": 1, "64 partitions": 64}
FIGURES = (
    Figure(RATE, "publish"),
    Figure("MB/s", "publish, bytes"),
    Figure(RATE, "read"),
    Figure("MB/s", "read, bytes"),
)


def flow(size: str, partitions: str) -> Measurement:
    """Published in bulk and then read, both through the client."""

    @measurement(f"values of {size}, {partitions}, {OURS}", *FIGURES, repeats=2, repeats_quick=1)
    def measure(bench: Bench) -> Iterator[Sample]:
        length = SIZES[size]
        batch = values(bench, size=length, count=min(BATCH_MESSAGES, max(BATCH_MESSAGES_MIN, BATCH_BYTES // length)))
        times = max(2, min(MESSAGES, BYTES // length) // bench.size(1, 10) // len(batch))
        broker, number = GoQueue(), 0
        with running(broker, bench.room()):
            while True:
                topic, number = f"sized-{number}", number + 1
                broker.create(topic, PARTITIONS[partitions])
                yield _flowed(broker, topic, batch, times)

    return measure


def _flowed(broker: GoQueue, topic: str, batch: list[bytes], times: int) -> Sample:
    messages, length = len(batch) * times, len(batch[0])
    keys = [b"%08d" % number for number in range(len(batch))]
    watch = Stopwatch()
    broker.publish_bulk(topic, batch, times, keys)
    published = messages / watch.seconds()
    assert all(offsets.latest for offsets in broker.client.topic(topic).partition_offsets.values()), "none is empty"
    watch = Stopwatch()
    assert broker.read(topic, messages) == messages * length, "every value was read once"
    read = messages / watch.seconds()
    return published, published * length / MB, read, read * length / MB


flows = tuple(flow(size, partitions) for size in SIZES for partitions in PARTITIONS)
