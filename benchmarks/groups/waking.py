"""A message on its way to a member that waits for it."""

from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import GROUP_LOAD, OURS, GoQueue, said_by
from benchmarks.broker.latency import Answers
from benchmarks.broker.rows import REPEATS, SYNC, sync_alone
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement

HALF = Figure("ms", "half within", less_is_better=True)
MOST = Figure("ms", "99 of 100 within", budget=at_most(2), less_is_better=True)


@measurement(f"publish to a waiting member, {OURS}", HALF, MOST, SYNC, repeats=REPEATS)
def wake(bench: Bench) -> Iterator[Sample]:
    """Nothing else happens: from the request that publishes to the end of the long poll, both durable by then."""
    broker = GoQueue()
    with running(broker, bench.room()) as topics:
        while True:
            sync = sync_alone(bench)
            found = Answers(**said_by(GROUP_LOAD, "wakes", broker.port, next(topics), bench.size(500, 200)))
            yield found.half, found.most, sync
