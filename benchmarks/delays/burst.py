"""Very many messages that are due at the same moment, beside ordinary publishing."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.latency import Answers
from benchmarks.broker.paced import publish_paced
from benchmarks.broker.rows import BATCH, values
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement

DUE = 100_000
AHEAD_SECONDS = 4.0
BESIDE_RATE = 500
BESIDE_SECONDS = 3.0
"""From a little before the moment until some time after it."""


@measurement(
    f"{DUE:,} delayed messages due at one moment, {OURS}",
    Figure("s", "until all are delivered", budget=at_most(2), less_is_better=True),
    Figure("ms", f"99 of 100 publishes beside it, {BESIDE_RATE} a second", budget=at_most(20), less_is_better=True),
    repeats=3,
)
def at_once(bench: Bench) -> Iterator[Sample]:
    """Until a reader that waits has the last of them."""
    broker, batch = GoQueue(), values(bench)
    with running(broker, bench.room()) as topics:
        while True:
            yield _burst(broker, next(topics), next(topics), batch)


def _burst(broker: GoQueue, topic: str, beside: str, batch: list[bytes]) -> Sample:
    due = time.time() + AHEAD_SECONDS
    at = datetime.fromtimestamp(0, UTC) + timedelta(seconds=due)
    with broker.client.producer() as producer:
        for _ in range(DUE // BATCH):
            producer.send_many(topic, batch, deliver_at=at)
        producer.flush()
    found: list[Answers] = []
    time.sleep(max(0.0, due - time.time() - 0.5))
    publishing = threading.Thread(
        target=lambda: found.append(publish_paced(broker.port, beside, BESIDE_RATE, BESIDE_SECONDS))
    )
    publishing.start()
    _read(broker, topic, DUE)
    seconds = time.time() - due
    publishing.join()
    return seconds, found[0].most


def _read(broker: GoQueue, topic: str, count: int) -> None:
    read = 0
    with broker.client.reader(topic, follow=True) as reader:
        for _ in reader:
            read += 1
            if read == count:
                return
