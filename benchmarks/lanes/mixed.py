"""Speed of a group with alternating priorities, beside a topic with one."""

from collections.abc import Callable, Iterator, Sequence

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import BATCH, RATE, REPEATS, VALUE_BYTES, values
from benchmarks.harness.suite import Bench, Figure, Measurement, Sample, at_least, measurement

KINDS: dict[str, tuple[Sequence[str], float | None]] = {
    "one priority": (("normal",), None),
    "two priorities in turn": (("critical", "normal"), 200_000),
    "five priorities in turn": (("critical", "high", "normal", "low", "background"), 200_000),
}
FULL, QUICK = 1_000_000, 100_000


def _row(kind: str) -> Measurement:
    priorities, floor = KINDS[kind]
    budget = None if floor is None else at_least(floor)

    @measurement(f"poll and ack, {kind}, {OURS}", Figure(RATE, budget=budget), repeats=REPEATS)
    def measure(bench: Bench) -> Iterator[Sample]:
        """One consumer of the SDK gets through all there is, and acknowledges it lease by lease."""
        broker = GoQueue()
        batch, count = values(bench), bench.size(FULL, QUICK)
        with running(broker, bench.room()) as topics:
            while True:
                topic = next(topics)
                fill(broker, topic, batch, count, priorities)
                found = broker.consume(topic, count)
                assert found.size == count * VALUE_BYTES, "every value was handed out once"
                yield count / found.seconds

    return measure


def fill(broker: GoQueue, topic: str, batch: Sequence[bytes], count: int, priorities: Sequence[str]) -> None:
    """So many messages, of each priority in turn."""
    with broker.client.producer() as producer:
        send: Callable[..., object] = producer.send
        for number in range(count):
            send(topic, batch[number % BATCH], priority=priorities[number % len(priorities)])
        producer.flush()


rows = tuple(map(_row, KINDS))
