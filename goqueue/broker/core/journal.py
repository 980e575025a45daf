"""An internal log and the state that its records make: recorded before it is answered, replayed after a restart.

The state exists twice: as it is durable, and as it will be when all decisions are durable. So it can go back when
the disk refuses a write, without reading the disk.

The snapshot beside the log saves reading all of it. It is a cache: without it, or when it does not fit the log, the
log alone makes the same state.

Records that cannot be read are a `LostRange`. The state is informed, and replay continues behind them.

The owner answers nothing before `done` was called without an error, and calls `commit` soon after an `add`: all
records added until then share an append.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Promise, Work
from goqueue.errors import GoQueueError, RangeDamaged
from goqueue.events import Signal
from goqueue.limits import SNAPSHOT_RECORDS
from goqueue.storage import frame, scan
from goqueue.storage.compaction_progress import load_progress
from goqueue.storage.disk import Disk, read_all, remove_files
from goqueue.storage.layout import decode_checkpoint, write_checkpoint
from goqueue.storage.writer import AppendCallback

_READ_BYTES = 1024 * 1024
SNAPSHOT = "snapshot"
"""The name of the snapshot beside a log."""

Record = TypeVar("Record")


class StateMachine(Protocol[Record]):
    """A state that only records change. A new one is empty.

    One with many records may have `copy_from(other)`, which makes it equal to another one faster than those do.
    """

    def clear(self) -> None: ...

    def note_loss(self, count: int) -> None:
        """Handle the loss of at most `count` records between the last one and the next."""
        ...

    def apply(self, record: Record) -> None: ...

    def records(self) -> Iterable[Record]:
        """Return records that rebuild this state from an empty one."""
        ...


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets of records that cannot be read."""

    first_offset: int
    next_offset: int
    since_ns: int
    """Time of the last record before them, or 0."""


@dataclass(slots=True, eq=False)
class _RecordBatch(Generic[Record]):
    """Records of one append, and the callbacks that wait until they are durable."""

    records: list[Record] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)
    waiting: list[AppendCallback] = field(default_factory=list)
    first_offset: int = -1
    next_offset: int = -1


