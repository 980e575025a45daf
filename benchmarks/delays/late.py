"""Lateness of messages that become due one after the other."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.latency import Answers
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement

RATE = 1_000
AHEAD_SECONDS = 3
VALUE = b"v" * 80

HALF = Figure("ms", "half within", less_is_better=True)
MOST = Figure("ms", "99 of 100 within", budget=at_most(20), less_is_better=True)


@measurement(f"{RATE:,} delayed messages a second, late by, {OURS}", HALF, MOST, repeats=3)
def steady(bench: Bench) -> Iterator[Sample]:
    """From the moment at which each is due until a waiting reader has it."""
    broker, count = GoQueue(), RATE * bench.size(20, 5)
    with running(broker, bench.room()) as topics:
        while True:
            topic = next(topics)
            found = Answers.of(_late(broker, topic, count), count / RATE)
            yield found.half, found.most


def _late(broker: GoQueue, topic: str, count: int) -> list[float]:
    """The seconds of each."""
    start = time.time() + AHEAD_SECONDS
    with broker.client.producer() as producer:
        for number in range(count):
            due = start + number / RATE
            at = datetime.fromtimestamp(0, UTC) + timedelta(seconds=due)
            producer.send(topic, b"%.6f " % due + VALUE, deliver_at=at)
        producer.flush()
    times: list[float] = []
    with broker.client.reader(topic, follow=True) as reader:
        for message in reader:
            now = time.time()
            assert message.value is not None
            times.append(now - float(message.value.partition(b" ")[0]))
            if len(times) == count:
                return times
    return times
