"""A few days in the life of a data directory, and how to end them at any operation."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from goqueue.storage.flusher import FlushMode
from goqueue.testing.disk import Crashed, FaultyDisk
from tests.crash.life import AGE_SECONDS, Ledger, Life, Scenario

SEED = 20

Sample = Callable[..., Iterator[Any]]
"""The type of the fixture `sample`."""


def appending(life: Life) -> None:
    """Batches of all sizes in two logs, some flushed together; rolls by size and by age; a clean restart."""
    life.create("orders/0", "orders/1")
    life.publish("orders/0", 0, 10, 700)
    for size in (900, 300, 1500):
        life.append("orders/0", size, size // 2)
        life.append("orders/1", size)
    life.flush()
    life.publish("orders/0", 5000)  # more than a segment should have
    life.clock.advance(AGE_SECONDS + 1)
    life.append("orders/0", 20)
    life.append("orders/1", 3000, 30)
    life.append("orders/1", 3000, 30)
    life.flush()
    life.restart()
    life.publish("orders/0", 40, 50)
    life.append("orders/1", 60)
    life.log("orders/1").roll()
    life.append("orders/1", 70)
    life.flush()
    life.stop()


def expiring(life: Life) -> None:
    """Retention by size and by time, down to an empty log, and life after it."""
    life.create("events/0")
    for _ in range(5):
        life.publish("events/0", 1500, 1500)
    life.expire("events/0", bytes_kept=7000)
    life.publish("events/0", 1500, 1500)
    life.clock.advance(50)
    life.expire("events/0", before_time=life.clock.now_ns())  # seals what is old
    life.flush()
    life.expire("events/0", before_time=life.clock.now_ns())
    life.restart()
    life.publish("events/0", 10)
    life.append("events/0", 20)
    life.log("events/0").roll()
    life.flush()
    life.expire("events/0", bytes_kept=0)
    life.publish("events/0", 30)


def compacting(life: Life) -> None:
    """Keys written again and again, deletions, small segments that are joined, and old tombstones."""
    life.create("users/0")
    for keys in ("abc", "ab-", "aBd", "cad"):
        life.publish("users/0", *[700] * len(keys), keys=keys)
        life.log("users/0").roll()
    life.flush()
    life.compact("users/0")
    for keys in ("aCb", "e--", "Dee"):
        life.publish("users/0", *[400] * len(keys), keys=keys)
        life.log("users/0").roll()
    life.flush()
    life.clock.advance(2000)
    life.compact("users/0")
    life.restart()
    life.publish("users/0", 10, keys="a")
    life.log("users/0").roll()
    life.flush()
    life.compact("users/0")


def truncating(life: Life) -> None:
    """Cutting back within a segment, over segments, to a segment's edge and to nothing; writing on each time."""
    life.create("copies/0")
    for _ in range(5):
        life.publish("copies/0", 1200, 300, 1200)
    life.truncate("copies/0", 13)
    life.publish("copies/0", 500)
    life.truncate("copies/0", 4)
    life.publish("copies/0", 800, 10)
    life.publish("copies/0", 3000)
    life.truncate("copies/0", 3)
    life.publish("copies/0", 100, 2000)
    life.restart()
    life.truncate("copies/0", 0)
    life.publish("copies/0", 20)


def deleting(life: Life) -> None:
    """Logs go, with those below them, and others of the same name come."""
    life.create("old/0", "old/0/delayed", "kept/0")
    for name in ("old/0", "old/0/delayed", "kept/0"):
        life.append(name, 100, 200)
    life.flush()
    life.append("kept/0", 300)
    life.append("old/0", 5000)
    life.delete("old/0")
    life.store.empty_trash()
    life.create("new/0")
    life.publish("new/0", 50)
    life.delete("new/0")
    life.publish("kept/0", 60)
    life.restart()
    life.publish("kept/0", 70)


SCENARIOS: list[Scenario] = [appending, expiring, compacting, truncating, deleting]


def writing_slowly(life: Life) -> None:
    """`interval`: rounds that only write, and now and then one that syncs."""
    life.create("logs/0", "logs/1")
    for size in (100, 900, 2000, 1500, 40, 3000, 10, 20):
        life.clock.advance(0.3)
        life.append("logs/0", size, 10)
        life.append("logs/1", 10)
        life.write()
    life.restart()
    life.append("logs/0", 30)
    life.write()


def live(
    scenario: Scenario, disk: FaultyDisk, ledger: Ledger, flush: FlushMode = "always", *, copies: bool = False
) -> None:
    """Until the end, or until the crash."""
    with suppress(Crashed):
        scenario(Life(disk, ledger, flush=flush, seed=SEED, copies=copies))


def crashes(
    scenario: Scenario, sample: Sample, share: int = 6, *, flush: FlushMode = "always", copies: bool = False
) -> Iterator[tuple[str, FaultyDisk, Ledger]]:
    """A sample of the ways to die: how, the disk then, and what was promised."""
    disk = FaultyDisk(SEED)
    live(scenario, disk, {}, flush, copies=copies)
    for operation, after_bytes in sample(ends(disk.journal), share):
        ended, ledger = FaultyDisk(operation * 10_000 + after_bytes), Ledger()
        ended.crash_at(operation, after_bytes=after_bytes)
        live(scenario, ended, ledger, flush, copies=copies)
        yield f"{scenario.__name__}, operation {operation} after {after_bytes} bytes", ended, ledger


def ends(journal: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Before an operation, or within a write."""
    for line in journal:
        operation, kind, *_ = words = line.split()
        size = int(words[-2]) if kind == "write" else 0
        for after_bytes in sorted({0, size // 3, size - 1, size} if size else {0}):
            yield int(operation), after_bytes
