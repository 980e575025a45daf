"""One partition: its positions, what it takes, and what it gives.

    earliest ≤ last_stable ≤ high_watermark ≤ durable_end ≤ log_end

Small publishes gather until `commit` and become one append: on a busy broker those of many clients share its cost.

The owner's duties: call `commit` soon after `offer`; have `load_producers` done before a batch with a mark comes;
tell nobody that something is stored before its `done` was called.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

import numpy as np

from goqueue.broker.admission import remainder, understand
from goqueue.broker.lanes.index import LaneIndex
from goqueue.broker.producers import Batch, Mark, Piece, Producers, marks_in
from goqueue.broker.transactions.aborted import AbortedIndex
from goqueue.broker.transactions.finding import Epochs, Finding
from goqueue.broker.transactions.hiding import begins_with_message, hidden
from goqueue.broker.transactions.opened import End, OpenTransactions
from goqueue.broker.work import Work
from goqueue.errors import GoQueueError
from goqueue.limits import FRAME_HEADER_BYTES, OFFSET_MAX, READ_BYTES_MAX
from goqueue.storage import scan
from goqueue.storage.chunk import Acknowledge
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.extent import Extent, Read
from goqueue.storage.log import Log
from goqueue.storage.marker import Marker
from goqueue.storage.moment import Moment
from goqueue.storage.note import decode_note, write_note
from goqueue.storage.raw import (
    Outline,
    Raw,
    RawBytes,
    RawIndex,
    first_times,
    locate_bytes,
    locate_index,
    outlines,
    visible,
)
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment
from goqueue.storage.survey import Damage


@dataclass(frozen=True, slots=True)
class Placement:
    """Where messages were stored."""

    pieces: tuple[Piece, ...]
    """One range of offsets; more only where a crash had kept a part of a batch that was sent again."""
    time_ns: int
    duplicate: bool = False

    @property
    def first_offset(self) -> int:
        return self.pieces[0][0]

    @property
    def next_offset(self) -> int:
        return self.pieces[-1][1]


Done = Callable[[Placement | GoQueueError], None]
"""Hears once: where the messages are, durably, or why they are not."""


@dataclass(slots=True)
class _Gathered:
    """Small publishes on their way into one append."""

    frames: list[bytes] = field(default_factory=list)
    waiting: list[tuple[int, Done]] = field(default_factory=list)
    """How many frames each of them brought, and who is to be told."""


class Partition:
    """The rules of one partition over its log."""

    def __init__(self, topic: str, number: int, log: Log, *, is_delayed: bool = False) -> None:
        self.topic = topic
        self.number = number
        self.log = log
        self.lanes = LaneIndex(log)
        self.is_delayed = is_delayed
        """Whether these are messages that wait for their time, which each of them says."""
        self.open = OpenTransactions()
        self.aborted = AbortedIndex(log, lambda: self.last_stable)
        self.needed_from: Callable[[], int | None] = lambda: None
        """The offset from which on everything must stay for now, if there is one."""
        self.producers: Producers | None = None if log.next_offset else Producers()
        self.compacted_end = -1
        """Where the sealed segments ended when compaction last looked."""
        self.producers_saved = -1
        """The end of the log that the file of producers speaks of."""
        self._gathered = _Gathered()
        self._first_times: dict[Segment, int] = {}
        """Of segments whose log does not know it. An index said so, and nothing but listings may lean on it."""
        self._watchers: dict[Callable[[], None], None] = {}

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
        """No reader sees this offset: it is not yet on enough replicas, and one is enough."""
        return self.log.readable_end

    @property
    def last_stable(self) -> int:
        """The end for those who read what is committed: where the oldest open transaction begins."""
        first = self.open.first_offset
        return self.high_watermark if first is None else min(first, self.high_watermark)

    @property
    def held_back(self) -> int:
        """Offsets that those do not see who read what is committed."""
        first = self.open.first_offset
        return 0 if first is None else max(0, self.high_watermark - first)

    @property
    def removable_end(self) -> int:
        """Nothing may be removed from here on: it is needed, or not decided yet."""
        needed_from = self.needed_from()
        return self.last_stable if needed_from is None else min(needed_from, self.last_stable)

    def is_dense(self, first: int, end: int) -> bool:
        """Whether it is known that every offset of this range has a message."""
        return self.log.is_dense(first, end)

    @property
    def message_bytes(self) -> int:
        """Of a message on average, with its frame."""
        return max(FRAME_HEADER_BYTES, self.log.size // max(1, self.log_end - self.earliest))

    # --- publish ---

    def offer(self, frames: list[bytes], done: Done) -> bool:
        """Take sound frames for the next commit. True for the first ones: somebody has to call it."""
        is_first = not self._gathered.waiting
        self._gathered.frames += frames
        self._gathered.waiting.append((len(frames), done))
        return is_first

    def commit(self) -> None:
        """Append all that has gathered."""
        if not self._gathered.waiting:
            return
        gathered, self._gathered = self._gathered, _Gathered()
        content = bytearray(b"".join(gathered.frames))
        lengths = list(map(len, gathered.frames))
        starts = [0, *accumulate(lengths[:-1])]
        frames = Frames(
            np.frombuffer(content, np.uint8), np.array(starts, np.int64), np.array(lengths, np.int64), len(content)
        )
        batch = Batch(0, len(lengths))
        try:
            appended = self.log.append(frames, partial(self._settle_gathered, batch, gathered.waiting))
        except GoQueueError as error:
            for _, done in gathered.waiting:
                done(error)
        else:
            batch.first_offset, batch.time_ns = appended.first_offset, appended.time

    def _settle_gathered(self, batch: Batch, waiting: list[tuple[int, Done]], error: GoQueueError | None) -> None:
        self.wake()
        offset = batch.first_offset
        for count, done in waiting:
            done(error or Placement(((offset, offset + count),), batch.time_ns))
            offset += count

    def publish(
        self, content: bytearray | memoryview, message_bytes_max: int, done: Done, now_ns: int | None = None
    ) -> None:
        """Take a batch of frames that a client has encoded; `now_ns` where they are delayed."""
        self.take(*understand(content, message_bytes_max, now_ns), done)

    def take(self, frames: Frames, mark: Mark | None, done: Done, *, is_transactional: bool = False) -> None:
        """The same once it has been understood, which for much of it is better done elsewhere.

        What is transactional belongs to the open transaction of whose mark it has.
        """
        if mark is None:
            self._append(frames, None, (), done)
            return
        assert self.producers is not None, "the producers are loaded before a batch with a mark comes"
        known = self.producers.look_up(mark)
        if known.missing:
            if known.batches:
                frames, mark = remainder(frames, mark, known.missing)
            self._append(frames, mark, known.batches, done, is_transactional=is_transactional)
            return
        self._answer_again(known.batches, done)

    def _answer_again(self, batches: tuple[Batch, ...], done: Done) -> None:
        """All of it is stored, or will be: tell where, as soon as the last of it is."""
        placement = Placement(_pieces(batches), batches[-1].time_ns, duplicate=True)
        last = batches[-1]
        if last.settled:
            done(placement)
        else:
            last.waiters = [*(last.waiters or ()), lambda error: done(error or placement)]

    def _append(
        self,
        frames: Frames,
        mark: Mark | None,
        before: tuple[Batch, ...],
        done: Done,
        *,
        is_transactional: bool = False,
    ) -> None:
        self.commit()  # what came earlier is stored earlier
        batch = Batch(mark.sequence if mark else 0, len(frames))
        appended = self.log.append(frames, partial(self._settle, mark, batch, before, done))
        batch.first_offset, batch.time_ns = appended.first_offset, appended.time
        if mark is not None and self.producers is not None:
            self.producers.add(mark, batch)
            if is_transactional:
                self.open.add(mark.producer, mark.epoch, *batch.piece)

    def _settle(
        self, mark: Mark | None, batch: Batch, before: tuple[Batch, ...], done: Done, error: GoQueueError | None
    ) -> None:
        if mark is not None and self.producers is not None:
            self.producers.settle(mark, batch) if error is None else self.producers.take_back(mark, batch)
            if error is not None:
                self.open.take_back(mark.producer, batch.first_offset)
        self.wake()
        done(error or Placement(_pieces((*before, batch)), batch.time_ns))
        for waiter in batch.waiters or ():
            waiter(error)

    # --- transactions ---

    def end_transactions(self, ends: Sequence[End], done: Acknowledge) -> None:
        """Say of those that have something open here how they ended; `done` hears when that is durable."""
        markers = self.open.markers(ends)
        if not markers:
            done(self.log.fence)  # what a fenced log has refused may stand in it: that is known after the next start
            return
        self.commit()
        content = bytearray(b"".join(one for marker in markers for one in marker.encode()))
        self.log.append(scan.batch(content), partial(self._end, markers, done))

    def _end(self, markers: list[Marker], done: Acknowledge, error: GoQueueError | None) -> None:
        if error is None:
            for marker in markers:
                self.open.close(marker.producer)
            self.aborted.note(one for marker in markers if not marker.is_commit for one in marker.ranges)
            self.wake()
        done(error)

    def find_open(self, epochs: Epochs) -> Work[None]:
        """After a start: find again what these producers had open in the part that is held."""
        assert self.open.held is not None, "somebody has said where to look"
        offset, end = self.open.held
        finding = Finding(epochs, end)
        while (offset := max(offset, self.earliest)) < end:
            read = yield from self.read_uncommitted(offset, READ_BYTES_MAX, skip_damage=True)
            yield partial(finding.look, read)
            if read.next_offset == offset:
                break
            offset = read.next_offset
        self.open.restore(finding.opened)
        self.wake()

    # --- read ---

    def read(self, offset: int, max_bytes: int, *, skip_damage: bool = False) -> Work[Read]:
        """What is committed from this offset on, in whole frames; none only where there is nothing up to `last_stable`.

        Control records may be among them. What was aborted is passed over.
        """
        skipped: tuple[Damage, ...] = ()
        while True:
            first = self.open.first_offset
            limit = OFFSET_MAX if first is None else first  # what is not visible, the log does not give anyway
            found = self.log.locate(offset, max_bytes, skip_damage=skip_damage, limit=limit)
            if found.next_offset == offset:
                return Read((), offset, skipped)
            aborted = self.aborted.known(offset, min(limit, found.next_offset))
            if aborted is None:
                yield from self.aborted.look_up(offset, min(limit, found.next_offset))
                continue
            read: Read = (yield found.load) if isinstance(found, Extent) else found
            skipped += read.skipped
            if begins_with_message(read) and aborted.is_clean(offset, read.next_offset):
                return Read(read.buffers, read.next_offset, skipped)
            read = yield from hidden(read, aborted)
            if read.buffers or read.next_offset == offset:
                return Read(read.buffers, read.next_offset, skipped)
            offset = read.next_offset

    def read_uncommitted(self, offset: int, max_bytes: int, *, skip_damage: bool = False) -> Work[Read]:
        """Everything from this offset on, in whole frames; none only where the partition ends."""
        skipped: tuple[Damage, ...] = ()
        while True:
            found = self.log.locate(offset, max_bytes, skip_damage=skip_damage)
            read: Read = (yield found.load) if isinstance(found, Extent) else found
            skipped += read.skipped
            if read.buffers or read.next_offset == offset:
                return Read(read.buffers, read.next_offset, skipped)
            offset = read.next_offset

    def offset_for_time(self, time_ns: int) -> Work[int]:
        """The first offset with this append time or a later one."""
        found = self.log.moment(time_ns)
        offset: int = (yield found.load) if isinstance(found, Moment) else found
        return offset

    def segments(self) -> Work[list[Outline]]:
        """The segments as far as readers see them, oldest first."""
        known = self._first_times
        undated = [one for one in visible(self.log) if one.first_time is None and one.size]
        missing = [one for one in undated if one not in known]
        found: dict[Segment, int] = (yield partial(first_times, self.log.disk, missing)) if missing else {}
        self._first_times = {one: time for one in undated if (time := known.get(one) or found.get(one))}
        return outlines(self.log, self._first_times)

    def segment_bytes(self, base_offset: int, position: int, max_bytes: int, version: str | None = None) -> Work[Raw]:
        """The bytes of a segment from this position on, unverified; none where readers come to its end."""
        found = locate_bytes(self.log, base_offset, position, max_bytes, version)
        raw: Raw = (yield found.load) if isinstance(found, RawBytes) else found
        return raw

    def segment_index(self, base_offset: int, version: str | None = None) -> Work[Raw]:
        """The entries of a segment's index for what readers see, 24 bytes each: offset, position, time."""
        found = locate_index(self.log, base_offset, version)
        raw: Raw = (yield found.load) if isinstance(found, RawIndex) else found
        return raw

    def watch(self, callback: Callable[[], None]) -> Callable[[], object]:
        """Have this called once, when there may be more to read; returns how to be forgotten again."""
        self._watchers[callback] = None
        return lambda: self._watchers.pop(callback, None)

    def wake(self) -> None:
        """Tell all who watch."""
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher()

    # --- producers ---

    def load_producers(self, disk: Disk) -> Work[None]:
        """Know again, after a start, who sent what last: from the note beside the log, and the log behind it."""
        note = yield partial(_read_note, disk, self._note_path)
        # A producer whose batches were all removed is not found in the log.
        is_whole = not self.earliest and self.is_dense(0, self.high_watermark)
        producers, offset = Producers(is_complete=is_whole), self.earliest
        if note is not None and self.earliest <= note["offset"] <= self.high_watermark:
            offset, is_whole = note["offset"], note.get("complete", True)
            producers = Producers.from_facts(note["producers"], is_complete=is_whole)
        while offset < (end := self.high_watermark):
            start = max(offset, self.earliest)
            read = yield from self.read_uncommitted(start, READ_BYTES_MAX, skip_damage=True)
            for mark, first_offset, time_ns in (yield partial(_marks, read)):
                producers.replay(mark, first_offset, time_ns, end)
            offset = read.next_offset
        if self.producers is None:
            self.producers = producers

    def save_producers(self, disk: Disk, *, even_none: bool = False) -> Work[None]:
        """Spare the next start a long look at the log."""
        end = self.durable_end
        if self.producers is None or self.producers_saved == end:
            return
        facts = self.producers.facts(end)
        if facts or self.producers_saved >= 0 or even_none:
            yield partial(
                write_note, disk, self._note_path, offset=end, complete=self.producers.is_complete, producers=facts
            )
        self.producers_saved = end

    def note_tear(self, disk: Disk) -> Work[None]:
        """After a crash, before anything is appended: note how much of its last batch a log has kept.

        Once something follows, nothing but this note tells where the torn batch ends.
        """
        offset = yield from self.offset_for_time(self.log.last_time)
        last: tuple[Mark, int, int] | None = None
        while offset < self.log_end:
            read = yield from self.read_uncommitted(offset, READ_BYTES_MAX, skip_damage=True)
            marks: list[tuple[Mark, int, int]] = yield partial(_marks, read)
            last = marks[-1] if marks else last
            offset = read.next_offset
        if last is not None and last[1] + last[0].count > self.log_end:
            yield from self.load_producers(disk)
            yield from self.save_producers(disk)

    @property
    def _note_path(self) -> str:
        return f"{self.log.directory}/producers"

    def __repr__(self) -> str:
        return f"<Partition {self.topic}/{self.number} {self.earliest}..{self.high_watermark}..{self.log_end}>"


def _pieces(batches: tuple[Batch, ...]) -> tuple[Piece, ...]:
    """Their offsets, with neighbours joined."""
    pieces: list[Piece] = []
    for first, end in (batch.piece for batch in batches):
        joins = pieces and pieces[-1][1] == first
        pieces.append((pieces.pop()[0] if joins else first, end))
    return tuple(pieces)


def _read_note(disk: Disk, path: str) -> dict[str, list[object]] | None:
    """None where there is none; one that the disk refuses to read now may be all that is left of marks."""
    return decode_note(read_all(disk, path)) if disk.kind(path) == "file" else None


def _marks(read: Read) -> list[tuple[Mark, int, int]]:
    return [found for buffer in read.buffers for found in marks_in(buffer)]
