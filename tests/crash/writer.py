"""A process that writes to a data directory until a client kills it, and tells what was answered.

What a message says follows from its log, its offset and the life it was written in, so a client that
reads it knows whether it is the one that was answered.
"""

from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from random import Random

from goqueue.clock import SystemClock
from goqueue.errors import GoQueueError
from goqueue.storage import frame, scan
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.disk import SystemDisk
from goqueue.storage.flusher import FlushMode
from goqueue.storage.log import Log, LogSettings
from goqueue.storage.retention import plan_retention
from goqueue.storage.store import Store, StoreSettings

PLAIN, KEYED, EXPIRING = "plain/0", "keyed/0", "expiring/0"
NAMES = (PLAIN, KEYED, EXPIRING)
SETTINGS = LogSettings(segment_bytes=4096)
WAITING_MAX = 6
BYTES_KEPT = 20_000

Line = tuple[str, str, int, int]
"""`answered`, a log, the first offset and the one behind the last; or `begins`, a log, its first offset, 0."""


def key_of(name: str, offset: int) -> bytes | None:
    return b"%d" % (offset % 7) if name == KEYED else None


def is_deletion(name: str, offset: int) -> bool:
    return name == KEYED and offset % 11 == 0


def value_of(name: str, offset: int, life: int) -> bytes:
    if is_deletion(name, offset):
        return b""
    start = f"{name} {offset} {life} ".encode()
    return start + bytes(offset * 7919 % 600)


def open_store(path: str, flush: FlushMode, deliver: Callable[[Callable[[], None]], None] | None = None) -> Store:
    settings = StoreSettings(flush=flush, flush_interval_ns=5_000_000, log=SETTINGS)
    return Store.open(SystemDisk(), path, SystemClock(), owner="the writer", settings=settings, deliver=deliver)


def write_forever(path: str, life: int, seed: int, flush: FlushMode, pipe: Connection) -> None:
    """The whole program of the process."""
    random, delayed_log = Random(seed), SimpleQueue[Callable[[], None]]()
    store = open_store(path, flush, delayed_log.put)
    logs = [store.logs.get(name) or store.create(name) for name in NAMES]
    waiting = 0

    def append(log: Log, count: int) -> None:
        nonlocal waiting
        offsets = range(log.next_offset, log.next_offset + count)

        def answered(error: GoQueueError | None) -> None:
            nonlocal waiting
            waiting -= 1
            assert error is None
            pipe.send(("answered", log.name, offsets.start, offsets.stop))

        frames = b"".join(
            frame.encode(
                value_of(log.name, offset, life),
                key_of(log.name, offset),
                flags=frame.TOMBSTONE if is_deletion(log.name, offset) else 0,
            )
            for offset in offsets
        )
        waiting += 1
        log.append(scan.check_batch(bytearray(frames)), answered)

    while True:
        while waiting < WAITING_MAX:
            append(random.choice(logs), random.randrange(1, 9))
        delayed_log.get()()
        if not random.randrange(8):
            maintain(store, pipe)


def maintain(store: Store, pipe: Connection) -> None:
    compaction = plan_compaction(
        store.log(KEYED), SystemDisk(), now_ns=SystemClock().now_ns(), tombstone_grace_seconds=0
    )
    compaction.run()
    compaction.apply()
    expiry = plan_retention(store.log(EXPIRING), SystemDisk(), bytes_kept=BYTES_KEPT)
    expiry.run()
    expiry.apply()
    if expiry.removed:
        pipe.send(("begins", EXPIRING, store.log(EXPIRING).first_offset, 0))
