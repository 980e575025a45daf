"""The writer of one log's files, on the flusher's thread.

The log's owner gives it appends through a deque and gets results back; nothing else is shared.

What must stay true:

* a segment is synced before its successor is created, so only the last one can have a torn tail;
* a new file's name is synced before anything in it counts as durable;
* before frames behind a gap are written, or a segment begins there, the gap is noted: it would be taken for a loss;
* a copy gets what its log has got, never before; one that cannot be written is removed, and never fails an append;
* the mark in the index moves only after the sync that it speaks of, and is itself synced only with the end of
  the segment;
* after a failure nothing more is written until the owner has seen it: appends that were queued meanwhile are
  dropped, up to the `RESUME` that the owner puts behind them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from goqueue.errors import DiskFailed, DiskFull, GoQueueError, PathInvalid, TransientError
from goqueue.storage.compaction_progress import raise_gaps
from goqueue.storage.deletion import ReservedSpace
from goqueue.storage.disk import Buffer, Disk, File, file_size, remove_files
from goqueue.storage.index import PAIR_BYTES, mark
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment
from goqueue.storage.segment_copies import drop_copy, make_copy, update_copies

AppendCallback = Callable[[GoQueueError | None], None]
"""Called once: with None when the messages are durable, otherwise with the reason why they are not."""


@dataclass(slots=True, eq=False)
class PendingAppend:
    """Frames that were appended together, with everything that the flusher needs to write them."""

    segment: Segment
    position: int
    first_offset: int
    frames: Frames
    entry_number: int
    """How many entries the segment's index has before this append."""
    entries: bytes
    times: bytes
    """What `.index` and `.timeindex` gain from that entry on."""
    acknowledge: AppendCallback | None
    is_behind_gap: bool = False
    """Whether offsets before it are left out, as the leader's compaction has removed them."""
    settled: bool = False
    verdict: GoQueueError | None = None

    @property
    def next_offset(self) -> int:
        return self.first_offset + len(self.frames)

    @property
    def size(self) -> int:
        return len(self.frames.buffer)

    def settle(self, verdict: GoQueueError | None) -> None:
        """Record the result. The appender is called later, when all state is updated."""
        self.settled, self.verdict = True, verdict

    def answer(self) -> None:
        """Call the appender with the result."""
        acknowledge, self.acknowledge = self.acknowledge, None
        if acknowledge is not None:
            acknowledge(self.verdict)


def call_all(callbacks: Iterable[Callable[[], None]]) -> None:
    """Call each of them, even if one raises."""
    failures: list[Exception] = []
    for callback in callbacks:
        try:
            callback()
        except Exception as failure:
            failures.append(failure)
    if failures:
        raise ExceptionGroup("callbacks of appends failed", failures)


@dataclass(frozen=True, slots=True)
class Resume:
    """Ends the pause after a failure."""


RESUME: Final = Resume()
WriteQueue = deque[PendingAppend | Resume]


@dataclass(slots=True)
class WriteResult:
    """The progress of a log in a flush round, and what stopped it."""

    written: PendingAppend | None = None
    """The last append that is in the file."""
    durable: PendingAppend | None = None
    """The last append that is on the device."""
    failure: GoQueueError | None = None
    fenced: bool = False
    """Whether the disk's content is unknown now; otherwise the refused chunks were taken back cleanly."""
    released: bool = False
    """The log was closed, and its files have been let go of."""


