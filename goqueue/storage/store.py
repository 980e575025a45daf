"""A data directory: its lock, its format, all of its logs.

    {data}/FORMAT     which version of the layout this is
    {data}/lock       held while a process uses the directory; names that process
    {data}/clean      how each log ended; stands only between a clean stop and the next start
    {data}/backup-target  which target has the backups, written by the runtime
    {data}/cut/…      second names of the files that a backup copies; removed with it
    {data}/clock      how much of the time retention does not believe, while there is something
    {data}/history    rates, latencies and lag of the last days, written by the runtime; storage leaves it alone
    {data}/traces/…   trace records, written by the runtime like the history
    {data}/logs/…     the logs, at any depth; a directory with segments in it is a log
    {data}/trash/…    deleted logs on their way out
    {data}/reserve    space for the records of deletions, should the disk be full

Everything here runs on the owner's thread. With a `deliver` the flusher has its own thread and its
reports reach the owner through it; without, the owner calls `flush`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import (
    DiskFailed,
    DiskFull,
    FilesExhausted,
    GoQueueError,
    LogClosed,
    LogExists,
    LogFenced,
    LogNotFound,
    PathInvalid,
    RangeDamaged,
    TransientError,
)
from goqueue.limits import FLUSH_INTERVAL_SECONDS, TAIL_BYTES
from goqueue.storage.deletion import ReservedSpace, Trash
from goqueue.storage.disk import Disk, Lock, replace_file
from goqueue.storage.flusher import Flusher, FlushMode, FlushReport
from goqueue.storage.layout import FORMAT_VERSION, check_directory, check_name, find_logs, write_checkpoint
from goqueue.storage.log import Log, LogResources, LogSettings
from goqueue.storage.log_stage import LogStage
from goqueue.storage.recovery import CleanLogState, CleanShutdown, RecoveredLog, read_clean_shutdown, recover
from goqueue.storage.segment import SegmentReaderCache
from goqueue.storage.tail import TailBudget
from goqueue.storage.writer import PendingAppend, WriteResult, call_all


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of a data directory."""

    flush: FlushMode = "always"
    flush_interval_ns: int = round(FLUSH_INTERVAL_SECONDS * NANOSECONDS)
    tail_bytes: int = TAIL_BYTES
    log: LogSettings = field(default_factory=LogSettings)


