"""A process that lets far more through a store than memory holds, and says how much it took.

`python -m benchmarks.storage.passage DIRECTORY MEGABYTES MESSAGES_PER_APPEND`
"""

import asyncio
import json
import sys
from pathlib import Path
from random import Random

from benchmarks.storage.flow import publish, running_store
from benchmarks.storage.stock import FRAME_BYTES, LOG, Stopwatch, encoded
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import Log
from goqueue.storage.retention import plan_retention

MB = 10**6
KEPT_BYTES = 384 * 2**20
LAG_BYTES = 128 * 2**20
READ_BYTES = 2**20


async def pass_through(path: str, total_bytes: int, batch: int) -> tuple[int, float]:
    """The most memory gained, and bytes a second."""
    content = encoded(batch, Random(1))
    async with running_store(path) as opened:
        log = opened.create(LOG)
        start = _forget_peak()
        watch = Stopwatch()
        batches = total_bytes // len(content)
        async with asyncio.TaskGroup() as group:
            end = batches * batch
            group.create_task(publish(log, content, batches, 8 if batch > 1 else 64))
            group.create_task(_follow(log, end, lag_bytes=0))
            group.create_task(_follow(log, end, lag_bytes=LAG_BYTES))
            group.create_task(_expire(log, end))
        return _status("VmHWM") - start, batches * len(content) / watch.seconds()


async def _follow(log: Log, end: int, *, lag_bytes: int) -> None:
    """Read everything, so many bytes behind."""
    offset, lag = 0, lag_bytes // FRAME_BYTES
    while offset < end:
        while offset + lag < log.readable_end or offset < log.readable_end == end:
            offset = log.read(offset, READ_BYTES).next_offset
        await asyncio.sleep(0)


async def _expire(log: Log, end: int) -> None:
    """Retention by size, as often as a broker might."""
    while log.readable_end < end:
        expiry = plan_retention(log, SystemDisk(), bytes_kept=KEPT_BYTES)
        await asyncio.to_thread(expiry.run)
        expiry.apply()
        await asyncio.sleep(0.1)


def _status(name: str) -> int:
    """A size of this process, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def _forget_peak() -> int:
    """Begin a new peak; the memory in use now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def main() -> None:
    path, megabytes, batch = sys.argv[1:]
    gained, rate = asyncio.run(pass_through(path, int(megabytes) * MB, int(batch)))
    print(json.dumps({"gained": gained, "rate": rate}))


if __name__ == "__main__":
    main()
