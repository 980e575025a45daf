"""The device under a real broker process, and its content after a loss of power.

The journal of the process (`tests/crash/journaling_disk.py`) is replayed on a `FaultyDisk`, whose module tells the
fault model. The data directory is then written anew from that: after a kill with everything, after a power cut with
what was synced and any part of the rest.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from goqueue.errors import PathInvalid
from goqueue.testing.disk import FaultyDisk, FaultyFile, Keep
from tests.crash.journaling_disk import entries

KEPT: tuple[Keep, ...] = ("synced", "some", "some", "some")
"""What a power cut leaves, drawn from these."""
LOCK = "/lock"
"""Which the process holds on the real disk alone."""


class Device:
    """The disk below one data directory, over all lives of its broker."""

    def __init__(self, data: Path, journal: Path, seed: str) -> None:
        self.data = data
        self.journal = journal
        self._chance = Random(f"{seed} device")
        self._disk = FaultyDisk(self._chance.getrandbits(32))

    def process_ended(self) -> None:
        """The process is gone, the kernel lives: nothing is lost, and what was not synced still is not."""
        self._end("everything")

    def power_lost(self, keep: Keep | None = None) -> None:
        """Return what was synced is kept; unless told otherwise mostly some of the rest is, too."""
        self._end(self._chance.choice(KEPT) if keep is None else keep)

    def _end(self, keep: Keep) -> None:
        replay(self.journal, self._disk)
        self.journal.unlink(missing_ok=True)
        self._disk = self._disk.crash(keep, torn=True)
        self._restore()

    def _restore(self) -> None:
        """Make the real directory what the device holds."""
        held = {path.lstrip("/") for path in self._disk.paths()}
        for folder, directories, files in os.walk(self.data, topdown=False):
            for name in files:
                file = Path(folder, name)
                if str(file.relative_to(self.data)) not in held and f"/{name}" != LOCK:
                    file.unlink()
            for name in directories:
                directory = Path(folder, name)
                if self._disk.kind(f"/{directory.relative_to(self.data)}") == "absent":
                    shutil.rmtree(directory)
        self._make_directories("/")
        for path in held:
            content, real = self._disk.read_file(f"/{path}"), self.data / path
            if not real.exists() or real.read_bytes() != content:
                real.write_bytes(content)

    def _make_directories(self, path: str) -> None:
        (self.data / path.lstrip("/")).mkdir(exist_ok=True)
        for entry in self._disk.entries(path):
            if entry.kind == "directory":
                self._make_directories(f"{path.rstrip('/')}/{entry.name}")

    # --- damage ---

    def files(self) -> list[str]:
        """All files, below the data directory."""
        return self._disk.paths()

    def read(self, path: str) -> bytes:
        return self._disk.read_file(path)

    def open(self, path: str) -> FaultyFile:
        return self._disk.open(path, "read")

    def flip(self, path: str, position: int, bit: int) -> None:
        """Turn over one bit, on the device and so in the real file; the process has ended."""
        self._disk.flip(path, position, bit)
        self._rewrite(path)

    def write(self, path: str, content: bytes) -> None:
        """Give a file another content, on the device and so in the real file; the process has ended."""
        self._disk.write_file(path, content)
        self._rewrite(path)

    def empty(self, path: str) -> None:
        """Take all bytes of a file, as a loss of power does with what was never synced."""
        self._disk.write_file(path, b"")
        self._rewrite(path)

    def _rewrite(self, path: str) -> None:
        (self.data / path.lstrip("/")).write_bytes(self._disk.read_file(path))


def replay(journal: Path, disk: FaultyDisk) -> None:
    """Do on a disk what the process did on its own."""
    files: dict[int, FaultyFile] = {}
    for operation, *details in entries(journal) if journal.exists() else ():
        _redo(disk, files, operation, details)


def _redo(disk: FaultyDisk, files: dict[int, FaultyFile], operation: str, details: list[Any]) -> None:
    match operation:
        case "open":
            number, path, mode = details
            files[number] = disk.open(path, mode)
        case "write":
            number, position, data = details
            files[number].write(position, [data])
        case "truncate":
            number, size = details
            files[number].truncate(size)
        case "sync":
            with suppress(PathInvalid):  # the file was removed while it was open, as a truncation does
                files[details[0]].sync()
        case _:
            getattr(disk, operation)(*details)
