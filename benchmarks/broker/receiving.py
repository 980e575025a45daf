"""Messages on their way out."""

from collections.abc import Iterator

from benchmarks.broker.contract import Broker
from benchmarks.broker.rows import BATCH, RATE, SYNC, VALUE_BYTES, batches, compared, sync_alone, values
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, at_most
from benchmarks.storage.stock import Stopwatch

HALF = Figure("ms", "half within", budget=at_most(1.5), less_is_better=True)
MOST = Figure("ms", "99 of 100 within", budget=at_most(5), less_is_better=True)


@compared("read", Figure(RATE, budget=at_least(1_000_000)))
def read(broker: Broker, topics: Iterator[str], bench: Bench) -> Iterator[Sample]:
    """One reader from the first message on that looks at every value. Each sample has a topic of its own, since
    a queue is empty afterwards."""
    batch, times = values(bench), batches(broker, bench)
    while True:
        topic = next(topics)
        broker.publish_bulk(topic, batch, times)
        watch = Stopwatch()
        size = broker.read(topic, times * BATCH)
        seconds = watch.seconds()
        assert size == times * BATCH * VALUE_BYTES, "every value was read once"
        yield times * BATCH / seconds


@compared("publish to a waiting reader", HALF, MOST, SYNC)
def roundtrip(broker: Broker, topics: Iterator[str], bench: Bench) -> Iterator[Sample]:
    """Nothing else happens: from the call that publishes to the moment when the reader has the message."""
    [value] = values(bench, count=1)
    while True:
        sync = sync_alone(bench)
        found = broker.roundtrips(next(topics), value, bench.size(500, 200))
        yield found.half, found.most, sync
