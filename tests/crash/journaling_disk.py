"""The machine's disk, which also writes down every change and every sync in a journal.

From the journal a test knows what a device would still hold if the power went, while the broker is a real process
on real files: `tests/crash/device.py` replays it. A change is journaled before the call returns, so nothing is
answered that the journal does not have. Syncs reach the journal alone: the machine itself keeps its power.

While a file named `{journal}.full` exists, the disk is full: what still fits was drawn when it filled up, and removing
files gives space back. While `{journal}.slow` exists, each sync takes as many seconds as it says; while
`{journal}.failing` exists, syncs fail. While `{journal}.unreadable` exists, some blocks of the logs cannot be read.
"""

import errno
import os
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, Literal

import msgspec
from crc32c import crc32c

from goqueue.storage.disk import (
    Buffer,
    DirectoryEntry,
    DiskSpace,
    File,
    Lock,
    Mode,
    SystemDisk,
    file_size,
    oserror,
    raise_translated,
)

LENGTH = struct.Struct(">I")
ROOM_BYTES_MAX = 16_384
"""What may still fit on a disk that has just become full."""
BLOCK_BYTES = 4096
BLOCKS_PER_BAD_ONE = 20
"""Of how many blocks one cannot be read."""
SLOW_SYNCS = 0.1
SLOW_SYNC_SECONDS_MAX = 0.02
"""A device that takes its time: so kills fall between a write and its sync."""


def entries(journal: str | os.PathLike[str]) -> Iterator[list[Any]]:
    """All operations in a journal; the last one may be torn."""
    with open(journal, "rb") as file:
        while len(head := file.read(LENGTH.size)) == LENGTH.size:
            (size,) = LENGTH.unpack(head)
            body = file.read(size)
            if len(body) < size:
                return
            yield msgspec.msgpack.decode(body)


