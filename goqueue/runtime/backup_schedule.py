"""Backups that the broker makes by itself: at intervals one is made, verified, and those that are too many are deleted.

The interval counts from the newest backup in the target, so a restart neither skips nor repeats one.
"""

import asyncio
import logging
from contextlib import suppress

from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import BACKUP_LOOK_SECONDS, BACKUP_RETRY_SECONDS
from goqueue.observe.facts import BackupFacts
from goqueue.quantities import format_count
from goqueue.runtime.backup_runner import BackupRunner

_log = logging.getLogger("goqueue.backup")


class BackupSchedule:
    """Starts the backups of a broker."""

    def __init__(self, runner: BackupRunner, clock: Clock, interval_seconds: float) -> None:
        """0 seconds is never."""
        self.interval_seconds = interval_seconds
        self._runner = runner
        self._clock = clock
        self._not_before_ns = 0
        """After a failure, the next attempt."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_on(self) -> bool:
        return bool(self.interval_seconds) and self._runner.target is not None

    @property
    def next_ns(self) -> int | None:
        """When the next backup begins; None without a schedule."""
        if not self.is_on:
            return None
        interval_ns, now_ns = round(self.interval_seconds * NANOSECONDS), self._clock.now_ns()
        newest_ns = self._runner.newest_ns
        due_ns = now_ns if newest_ns is None else newest_ns + interval_ns
        return max(self._not_before_ns, min(due_ns, now_ns + interval_ns))  # the clock may have been set back

    def start(self) -> None:
        if self.is_on:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        await self._runner.look()
        while True:
            due_ns = self.next_ns
            assert due_ns is not None, "there is a schedule"
            left = (due_ns - self._clock.now_ns()) / NANOSECONDS
            if left > 0 or self._runner.current is not None:
                await asyncio.sleep(min(max(left, 0.05), BACKUP_LOOK_SECONDS))
                continue
            try:
                await self._back_up()
            except GoQueueError as error:
                _log.warning("the backup of the schedule failed: %s", error)
                self._retry_later()
            except Exception:
                _log.exception("the backup of the schedule failed")
                self._retry_later()

    def _retry_later(self) -> None:
        seconds = min(self.interval_seconds, BACKUP_RETRY_SECONDS)
        self._not_before_ns = self._clock.now_ns() + round(seconds * NANOSECONDS)

    async def _back_up(self) -> None:
        run = self._runner.begin_backup()
        await self._runner.wait()
        if run.state != "complete":
            self._retry_later()
            return
        with suppress(GoQueueError):  # an operator was faster
            await self._runner.begin_verification(run.id)
            await self._runner.wait()
        _, deleted = await self._runner.prune(dry_run=False)
        if deleted:
            _log.info("deleted %s that retention does not keep", format_count(len(deleted), "backup"))


async def backup_facts(runner: BackupRunner, schedule: BackupSchedule, now_ns: int) -> BackupFacts | None:
    """Return the facts for the doctor; None without a target."""
    if runner.target is None:
        return None
    await runner.check_target()
    verified_ns = runner.newest_verified_ns
    return BackupFacts(
        target=str(runner.target),
        interval_seconds=schedule.interval_seconds,
        verified_seconds=None if verified_ns is None else max(0.0, (now_ns - verified_ns) / NANOSECONDS),
        problem=runner.problem,
        target_problem=runner.target_problem,
        key_problem=runner.key_problem,
        locked=runner.locked,
        damaged=runner.damaged,
        newest=runner.newest,
        unavailable=runner.unavailable,
    )
