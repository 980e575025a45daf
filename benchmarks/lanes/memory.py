"""Memory of the broker for unread messages with alternating priorities."""

from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import values
from benchmarks.harness.suite import Bench, Figure, Sample, measurement
from benchmarks.lanes.mixed import fill
from goqueue.storage.frame import PRIORITIES

MB = 1e6
STEP = 2_000_000


@measurement(
    f"five priorities in turn are left to read, {OURS}",
    Figure("MB", f"gained by {STEP:,} messages", less_is_better=True, is_total=True),
    Figure("MB", f"gained by {STEP:,} more", less_is_better=True, is_total=True),
    repeats=1,
)
def backlog(bench: Bench) -> Iterator[Sample]:
    """Published and left: the second amount should cost no more than the first, which fills the buffers."""
    batch, count = values(bench), bench.size(STEP, STEP // 10)
    while True:
        broker, room = GoQueue(), bench.room()
        with running(broker, room) as topics:
            topic, sizes = next(topics), [broker.server.memory()]
            for _ in range(2):
                fill(broker, topic, batch, count, PRIORITIES)
                sizes.append(broker.server.memory())
        bench.clear(room)
        yield (sizes[1] - sizes[0]) / MB, (sizes[2] - sizes[1]) / MB
