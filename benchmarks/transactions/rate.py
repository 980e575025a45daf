"""Many small transactions: each with ten messages, in three partitions."""

from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue, said_by
from benchmarks.broker.latency import Answers
from benchmarks.broker.rows import SYNC, sync_alone
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, measurement

LOAD = "benchmarks.transactions.load"
PRODUCERS = 32
PARTITIONS = 3


@measurement(
    f"transactions of 10 messages in {PARTITIONS} partitions, {PRODUCERS} producers, {OURS}",
    Figure("transactions/s", budget=at_least(500)),
    Figure("ms", "half within", less_is_better=True),
    Figure("ms", "99 of 100 within", less_is_better=True),
    SYNC,
    repeats=3,
)
def steady(bench: Bench) -> Iterator[Sample]:
    """Each producer waits for its commit; from the first message on."""
    broker, count = GoQueue(), bench.size(3_000, 1_000)
    with running(broker, bench.room()):
        for number in range(1_000):
            sync, topic = sync_alone(bench), f"ledger-{number}"
            broker.create(topic, PARTITIONS)
            found = Answers(**said_by(LOAD, "commit", broker.port, topic, PRODUCERS, count))
            yield found.rate, found.half, found.most, sync
