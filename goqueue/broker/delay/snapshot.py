"""The snapshot of a schedule: a file beside the delayed log that saves reading all of it.

A cache: one that is damaged or does not fit the log is ignored. Columns one after the other, 8-byte big-endian
numbers, and a checksum:

    "GQSCHED1", then eight bytes each: the offset up to which the log was read, the topic position for a search
    (-1: none), the number of rows, how many were scheduled, the sum of their delays (a float), how many were
    rescheduled, and the four counts by state
    the offsets and the delivery times of all rows, then a byte for the state and a byte for the priority of each
    CRC-32C of all this, four bytes
"""

import struct
from dataclasses import dataclass

import numpy as np
from crc32c import crc32c

from goqueue.broker.delay.schedule import Bytes, DeliverySchedule
from goqueue.broker.delay.timing_wheel import NONE, Numbers
from goqueue.errors import GoQueueError
from goqueue.storage.disk import Disk, read_all, replace_file

NAME = "schedule"

_MAGIC = b"GQSCHED1"
_HEADER = struct.Struct(">8sQqQQdQ4Q")
_CHECKSUM = struct.Struct(">I")
_NUMBER = np.dtype(">i8")
_ROW_BYTES = 2 * _NUMBER.itemsize + 2


@dataclass(frozen=True, slots=True)
class ScheduleSnapshot:
    """The schedule of a delayed log up to an offset. The columns are copies."""

    applied: int
    since: int | None
    scheduled: int
    ahead_seconds: float
    rescheduled: int
    counts: tuple[int, int, int, int]
    offsets: Numbers
    dues: Numbers
    states: Bytes
    priorities: Bytes

    @classmethod
    def of(
        cls, schedule: DeliverySchedule, applied: int, since: int | None, scheduled: int, ahead_seconds: float
    ) -> "ScheduleSnapshot":
        none = np.empty(0, np.uint8)
        one, two, three, four = schedule.counts
        return cls(
            applied,
            since,
            scheduled,
            ahead_seconds,
            schedule.rescheduled,
            (one, two, three, four),
            np.concatenate([NONE, *(chunk.offsets for chunk in schedule.chunks)]),
            np.concatenate([NONE, *(chunk.dues for chunk in schedule.chunks)]),
            np.concatenate([none, *(chunk.states for chunk in schedule.chunks)]),
            np.concatenate([none, *(chunk.priorities for chunk in schedule.chunks)]),
        )

    def schedule(self, first_offset: int) -> DeliverySchedule:
        """Rebuild the schedule without messages before `first_offset`."""
        schedule = DeliverySchedule()
        start = int(np.searchsorted(self.offsets, first_offset))
        schedule.add(self.offsets[start:], self.dues[start:], self.priorities[start:], self.states[start:])
        schedule.counts[1:] = self.counts[1:]
        schedule.rescheduled = self.rescheduled
        return schedule

    def encode(self) -> bytes:
        since = -1 if self.since is None else self.since
        header = _HEADER.pack(
            _MAGIC,
            self.applied,
            since,
            len(self.offsets),
            self.scheduled,
            self.ahead_seconds,
            self.rescheduled,
            *self.counts,
        )
        numbers = [column.astype(_NUMBER).tobytes() for column in (self.offsets, self.dues)]
        content = b"".join((header, *numbers, self.states.tobytes(), self.priorities.tobytes()))
        return content + _CHECKSUM.pack(crc32c(content))

    def write(self, disk: Disk, directory: str) -> None:
        """On any thread."""
        replace_file(disk, f"{directory}/{NAME}", self.encode())


def decode_snapshot(content: bytes) -> ScheduleSnapshot | None:
    body, checksum = content[: -_CHECKSUM.size], content[-_CHECKSUM.size :]
    if len(body) < _HEADER.size or body[: len(_MAGIC)] != _MAGIC or checksum != _CHECKSUM.pack(crc32c(body)):
        return None
    _, applied, since, rows, scheduled, ahead_seconds, rescheduled, *counts = _HEADER.unpack_from(body)
    if len(body) != _HEADER.size + rows * _ROW_BYTES:
        return None
    at = _HEADER.size
    offsets = np.frombuffer(body, _NUMBER, rows, at).astype(np.int64)
    dues = np.frombuffer(body, _NUMBER, rows, at + 8 * rows).astype(np.int64)
    states = np.frombuffer(body, np.uint8, rows, at + 16 * rows)
    priorities = np.frombuffer(body, np.uint8, rows, at + 17 * rows)
    one, two, three, four = counts
    known = None if since < 0 else since
    numbers = (one, two, three, four)
    return ScheduleSnapshot(
        applied, known, scheduled, ahead_seconds, rescheduled, numbers, offsets, dues, states, priorities
    )


def remove_snapshot(disk: Disk, directory: str) -> None:
    """On any thread."""
    path = f"{directory}/{NAME}"
    if disk.kind(path) == "file":
        disk.remove(path)
        disk.sync_directory(directory)


def read_snapshot(disk: Disk, directory: str) -> ScheduleSnapshot | None:
    path = f"{directory}/{NAME}"
    try:
        return decode_snapshot(read_all(disk, path)) if disk.kind(path) == "file" else None
    except GoQueueError:
        return None
