"""An internal log and the state that its records make: recorded before it is told, replayed after a restart.

The state is held twice: as it is durable, and as it will be once all that was decided is durable too. So it can
go back when the disk refuses, without asking that disk for anything.

The snapshot beside the log spares reading all of it. It is a cache: without it, or when it does not fit the
log, the log alone makes the same state.

Records that cannot be read are a `LostRange`. The state is told of it, and goes on with the records behind it.

The owner's duties: nothing that was decided is told to anybody before `done` has been called without an error;
`commit` is called soon after an `add`, since what was added until then shares an append.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from goqueue.errors import GoQueueError
from goqueue.limits import SNAPSHOT_RECORDS
from goqueue.storage import frame, scan
from goqueue.storage.chunk import Acknowledge
from goqueue.storage.compaction import load_progress
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.log import Log
from goqueue.storage.note import decode_note, write_note

_READ_BYTES = 1024 * 1024

Record = TypeVar("Record")


class Machine(Protocol[Record]):
    """A state that only records change; one that is new is empty."""

    def clear(self) -> None: ...

    def note_loss(self, count: int) -> None:
        """So many records at most are lost between the last one and the next."""
        ...

    def apply(self, record: Record) -> None: ...

    def records(self) -> Iterable[Record]:
        """Records that make this state from none."""
        ...


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets of records that cannot be read."""

    first_offset: int
    next_offset: int
    since_ns: int
    """The time of the last record before them; 0 where there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pending(Generic[Record]):
    """Records on their way to the disk."""

    records: Sequence[Record]
    first_offset: int
    next_offset: int
    waiting: list[Acknowledge] = field(default_factory=list)
    """Those who came later, with nothing to record, and must not be told before these are durable."""


@dataclass(slots=True, eq=False)
class _Gathered(Generic[Record]):
    """Records on their way into one append, and who is to hear of it."""

    records: list[Record] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    waiting: list[Acknowledge] = field(default_factory=list)


class Journal(Generic[Record]):
    """Keeps one machine and one log together."""

    def __init__(
        self,
        log: Log,
        disk: Disk,
        machine: Machine[Record],
        encode: Callable[[Record], bytes],
        decode: Callable[[frame.Message], Record],
        *,
        snapshots: bool = True,
        on_durable: Callable[[Record, int], None] = lambda _, __: None,
    ) -> None:
        """Without `snapshots`, one is written only when somebody asks for it. `on_durable` hears of each record in the
        log and of its offset, those included that are replayed."""
        self.log = log
        self._disk = disk
        self._machine = machine
        self.losses: list[LostRange] = []
        """What the last `replay` could not read."""
        self._durable = type(machine)()
        self._durable_end = 0
        """The end of what the durable state is made of."""
        self._encode = encode
        self._decode = decode
        self._snapshot_offset = 0
        self._snapshots = snapshots
        self._on_durable = on_durable
        self._pending: list[_Pending[Record]] = []
        self._gathered: _Gathered[Record] = _Gathered()

    @property
    def durable(self) -> Machine[Record]:
        """The state as it is on the disk, for whoever may tell no more than that; only the journal changes it."""
        return self._durable

    def open(self) -> None:
        """`replay`; a log that cannot be read is fenced, and its state is empty."""
        try:
            self.replay()
        except GoQueueError as error:
            self._durable.clear()
            self._machine.clear()
            self.log.fence_off(error)

    def replay(self) -> None:
        """Make the state from what the disk holds. What is damaged is passed over."""
        self._durable.clear()
        self.losses.clear()
        offset = expected = self._restore()
        time = 0
        compacted = load_progress(self._disk, self.log.directory).gaps if self.log.next_offset else 0
        while offset < self.log.readable_end:
            read = self.log.read(offset, _READ_BYTES, skip_damage=True)
            for damage in read.skipped:
                self._note_loss(max(damage.first_offset, expected), damage.next_offset, time)
                expected = damage.next_offset
            for buffer in read.buffers:
                for position in frame.walk(buffer):
                    message = frame.decode(buffer, position)
                    self._note_loss(max(expected, compacted), message.offset, time)
                    expected, time = message.offset + 1, message.timestamp_ns
                    record = self._decode(message)
                    self._durable.apply(record)
                    self._on_durable(record, message.offset)
            offset = read.next_offset
        self._note_loss(max(expected, compacted), offset, time)
        self._durable_end = offset
        self._go_back()

    def _note_loss(self, first: int, end: int, since_ns: int) -> None:
        if first < end:
            self.losses.append(LostRange(first, end, since_ns))
            self._durable.note_loss(end - first)

    def fence_where_refused(self, error: GoQueueError | None) -> None:
        """For a record without which the state must not be used."""
        if error is not None and self.log.fence is None and not self.log.is_closed:
            self.log.fence_off(error)

    def _go_back(self) -> None:
        """Begin again with what is durable, and what was decided behind it."""
        self._machine.clear()
        for record in self._durable.records():
            self._machine.apply(record)
        for pending in self._standing():
            for record in pending.records:
                self._machine.apply(record)

    def _standing(self) -> list[_Pending[Record]]:
        """What was not refused: those who hear of a refusal late may find that others have recorded anew already."""
        standing: list[_Pending[Record]] = []
        end = self.log.next_offset
        for pending in reversed(self._pending):
            if pending.next_offset <= end:
                standing.append(pending)
                end = pending.first_offset
        return standing[::-1]

    def record(self, records: Sequence[Record], done: Acknowledge) -> None:
        """Append and apply; `done` hears when they are durable, or, after the state has gone back, why not."""

        def settled(error: GoQueueError | None) -> None:
            self._pending.remove(pending)
            if error is not None:
                self._go_back()
            else:
                self._keep(pending)
            done(error)

        content = bytearray(b"".join(map(self._encode, records)))
        appended = self.log.append(scan.batch(content), settled)
        pending = _Pending(records, appended.first_offset, appended.next_offset)
        self._pending.append(pending)
        for record in records:
            self._machine.apply(record)

    def add(self, records: Sequence[Record], done: Acknowledge) -> bool:
        """Apply now, and append with the next `commit`. True for the first ones: somebody has to call it.

        Without records, `done` hears when all that was recorded before is durable.
        """
        frames = list(map(self._encode, records))  # one that is too large is refused before anything has changed
        is_first = not self._gathered.waiting
        self._gathered.frames += frames
        self._gathered.records += records
        self._gathered.waiting.append(done)
        for record in records:
            self._machine.apply(record)
        return is_first

    def commit(self) -> None:
        """Append all that has gathered."""
        gathered, self._gathered = self._gathered, _Gathered()
        if not gathered.records:
            self._follow(gathered.waiting)
            return

        def settled(error: GoQueueError | None) -> None:
            self._pending.remove(pending)
            if error is not None:
                gathered.waiting += pending.waiting
                self._refuse(gathered, error)
                return
            self._keep(pending)
            for done in (*gathered.waiting, *pending.waiting):
                done(None)

        content = bytearray(b"".join(gathered.frames))
        try:
            appended = self.log.append(scan.batch(content), settled)
        except GoQueueError as error:
            self._refuse(gathered, error)
            return
        pending = _Pending(gathered.records, appended.first_offset, appended.next_offset)
        self._pending.append(pending)

    def _follow(self, waiting: list[Acknowledge]) -> None:
        """Tell them when all is durable that was recorded before they came."""
        if self._pending:
            self._pending[-1].waiting.extend(waiting)
        else:
            for done in waiting:
                done(None)

    def _refuse(self, refused: _Gathered[Record], error: GoQueueError) -> None:
        """Nothing of it holds, and nothing that was decided on top of it and is not on its way yet."""
        later, self._gathered = self._gathered, _Gathered()
        self._go_back()
        for done in (*refused.waiting, *later.waiting):
            done(error)

    def _keep(self, pending: _Pending[Record]) -> None:
        for offset, record in enumerate(pending.records, pending.first_offset):
            self._durable.apply(record)
            self._on_durable(record, offset)
        self._durable_end = pending.next_offset
        if self._snapshots and self._durable_end - self._snapshot_offset >= SNAPSHOT_RECORDS:
            self.snapshot()

    def snapshot(self) -> None:
        """Write the durable state beside the log, unless nothing has changed; what the disk refuses is tried again."""
        end = self._durable_end
        if end == self._snapshot_offset or end > self.log.durable_end or self.log.fence is not None:
            return
        frames = [self._encode(record).hex() for record in self._durable.records()]
        with suppress(GoQueueError):
            write_note(self._disk, self._path, offset=end, frames=frames)
            self._snapshot_offset = end

    def _restore(self) -> int:
        """Apply the snapshot, if there is one that this log has caught up with; return where the log goes on."""
        self._snapshot_offset = 0
        try:
            note = decode_note(read_all(self._disk, self._path)) if self._disk.kind(self._path) == "file" else None
        except GoQueueError:
            note = None
        # Behind a compaction that went further, the deletion of what the snapshot still has may be missing.
        least = max(self.log.first_offset, load_progress(self._disk, self.log.directory).gaps)
        if note is None or not least <= note["offset"] <= self.log.readable_end:
            return self.log.first_offset
        for text in note["frames"]:
            self._durable.apply(self._decode(frame.decode(bytes.fromhex(text))))
        self._snapshot_offset = note["offset"]
        return self._snapshot_offset

    @property
    def _path(self) -> str:
        return f"{self.log.directory}/snapshot"
