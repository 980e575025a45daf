"""A data directory with a day of orders, always the same: a quiet night, a rush at noon, one customer who buys most."""

import json
import math
from pathlib import Path
from random import Random

from goqueue.quantities import parse_time
from goqueue.storage import frame, scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock

PARTITIONS = 3
MINUTES = 24 * 60
CUSTOMERS = 60


def make_order_day(directory: Path) -> None:
    clock = ManualClock(parse_time("2026-03-01T00:00:00Z"))
    store = Store.open(SystemDisk(), str(directory), clock, owner="a day of orders")
    logs = [store.create(f"orders/{number}") for number in range(PARTITIONS)]
    chance = Random(17)
    for minute in range(MINUTES):
        batches: list[list[bytes]] = [[] for _ in logs]
        for _ in range(_orders(minute / 60, chance)):
            customer = 4 if chance.random() < 0.15 else chance.randrange(CUSTOMERS)
            order = {"customer": f"customer-{customer}", "total": chance.randrange(5, 200)}
            batches[customer % len(logs)].append(frame.encode(json.dumps(order).encode(), b"customer-%d" % customer))
        for log, batch in zip(logs, batches, strict=True):
            if batch:
                log.append(scan.check_batch(bytearray(b"".join(batch))))
        clock.advance(60)
    store.flush()
    store.close()


def _orders(hour: float, chance: Random) -> int:
    """Return the number of orders in a minute."""
    return round(40 * (math.exp(-(((hour - 12.5) / 4) ** 2)) + 0.1) * chance.uniform(0.5, 1.5))