class JournalingDisk:
    """A disk that journals what happens below `root`, which is all that a broker changes."""

    def __init__(self, root: str, journal: str) -> None:
        self.mutex = threading.RLock()
        """A change and its line in the journal are one step for all threads."""
        self._disk = SystemDisk()
        self._root = os.path.abspath(root)
        self._full, self._slow, self._failing = f"{journal}.full", f"{journal}.slow", f"{journal}.failing"
        self._unreadable = f"{journal}.unreadable"
        self._journal = open(journal, "ab", buffering=0)  # noqa: SIM115 - open as long as the process
        self._numbers = count()
        self._chance = Random()
        self._room_bytes: int | None = None

    def note(self, operation: str, *details: object) -> None:
        body = msgspec.msgpack.encode((operation, *details))
        self._journal.write(LENGTH.pack(len(body)) + body)

    def _inside(self, path: str) -> str | None:
        """The path as the journal has it: the data directory is the root."""
        path = os.path.abspath(path or ".")
        if path == self._root:
            return "/"
        return path.removeprefix(self._root) if path.startswith(f"{self._root}/") else None

    # --- space ---

    def room_bytes(self) -> int | None:
        """Return how much fits; None while the disk is not full."""
        if not os.path.exists(self._full):
            self._room_bytes = None
        elif self._room_bytes is None:
            self._room_bytes = self._chance.randrange(ROOM_BYTES_MAX)
        return self._room_bytes

    def use_room(self, growth: int) -> int:
        """Use up to `growth` bytes, fewer if fewer are there; a negative growth gives them back. What was used."""
        room = self.room_bytes()
        if room is None:
            return growth
        used = min(growth, room)
        self._room_bytes = room - used
        return used

    def space(self, path: str) -> DiskSpace:
        found, room = self._disk.space(path), self.room_bytes()
        return found if room is None else DiskSpace(found.total_bytes, found.used_bytes, room)

    # --- what every disk does ---

    def open(self, path: str, mode: Mode) -> File:
        with self.mutex:
            file = self._disk.open(path, mode)
            if mode == "read":
                return _ReadFile(path, file, self) if path.endswith(".log") else file
            number = next(self._numbers)
            self.note("open", number, self._inside(path), mode)
            return JournalingFile(path, file, self, number)

    def entries(self, path: str) -> list[DirectoryEntry]:
        return self._disk.entries(path)

    def kind(self, path: str) -> Literal["file", "directory", "other", "absent"]:
        return self._disk.kind(path)

    def make_directory(self, path: str) -> None:
        with self.mutex:
            self._disk.make_directory(path)
            self.note("make_directory", self._inside(path))

    def remove_directory(self, path: str) -> None:
        with self.mutex:
            self._disk.remove_directory(path)
            self.note("remove_directory", self._inside(path))

    def rename(self, old: str, new: str) -> None:
        with self.mutex:
            self._disk.rename(old, new)
            self.note("rename", self._inside(old), self._inside(new))

    def link(self, path: str, new: str) -> None:
        with self.mutex:
            self._disk.link(path, new)
            self.note("link", self._inside(path), self._inside(new))

    def remove(self, path: str) -> None:
        with self.mutex:
            freed = file_size(self._disk, path) if self.kind(path) == "file" else 0
            self._disk.remove(path)
            self.note("remove", self._inside(path))
            self.use_room(-freed)

    def sync_directory(self, path: str) -> None:
        if (inside := self._inside(path)) is None:
            self._disk.sync_directory(path)
            return
        with self.mutex:
            self._disk.entries(path)  # which refuses what is no directory
            self.note("sync_directory", inside)

    def lock(self, path: str, owner: str) -> Lock:
        return self._disk.lock(path, owner)

    def wait_for_device(self, path: str) -> None:
        """Wait as long as a sync takes. Raises if it fails."""
        if os.path.exists(self._slow):
            with suppress(FileNotFoundError), open(self._slow) as file:
                threading.Event().wait(float(file.read()))
        if os.path.exists(self._failing):
            raise_translated(oserror(errno.EIO), path)
        if self._chance.random() < SLOW_SYNCS:
            threading.Event().wait(self._chance.uniform(0, SLOW_SYNC_SECONDS_MAX))

    def refuse_bad_blocks(self, path: str, position: int, size: int) -> None:
        """Raise if one of the blocks of a log that are read is a bad one, while there are bad ones."""
        if os.path.exists(self._unreadable):
            blocks = range(position // BLOCK_BYTES, (position + size - 1) // BLOCK_BYTES + 1)
            if any(crc32c(f"{path} {block}".encode()) % BLOCKS_PER_BAD_ONE == 0 for block in blocks):
                raise_translated(oserror(errno.EIO), path)


class _ReadFile:
    """A log that is read, of which some blocks may be bad."""

    def __init__(self, path: str, file: File, disk: JournalingDisk) -> None:
        self._path, self._file, self._disk = path, file, disk
        self.write, self.truncate, self.sync = file.write, file.truncate, file.sync
        self.size, self.drop_cache, self.close = file.size, file.drop_cache, file.close

    def read(self, position: int, into: memoryview) -> int:
        self._disk.refuse_bad_blocks(self._path, position, len(into))
        return self._file.read(position, into)


class JournalingFile:
    """A file whose writes and syncs are journaled; renaming it changes nothing of its number."""

    def __init__(self, path: str, file: File, disk: JournalingDisk, number: int) -> None:
        self._path = path
        self._file = file
        self._disk = disk
        self._number = number

    def read(self, position: int, into: memoryview) -> int:
        return self._file.read(position, into)

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        with self._disk.mutex:
            growth = max(0, position + len(data) - self._file.size())
            missing = growth - self._disk.use_room(growth)
            fitting = data[: max(0, len(data) - missing)]
            self._file.write(position, [fitting])
            self._disk.note("write", self._number, position, fitting)
        if missing:
            raise_translated(oserror(errno.ENOSPC), self._path)

    def truncate(self, size: int) -> None:
        with self._disk.mutex:
            freed = self._file.size() - size
            self._file.truncate(size)
            self._disk.note("truncate", self._number, size)
            self._disk.use_room(-max(0, freed))

    def sync(self) -> None:
        self._file.size()  # which refuses a closed file
        self._disk.wait_for_device(self._path)
        with self._disk.mutex:
            self._disk.note("sync", self._number)

    def size(self) -> int:
        return self._file.size()

    def drop_cache(self) -> None:
        self._file.drop_cache()

    def close(self) -> None:
        self._file.close()
