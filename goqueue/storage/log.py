"""A log: segments in order, the newest frames in memory, and positions that only rise.

    first_offset ≤ readable_end ≤ stored_end ≤ written_end ≤ next_offset        durable_end ≤ written_end

Everything here runs on the thread that owns the log and decides without waiting: an append goes to memory and to
the flusher's queue, a read becomes a piece of memory or a `PendingRead` that any thread may load. The owner hands
each `WriteResult` of the flusher to `settle` and calls `on_report` after it. The log only says how far it is stored:
the partition above it decides what readers may see, and calls `show`.

What must stay true: readers see only what is stored and was shown; when the disk refuses, the state here goes back
to what the disk has, and the offsets are given out again only because no caller was told of them.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError, LogClosed, LogFenced, PathInvalid
from goqueue.events import Signal
from goqueue.limits import OFFSET_MAX, SEGMENT_AGE_SECONDS, SEGMENT_BYTES
from goqueue.storage import frame, scan
from goqueue.storage.disk import Disk
from goqueue.storage.flusher import Flusher
from goqueue.storage.index import Index
from goqueue.storage.lanes import AppendedLanes, SegmentLanes
from goqueue.storage.leader_epochs import LeaderEpochs
from goqueue.storage.log_stage import LogStage
from goqueue.storage.reads import PendingRead, ReadResult, TimeSearch, range_error
from goqueue.storage.recovery import RecoveredLog
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment, SegmentReader, SegmentReaderCache, load_index, store_index
from goqueue.storage.segment_scan import Damage
from goqueue.storage.tail import LogTail, TailBudget
from goqueue.storage.transaction_index import ABORTED_UNKNOWN, NONE_ABORTED
from goqueue.storage.visible_end import VisibleEnd
from goqueue.storage.writer import RESUME, AppendCallback, LogWriter, PendingAppend, WriteQueue, WriteResult


@dataclass(frozen=True, slots=True)
class LogSettings:
    """When a log starts a new segment."""

    segment_bytes: int = SEGMENT_BYTES
    segment_age_ns: int = SEGMENT_AGE_SECONDS * NANOSECONDS


@dataclass(slots=True)
class LogResources:
    """The parts that all logs of a data directory share."""

    disk: Disk
    clock: Clock
    flusher: Flusher
    readers: SegmentReaderCache
    tails: TailBudget
    on_roll: Signal[[str]] = field(default_factory=Signal)  # with the name of a log that begins a new segment


class AppendResult(NamedTuple):
    """The offsets and the time of an appended batch."""

    first_offset: int
    next_offset: int
    time: int


class Log:
    """One append-only sequence of messages."""

    def __init__(self, name: str, resources: LogResources, settings: LogSettings, recovered: RecoveredLog) -> None:
        self.name = name
        self.settings = settings
        self.submitted = False
        self.stage = LogStage.OPEN
        self._resources = resources
        self._queue: WriteQueue = deque()
        self.writer = LogWriter(resources.disk, self._queue)
        self._tail = LogTail()
        self.segments: list[Segment] = []
        self.job: object | None = None  # retention or compaction, from its plan to the `apply` of its end
        self.on_report: Callable[[], None] = lambda: self.show(self.stored_end)
        """Called when the log has come further, or will not. A log without a partition shows all that is stored."""
        self.adopt(recovered)

    def adopt(self, recovered: RecoveredLog) -> None:
        """Take over what the disk holds: at the start, and after a fence or a truncation."""
        self._tail.clear()
        self._resources.readers.drop(*self.segments)
        self.directory = recovered.directory
        self.writer.keeps_copies = recovered.has_copies
        assert self.job is None, "what a job works on is not read anew meanwhile"
        self.segments = list(recovered.segments)
        self.next_offset = self.written_end = self.durable_end = recovered.next_offset
        self.since = self.next_offset  # what follows was appended since all this was read
        self.last_time = recovered.last_time
        self._adopted_ns = self._resources.clock.now_ns()
        self._rewritten: dict[int, int] = {}  # how often, by base offset, of those that compaction has written since
        self.fence: LogFenced | None = None
        self._sealed_bytes = sum(segment.size for segment in self.segments[:-1])
        self.visible = VisibleEnd(self.next_offset, (self.active, self.active.size))
        self._stored_segment = self.active
        for segment in self.segments:
            segment.aborted, segment.has_aborted_file = None, False
        self.active.aborted = replace(ABORTED_UNKNOWN, since=self.next_offset)
        if self.active.base_offset == self.next_offset:
            self.active.is_dense, self.active.aborted = True, NONE_ABORTED
        self.active.lanes = SegmentLanes(self.next_offset)
        self.lanes = AppendedLanes(self.next_offset)
        self.epochs = LeaderEpochs(self.first_offset, self.next_offset)
        self.unsettled: deque[PendingAppend] = deque()
        self._queue.append(RESUME)

    @property
    def disk(self) -> Disk:
        return self._resources.disk

    @property
    def first_offset(self) -> int:
        return self.segments[0].base_offset

    @property
    def readable_end(self) -> int:
        """Readers see only smaller offsets."""
        return self.visible.offset

    @property
    def stored_end(self) -> int:
        """Appends below this offset are answered: they are durable or, with `flush: interval`, written."""
        return self.durable_end if self._resources.flusher.mode == "always" else self.written_end

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def size(self) -> int:
        """Bytes of all frames, those still in memory included."""
        return self._sealed_bytes + self.segments[-1].size

    @property
    def is_closed(self) -> bool:
        return self.stage >= LogStage.CLOSED

    def advance(self, stage: LogStage) -> None:
        assert stage >= self.stage, f"a log that is {self.stage.name} does not become {stage.name}"
        self.stage = stage

    @property
    def is_settled(self) -> bool:  # every append has been answered
        return not self.unsettled

    # --- append ---

    def append(self, frames: Frames, acknowledge: AppendCallback | None = None) -> AppendResult:
        """Give frames their offsets and time, in place. `acknowledge` is called when they are stored or refused."""
        self.refuse_unless_open()
        now = max(self._resources.clock.now_ns(), self.last_time)
        scan.stamp(frames, self.next_offset, now)
        return self._take(frames, now, now, acknowledge)

    def append_stamped(self, frames: Frames, acknowledge: AppendCallback | None = None) -> AppendResult:
        """Append a leader's frames as they are, with rising offsets without a gap among them, and rising times."""
        self.refuse_unless_open()
        assert frames.first_offset >= self.next_offset, "a log is not written twice"
        if frames.first_offset > self.next_offset:  # compaction has removed what was between, at the leader
            self.active.is_dense, self.next_offset = False, frames.first_offset
        return self._take(frames, frame.timestamp_at(frames.buffer.data, 0), frames.last_timestamp, acknowledge)

    def _take(self, frames: Frames, first: int, now: int, acknowledge: AppendCallback | None) -> AppendResult:
        """Append frames whose times begin and end with these."""
        assert len(frames), "an append has at least one frame"
        size = len(frames.buffer)
        if self.active.size and (
            self.active.size + size > self.settings.segment_bytes
            or now - (self.active.first_time or 0) > self.settings.segment_age_ns
        ):
            self._seal()
        appended = AppendResult(self.next_offset, self.next_offset + len(frames), now)
        self._enqueue(frames, first, now, acknowledge)
        segment = self.active
        kinds = frames.flags_of_any
        has_control = bool(kinds & frame.CONTROL)
        self.lanes.note(self.lanes_of(segment), frames, self.next_offset, has_control=has_control)
        segment.size += size
        if kinds & (frame.CONTROL | frame.TRANSACTIONAL):  # what is aborted later is no message then
            segment.is_dense = False
            if has_control:
                self.epochs.note(frames)
        segment.first_time = first if segment.first_time is None else segment.first_time
        segment.last_time = self.last_time = now
        self.next_offset = appended.next_offset
        return appended

    def roll(self, acknowledge: AppendCallback | None = None) -> bool:
        """Start a new segment; return False if the active one is empty.

        `acknowledge` is called when retention and compaction may have the one before.
        """
        self.refuse_unless_open()
        if self.active.base_offset == self.next_offset:
            return False
        self._seal()
        self._enqueue(scan.walk(bytearray()), self.last_time, self.last_time, acknowledge)
        return True

    def sync_soon(self) -> None:
        """Sync soon, although appenders do not wait for it."""
        self._resources.flusher.sync_soon(self)

    @property
    def obstacle(self) -> GoQueueError | None:
        """Why the log takes no appends."""
        return self._closed() if self.stage > LogStage.OPEN else self.fence

    def refuse_unless_open(self) -> None:
        if (obstacle := self.obstacle) is not None:
            raise obstacle

    def _closed(self) -> LogClosed:
        return LogClosed(f"log {self.name} is closed", hint="it is being deleted, or the broker is stopping")

    def _seal(self) -> None:
        self._sealed_bytes += self.active.size
        self.segments.append(Segment.beginning(self.directory, self.next_offset))
        self._resources.on_roll.emit(self.name)

    def _enqueue(self, frames: Frames, first: int, now: int, acknowledge: AppendCallback | None) -> None:
        segment, index = self.active, self.index_of(self.active)
        number = len(index)
        if first < now:
            added = index.note_many(frames.offsets, frames.positions + segment.size, frames.timestamps)
        else:
            added = index.note(self.next_offset, segment.size, frames.positions, now) if len(frames) else 0
        entries = (index.dump(number), index.dump_times(number)) if added else (b"", b"")
        is_behind_gap = self.next_offset > (self.unsettled[-1].next_offset if self.unsettled else self.written_end)
        place = segment, segment.size, self.next_offset
        chunk = PendingAppend(*place, frames, number, *entries, acknowledge, is_behind_gap)
        self.unsettled.append(chunk)
        self._queue.append(chunk)
        self._resources.flusher.submit(self)

    def index_of(self, segment: Segment) -> Index:
        """The whole index, held from now on. Of most logs of a large broker it is never needed."""
        if segment.index is None:
            segment.index = load_index(self._resources.disk, segment)
        if segment.index is None:
            next_offset = self._next_offset_of(segment)
            segment.index = self.reader(segment).examine(segment.size, next_offset)
            segment.index.marked = (next_offset, segment.size)
            store_index(self._resources.disk, segment, segment.index)
        return segment.index

    def _next_offset_of(self, segment: Segment) -> int:
        number = self.segments.index(segment) + 1
        return self.segments[number].base_offset if number < len(self.segments) else self.next_offset

    # --- what the flusher reports ---

    def settle(self, outcome: WriteResult) -> list[PendingAppend]:
        """Record how far the disk has come; return the appends to acknowledge."""
        if outcome.written is not None:
            self.written_end = outcome.written.next_offset
        if outcome.durable is not None:
            self.durable_end = outcome.durable.next_offset
        reached = outcome.durable if self._resources.flusher.mode == "always" else outcome.written
        settled: list[PendingAppend] = []
        while reached is not None and not reached.settled:
            settled.append(chunk := self.unsettled.popleft())
            chunk.settle(None)
            self._stored_segment = chunk.segment
        self.visible.waiting += settled
        if outcome.failure is not None:
            settled += self._refuse_pending_appends(outcome.failure, fenced=outcome.fenced)
        return settled

    def show(self, end: int) -> None:
        """Let readers see what is stored below this offset, in whole appends."""
        self._resources.tails.keep(self._tail, self.visible.show(end))
        if self.is_settled and self.visible.is_complete:
            self._let_go_of_sealed()

    def _refuse_pending_appends(self, failure: GoQueueError, *, fenced: bool) -> list[PendingAppend]:
        """Return to the state of the disk, and give the offsets out again unless replicas may have what was there."""
        if fenced or self.epochs.has_any:
            failure = self.fence_off(failure)
        else:
            self._queue.append(RESUME)
        if self.unsettled:
            self._take_back(self.unsettled[0])
        return self._refuse_unsettled(failure)

    def _refuse_unsettled(self, verdict: GoQueueError) -> list[PendingAppend]:
        refused, self.unsettled = list(self.unsettled), deque()
        for chunk in refused:
            chunk.settle(verdict)
        return refused

    def fence_off(self, failure: GoQueueError) -> LogFenced:
        """Refuse every change until the disk has been read again."""
        self.fence = LogFenced(
            f"log {self.name} is fenced after a failure: {failure}",
            hint=(failure.hint if isinstance(failure, PathInvalid) else None)
            or "check the device, then restart the broker: it reads again what the log holds",
            log=self.name,
        )
        return self.fence

    def _take_back(self, first: PendingAppend) -> None:
        """Undo the appends from this one on; no caller was told of them."""
        self.next_offset = first.first_offset
        while self.active is not first.segment:
            self._take_back_segment()
        self.lanes.cut(self.lanes_of(first.segment), first.first_offset)
        self.epochs.cut(first.first_offset)
        first.segment.size = first.position
        self.index_of(first.segment).cut(first.position)
        if not first.position and first.segment is not self._stored_segment:  # of which nothing reached the disk
            self._take_back_segment()

    def _take_back_segment(self) -> None:
        segment = self.segments.pop()
        self.lanes.cut(self.lanes_of(segment), segment.base_offset)
        self._sealed_bytes -= self.active.size

    def lanes_of(self, segment: Segment) -> SegmentLanes:
        """Return the lanes of a segment that was active since the log was opened."""
        assert segment.lanes is not None, "they are noted from the first append on"
        return segment.lanes

    def _let_go_of_sealed(self) -> None:
        """The index of a sealed segment is complete on disk now, and memory need not hold it."""
        for segment in reversed(self.segments[:-1]):
            if segment.index is None:
                break
            segment.index = None
            self._resources.readers.drop(segment)

    # --- read ---

    def refuse_unless_readable(self) -> None:
        if self.is_closed:
            raise self._closed()

    def locate(
        self, offset: int, max_bytes: int, *, skip_damage: bool = False, limit: int = OFFSET_MAX
    ) -> ReadResult | PendingRead:
        """Return the frames in memory from this offset on, or where to load them from; none from `limit` on."""
        self.refuse_unless_readable()
        end = min(self.readable_end, limit)
        if not self.first_offset <= offset <= self.next_offset:
            raise range_error(self, offset)
        if offset >= end:
            return ReadResult((), offset)
        if (first := self._tail.first_offset) is not None and offset >= first:
            return self._tail.read(offset, end, max_bytes)
        number = bisect_right(self.segments, offset, key=_base_offset) - 1
        segment, (stop, next_offset) = self.segments[number], self.bounds(number)
        if not stop:
            return ReadResult((), next_offset)
        reader = self.reader(segment)
        index = segment.index if segment.index is not None else reader.index
        hint = index.start_for(index.before_offset(offset)) if index is not None else None
        return PendingRead(reader, offset, end, stop, next_offset, max_bytes, skip_damage, hint)

    def bounds(self, number: int) -> tuple[int, int]:
        """Where readers come to an end in this segment: the position, and the offset that comes there."""
        if self.segments[number] is self.visible.place[0]:
            return self.visible.place[1], self.visible.offset
        return self.segments[number].size, self.segments[number + 1].base_offset

    def read(self, offset: int, max_bytes: int, *, skip_damage: bool = False) -> ReadResult:
        """`locate` and load, on this thread."""
        skipped: tuple[Damage, ...] = ()
        while True:
            found = self.locate(offset, max_bytes, skip_damage=skip_damage)
            read = found.load() if isinstance(found, PendingRead) else found
            skipped += read.skipped
            if read.buffers or read.next_offset == offset:
                return ReadResult(read.buffers, read.next_offset, skipped)
            offset = read.next_offset

    def is_dense(self, first: int, end: int) -> bool:
        """Return whether every offset of this range is known to have a message and no control record."""
        number = max(bisect_right(self.segments, first, key=_base_offset) - 1, 0)
        behind = bisect_left(self.segments, end, key=_base_offset)
        return all(segment.is_dense for segment in self.segments[number:behind])

    def reader(self, segment: Segment) -> SegmentReader:
        """Return the segment's reader; its file stays open as long as it is held."""
        try:
            return self._resources.readers.get(segment)
        except PathInvalid:
            raise range_error(self, segment.base_offset) from None

    def version(self, segment: Segment) -> str:
        """Return the version of a segment: while it stays the same, its content keeps its place."""
        return f"{self._adopted_ns:x}-{self._rewritten.get(segment.base_offset, 0)}"

    def moment(self, time: int) -> int | TimeSearch:
        """Return the first offset with this append time or a later one, or a search for it."""
        self.refuse_unless_readable()
        found, bound = self._tail.first_since(time), self._tail.first_offset
        if found is not None:  # it may have been removed from disk since
            return min(max(found, self.first_offset), self.readable_end)
        limit = self.readable_end if bound is None else min(max(bound, self.first_offset), self.readable_end)
        # What begins at the limit or behind it may not be on disk yet.
        segments = tuple(segment for segment in self.segments if segment.size and segment.base_offset < limit)
        return TimeSearch(self._resources.disk, segments, limit, self.visible.place, time)

    # --- maintenance ---

    def sealed(self) -> list[Segment]:
        """The segments that will not change any more and whose successor is on the device."""
        return self.segments[: self.segments.index(self.visible.place[0])]

    def begin_job(self, job: object) -> None:
        """Begin retention or compaction: one at a time, so that neither removes what the other works on."""
        assert self.job is None, "a log has one job at a time, until the `apply` of its end"
        self.job = job

    def replace_segments(self, old: list[Segment], new: list[Segment]) -> None:
        """Put other segments in the place of neighbouring sealed ones; none to drop them."""
        start = self.segments.index(old[0])
        assert self.segments[start : start + len(old)] == old, "segments are replaced in one piece"
        self._tail.drop_before(self.segments[start + len(old)].base_offset)
        self.segments[start : start + len(old)] = new
        count = max(self._rewritten.pop(one.base_offset, 0) for one in old) + 1
        self._rewritten |= {one.base_offset: count for one in new}
        self._sealed_bytes += sum(one.size for one in new) - sum(one.size for one in old)
        self._resources.readers.drop(*old)

    def close(self) -> list[PendingAppend]:
        """Refuse everything from now on, and have the flusher close the files; return appends that are too late."""
        self.advance(LogStage.CLOSED)
        self._tail.clear()
        self._resources.readers.drop(*self.segments)  # the space of a removed file is not free while it is open
        self._resources.flusher.submit(self)
        return self._refuse_unsettled(LogClosed(f"log {self.name} was closed before this was written"))

    def __repr__(self) -> str:
        state = "fenced" if self.fence and not self.is_closed else self.stage.name.lower()
        return f"<Log {self.name} {self.first_offset}..{self.next_offset} {len(self.segments)} segments, {state}>"


_base_offset = attrgetter("base_offset")
