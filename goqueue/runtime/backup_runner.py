"""Backups of a running broker: one at a time, on a thread of their own.

The cut is taken by upkeep between two of its jobs; the rest only reads files that nothing changes. What is under way
ends with the broker, and the next backup continues with what was copied. Failed runs are remembered until a restart;
complete ones are in the target.
"""

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar

from goqueue import __version__
from goqueue.backup.catalog import BackupCatalog, BackupSummary
from goqueue.backup.create import BackupProgress, BackupWriter, Throttle
from goqueue.backup.cut import Cut, remove_cut, take_cut
from goqueue.backup.manifest import Manifest
from goqueue.backup.restore import RESTORING_DIRECTORY, remove_tree
from goqueue.backup.retention import BackupRetention
from goqueue.backup.target import BackupTarget, new_backup_id, refuse_unless_id
from goqueue.backup.target_note import TargetNote
from goqueue.backup.verify import Verification, load_manifest, store_verification, verify_backup
from goqueue.broker.core.work import Work
from goqueue.errors import BackupCancelled, BackupDamaged, BackupsBusy, BackupsOff, DiskFull, GoQueueError
from goqueue.limits import BACKUP_RUNS_KEPT, BACKUP_TARGET_CHECK_SECONDS
from goqueue.quantities import format_count, format_size
from goqueue.runtime.runtime import Runtime
from goqueue.storage.store import process_name

_log = logging.getLogger("goqueue.backup")

T = TypeVar("T")

RunState = Literal["running", "complete", "failed", "cancelled"]


@dataclass(slots=True, eq=False)
class BackupRun:
    """A backup or a verification of this process."""

    id: str
    """The id of the backup."""
    kind: Literal["backup", "verification", "restore"]
    began_ns: int
    throttle: Throttle
    state: RunState = "running"
    problem: str | None = None
    progress: BackupProgress | None = None
    """The progress of a backup, once its cut was taken."""
    verification: Verification | None = None
    topic: str = ""
    """The name that a restored topic gets."""
    restored_bytes: int | None = None
    """Size of the restored topic, once it is complete: less than that in the backup where it was cut."""
    restore: "Callable[[BackupRun], Awaitable[None]] | None" = None
    is_new_target: bool = False
    """Whether the target may be another one than before."""
    began: float = field(default_factory=time.monotonic)

    @property
    def bytes_total(self) -> int:
        counts = self.progress or self.verification
        return 0 if counts is None else counts.bytes_total

    @property
    def bytes_done(self) -> int:
        counts = self.progress or self.verification
        return 0 if counts is None else counts.bytes_done

    @property
    def bytes_per_second(self) -> float:
        """Rate of what had to be read, since the reading began."""
        began = self.began if self.progress is None else self.progress.began
        return self._bytes_read / max(0.001, time.monotonic() - began)

    @property
    def seconds_left(self) -> float | None:
        """The time that is left at this rate; None until it can be told."""
        left = self.bytes_total - self.bytes_done
        if self.kind == "backup" and self.progress is not None:
            left = self.bytes_total - self.progress.bytes_unchanged - self.progress.bytes_copied
        rate = self.bytes_per_second
        return max(0, left) / rate if rate else None

    @property
    def _bytes_read(self) -> int:
        return self.progress.bytes_copied if self.kind == "backup" and self.progress is not None else self.bytes_done


