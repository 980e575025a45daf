"""Short helpers for storage tests: a store on any disk, batches, and the content of a log."""

from collections.abc import Callable, Iterable
from typing import Any

from goqueue.errors import GoQueueError
from goqueue.limits import TAIL_BYTES
from goqueue.storage import frame, scan
from goqueue.storage.compaction import Compaction
from goqueue.storage.disk import Disk
from goqueue.storage.flusher import FlushMode
from goqueue.storage.log import Log, LogSettings
from goqueue.storage.reads import TimeSearch
from goqueue.storage.recovery import RecoveredLog, recover
from goqueue.storage.retention import Retention
from goqueue.storage.scan import Frames
from goqueue.storage.store import Store, StoreSettings
from goqueue.testing.clock import ManualClock

DATA = "/data"

Deliver = Callable[[Callable[[], None]], None]


def open_store(
    disk: Disk,
    clock: ManualClock | None = None,
    *,
    flush: FlushMode = "always",
    path: str = DATA,
    tail_bytes: int = TAIL_BYTES,
    deliver: Deliver | None = None,
    **settings: Any,
) -> Store:
    """A store that is flushed by hand, with small segments unless told otherwise."""
    log = LogSettings(**{"segment_bytes": 4096, **settings})
    chosen = StoreSettings(flush=flush, tail_bytes=tail_bytes, log=log)
    return Store.open(disk, path, clock or ManualClock(), owner="this test", settings=chosen, deliver=deliver)


def read_again(store: Store, disk: Disk, name: str) -> RecoveredLog:
    """Recover a fenced log from the disk, as the next start of a broker does."""
    log = store.log(name)
    found = recover(disk, log.directory)
    log.adopt(found)
    return found


def batch(values: Iterable[bytes], **fields: Any) -> Frames:
    """Frames as a client sends them."""
    return scan.check_batch(bytearray(b"".join(frame.encode(value, **fields) for value in values)))


class Answers:
    """Collects what appends are told."""

    def __init__(self) -> None:
        self.given: list[GoQueueError | None] = []

    def __call__(self, error: GoQueueError | None) -> None:
        self.given.append(error)


def append(store: Store, log: Log, *values: bytes, **fields: Any) -> range:
    """Append and make durable; the offsets."""
    appended = log.append(batch(values, **fields))
    store.flush()
    return range(appended.first_offset, appended.next_offset)


def fill_five_segments(disk: Disk, clock: ManualClock, *, keys: bytes = b"") -> Store:
    """A store whose log t/0 has five segments of three messages, ten seconds apart, with these keys in turn."""
    store = open_store(disk, clock, tail_bytes=1)
    log = store.create("t/0")
    for number in range(15):
        key = bytes([keys[number % len(keys)]]) if keys else None
        append(store, log, (b"%03d" % number).ljust(1000 - len(key or b""), b"x"), key=key)
        clock.advance(10)
    assert len(log.segments) == 5
    return store


def finish(job: Compaction | Retention) -> None:
    """Run a job and take over what it did."""
    job.run()
    job.apply()


def messages(
    log: Log, offset: int | None = None, *, max_bytes: int = 1000, skip: bool = False
) -> list[frame.StoredMessage]:
    """All messages from an offset on, the way a reader gets them."""
    found: list[frame.StoredMessage] = []
    offset = log.first_offset if offset is None else offset
    while True:
        read = log.read(offset, max_bytes, skip_damage=skip)
        for buffer in read.buffers:
            found += (frame.decode(buffer, position) for position in frame.walk(buffer))
        if read.next_offset == offset:
            return found
        offset = read.next_offset


def values(log: Log, offset: int | None = None, **options: Any) -> list[bytes]:
    return [message.value for message in messages(log, offset, **options)]


def offset_for_time(log: Log, time: int) -> int:
    """Return the first offset with this append time or a later one."""
    found = log.moment(time)
    return found.load() if isinstance(found, TimeSearch) else found
