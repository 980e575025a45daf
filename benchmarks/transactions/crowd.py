"""Very many transactions that are open at once: their cost in memory, and for readers."""

from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue, said_by
from benchmarks.broker.rows import BATCH, RATE, values
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, at_most, measurement
from benchmarks.storage.stock import Stopwatch
from benchmarks.transactions.load import PARTITIONS
from benchmarks.transactions.rate import LOAD

OPEN = 10_000
TOPIC = "ledger"
MB = 1e6
READ = 1_000_000


@measurement(
    f"{OPEN:,} open transactions, {OURS}",
    Figure("transactions/s", "opened"),
    Figure("MB", "memory gained", budget=at_most(50), less_is_better=True, is_total=True),
    repeats=2,
)
def open_ones(bench: Bench) -> Iterator[Sample]:
    """Each with a message in three partitions."""
    while True:
        broker, room = GoQueue(), bench.room()
        with running(broker, room):
            broker.create(TOPIC, PARTITIONS)
            broker.create("warm", PARTITIONS)
            said_by(LOAD, "leave", broker.port, "warm", 10)
            before = broker.server.memory()
            opened = said_by(LOAD, "leave", broker.port, TOPIC, bench.size(OPEN, OPEN // 10))
            yield opened["rate"], (broker.server.memory() - before) / MB
        bench.clear(room)


@measurement(
    f"read beside {OPEN:,} open transactions, {OURS}",
    Figure(RATE, "before them"),
    Figure(RATE, "beside them"),
    Figure("", "beside them, of the speed before", budget=at_least(0.95)),
    repeats=2,
)
def reads(bench: Bench) -> Iterator[Sample]:
    """Messages before the first of them, in the same partitions."""
    batch, count = values(bench), bench.size(READ, READ // 4)
    while True:
        broker, room = GoQueue(), bench.room()
        with running(broker, room):
            broker.create(TOPIC, PARTITIONS)
            broker.publish_bulk(TOPIC, batch, count // BATCH)
            broker.read(TOPIC, count)
            before = max(_read(broker, count) for _ in range(3))
            said_by(LOAD, "leave", broker.port, TOPIC, bench.size(OPEN, OPEN // 10))
            beside = max(_read(broker, count) for _ in range(3))
            yield before, beside, beside / before
        bench.clear(room)


def _read(broker: GoQueue, count: int) -> float:
    watch = Stopwatch()
    broker.read(TOPIC, count)
    return count / watch.seconds()
