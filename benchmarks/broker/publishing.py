"""Messages on their way in."""

from collections.abc import Iterator

from benchmarks.broker.contract import Broker, running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import BATCH, RATE, REPEATS, SYNC, batches, compared, sync_alone, values
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, at_most, measurement
from benchmarks.storage.stock import Stopwatch

WAITERS = 64
SINGLES_SECONDS = 3
JSON_BATCH = 1_000
JSON_CONNECTIONS = 4
HALF = Figure("ms", "half within", less_is_better=True)
MOST = Figure("ms", "99 of 100 within", budget=at_most(10), less_is_better=True)


@compared("publish in bulk", Figure(RATE, budget=at_least(1_000_000)))
def bulk(broker: Broker, topics: Iterator[str], bench: Bench) -> Iterator[Sample]:
    """One producer that has all its messages at hand."""
    batch, times = values(bench), batches(broker, bench)
    broker.publish_bulk(next(topics), batch, 1)
    while True:
        topic = next(topics)
        watch = Stopwatch()
        broker.publish_bulk(topic, batch, times)
        yield times * BATCH / watch.seconds()


@compared("publish, a call each", Figure(RATE, budget=at_least(400_000)), SYNC)
def each(broker: Broker, topics: Iterator[str], bench: Bench) -> Iterator[Sample]:
    """One producer that calls once for each message and waits for the confirmations together."""
    batch, times = values(bench), batches(broker, bench)
    broker.publish_each(next(topics), batch, 1)
    while True:
        topic, sync = next(topics), sync_alone(bench)
        watch = Stopwatch()
        broker.publish_each(topic, batch, times)
        yield times * BATCH / watch.seconds(), sync


@compared(f"publish 1 each from {WAITERS}", Figure(RATE, budget=at_least(25_000)), HALF, MOST, SYNC)
def single(broker: Broker, topics: Iterator[str], bench: Bench) -> Iterator[Sample]:
    """Producers that each wait for the answer before they go on; GoQueue's are plain HTTP with JSON."""
    [value] = values(bench, count=1)
    count = bench.size(60_000, 10_000)
    while True:
        sync = sync_alone(bench)
        found = broker.publish_single(next(topics), value, count, WAITERS)
        yield found.rate, found.half, found.most, sync


@measurement(
    f"publish JSON by {JSON_BATCH:,}, {JSON_CONNECTIONS} connections, {OURS}",
    Figure(RATE, budget=at_least(250_000)),
    Figure("ms", "99 of 100 within", less_is_better=True),
    repeats=REPEATS,
)
def json(bench: Bench) -> Iterator[Sample]:
    broker = GoQueue()
    with running(broker, bench.room()) as topics:
        while True:
            found = broker.publish_json(next(topics), JSON_BATCH, bench.size(1_000, 200), JSON_CONNECTIONS)
            yield found.rate * JSON_BATCH, found.most
