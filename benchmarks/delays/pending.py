"""Very many messages that wait: how fast they are taken, what they cost, and how soon they are there after a start."""

import os
import signal
from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import BATCH, RATE, values
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, at_most, measurement
from benchmarks.storage.stock import Stopwatch

PENDING = 1_000_000
TOPIC = "reminders"
MB = 1e6
DAY = 24 * 3600
SPREAD = 100
"""Deadlines of a batch differ from those of the next: they are spread over a day."""
ABOUT = f"{PENDING:,} delayed messages"


@measurement(
    f"{ABOUT}, {OURS}",
    Figure(RATE, "scheduled", budget=at_least(50_000)),
    Figure("MB", "memory gained", budget=at_most(150), less_is_better=True, is_total=True),
    repeats=3,
)
def scheduled(bench: Bench) -> Iterator[Sample]:
    """By one producer of the SDK."""
    while True:
        broker, room = GoQueue(), bench.room()
        with running(broker, room):
            broker.create(TOPIC)
            before = broker.server.memory()
            rate = schedule(broker, bench)
            gained = broker.server.memory() - before
        bench.clear(room)
        yield rate, gained / MB


@measurement(
    f"{ABOUT}: from the start of the process until they are ready, {OURS}",
    Figure("s", "after a clean stop", budget=at_most(5), less_is_better=True, is_total=True),
    Figure("s", "after SIGKILL", budget=at_most(5), less_is_better=True, is_total=True),
    repeats=1,
)
def ready(bench: Bench) -> Iterator[Sample]:
    """Until the broker answers how many are pending."""
    while True:
        room = bench.room()
        first = GoQueue()
        with running(first, room):
            first.create(TOPIC)
            schedule(first, bench)
        count = bench.size(PENDING, PENDING // 10)
        clean = _started(room, count, then_killed=True)
        killed = _started(room, count)
        bench.clear(room)
        yield clean, killed


def schedule(broker: GoQueue, bench: Bench) -> float:
    """So many, due within a day; messages a second."""
    batch, times = values(bench), bench.size(PENDING, PENDING // 10) // BATCH
    watch = Stopwatch()
    with broker.client.producer() as producer:
        for number in range(times):
            producer.send_many(TOPIC, batch, delay=DAY * (1 + number % SPREAD) / SPREAD)
        producer.flush()
    return times * BATCH / watch.seconds()


def _started(room: str, count: int, *, then_killed: bool = False) -> float:
    """The seconds that it takes; afterwards the broker is stopped, or killed."""
    broker, watch = GoQueue(), Stopwatch()
    with running(broker, room):
        found = broker.client.delay_stats()["pending_count"]
        seconds = watch.seconds()
        assert found == count, f"{found} messages are pending"
        if then_killed:
            os.kill(broker.server.pid, signal.SIGKILL)
    return seconds