class Journal(Generic[Record]):
    """Records the changes of one state machine in one log."""

    def __init__(
        self,
        partition: Partition,
        disk: Disk,
        machine: StateMachine[Record],
        encode: Callable[[Record], bytes],
        decode: Callable[[frame.StoredMessage], Record],
        *,
        snapshots: bool = True,
        on_durable: Callable[[Record, int], None] = lambda _, __: None,
    ) -> None:
        """Without `snapshots`, one is written only on request. `on_durable` is called with each durable record and its
        offset, also during replay.
        """
        self.partition = partition
        self.log = partition.log
        self._disk = disk
        self._machine = machine
        self.losses: list[LostRange] = []
        """The ranges that the last `replay`, or `follow` after it, could not read."""
        self.awaits_repair = False
        """True while another node may still have what was lost here: a snapshot would hide that it is missing."""
        self._durable = type(machine)()
        self._durable_end = 0
        self._durable_ns = 0
        """The time of the last record that was read, or 0."""
        self._encode = encode
        self._decode = decode
        self._snapshot_offset = 0
        self._snapshots = snapshots
        self._on_durable = on_durable
        self.on_kept: Signal[[Record]] = Signal()
        """Called with each record of this owner once it is durable, and never with one that is only read again."""
        self._pending: list[_RecordBatch[Record]] = []
        """Batches that are being written."""
        self._gathered: _RecordBatch[Record] = _RecordBatch()
        self.led_epoch: int | None = None
        """For a log that every node of a cluster follows: the leader epoch of this node in which all that it inherited
        is applied. Nothing is recorded in another one: an append would hide records that were not read.
        """
        self._closed: GoQueueError | None = None
        """Why it takes no records any more."""
        self._released: Promise[None] = Promise()
        partition.derived.append(self)

    @property
    def durable(self) -> StateMachine[Record]:
        """The state as it is on disk; only the journal may change it."""
        return self._durable

    @property
    def durable_end(self) -> int:
        """The offset behind the last record of the durable state."""
        return self._durable_end

    def open(self) -> None:
        """Replay the log. A log that cannot be read is fenced and its state is empty."""
        try:
            self.replay()
        except GoQueueError as error:
            self._durable.clear()
            self._machine.clear()
            self.log.fence_off(error)

    def close(self, error: GoQueueError) -> Promise[None]:
        """Answer all who wait with this error, and take no more records.

        What was added is still appended, so it may take effect. The promise is kept when nothing of it is being
        written any more: then another journal may open the log.
        """
        if self._closed is not None:
            return self._released
        if self._gathered.records and self.log.obstacle is None:
            self.commit()
        self._closed = error
        self.partition.derived.remove(self)
        gathered, self._gathered = self._gathered, _RecordBatch()
        for batch in (*self._pending, gathered):
            waiting, batch.waiting = batch.waiting, []
            for done in waiting:
                done(error)
        if not self._pending:
            self._released(None)
        return self._released

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def has_pending(self) -> bool:
        """True while records of this owner are being written."""
        return bool(self._pending or self._gathered.waiting)

    def refuse_when_closed(self) -> None:
        if self._closed is not None:
            raise self._closed

    def refuse_unless_open(self) -> None:
        """Raise when it is closed, or when its log accepts nothing."""
        obstacle = self._closed or self.log.obstacle
        if obstacle is not None:
            raise obstacle

    @property
    def is_led(self) -> bool:
        """True if this node may record."""
        leadership = self.partition.leadership
        if leadership is None or self.led_epoch is None:
            return True
        return leadership.knows_end and leadership.leader_epoch == self.led_epoch

    def refuse_unless_led(self) -> None:
        if not self.is_led:
            assert self.partition.leadership is not None, "a broker alone leads all its logs"
            raise self.partition.leadership.other_coordinator()

    def replay(self) -> None:
        """Rebuild the state from the disk, skipping damage."""
        self._durable.clear()
        self.losses.clear()
        self._durable_end, self._durable_ns = self._restore(), 0
        for _ in self._read_committed():
            pass
        self._go_back()

    rebuild = replay

    def follow(self) -> None:
        """Apply what is committed and was appended by another process: the leader, when this log is a replica."""
        assert not self._pending, "a journal that follows records nothing"
        for record in self._read_committed():
            self._machine.apply(record)

    def _read_committed(self) -> Iterator[Record]:
        """Apply what is committed behind the durable state to it, and yield each record."""
        offset = expected = self._durable_end
        compacted = load_progress(self._disk, self.log.directory).gaps if self.log.next_offset else 0
        while offset < self.partition.high_watermark:
            read = self.log.read(offset, _READ_BYTES, skip_damage=True)
            for damage in read.skipped:
                self._note_loss(max(damage.first_offset, expected), damage.next_offset)
                expected = damage.next_offset
            for buffer in read.buffers:
                for position in frame.walk(buffer):
                    message = frame.decode(buffer, position)
                    self._note_loss(max(expected, compacted), message.offset)
                    expected, self._durable_ns = message.offset + 1, message.timestamp_ns
                    if message.flags & frame.CONTROL:  # of the log itself, such as a leader epoch
                        continue
                    record = self._decode(message)
                    self._durable.apply(record)
                    self._on_durable(record, message.offset)
                    yield record
            offset = self._durable_end = read.next_offset
        self._note_loss(max(expected, compacted), offset)

    def is_damaged(self, lost: LostRange) -> bool:
        """Return whether a range that was lost is still damaged; False if it can be read, or is gone for good."""
        try:
            self.log.read(max(lost.first_offset, self.log.first_offset), 1)
        except RangeDamaged:
            return True
        return False

    def _note_loss(self, first: int, end: int) -> None:
        if first < end:
            self.losses.append(LostRange(first, end, self._durable_ns))
            self._durable.note_loss(end - first)

    def fence_where_refused(self, error: GoQueueError | None) -> None:
        """Fence the log after a refused record without which the state must not be used."""
        if error is not None and self.log.fence is None and not self.log.is_closed:
            self.log.fence_off(error)

    def _go_back(self) -> None:
        """Rebuild the state from durable records and the ones that are still being written."""
        copy_from = getattr(self._machine, "copy_from", None)
        if copy_from is not None:
            copy_from(self._durable)
        else:
            self._machine.clear()
            for record in self._durable.records():
                self._machine.apply(record)
        for pending in self._unrefused():
            for record in pending.records:
                self._machine.apply(record)

    def _unrefused(self) -> list[_RecordBatch[Record]]:
        """Return the pending records that were not refused. Callbacks of a refusal may already have recorded again.

        While nothing is committed here any more, all of them are refused, though the log still has them: another
        leader decides which it keeps.
        """
        standing: list[_RecordBatch[Record]] = []
        if self.partition.commits.obstacle is not None:
            return standing
        end = self.log.next_offset
        for pending in reversed(self._pending):
            if pending.next_offset <= end:
                standing.append(pending)
                end = pending.first_offset
        return standing[::-1]

    def record(self, records: Sequence[Record], done: AppendCallback) -> None:
        """Apply and append records. `done` is called when they are durable, or with the error when they were undone."""
        self.add(records, done)
        self.commit()

    def recorded(self, records: Sequence[Record], changed: Callable[[], None]) -> Work[None]:
        """Record, and wait until it is durable. `changed` is called at each change of the state, undoing included."""
        durable: Promise[None] = Promise()
        self.record(records, durable)
        changed()
        try:
            yield from durable.kept()
        except BaseException:
            changed()
            raise

    def add(self, records: Sequence[Record], done: AppendCallback) -> bool:
        """Apply records now and append them with the next `commit`. Return True if the caller has to arrange that
        commit.

        Without records, `done` is called when all earlier records are durable.
        """
        if self._closed is not None:
            raise self._closed
        self.refuse_unless_led()
        content = b"".join(map(self._encode, records))  # too large a record is refused before anything changes
        is_first = not self._gathered.waiting
        self._gathered.content += content
        self._gathered.records += records
        self._gathered.waiting.append(done)
        for record in records:
            self._machine.apply(record)
        return is_first

    def commit(self) -> None:
        batch, self._gathered = self._gathered, _RecordBatch()
        if batch.records:
            self._append(batch)
        elif self._pending:  # all earlier records must be durable
            self._pending[-1].waiting += batch.waiting
        else:
            for done in batch.waiting:
                done(None)

    def _append(self, batch: _RecordBatch[Record]) -> None:
        def settled(error: GoQueueError | None) -> None:
            self._pending.remove(batch)
            if self._closed is not None:
                if not self._pending:
                    self._released(None)
                return
            if error is not None:
                self._refuse(batch, error)
                return
            self._keep(batch)
            for done in batch.waiting:
                done(None)

        try:
            appended = self.partition.append(scan.check_batch(batch.content), settled)
        except GoQueueError as error:
            self._refuse(batch, error)
            return
        batch.first_offset, batch.next_offset = appended.first_offset, appended.next_offset
        self._pending.append(batch)

    def _refuse(self, refused: _RecordBatch[Record], error: GoQueueError) -> None:
        """Take back these records and all that were added after them."""
        later, self._gathered = self._gathered, _RecordBatch()
        self._go_back()
        for done in (*refused.waiting, *later.waiting):
            done(error)

    def _keep(self, pending: _RecordBatch[Record]) -> None:
        for offset, record in enumerate(pending.records, pending.first_offset):
            self._durable.apply(record)
            self._on_durable(record, offset)
            self.on_kept.emit(record)
        self._durable_end = pending.next_offset
        if self._snapshots and self._durable_end - self._snapshot_offset >= SNAPSHOT_RECORDS:
            self.snapshot()

    def snapshot(self) -> None:
        """Write the durable state beside the log if it has changed. A refused write is tried again later."""
        end = self._durable_end
        if end == self._snapshot_offset or end > self.log.durable_end or self.log.fence is not None:
            return
        if self.awaits_repair:
            return
        frames = [one.hex() for one in self.durable_frames()]
        with suppress(GoQueueError):
            write_checkpoint(self._disk, self._path, offset=end, frames=frames)
            self._snapshot_offset = end

    def durable_frames(self) -> list[bytes]:
        """Return the records of the durable state, encoded."""
        return list(map(self._encode, self._durable.records()))

    def decode_frames(self, frames: Iterable[bytes]) -> list[Record]:
        """Return the records in such frames."""
        return [self._decode(frame.decode(one)) for one in frames]

    def drop_caches(self, offset: int) -> None:
        """Remove a snapshot that has records of this offset or later ones."""
        note = self._read_snapshot()
        if note is None or note["offset"] > offset:
            remove_files(self._disk, self._path)
            self._disk.sync_directory(self.log.directory)

    def _read_snapshot(self) -> dict[str, Any] | None:
        if self._disk.kind(self._path) == "file":
            with suppress(GoQueueError):
                return decode_checkpoint(read_all(self._disk, self._path))
        return None

    def _restore(self) -> int:
        """Apply the snapshot if one fits the log; return the offset behind it."""
        self._snapshot_offset, note = 0, self._read_snapshot()
        # A later compaction may have removed deletions of what the snapshot still has.
        least = max(self.log.first_offset, load_progress(self._disk, self.log.directory).gaps)
        if note is None or not least <= note["offset"] <= self.partition.high_watermark:
            return self.log.first_offset
        for text in note["frames"]:
            self._durable.apply(self._decode(frame.decode(bytes.fromhex(text))))
        self._snapshot_offset = note["offset"]
        return self._snapshot_offset

    @property
    def _path(self) -> str:
        return f"{self.log.directory}/{SNAPSHOT}"
