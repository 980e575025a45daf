"""Reads all logs again and again, at a low rate, to find what the disk has changed before a client does.

Without it, damage in messages that no client reads would stay unknown until the other copies are gone too. What is
found is told to `on_damage`, or else kept for the doctor: a broker alone can repair nothing while it runs.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import SCRUB_DELAY_SECONDS, SCRUB_STEP_BYTES
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log
from goqueue.storage.log_stage import LogStage
from goqueue.storage.scrub import BlockDigests, SegmentScrub, scrub_from
from goqueue.storage.segment_scan import Damage
from goqueue.storage.store import Store

_log = logging.getLogger("goqueue.scrub")
T = TypeVar("T")


@dataclass(slots=True)
class ScrubProgress:
    """Passes over all logs since the start."""

    passes: int = 0
    read_bytes: int = 0
    ended_ns: int = 0
    """When the last pass ended; 0 before the first one."""
    done: int = 0
    """Logs that the present pass has read."""
    total: int = 0


class ScrubRunner:
    """The scrub of one broker. Everything is called on the loop."""

    def __init__(self, store: Store, disk: Disk, clock: Clock, threads: Executor, rate: int, interval: float) -> None:
        """`rate` in bytes a second, 0 for none; `interval` in seconds from the beginning of a pass to the next one."""
        self.progress = ScrubProgress()
        self.on_damage: Callable[[Log, list[Damage]], bool] = lambda _, __: False
        """Returns whether the damage is seen to."""
        self.on_log: Signal[[Log]] = Signal()
        """Emitted when a log was read to its end."""
        self.damages: dict[str, list[Damage]] = {}
        """What the last pass found, by log."""
        self.digests: dict[str, BlockDigests] = {}
        """Of the last pass, by log."""
        self._store, self._disk, self._clock, self._threads = store, disk, clock, threads
        self._rate, self._interval = rate, interval
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._rate:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        await self._pause(min(self._interval, SCRUB_DELAY_SECONDS))
        while not self._stopping.is_set():
            began_ns = self._clock.monotonic_ns()
            await self.run_pass()
            await self._pause(self._interval - (self._clock.monotonic_ns() - began_ns) / NANOSECONDS)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._stopping.wait()

    async def run_pass(self) -> None:
        """Read all logs once."""
        progress, names = self.progress, sorted(self._store.logs)
        progress.done, progress.total = 0, len(names)
        for name in names:
            log = self._store.logs.get(name)
            if log is not None and log.stage is LogStage.OPEN and log.fence is None:
                try:
                    await self._scrub(log)
                except GoQueueError:  # it was closed or fenced meanwhile, which is told elsewhere
                    pass
                except Exception:
                    _log.exception("the scrub of log %s failed by a defect: the next pass reads it again", name)
            if self._stopping.is_set():
                return
            progress.done += 1
        progress.passes += 1
        progress.ended_ns = self._clock.now_ns()

    async def _scrub(self, log: Log) -> None:
        """Read one log."""
        digests, found, offset = BlockDigests(), list[Damage](), log.first_offset
        while (scrub := scrub_from(log, self._disk, offset, digests)) is not None:
            while size := await self._on_thread(partial(scrub.step, SCRUB_STEP_BYTES)):
                self.progress.read_bytes += size
                await self._pause(size / self._rate)
                if self._stopping.is_set():
                    return
            if scrub.damages and scrub.segment in log.segments:  # no other has taken its place
                found += self._tell(log, scrub)
            offset = scrub.sealed.next_offset
        self.digests[log.name] = digests
        self.damages.pop(log.name, None)
        if found:
            self.damages[log.name] = found
        self.on_log.emit(log)

    def _tell(self, log: Log, scrub: SegmentScrub) -> list[Damage]:
        """Return the damage that stays."""
        if self.on_damage(log, scrub.damages):
            return []
        known = self.damages.get(log.name, [])
        for one in scrub.damages:
            if one not in known:
                _log.error("%s is damaged at byte %d: %s", scrub.segment.path, one.position, one.reason)
        return scrub.damages

    async def _on_thread(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, job)