class Store:
    """The logs of one data directory. `open` it, and `close` it for a quick next start."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        clock: Clock,
        settings: StoreSettings,
        deliver: Callable[[Callable[[], None]], None] | None,
        lock: Lock,
    ) -> None:
        self.path = path
        self.settings = settings
        self.logs: dict[str, Log] = {}
        self.recovered: dict[str, RecoveredLog] = {}
        """What was found in each log when it was opened."""
        self.unopened: dict[str, GoQueueError] = {}
        """The logs that could not be opened or are gone, and why: the others go on without them."""
        self.failures = 0
        """Failed writes and syncs, without clean refusals for lack of space or of files."""
        self.refused: dict[str, GoQueueError] = {}
        """The logs whose last write the disk refused, and why; those that are fenced are not among them."""
        self.reserve = ReservedSpace(disk, path)
        self._trash = Trash(disk, f"{path}/trash")
        self._disk = disk
        self._deliver = deliver
        self._reports: deque[FlushReport] = deque()
        self._leaving: dict[str, list[Log]] = {}
        """Deleted logs, by the name that was deleted: those that the flusher still has files of."""
        self._lock = lock
        self._is_closed = False
        self.last_seen_ns = 0
        """The last moment that the directory knew of before this start: its clean stop, or else its newest message."""
        self._stopped_empty: set[str] = set()
        """Logs that the last clean stop knew to be empty."""
        flusher = Flusher(clock, settings.flush, settings.flush_interval_ns, self._report)
        self.resources = LogResources(disk, clock, flusher, SegmentReaderCache(disk), TailBudget(settings.tail_bytes))

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        clock: Clock,
        *,
        owner: str,
        settings: StoreSettings | None = None,
        deliver: Callable[[Callable[[], None]], None] | None = None,
    ) -> Self:
        """Take the directory, making it if it is not there, and recover every log in it.

        `owner` names this process in the error that a second one gets. `deliver` has to run what it is given
        on the owner's thread.
        """
        if disk.kind(path) == "absent":
            disk.make_directory(path)
        check_directory(disk, path)
        lock = disk.lock(f"{path}/lock", owner)
        try:
            store = cls(disk, path, clock, settings or StoreSettings(), deliver, lock)
            store._recover()
        except BaseException:
            lock.release()
            raise
        if deliver is not None:
            store.resources.flusher.start()
        return store

    def _recover(self) -> None:
        root = f"{self.path}/logs"
        if self._disk.kind(f"{self.path}/FORMAT") == "absent":
            replace_file(self._disk, f"{self.path}/FORMAT", f"goqueue {FORMAT_VERSION}\n".encode())
        self._disk.make_directory(root)
        self._trash.make()
        self.reserve.is_made = self._disk.kind(f"{self.path}/reserve") == "file"
        self.empty_trash()
        stop = self._take_clean_stop()
        clean = stop.logs
        self._stopped_empty = {name for name, state in clean.items() if not state.next_offset}
        for name in find_logs(self._disk, root):
            try:
                self._open(name, clean.get(name))
            except (DiskFailed, TransientError) as error:
                self.unopened[name] = error
        for name in clean.keys() - self.logs.keys() - self.unopened.keys() - self._stopped_empty:
            end = clean[name].next_offset
            self.unopened[name] = log_missing(name, f"at the last clean stop it went up to offset {end}")

        self.last_seen_ns = stop.time_ns or max((log.last_time for log in self.logs.values()), default=0)

    def expect(self, name: str, end: int) -> None:
        """Compare a log with what was noted elsewhere, before it is used: it was made, and went at least up to `end`.

        One that is gone is refused like one that cannot be opened, unless a clean stop shows that it was empty. One
        that ends earlier goes on at `end`, and what is lost is damage.
        """
        log = self.logs.get(name)
        if name in self.unopened or (log is None and not end and name in self._stopped_empty):
            return
        if log is None:
            self.unopened[name] = log_missing(name, f"it went up to offset {end} or further")
        elif log.next_offset < end:
            try:
                found = self.recovered[name] = recover(self._disk, log.directory, known_end=end)
                log.adopt(found)
            except (DiskFailed, TransientError) as error:
                del self.logs[name]
                self.unopened[name] = error

    def _open(self, name: str, clean: CleanLogState | None) -> None:
        found = self.recovered[name] = recover(self._disk, f"{self.path}/logs/{name}", clean)
        self.logs[name] = Log(name, self.resources, self.settings.log, found)

    def _take_clean_stop(self) -> CleanShutdown:
        """Read the marker and remove it: from now on a stop is not clean until it has been made so."""
        stop = read_clean_shutdown(self._disk, self.path)
        if self._disk.kind(f"{self.path}/clean") != "absent":
            self._disk.remove(f"{self.path}/clean")
            self._disk.sync_directory(self.path)
        return stop

    def log(self, name: str) -> Log:
        """The log of this name."""
        if name in self.unopened:
            error = self.unopened[name]
            raise LogFenced(f"log {name} could not be opened: {error}", hint=error.hint, log=name) from error
        try:
            return self.logs[name]
        except KeyError:
            hint = f"there are: {', '.join(list(self.logs)[:5])}" if self.logs else None
            raise LogNotFound(f"there is no log {name!r}", hint=hint, log=name) from None

    def create(self, name: str, settings: LogSettings | None = None) -> Log:
        """A new, empty log."""
        self._refuse_if_closed()
        check_name(name)
        if name in self.logs or name in self.unopened:
            raise LogExists(f"log {name} exists already", log=name)
        for leaving in [one for one in self._leaving if name == one or name.startswith(f"{one}/")]:
            self._finish_deletion(leaving)
            if leaving in self._leaving:
                raise LogExists(f"log {name} is still being deleted", hint="try again in a moment", log=name)
        directory = f"{self.path}/logs/{name}"
        self._refuse_case_collision(name, directory)
        self._disk.make_directory(directory)
        log = Log(name, self.resources, settings or self.settings.log, recover(self._disk, directory))
        self.logs[name] = log
        return log

    def _refuse_case_collision(self, name: str, directory: str) -> None:
        """Where a file system takes upper case for lower, another log may live under this name."""
        if self._disk.kind(directory) == "absent":
            return
        place = f"{self.path}/logs"
        for part in name.split("/"):
            if all(entry.name != part for entry in self._disk.entries(place)):
                raise LogExists(
                    f"log {name} cannot be created: the file system gives it the directory of another one",
                    hint="it takes upper case for lower; choose another name",
                    log=name,
                )
            place = f"{place}/{part}"

    def delete(self, name: str) -> None:
        """Remove a log and those below it: at once from view, from its place when its files are no longer used."""
        self._refuse_if_closed()
        below = [one for one in (*self.logs, *self.unopened) if one == name or one.startswith(f"{name}/")]
        if not below:
            self.log(name)
        already = [one for one in self._leaving if one.startswith(f"{name}/")]
        closing = [self.logs.pop(one) for one in below if one in self.logs]
        self._leaving[name] = closing + [log for one in already for log in self._leaving.pop(one)]
        for one in below:
            self.unopened.pop(one, None)
            self.recovered.pop(one, None)
            self.refused.pop(one, None)
        too_late = [chunk for log in closing for chunk in log.close()]
        if self._deliver is None:
            self.flush()
        _answer(closing, too_late)
        self._finish_deletion(name)

    def is_leaving(self, name: str) -> bool:
        """Return whether a deleted log of this name, or one below it, is still in its place."""
        return any(one == name or one.startswith(f"{name}/") for one in self._leaving)

    def finish_deletions(self) -> None:
        """Move deleted logs to the trash, as far as their files are unused and the disk allows it."""
        for name in list(self._leaving):
            with suppress(GoQueueError):  # tried again, and raised, when the name is created again
                self._finish_deletion(name)

    def _finish_deletion(self, name: str) -> None:
        """Move it away, once the flusher has let go of it and no job works on it."""
        leaving = self._leaving.get(name)
        if leaving is not None and all(log.stage is LogStage.RELEASED and log.job is None for log in leaving):
            self._trash.take(f"{self.path}/logs/{name}")
            del self._leaving[name]

    def empty_trash(self) -> None:
        """Remove what was deleted. May run on any thread."""
        self._trash.empty()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise LogClosed(f"the data directory {self.path} is being closed", hint="try again after the restart")

    def flush(self) -> None:
        """Write and sync all that waits, on this thread: only where the flusher has none of its own."""
        assert self._deliver is None, "the flusher has its own thread"
        self.resources.flusher.flush()

    def settle(self) -> None:
        """Hand the flusher's reports to the logs. All state is updated before any caller is called."""
        settled: list[PendingAppend] = []
        reported: dict[Log, None] = {}
        while self._reports:
            for log, outcome in self._reports.popleft():
                assert isinstance(log, Log)
                if outcome.released:
                    log.advance(LogStage.RELEASED)
                else:
                    if outcome.failure is not None or self.refused:
                        self._note_refusal(log, outcome)
                    settled += log.settle(outcome)
                    reported[log] = None
        _answer(reported, settled)
        self.finish_deletions()
        if (failure := self.resources.flusher.failure) is not None:
            raise RuntimeError("the flusher's thread has died") from failure

    def _note_refusal(self, log: Log, outcome: WriteResult) -> None:
        """Record whether the log's last write was refused; a fenced log is not among the refused."""
        has_no_room = isinstance(outcome.failure, (DiskFull, FilesExhausted)) and not outcome.fenced
        self.failures += outcome.failure is not None and not has_no_room
        if outcome.failure is not None and not outcome.fenced and not log.is_closed:
            self.refused[log.name] = outcome.failure
        elif outcome.failure is not None or outcome.written is not None:
            self.refused.pop(log.name, None)

    @property
    def refusal(self) -> str | None:
        """Why writes are refused: the last one to some log was, and the disk has taken none since."""
        reasons = list(self.refused.values())
        if any(isinstance(reason, DiskFull) for reason in reasons):
            return "the disk is full"
        return reasons[-1].sentence if reasons else None

    def probe_disk_space(self) -> None:
        """See whether the disk takes writes, and make the reserve if there is none. Raises if not. On any thread."""
        self.reserve.make()

    def is_in_place(self) -> bool:
        """Return whether the directory still is where it was opened, and was neither removed nor replaced."""
        return self._lock.is_in_place()

    def fence_off(self) -> None:
        """Refuse all writes, because the directory is gone: another one may have its path by now."""
        hint = "stop the broker, put the directory back or restore a backup, and start it again"
        failure = PathInvalid(f"the data directory {self.path} was removed, moved or replaced", hint=hint)
        for log in self.logs.values():
            if log.obstacle is None:
                log.fence_off(failure)

    def close(self) -> None:
        """Write what is left, and leave the marker of a clean stop. No job may be running any more."""
        if self._is_closed:
            return
        self._is_closed = True
        for log in self.logs.values():
            log.advance(LogStage.STOPPING)
        try:
            self.resources.flusher.stop()
            self.settle()
            states = {
                log.name: (
                    log.active.base_offset,
                    log.next_offset,
                    log.last_time,
                    log.active.first_time,
                    log.active.size,
                )
                for log in self.logs.values()
                if log.fence is None
            }
            _answer(self.logs.values(), [chunk for log in self.logs.values() for chunk in log.close()])
            self.resources.flusher.flush()
            if self.is_in_place():  # another directory may have its path by now, and these states are not of its logs
                now_ns = self.resources.clock.now_ns()
                write_checkpoint(self._disk, f"{self.path}/clean", logs=states, stopped_ns=now_ns)
        finally:
            self._lock.release()

    def _report(self, report: FlushReport) -> None:
        """From the flusher's thread, if it has one. While closing the owner looks for itself."""
        self._reports.append(report)
        if self._is_closed:
            return
        if self._deliver is not None:
            self._deliver(self.settle)
        else:
            self.settle()

    def __repr__(self) -> str:
        return f"<Store {self.path} {len(self.logs)} logs>"


def _answer(logs: Iterable[Log], settled: list[PendingAppend]) -> None:
    """Report the progress of logs to what sits on them, then answer the appenders."""
    call_all([*[log.on_report for log in logs], *[chunk.answer for chunk in settled]])


def process_name(program: str, process_id: int) -> str:
    """Return the name of this process for the error that a second one gets."""
    return f"{program} (process {process_id})"


def log_missing(name: str, sentence: str) -> RangeDamaged:
    """The reason why a log that is gone is not made anew: its offsets would be given out again."""
    return RangeDamaged(
        f"log {name} is gone: {sentence}",
        hint="mount its file system or restore the log, and restart the broker; where it is lost for good, "
        "`goqueue fsck --repair` makes an empty log that goes on behind the lost offsets",
    )