class LogWriter:
    """Appends to the files of one log."""

    def __init__(self, disk: Disk, queue: WriteQueue) -> None:
        self._disk = disk
        self._queue = queue
        self._segment: Segment | None = None
        self._file: File | None = None
        self._index_files: tuple[File, File] | None = None
        self.keeps_copies = False
        """Whether each segment has a copy. Set by the owner while nothing is being written."""
        self._copy: File | None = None
        self.has_unsynced_copy = False
        self._created: Segment | None = None  # whose file is new, and has nothing written to it yet
        self._entry_number = 0  # the first of the entries that wait for the sync
        self._entries = b""
        self._times = b""
        self._last: PendingAppend | None = None  # written
        self._paused = False
        self.unsynced = False
        self.reserve: ReservedSpace | None = None
        """What to give up for a deletion when the disk is full, if this log records deletions."""

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def keep_copies(self, segments: list[Segment]) -> None:
        """Have a copy of each segment from now on. On the owner's thread, before it appends."""
        if not self.keeps_copies:
            update_copies(self._disk, segments)
            self.keeps_copies = True

    def write(self, outcome: WriteResult) -> None:
        """Write all that waits, without a sync. `outcome` is that of the round so far."""
        for segment, group in self._waiting():
            try:
                self._write_group(segment, group, outcome)
            except GoQueueError as error:
                outcome.failure = error
                self._pause(outcome)
                break
            outcome.written = self._last

    def _write_group(self, segment: Segment, group: list[PendingAppend], outcome: WriteResult) -> None:
        """Write it all, or leave no trace of it and raise; once more where the reserve makes room."""
        while True:
            try:
                if segment is not self._segment:
                    self._leave_segment(outcome)
                if behind := [chunk.first_offset for chunk in group if chunk.is_behind_gap]:
                    raise_gaps(self._disk, segment.directory, behind[-1])
                if segment is not self._segment:
                    self._turn_to(segment, position=group[0].position)
                self._append(group)
            except GoQueueError as error:
                refused = isinstance(error, TransientError) and not outcome.fenced
                outcome.fenced = not refused or not self._take_back(segment, group[0].position)
                if outcome.fenced or not isinstance(error, DiskFull) or not self._give_up_reserve():
                    raise
            else:
                return

    def _give_up_reserve(self) -> bool:
        with suppress(GoQueueError):
            return self.reserve is not None and self.reserve.give_up()
        return False

    def give_up(self, outcome: WriteResult, error: Exception) -> None:
        """Fence the log after a bug of ours: what the disk holds is unknown."""
        outcome.failure, outcome.fenced = DiskFailed(f"the flusher made a mistake: {error!r}"), True
        self._pause(outcome)

    def sync(self, outcome: WriteResult) -> None:
        """Make durable what was written. A failure is final: the kernel may have dropped the pages."""
        if self._file is None or not self.unsynced or outcome.fenced:
            return
        try:
            self._file.sync()
        except GoQueueError as error:
            outcome.failure, outcome.fenced = error, True
            self._pause(outcome)
            return
        self.unsynced = False
        outcome.durable = self._last
        self._write_index()

    def sync_copy(self) -> None:
        """Make durable what the copy has got. No caller waits for it, and the next start compares it with the log."""
        self.has_unsynced_copy = False
        if self._copy is not None:
            with suppress(GoQueueError):
                self._copy.sync()

    def close(self) -> None:
        """Let the files go; the next chunk opens them again."""
        self.sync_copy()
        self._let_go()

    def _let_go(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None
        for file in (self._file, *(self._index_files or ())):
            if file is not None:
                file.close()
        self._file = self._index_files = self._segment = None
        self._entries, self._times = b"", b""
        self.unsynced = False

    def _waiting(self) -> Iterator[tuple[Segment, list[PendingAppend]]]:
        """Yield what waits, in order, with a list for each segment."""
        chunks: list[PendingAppend] = []
        while self._queue:
            item = self._queue.popleft()
            if isinstance(item, Resume):
                self._paused = False
            elif not self._paused:
                chunks.append(item)
        for segment, group in groupby(chunks, attrgetter("segment")):
            yield segment, list(group)

    def _append(self, group: list[PendingAppend]) -> None:
        assert self._file is not None
        assert self._follows(group[0]), "chunks are written one behind the other"
        buffers = [chunk.frames.buffer.data for chunk in group]
        self._file.write(group[0].position, buffers)
        if self._copy is not None:
            self._write_copy(group[0].position, buffers)
        self.unsynced, self._created = True, None
        if not self._entries:
            self._entry_number = group[0].entry_number
        self._entries += b"".join([chunk.entries for chunk in group])
        self._times += b"".join([chunk.times for chunk in group])
        self._last = group[-1]

    def _follows(self, chunk: PendingAppend) -> bool:
        last = self._last
        return last is None or last.segment is not chunk.segment or last.position + last.size == chunk.position

    def _leave_segment(self, outcome: WriteResult) -> None:
        """Finish the segment before another is opened."""
        self.sync(outcome)
        if outcome.failure is not None:
            raise outcome.failure
        if self.keeps_copies and self._copy is None and self._last is not None and self._last.segment is self._segment:
            self._copy = self._open_copy(self._last.segment, self._last.position + self._last.size)
        self._sync_index()
        self.close()

    def _turn_to(self, segment: Segment, *, position: int) -> None:
        """Open a segment, which ends at this position."""
        if position == 0:
            self._make(segment)
        self._file = self._disk.open(segment.path, "write")
        with suppress(PathInvalid):  # it was removed, and is made again when it is needed
            self._index_files = (
                self._disk.open(segment.index_path, "write"),
                self._disk.open(segment.timeindex_path, "write"),
            )
        if self.keeps_copies:
            self._copy = self._open_copy(segment, position)
        self._segment = segment

    def _open_copy(self, segment: Segment, position: int) -> File | None:
        """The copy, made anew where it does not end where the log does; None while that cannot be made."""
        try:
            if self._disk.kind(segment.copy_path) == "file":
                copy = self._disk.open(segment.copy_path, "write")
                if copy.size() == position:
                    return copy
                copy.close()
            make_copy(self._disk, segment, position)
            return self._disk.open(segment.copy_path, "write")
        except GoQueueError:
            with suppress(GoQueueError):
                drop_copy(self._disk, segment)
            return None

    def _write_copy(self, position: int, buffers: Sequence[Buffer]) -> None:
        assert self._copy is not None
        try:
            self._copy.write(position, buffers)
            self.has_unsynced_copy = True
        except GoQueueError:
            self._copy.close()
            self._copy = None
            assert self._segment is not None
            with suppress(GoQueueError):
                drop_copy(self._disk, self._segment)

    def _make(self, segment: Segment) -> None:
        """The files of a segment without frames. What stands there is left from appends that were never answered.

        An empty log is kept: it may be the only one, and without it the log would begin anew.
        """
        if self._disk.kind(segment.path) == "absent":
            self._created = segment
            self._disk.open(segment.path, "create").close()
        elif size := file_size(self._disk, segment.path):
            raise PathInvalid(f"{segment.path} should be a new file, and has {size} bytes")
        remove_files(self._disk, *segment.companions)
        for path in segment.index_paths:
            self._disk.open(path, "create").close()
        if self.keeps_copies:
            with suppress(GoQueueError):
                self._disk.open(segment.copy_path, "create").close()
        self._disk.sync_directory(segment.directory)

    def _write_index(self) -> None:
        """Entries and the mark. An index that cannot be written is removed: it is rebuilt when needed."""
        assert self._segment is not None
        assert self._last is not None
        place = self._entry_number * PAIR_BYTES
        end = mark(self._last.next_offset, self._last.position + self._last.size)
        try:
            if self._index_files is not None:
                index, timeindex = self._index_files
                if self._times:
                    timeindex.write(place, [self._times])
                index.write(place, [self._entries + end])
        except GoQueueError:
            self._give_up_index(self._segment)
        self._entry_number += len(self._entries) // PAIR_BYTES
        self._entries, self._times = b"", b""

    def _sync_index(self) -> None:
        """Sync the index of a complete segment: a lost one would have to be rebuilt from the whole log."""
        if self._index_files is None or self._segment is None:
            return
        try:
            for file in self._index_files:
                file.sync()
        except GoQueueError:
            self._give_up_index(self._segment)

    def _give_up_index(self, segment: Segment) -> None:
        self._index_files = None
        with suppress(GoQueueError):
            self._disk.remove(segment.index_path)

    def _take_back(self, segment: Segment, position: int) -> bool:
        """Leave no trace of a group that the disk had no room for, not even one that comes back when the power goes.

        A file that was made for it goes, durably: standing behind a log that went on before it, it would end that log.
        Its index goes last: without one, what a crash leaves of the file would look like damage.
        """
        try:
            if self._created is segment:
                self._created = None
                self.close()
                remove_files(self._disk, segment.path)
                self._disk.sync_directory(segment.directory)
                remove_files(self._disk, *segment.companions)
            elif self._file is not None:
                self._file.truncate(position)
                self._file.sync()
        except GoQueueError:
            return False
        return True

    def _pause(self, outcome: WriteResult) -> None:
        self._paused = True
        if outcome.fenced:
            self._let_go()  # without a sync: what was refused is not to come back from the copy
