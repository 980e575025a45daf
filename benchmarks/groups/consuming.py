"""One consumer that gets through all there is."""

from collections.abc import Callable, Iterator

import uvloop

from benchmarks.broker.contract import Broker, Consumed, running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import BATCH, RATE, REPEATS, VALUE_BYTES, batches, compared, values
from benchmarks.groups.member import together
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, measurement
from benchmarks.storage.stock import Stopwatch

AT_ONCE = 20_000
AT_ONCE_BYTES = 4 * 2**20


@compared("poll and ack, many at a time", Figure(RATE, budget=at_least(500_000)))
def many(broker: Broker, topics: Iterator[str], bench: Bench) -> Iterator[Sample]:
    """A member who looks at every value and acknowledges all messages of an answer together, as far as it can."""
    batch, times = values(bench), batches(broker, bench)
    while True:
        yield _consumed(broker, broker.consume, next(topics), batch, times)


@measurement(f"poll and ack, a call each, {OURS}", Figure(RATE), repeats=REPEATS)
def each(bench: Bench) -> Iterator[Sample]:
    """The client's consumer once more, with a call for each message."""
    broker = GoQueue()
    batch, times = values(bench), batches(broker, bench)
    with running(broker, bench.room()) as topics:
        while True:
            yield _consumed(broker, broker.consume_each, next(topics), batch, times)


@measurement(f"poll and ack, the broker alone, {OURS}", Figure(RATE), repeats=REPEATS)
def alone(bench: Bench) -> Iterator[Sample]:
    """The requests of such a consumer, without looking at the messages."""
    broker = GoQueue()
    batch, times = values(bench), batches(broker, bench)
    with running(broker, bench.room()) as topics:
        while True:
            consume: Callable[[str, int], Consumed] = lambda topic, count: uvloop.run(  # noqa: E731
                _consume_unseen(broker.port, topic, count)
            )
            yield _consumed(broker, consume, next(topics), batch, times)


def _consumed(
    broker: Broker, consume: Callable[[str, int], Consumed], topic: str, batch: list[bytes], times: int
) -> float:
    broker.publish_bulk(topic, batch, times)
    count = times * BATCH
    found = consume(topic, count)
    assert found.size == count * VALUE_BYTES, "every value was handed out once"
    return count / found.seconds


async def _consume_unseen(port: int, topic: str, count: int) -> Consumed:
    [member] = await together(port, f"{topic}-unseen", topic, 1, 1)
    watch, read = Stopwatch(), 0
    while read < count:
        leases = await member.poll(AT_ONCE, size=AT_ONCE_BYTES)
        await member.ack(leases)
        read += sum(lease.end - lease.first for lease in leases)
    seconds = watch.seconds()
    await member.leave()
    member.close()
    return Consumed(read * VALUE_BYTES, seconds)
