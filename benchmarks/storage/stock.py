"""Messages, and logs that are already there when a measurement begins."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from goqueue.clock import SystemClock
from goqueue.limits import FRAME_HEADER_BYTES
from goqueue.storage import frame, scan
from goqueue.storage.disk import Disk, SystemDisk
from goqueue.storage.log import Log, LogSettings
from goqueue.storage.store import Store, StoreSettings

VALUE_BYTES = 100
FRAME_BYTES = FRAME_HEADER_BYTES + VALUE_BYTES + len(frame.NO_HEADERS)
MB = 1e6
LOG = "orders/0"
MEMORY_LESS = 2**20
"""A tail so small that reads go to files."""


def values(count: int, random: Random) -> list[bytes]:
    """Values that differ, as real ones do."""
    return [random.randbytes(VALUE_BYTES) for _ in range(count)]


def encoded(count: int, random: Random) -> bytes:
    """A batch as a client sends it."""
    return b"".join(map(frame.encode, values(count, random)))


def encoded_with_keys(count: int, keys: int, random: Random) -> bytes:
    """A batch of messages that have one of so many keys."""
    return b"".join(frame.encode(value, b"%08d" % random.randrange(keys)) for value in values(count, random))


@contextmanager
def store(path: str, *, disk: Disk | None = None, settings: StoreSettings | None = None) -> Iterator[Store]:
    """A store that is flushed by hand."""
    opened = Store.open(disk or SystemDisk(), path, SystemClock(), owner="a benchmark", settings=settings)
    try:
        yield opened
    finally:
        opened.close()


def fill(opened: Store, log: Log, content: bytes, times: int, *, flush_bytes: int = 16 * 2**20) -> None:
    """Append a batch many times, and make it durable in steps."""
    waiting = 0
    for _ in range(times):
        log.append(scan.check_batch(bytearray(content)))
        waiting += len(content)
        if waiting >= flush_bytes:
            opened.flush()
            waiting = 0
    opened.flush()


def make_log(path: str, messages: int, random: Random, *, segment_bytes: int | None = None) -> None:
    """A store with one log in it, stopped cleanly."""
    content = encoded(10_000, random)
    with store(path, settings=settings(segment_bytes)) as opened:
        fill(opened, opened.create(LOG), content, messages // 10_000)


def settings(segment_bytes: int | None = None, *, tail_bytes: int = MEMORY_LESS) -> StoreSettings:
    log = LogSettings(segment_bytes=segment_bytes) if segment_bytes else LogSettings()
    return StoreSettings(tail_bytes=tail_bytes, log=log)


def forget_clean_stop(path: str) -> None:
    """Make it look as if the process had been killed after its last sync: all else is the same then."""
    os.unlink(os.path.join(path, "clean"))


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self._begin