class BackupRunner:
    """Owns the backups of a broker."""

    def __init__(
        self, runtime: Runtime, target: BackupTarget | None, bytes_per_second: int, retention: BackupRetention
    ) -> None:
        self.target = target
        self.retention = retention
        self.newest_ns: int | None = None
        """The moment of the newest backup; None without any, and until the target was read."""
        self.newest = ""
        """The id of that backup."""
        self.unavailable: tuple[str, ...] = ()
        """The logs that it lacks."""
        self.newest_verified_ns: int | None = None
        """The moment of the newest one whose verification found nothing."""
        self.damaged: tuple[str, ...] = ()
        """The backups whose verification found something."""
        self.locked: tuple[str, ...] = ()
        """The backups that are encrypted with other keys."""
        self.failures = 0
        """Backups and verifications that failed since the start."""
        self.problem: str | None = None
        """Why the last backup failed."""
        self.target_problem: str | None = None
        """Why the backups that were seen cannot be reached any more."""
        self.key_problem: str | None = None
        """Why the key file cannot be used."""
        self.runs: OrderedDict[str, BackupRun] = OrderedDict()
        """Backups of this process that are not in the target, the oldest first."""
        self.restores: dict[str, BackupRun] = {}
        """The last restore of a topic from each backup."""
        self.verification_problems: dict[str, str] = {}
        """Why the last verification of a backup could not be done."""
        self.current: BackupRun | None = None
        self._runtime = runtime
        self._rate = bytes_per_second
        self._catalog = None if target is None else BackupCatalog(target)
        self._note: TargetNote | None = None
        self._owner = process_name("goqueue serve", os.getpid())
        self._worker = ThreadPoolExecutor(1, "goqueue-backup")
        self._writer = ThreadPoolExecutor(1, "goqueue-backup-writer")
        self._readers = ThreadPoolExecutor(1, "goqueue-backup-list")
        self._task: asyncio.Task[None] | None = None
        self._checking: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Remove what a backup has left that was interrupted by the end of the process, and look at the target."""
        self._removing: Future[None] = self._readers.submit(self._remove_leftovers)
        if self.target is not None:
            self._note = TargetNote(self._runtime.disk, self._runtime.store.path, self.target)
            self._note.recall()
            self._readers.submit(self._look)
            self._tell_key(self.target)

    def _tell_key(self, target: BackupTarget) -> None:
        if (key_id := target.read_keys()) is not None:
            _log.info("backups are encrypted with key %s: without a copy of the key file they cannot be read", key_id)

    def _remove_leftovers(self) -> None:
        with suppress(GoQueueError):  # the next backup or restore does so, too
            remove_cut(self._runtime.disk, self._directory)
            remove_tree(self._runtime.disk, f"{self._runtime.store.path}/{RESTORING_DIRECTORY}")

    async def stop(self) -> None:
        """Cancel what is under way."""
        if self.current is not None:
            self._cancel(self.current)
        await self.wait()
        for threads in (self._worker, self._writer, self._readers):
            threads.shutdown()

    @property
    def _directory(self) -> str:
        return f"{self._runtime.store.path}/cut"

    # --- what operators ask for ---

    def begin_backup(self, *, is_new_target: bool = False) -> BackupRun:
        """Start a backup. Raises BackupsOff or BackupsBusy."""
        now_ns = self._runtime.clock.now_ns()
        run = BackupRun(new_backup_id(now_ns), "backup", now_ns, Throttle(self._rate), is_new_target=is_new_target)
        return self._begin(run)

    async def begin_verification(self, name: str) -> BackupRun:
        """Start to read a backup again. Raises BackupKeyMismatch where its key is missing."""
        self._refuse_busy()
        await self.run_list_job(partial(self._refuse_locked, name))
        run = self._begin(BackupRun(name, "verification", self._runtime.clock.now_ns(), Throttle(self._rate)))
        self.verification_problems.pop(name, None)
        return run

    def begin_restore(
        self, name: str, topic: str, size: int, restore: Callable[[BackupRun], Awaitable[None]]
    ) -> BackupRun:
        """Start to restore a topic."""
        progress = BackupProgress(bytes_total=size)
        run = BackupRun(name, "restore", self._runtime.clock.now_ns(), Throttle(self._rate), progress=progress)
        run.topic, run.restore = topic, restore
        self._begin(run)
        self.restores[name] = run
        return run

    async def run_job(self, job: Callable[[], T]) -> T:
        """Run a job on the thread of backups."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, job)

    async def manifest(self, name: str) -> Manifest:
        """Load the manifest of a backup. Raises BackupNotFound."""
        target = self._require_catalog().target
        return await self.run_list_job(partial(load_manifest, target, name))

    async def summaries(self) -> list[BackupSummary]:
        """The complete backups of the target, the oldest first."""
        return await self.run_list_job(self._require_catalog().summaries)

    async def summary(self, name: str) -> BackupSummary:
        def job() -> BackupSummary:
            self._refuse_unknown(name)
            return self._require_catalog().summary(name)

        return await self.run_list_job(job)

    async def look(self) -> None:
        """Read the newest backups of the target."""
        await self.run_list_job(self._look)

    async def check_target(self) -> None:
        """Find out whether the backups are still there, for the doctor, which does not wait long for a device."""
        if self.target is not None:
            if self._checking is None or self._checking.done():  # a target out of reach takes its time
                self._checking = asyncio.ensure_future(self.run_list_job(self._check_target))
            await asyncio.wait([self._checking], timeout=BACKUP_TARGET_CHECK_SECONDS)

    def _check_target(self) -> None:
        target = self._require_catalog().target
        self.target_problem = _problem_of(target.refuse_vanished)
        self.key_problem = _problem_of(target.read_keys)
        if self.locked:
            self._look()  # the keys may be there again

    async def wait(self) -> None:
        """Wait until nothing runs."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def prune(self, *, dry_run: bool) -> tuple[list[str], list[str]]:
        """Delete the backups that retention does not keep; return the ids of the kept and of the deleted ones."""
        self._refuse_busy()
        catalog = self._require_catalog()

        def job() -> tuple[list[str], list[str]]:
            found = catalog.summaries()
            expired = [one.id for one in self.retention.expired(found)]
            if expired and not dry_run:
                with self._opened_target():
                    catalog.delete(*expired)
            return [one.id for one in found if one.id not in expired], expired

        return await self.run_list_job(job)

    async def remove(self, name: str) -> Literal["cancelled", "deleted"]:
        """Cancel a running backup, or delete one with the objects that no other backup needs."""
        if self.current is not None and self.current.id == name and self.current.kind == "backup":
            self._cancel(self.current)
            await self.wait()
            return "cancelled"
        self._refuse_busy()
        if self.runs.pop(name, None) is None:
            await self.run_list_job(partial(self._delete, name))
            await self.look()
        return "deleted"

    def _cancel(self, run: BackupRun) -> None:
        """End a run soon; one that waits for its cut ends at once, since a compaction may be before it."""
        run.throttle.cancelled.set()
        if run.kind == "backup" and run.progress is None and self._task is not None:
            self._task.cancel()

    # --- how it is done ---

    def _require_catalog(self) -> BackupCatalog:
        if self._catalog is None:
            raise BackupsOff(
                "the broker has no target for backups",
                hint="set `backup.target` to a directory on another device or an object store, and restart the broker",
            )
        return self._catalog

    def _refuse_busy(self) -> None:
        self._require_catalog()
        if self.current is not None:
            raise BackupsBusy(
                f"the {self.current.kind} of {self.current.id} is running",
                hint="wait for its end; `goqueue-admin backup list` shows how far it is",
            )

    def _refuse_unknown(self, name: str) -> None:
        target = self._require_catalog().target
        target.refuse_vanished()
        try:
            ids = target.ids()
        except GoQueueError:
            ids = []
        refuse_unless_id(name, ids)

    def _refuse_locked(self, name: str) -> None:
        self._refuse_unknown(name)
        self._require_catalog().target.read_keys()  # what was in the file before does not count
        with suppress(BackupDamaged):  # which the verification finds
            load_manifest(self._require_catalog().target, name)

    async def run_list_job(self, job: Callable[[], T]) -> T:
        """Run a short job, also while a backup runs."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, job)

    def _begin(self, run: BackupRun) -> BackupRun:
        self._runtime.refuse_while_stopping()
        self._refuse_busy()
        self.current = run
        self._task = asyncio.get_running_loop().create_task(self._run(run))
        return run

    async def _run(self, run: BackupRun) -> None:
        state, problem = await self._attempt(run)
        if run.kind == "backup" and state != "cancelled":
            self.problem = problem
        self.failures += state == "failed"
        await self.look()
        run.state, run.problem = state, problem  # in the turn in which the next one may begin
        self.current = None
        if run.kind == "verification" and problem is not None:
            self.verification_problems[run.id] = problem
        if run.kind == "backup" and run.state != "complete":
            self.runs[run.id] = run
            while len(self.runs) > BACKUP_RUNS_KEPT:
                self.runs.popitem(last=False)

    async def _attempt(self, run: BackupRun) -> tuple[RunState, str | None]:
        """Do the work, and return how it ended, and why."""
        try:
            await self._work(run)
        except asyncio.CancelledError:
            with suppress(GoQueueError):  # the cut may just have been taken; the next backup removes it, too
                await self.run_job(partial(remove_cut, self._runtime.disk, self._directory))
            return "cancelled", "the backup was cancelled before its cut was taken"
        except GoQueueError as error:
            state: RunState = "cancelled" if isinstance(error, BackupCancelled) else "failed"
            _log.warning("%s %s %s: %s", run.kind, run.id, state, error)
            return state, error.sentence if state == "cancelled" else _explained(error)
        except Exception:
            _log.exception("%s %s failed", run.kind, run.id)
            return "failed", "the broker made a mistake: see its log"
        return "complete", None

    async def _work(self, run: BackupRun) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.wrap_future(self._removing)  # it must not take for a leftover what is begun now
        if run.kind == "backup":
            cut = await self._runtime.upkeep.run_alone(self._take_cut(run))
            await loop.run_in_executor(self._worker, self._copy, run, cut)
        elif run.restore is not None:
            await run.restore(run)
        else:
            await loop.run_in_executor(self._worker, self._verify, run)

    def _take_cut(self, run: BackupRun) -> Work[Cut]:
        """Take the cut, and drop it if the backup was cancelled meanwhile."""
        runtime = self._runtime
        cut = yield from take_cut(runtime.store, runtime.disk, self._directory, runtime.clock.now_ns())
        if run.throttle.cancelled.is_set():
            yield partial(remove_cut, runtime.disk, self._directory)
        run.throttle.refuse_if_cancelled()
        return cut

    def _copy(self, run: BackupRun, cut: Cut) -> None:
        target, disk = self._require_catalog().target, self._runtime.disk
        try:
            with self._opened_target(is_new=run.is_new_target):
                job = BackupWriter(disk, self._directory, cut, target, run.throttle, self._writer)
                run.progress = job.progress
                manifest = job.run(run.id, __version__)
        finally:
            remove_cut(disk, self._directory)
        _log.info(
            "backup %s is %s: %s in %s, %s of them new%s",
            run.id,
            f"incomplete, without {', '.join(sorted(manifest.unavailable))}" if manifest.unavailable else "complete",
            format_size(manifest.size),
            format_count(len(manifest.logs), "log"),
            format_size(manifest.new_bytes),
            f"; {format_count(job.progress.damages, 'damaged range')}" if job.progress.damages else "",
        )

    def _verify(self, run: BackupRun) -> None:
        target = self._require_catalog().target
        run.verification = Verification(run.id)
        report = verify_backup(target, run.id, run.verification, run.throttle.pay)
        with self._opened_target():
            note = store_verification(target, report, self._runtime.clock.now_ns())
        self._require_catalog().note_verification(run.id, note)
        if not report.is_sound:
            _log.error("backup %s is damaged: %s", run.id, report.problems[0].sentence)

    def _delete(self, name: str) -> None:
        self._refuse_unknown(name)
        catalog = self._require_catalog()
        with self._opened_target():
            catalog.delete(name)
        self.verification_problems.pop(name, None)

    @contextmanager
    def _opened_target(self, *, is_new: bool = False) -> Iterator[None]:
        """Keep others from changing the target, and remember which one it is."""
        lock = self._require_catalog().target.open(self._owner, is_new=is_new)
        try:
            self._update_note()
            yield
        finally:
            lock.release()

    def _update_note(self) -> None:
        with suppress(GoQueueError):  # a full disk keeps no backup from being made
            if self._note is not None and self._runtime.store.is_in_place():
                self._note.update()

    def _look(self) -> None:
        """Find the newest backups, for metrics and the doctor."""
        with suppress(GoQueueError):  # the doctor says what is old
            found = self._require_catalog().summaries()
            self._update_note()
            newest = max(found, key=lambda one: one.cut_ns, default=None)
            self.newest_ns = None if newest is None else newest.cut_ns or None
            self.newest, self.unavailable = ("", ()) if newest is None else (newest.id, newest.unavailable)
            self.newest_verified_ns = max((one.cut_ns for one in found if one.is_verified), default=0) or None
            self.damaged = tuple(
                one.id for one in found if one.problems or (one.problem is not None and not one.is_locked)
            )
            self.locked = tuple(one.id for one in found if one.is_locked)


def _problem_of(check: Callable[[], object]) -> str | None:
    """Return why a check fails; None if it does not."""
    try:
        check()
    except GoQueueError as error:
        return _explained(error)
    return None


def _explained(error: GoQueueError) -> str:
    """Return what failed, and what to do: only this is kept of an error."""
    hint = "free some space, and try again" if isinstance(error, DiskFull) else error.hint  # nothing repeats it soon
    return error.sentence if hint is None else f"{error.sentence}; {hint}"
