"""One partition: its positions, publishing and reading.

    earliest ≤ last_stable ≤ high_watermark ≤ durable_end ≤ log_end

Small publishes are collected until `commit` and become one append, so that many clients share its cost.

The owner calls `commit` soon after `offer`, runs `load_producers` before a batch with a mark arrives, and answers
only after the callback of a publish was called.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Protocol

import numpy as np

from goqueue.broker.core.aborted_index import AbortedIndex, begins_with_message, without_aborted
from goqueue.broker.core.admission import decode_batch, remaining_frames
from goqueue.broker.core.commit import Commit, CommitLevel
from goqueue.broker.core.lane_index import LaneIndex
from goqueue.broker.core.leadership import Leadership
from goqueue.broker.core.open_transactions import OpenTransactions, TransactionEnd
from goqueue.broker.core.producers import Piece, ProducerBatch, ProducerMark, ProducerTable, pieces_of
from goqueue.broker.core.work import Promise, Work
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import FRAME_HEADER_BYTES, OFFSET_MAX
from goqueue.storage import scan
from goqueue.storage.log import AppendResult, Log
from goqueue.storage.raw_reads import (
    PendingIndexRead,
    PendingRawRead,
    RawContent,
    SegmentOutline,
    first_times,
    locate_bytes,
    locate_index,
    outline_segments,
    visible_segments,
)
from goqueue.storage.reads import PendingRead, ReadResult, TimeSearch
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment
from goqueue.storage.segment_scan import Damage
from goqueue.storage.transaction_marker import TransactionMarker
from goqueue.storage.writer import AppendCallback


@dataclass(slots=True)  # not frozen: each publish has one, and freezing would triple its cost
class Placement:
    """The offsets at which messages were stored."""

    pieces: tuple[Piece, ...]
    """One range of offsets. More only if a crash had kept a part of a batch that was sent again."""
    time_ns: int
    duplicate: bool = False

    @property
    def first_offset(self) -> int:
        return self.pieces[0][0]

    @property
    def next_offset(self) -> int:
        return self.pieces[-1][1]


PublishCallback = Callable[[Placement | GoQueueError], None]
"""Called once: with the offsets when the messages are durable, or with the error."""


class DerivedState(Protocol):
    """A state that follows from a log, and may be cached in files beside it."""

    def drop_caches(self, offset: int) -> None:
        """Remove, durably, what is cached of this offset and later ones: the log is about to be cut back there."""
        ...

    def rebuild(self) -> None:
        """Derive the state anew: the log was cut back."""
        ...


@dataclass(slots=True)
class _PublishBatch:
    """Small publishes that the next append will write."""

    frames: list[bytes] = field(default_factory=list)
    waiting: list[tuple[int, CommitLevel, PublishCallback]] = field(default_factory=list)
    """The number of frames of each publish, and who is called at which level."""


class Partition:
    """One partition over its log."""

    def __init__(self, topic: str, number: int, log: Log, *, is_delayed: bool = False) -> None:
        self.topic = topic
        self.number = number
        self.log = log
        self.commits = Commit(log, self.wake)
        self.leadership: Leadership | None = None
        """None if the broker runs alone."""
        self.is_delayed = is_delayed
        """Whether this is a delayed log: each message has a delivery time."""
        self.derived: list[DerivedState] = []
        """States that others derive from this log."""
        self.needed_from: Callable[[], int | None] = lambda: None
        """Returns the first offset that must not be removed now, or None."""
        self.on_appended: Signal[[Frames, AppendResult]] = Signal()
        self.on_ended: Signal[[list[TransactionMarker]]] = Signal()  # committed ends of transactions
        self._gathered = _PublishBatch()
        self._watchers: dict[Callable[[], None], None] = {}
        self.derive()

    def derive(self) -> None:
        """Begin to derive state from the log: at the start, and after the log was cut back."""
        log = self.log
        self.lanes = LaneIndex(log)
        self.open = OpenTransactions()
        self.aborted = AbortedIndex(log, lambda: self.last_stable)
        self.producers: ProducerTable | None = None if log.next_offset else ProducerTable()
        self.compacted_end = -1
        """The end of the sealed segments at the last compaction."""
        self.producers_saved = -1
        """The log end that the producer checkpoint covers."""
        self._first_times: dict[Segment, int] = {}
        """First times from indexes, of segments whose log does not have them. Only listings may use them."""
        self.commits.advance()

    # --- positions ---

    @property
    def earliest(self) -> int:
        return self.log.first_offset

    @property
    def log_end(self) -> int:
        return self.log.next_offset

    @property
    def durable_end(self) -> int:
        return self.log.durable_end

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed: readers cannot see it."""
        return self.commits.committed_end

    @property
    def last_stable(self) -> int:
        """The end for readers of committed messages: where the oldest open transaction begins."""
        first = self.open.first_offset
        return self.high_watermark if first is None else min(first, self.high_watermark)

    @property
    def held_back(self) -> int:
        """The number of visible offsets that readers of committed messages cannot see yet."""
        return self.high_watermark - self.last_stable

    @property
    def removable_end(self) -> int:
        """The first offset that may not be removed: it is needed, or not decided."""
        needed_from = self.needed_from()
        return self.last_stable if needed_from is None else min(needed_from, self.last_stable)

    def is_dense(self, first: int, end: int) -> bool:
        return self.log.is_dense(first, end)

    @property
    def message_bytes(self) -> int:
        return max(FRAME_HEADER_BYTES, self.log.size // max(1, self.log_end - self.earliest))

    # --- the way into the log, and waiting for it ---

    def append(self, frames: Frames, done: AppendCallback, level: CommitLevel = CommitLevel.COMMITTED) -> AppendResult:
        """Append frames; `done` is called when they have reached the level, or are refused.

        Nothing else writes to the log, but for the copies that a follower gets.
        """
        if self.leadership is not None:
            self.leadership.refuse_append()
        end, commit = self.log.next_offset + len(frames), self.commits

        def stored(error: GoQueueError | None) -> None:
            if error is not None and self.leadership is not None:
                error = self.leadership.lost()  # followers may have it
            if error is not None or commit.committed_end >= end or level is CommitLevel.STORED:
                done(error)
            else:
                commit.when(end, level, done)

        appended = self.log.append(frames, stored)
        self.on_appended.emit(frames, appended)
        return appended

    def when(self, end: int, level: CommitLevel, done: AppendCallback) -> None:
        """Call `done` when everything below this offset has reached the level, or cannot reach it."""
        self.commits.when(end, level, done)

    def synced(self, end: int | None = None) -> Work[None]:
        """Wait until everything below this offset, or everything committed, is on the device."""
        promise: Promise[None] = Promise()
        self.when(self.high_watermark if end is None else end, CommitLevel.SYNCED, promise)
        yield from promise.kept()

    def then_synced(self, done: AppendCallback) -> AppendCallback:
        """Return a callback of an append that calls `done` only when what was appended is on the device, too."""

        def committed(error: GoQueueError | None) -> None:
            if error is not None:
                done(error)
            else:
                self.when(self.high_watermark, CommitLevel.SYNCED, done)

        return committed

    # --- publish ---

    def offer(self, frames: list[bytes], done: PublishCallback, level: CommitLevel = CommitLevel.COMMITTED) -> bool:
        """Add valid frames to the next commit. Return True if the caller has to arrange that commit."""
        is_first = not self._gathered.waiting
        self._gathered.frames += frames
        self._gathered.waiting.append((len(frames), level, done))
        return is_first

    def commit(self) -> None:
        if not self._gathered.waiting:
            return
        gathered, self._gathered = self._gathered, _PublishBatch()
        content = bytearray(b"".join(gathered.frames))
        lengths = list(map(len, gathered.frames))
        starts = [0, *accumulate(lengths[:-1])]
        frames = Frames(
            np.frombuffer(content, np.uint8), np.array(starts, np.int64), np.array(lengths, np.int64), len(content)
        )
        batch = ProducerBatch(0, len(lengths))
        try:
            settle = partial(self._settle_gathered, batch, gathered.waiting)
            appended = self.append(frames, settle, CommitLevel.STORED)
        except GoQueueError as error:
            for _, _, done in gathered.waiting:
                done(error)
        else:
            batch.first_offset, batch.time_ns = appended.first_offset, appended.time

    def _settle_gathered(
        self, batch: ProducerBatch, waiting: list[tuple[int, CommitLevel, PublishCallback]], error: GoQueueError | None
    ) -> None:
        offset, committed_end = batch.first_offset, self.high_watermark
        for count, level, done in waiting:
            placement = Placement(((offset, offset + count),), batch.time_ns)
            offset += count
            if error is not None or offset <= committed_end:
                done(error or placement)
            else:
                self._answer_when(level, placement, done)

    def _answer_when(self, level: CommitLevel, placement: Placement, done: PublishCallback) -> None:
        self.when(placement.next_offset, level, lambda error: done(error or placement))

    def publish(
        self, content: bytearray | memoryview, message_bytes_max: int, done: PublishCallback, now_ns: int | None = None
    ) -> None:
        """Publish a batch that a client encoded; `now_ns` for delayed messages."""
        self.take(*decode_batch(content, message_bytes_max, now_ns), done)

    def take(
        self,
        frames: Frames,
        mark: ProducerMark | None,
        done: PublishCallback,
        level: CommitLevel = CommitLevel.COMMITTED,
        *,
        is_transactional: bool = False,
    ) -> None:
        """Publish a decoded batch.

        A transactional batch belongs to the open transaction of the producer in its mark.
        """
        if mark is None:
            self._append(frames, None, (), level, done)
            return
        assert self.producers is not None, "the producers are loaded before a batch with a mark comes"
        try:
            known = self.producers.look_up(mark)
        except GoQueueError:
            if self.leadership is not None:
                self.leadership.refuse_unless_leader()  # a later leader may have what is missing here
            raise
        if known.missing:
            if known.batches:
                frames, mark = remaining_frames(frames, mark, known.missing)
            self._append(frames, mark, known.batches, level, done, is_transactional=is_transactional)
            return
        self._answer_again(known.batches, level, done)

    def _answer_again(self, batches: tuple[ProducerBatch, ...], level: CommitLevel, done: PublishCallback) -> None:
        """Answer a repeated batch with its offsets when the first attempt has reached the level."""
        placement, last = Placement(pieces_of(batches), batches[-1].time_ns, duplicate=True), batches[-1]

        def stored(error: GoQueueError | None) -> None:
            done(error) if error is not None else self._answer_when(level, placement, done)

        if last.settled:
            stored(None)
        else:
            last.waiters = [*(last.waiters or ()), stored]

    def _append(
        self,
        frames: Frames,
        mark: ProducerMark | None,
        before: tuple[ProducerBatch, ...],
        level: CommitLevel,
        done: PublishCallback,
        *,
        is_transactional: bool = False,
    ) -> None:
        if is_transactional:
            self.open.refuse_over(mark)
        self.commit()  # earlier publishes are stored first
        batch = ProducerBatch(mark.sequence if mark else 0, len(frames))
        appended = self.append(frames, partial(self._settle, mark, batch, before, level, done), CommitLevel.STORED)
        batch.first_offset, batch.time_ns = appended.first_offset, appended.time
        if mark is not None and self.producers is not None:
            self.producers.add(mark, batch)
            if is_transactional:
                self.open.add(mark.producer, mark.epoch, *batch.piece)

    def _settle(
        self,
        mark: ProducerMark | None,
        batch: ProducerBatch,
        before: tuple[ProducerBatch, ...],
        level: CommitLevel,
        done: PublishCallback,
        error: GoQueueError | None,
    ) -> None:
        if mark is not None and self.producers is not None:
            self.producers.settle(mark, batch) if error is None else self.producers.take_back(mark, batch)
            if error is not None:
                self.open.take_back(mark.producer, batch.first_offset)
                self.wake()  # readers of committed messages may have been held back by it
        if error is not None:
            done(error)
        else:
            self._answer_when(level, Placement(pieces_of((*before, batch)), batch.time_ns), done)
        for waiter in batch.waiters or ():
            waiter(error)

    # --- transactions ---

    def end_transactions(self, ends: Sequence[TransactionEnd], done: AppendCallback) -> None:
        """Write the control records of transactions that are open here; `done` is called when they are durable."""
        markers = self.open.end(ends)
        if not markers:
            done(self.log.fence)  # a fenced log may hold what it refused: the next start finds out
            return
        self.commit()
        content = bytearray(b"".join(one for marker in markers for one in marker.encode()))
        self.append(scan.check_batch(content), partial(self._end, markers, done))

    def _end(self, markers: list[TransactionMarker], done: AppendCallback, error: GoQueueError | None) -> None:
        if error is None:
            for marker in markers:
                self.open.close(marker.producer, marker.epoch)
            self.aborted.note(one for marker in markers if not marker.is_commit for one in marker.ranges)
            self.on_ended.emit(markers)
            self.wake()
        done(error)

    # --- read ---

    def read(self, offset: int, max_bytes: int, *, skip_damage: bool = False) -> Work[ReadResult]:
        """Read committed messages from this offset on, in whole frames; none only if there are none up to
        `last_stable`.

        Control records may be among them. Aborted messages are skipped.
        """
        skipped: tuple[Damage, ...] = ()
        while True:
            first = self.open.first_offset
            limit = OFFSET_MAX if first is None else first  # the log itself stops at what is visible
            found = self.log.locate(offset, max_bytes, skip_damage=skip_damage, limit=limit)
            if found.next_offset == offset:
                return ReadResult((), offset, skipped)
            aborted = self.aborted.known(offset, min(limit, found.next_offset))
            if aborted is None:
                yield from self.aborted.look_up(offset, min(limit, found.next_offset))
                continue
            read: ReadResult = (yield found.load) if isinstance(found, PendingRead) else found
            skipped += read.skipped
            if begins_with_message(read) and aborted.is_clean(offset, read.next_offset):
                return ReadResult(read.buffers, read.next_offset, skipped)
            read = yield from without_aborted(read, aborted)
            if read.buffers or read.next_offset == offset:
                return ReadResult(read.buffers, read.next_offset, skipped)
            offset = read.next_offset

    def read_uncommitted(self, offset: int, max_bytes: int, *, skip_damage: bool = False) -> Work[ReadResult]:
        """Read everything from this offset on, in whole frames; none only at the end of the partition."""
        skipped: tuple[Damage, ...] = ()
        while True:
            found = self.log.locate(offset, max_bytes, skip_damage=skip_damage)
            read: ReadResult = (yield found.load) if isinstance(found, PendingRead) else found
            skipped += read.skipped
            if read.buffers or read.next_offset == offset:
                return ReadResult(read.buffers, read.next_offset, skipped)
            offset = read.next_offset

    def offset_for_time(self, time_ns: int) -> Work[int]:
        found = self.log.moment(time_ns)
        offset: int = (yield found.load) if isinstance(found, TimeSearch) else found
        return offset

    def segments(self) -> Work[list[SegmentOutline]]:
        known = self._first_times
        undated = [one for one in visible_segments(self.log) if one.first_time is None and one.size]
        missing = [one for one in undated if one not in known]
        found: dict[Segment, int] = (yield partial(first_times, self.log.disk, missing)) if missing else {}
        self._first_times = {one: time for one in undated if (time := known.get(one) or found.get(one))}
        return outline_segments(self.log, self._first_times)

    def segment_bytes(
        self, base_offset: int, position: int, max_bytes: int, version: str | None = None
    ) -> Work[RawContent]:
        """Read a segment's bytes from this position on, unverified; none at the end of what readers see."""
        found = locate_bytes(self.log, base_offset, position, max_bytes, version)
        raw: RawContent = (yield found.load) if isinstance(found, PendingRawRead) else found
        return raw

    def segment_index(self, base_offset: int, version: str | None = None) -> Work[RawContent]:
        """Read a segment's index entries of 24 bytes: offset, position, time."""
        found = locate_index(self.log, base_offset, version)
        raw: RawContent = (yield found.load) if isinstance(found, PendingIndexRead) else found
        return raw

    def watch(self, callback: Callable[[], None]) -> Callable[[], object]:
        """Call this once when there may be more to read. Return a function that cancels it."""
        self._watchers[callback] = None
        return lambda: self._watchers.pop(callback, None)

    def wake(self) -> None:
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher()

    def __repr__(self) -> str:
        return f"<Partition {self.topic}/{self.number} {self.earliest}..{self.high_watermark}..{self.log_end}>"
