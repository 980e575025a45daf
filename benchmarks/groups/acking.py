"""Acknowledgements one by one."""

from collections.abc import Iterator

from benchmarks.broker.contract import Broker
from benchmarks.broker.rows import BATCH, SYNC, compared, sync_alone, values
from benchmarks.harness.suite import Bench, Figure, Sample, at_least

WAITERS = 64
HALF = Figure("ms", "half within", less_is_better=True)
MOST = Figure("ms", "99 of 100 within", less_is_better=True)


@compared(f"ack 1 each from {WAITERS}", Figure("requests/s", budget=at_least(10_000)), HALF, MOST, SYNC)
def single(broker: Broker, topics: Iterator[str], bench: Bench) -> Iterator[Sample]:
    """Acks of messages in flight; each waits for its answer. GoQueue's is plain HTTP."""
    batch, count = values(bench), bench.size(60_000, 10_000)
    while True:
        topic, sync = next(topics), sync_alone(bench)
        broker.publish_bulk(topic, batch, -(-(count + count // 10) // BATCH))
        found = broker.ack_single(topic, count, WAITERS)
        yield found.rate, found.half, found.most, sync
