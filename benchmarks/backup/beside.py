"""Publishes beside a backup with the usual rate, and the memory that the broker needs for it."""

import time
from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import GoQueue
from benchmarks.broker.paced import publish_paced
from benchmarks.broker.rows import VALUE_BYTES, values
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement
from benchmarks.storage.stock import MB
from goqueue.limits import BACKUP_BYTES_PER_SECOND

REQUESTS_PER_SECOND = 200
LOOK_SECONDS = 0.05


@measurement(
    "publish beside a backup with the usual rate",
    Figure("times", "99 of 100 within, of that without a backup", budget=at_most(1.5), less_is_better=True),
    Figure("ms", "99 of 100 within, beside it", less_is_better=True),
    Figure("ms", "99 of 100 within, without", less_is_better=True),
    Figure("MB", "memory gained by the backup", budget=at_most(200), less_is_better=True),
)
def beside(bench: Bench) -> Iterator[Sample]:
    batch = values(bench)
    size = bench.size(100, 30) * 10**6
    seconds = 0.8 * size / BACKUP_BYTES_PER_SECOND
    room = bench.room()
    broker = GoQueue()
    broker.settings = "--backup-target", f"{room}/backups"
    with running(broker, room):
        broker.create("stock")
        broker.create("single")
        while True:
            broker.publish_bulk("stock", batch, size // (len(batch) * VALUE_BYTES))
            publish_paced(broker.port, "single", REQUESTS_PER_SECOND, 1)
            alone = publish_paced(broker.port, "single", REQUESTS_PER_SECOND, seconds)
            before = broker.server.memory()
            made = broker.client.create_backup().id
            at_work = publish_paced(broker.port, "single", REQUESTS_PER_SECOND, seconds)
            most = broker.server.memory()
            while broker.client.backup(made).state == "running":
                most = max(most, broker.server.memory())
                time.sleep(LOOK_SECONDS)
            assert broker.client.backup(made).state == "complete"
            yield at_work.most / alone.most, at_work.most, alone.most, max(0, most - before) / MB
