"""Shares of priorities while all of them have messages."""

from collections import Counter
from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import REPEATS, values
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement
from benchmarks.lanes.mixed import fill
from goqueue.limits import LANE_WEIGHTS
from goqueue.storage.frame import PRIORITIES

OFF = Figure("%", "off a share at the most", budget=at_most(5), less_is_better=True)


@measurement(f"shares of busy priorities, {OURS}", OFF, repeats=REPEATS)
def saturated(bench: Bench) -> Iterator[Sample]:
    """The first fifth that a consumer is handed of a topic with as many messages of each."""
    broker = GoQueue()
    batch, count = values(bench), bench.size(500_000, 100_000)
    with running(broker, bench.room()) as topics:
        while True:
            topic = next(topics)
            fill(broker, topic, batch, count, PRIORITIES)
            found = _taken(broker, topic, count // 5)
            total = sum(found.values())
            shares = [weight / sum(LANE_WEIGHTS) for weight in LANE_WEIGHTS]
            yield max(abs(found[lane] / total - share) / share for lane, share in enumerate(shares)) * 100


def _taken(broker: GoQueue, topic: str, count: int) -> Counter[int]:
    found: Counter[int] = Counter()
    with broker.client.consumer(f"{topic}-group", topic, max_messages=1_000) as consumer:
        for batch in consumer.batches():
            found[batch[0].priority] += len(batch)
            batch.ack()
            if found.total() >= count:
                return found
    return found
