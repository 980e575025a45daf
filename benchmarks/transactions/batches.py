"""Publishing in batches of a thousand: in transactions, and without."""

from collections.abc import Iterator
from contextlib import ExitStack
from threading import Thread

from benchmarks.broker.contract import Values, running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import RATE, SYNC, sync_alone, values
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, measurement
from benchmarks.storage.stock import Stopwatch
from goqueue.client._sync.producer import Producer
from goqueue.client._sync.transaction import TransactionalProducer

BATCH = 1_000
TIMES = 200
LARGER = 10
PRODUCERS = 4
ABOUT = f"publish by {BATCH:,}"


@measurement(
    f"{ABOUT}, a transaction each, {PRODUCERS} producers, {OURS}",
    Figure(RATE, "in transactions"),
    Figure(RATE, "without"),
    Figure("", "in transactions, of the speed without", budget=at_least(0.5)),
    SYNC,
    repeats=3,
)
def each(bench: Bench) -> Iterator[Sample]:
    """Each producer waits for its batch, or for its transaction, before it goes on."""
    yield from _compared(bench, 1)


@measurement(
    f"{ABOUT}, {LARGER} in a transaction, one producer, {OURS}",
    Figure(RATE, "in transactions"),
    Figure(RATE, "without"),
    Figure("", "in transactions, of the speed without", budget=at_least(0.5)),
    SYNC,
    repeats=3,
)
def larger(bench: Bench) -> Iterator[Sample]:
    yield from _compared(bench, LARGER, producers=1)


def _compared(bench: Bench, at_once: int, producers: int = PRODUCERS) -> Iterator[Sample]:
    batch, times = values(bench, count=BATCH), bench.size(TIMES, TIMES // 4)
    broker = GoQueue()
    with running(broker, bench.room()) as topics:
        while True:
            sync = sync_alone(bench)
            without = _plain(broker, next(topics), batch, times, at_once, producers)
            within = _transactional(broker, next(topics), batch, times, at_once, producers)
            yield within, without, within / without, sync


def _plain(broker: GoQueue, topic: str, batch: Values, times: int, at_once: int, producers: int) -> float:
    def publish(producer: Producer) -> None:
        for _ in range(times // at_once):
            for _ in range(at_once):
                producer.send_many(topic, batch)
            producer.flush()

    with ExitStack() as stack:
        made = [stack.enter_context(broker.client.producer()) for _ in range(producers)]
        return times * len(batch) * producers / _together([Thread(target=publish, args=[one]) for one in made])


def _transactional(broker: GoQueue, topic: str, batch: Values, times: int, at_once: int, producers: int) -> float:
    def publish(producer: TransactionalProducer) -> None:
        for _ in range(times // at_once):
            with producer.transaction() as transaction:
                for _ in range(at_once):
                    transaction.send_many(topic, batch)

    with ExitStack() as stack:
        names = [f"{topic}-{number}" for number in range(producers)]
        made = [stack.enter_context(broker.client.producer(transactional_id=name)) for name in names]
        return times * len(batch) * producers / _together([Thread(target=publish, args=[one]) for one in made])


def _together(threads: list[Thread]) -> float:
    """The seconds until all of them are done."""
    watch = Stopwatch()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return watch.seconds()
