"""An internal log and the state that its records make: recorded before it is told, replayed after a restart.

The snapshot beside the log spares reading all of it. It is a cache: without it, or when it does not fit the
log, the log alone makes the same state.

The owner's duty: nothing that was decided is told to anybody before `done` has been called without an error.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from goqueue.errors import GoQueueError
from goqueue.limits import SNAPSHOT_RECORDS
from goqueue.storage import frame, scan
from goqueue.storage.chunk import Acknowledge
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.log import Log
from goqueue.storage.note import decode_note, write_note

_READ_BYTES = 1024 * 1024

Record = TypeVar("Record")


class Machine(Protocol[Record]):
    """A state that only records change."""

    def clear(self) -> None: ...

    def apply(self, record: Record) -> None: ...

    def records(self) -> Iterable[Record]:
        """Records that make this state from none."""
        ...


class Journal(Generic[Record]):
    """Keeps one machine and one log together."""

    def __init__(
        self,
        log: Log,
        disk: Disk,
        machine: Machine[Record],
        encode: Callable[[Record], bytes],
        decode: Callable[[frame.Message], Record],
    ) -> None:
        self.log = log
        self._disk = disk
        self._machine = machine
        self._encode = encode
        self._decode = decode
        self._snapshot_offset = 0
        self._pending = 0

    def replay(self) -> None:
        """Make the state from what the disk holds."""
        self._machine.clear()
        offset = self._restore()
        while offset < self.log.readable_end:
            read = self.log.read(offset, _READ_BYTES)
            for buffer in read.buffers:
                for position in frame.walk(buffer):
                    self._machine.apply(self._decode(frame.decode(buffer, position)))
            offset = read.next_offset

    def record(self, records: Sequence[Record], done: Acknowledge) -> None:
        """Append and apply; `done` hears when they are durable, or, after the state has gone back, why not."""
        content = bytearray(b"".join(map(self._encode, records)))

        def settled(error: GoQueueError | None) -> None:
            self._pending -= 1
            if error is not None:
                self.replay()
            elif not self._pending and self.log.next_offset - self._snapshot_offset >= SNAPSHOT_RECORDS:
                self.snapshot()
            done(error)

        self.log.append(scan.batch(content), settled)
        self._pending += 1
        for record in records:
            self._machine.apply(record)

    def snapshot(self) -> None:
        """Write the state beside the log, unless nothing has changed."""
        end = self.log.durable_end
        if self._pending or end == self._snapshot_offset or self.log.fence is not None:
            return
        frames = [self._encode(record).hex() for record in self._machine.records()]
        write_note(self._disk, self._path, offset=end, frames=frames)
        self._snapshot_offset = end

    def _restore(self) -> int:
        """Apply the snapshot, if there is one that this log has caught up with; return where the log goes on."""
        self._snapshot_offset = 0
        try:
            note = decode_note(read_all(self._disk, self._path)) if self._disk.kind(self._path) == "file" else None
        except GoQueueError:
            note = None
        if note is None or not self.log.first_offset <= note["offset"] <= self.log.readable_end:
            return self.log.first_offset
        for text in note["frames"]:
            self._machine.apply(self._decode(frame.decode(bytes.fromhex(text))))
        self._snapshot_offset = note["offset"]
        return self._snapshot_offset

    @property
    def _path(self) -> str:
        return f"{self.log.directory}/snapshot"
