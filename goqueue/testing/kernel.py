"""The kernel below one process on the faulty disk: its operations and their faults, the space, open files and locks.

`goqueue.testing.disk` tells the whole fault model.
"""

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from threading import RLock
from typing import Literal, NamedTuple

from goqueue.storage.disk import Buffer, file_removed, oserror, raise_translated
from goqueue.testing.filesystem import FileContent, Tree

JOURNAL_ENTRIES_MAX = 1000

Operations = str | Callable[[str, str], bool]
"""A pattern for the names of operations, or a function of an operation's name and path."""


class Crashed(BaseException):
    """The process died here. Not an `Exception`, so that no handler takes it for one and carries on."""


class DiskInterruption(NamedTuple):
    """The early end of an operation: an exception, and the bytes of a write before it."""

    exception: OSError | Crashed
    after_bytes: int = 0


@dataclass(slots=True)
class DiskFault:
    """Something that goes wrong whenever a matching operation comes by."""

    operation: Operations
    path: str
    error: int
    times: int | Literal["forever"]
    skip: int
    after_bytes: int

    def strikes(self, operation: str, paths: tuple[str, ...]) -> bool:
        if self.times == 0 or not any(self._matches(operation, path) for path in paths):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times != "forever":
            self.times -= 1
        return True

    def _matches(self, operation: str, path: str) -> bool:
        if callable(self.operation):
            return self.operation(operation, path)
        return fnmatchcase(operation, self.operation) and fnmatchcase(path, self.path)


class FaultPlan:
    """Counts and journals the operations of one process, and says which of them fail."""

    def __init__(self) -> None:
        self.operations = 0
        self.faults: list[DiskFault] = []
        self._crash: tuple[int, int] | None = None
        self._journal: deque[tuple[object, ...]] = deque(maxlen=JOURNAL_ENTRIES_MAX)

    def successor(self, keep: str) -> "FaultPlan":
        """For the next process: nothing fails, nothing is counted yet, and the journal goes on."""
        script = FaultPlan()
        script._journal = self._journal.copy()
        script.note("-- crash, keeping", keep, "--")
        return script

    def crash_at(self, operation: int, after_bytes: int) -> None:
        if operation <= self.operations:
            raise ValueError(f"operation {operation} is over: {self.operations} have been made")
        self._crash = operation, after_bytes

    def end_faults(self) -> None:
        self.faults.clear()
        self._crash = None

    def note(self, *words: object) -> None:
        self._journal.append(words)

    def journal(self) -> list[str]:
        return [" ".join(map(str, words)) for words in self._journal]

    def change(self, operation: str, *paths: str, detail: tuple[object, ...] = ()) -> DiskInterruption | None:
        """Count an operation that changes the disk; None if it shall go well."""
        self.operations += 1
        if self._crash and self.operations == self._crash[0]:
            self.note(self.operations, operation, *paths, *detail, "CRASHED")
            return DiskInterruption(Crashed(f"at operation {self.operations}: {operation} {paths[0]}"), self._crash[1])
        stop = self.look(operation, *paths)
        self.note(self.operations, operation, *paths, *detail, *(_reason(stop) if stop else ()))
        return stop

    def look(self, operation: str, *paths: str) -> DiskInterruption | None:
        """An operation that changes nothing is not counted, but it may fail."""
        for fault in self.faults:
            if fault.strikes(operation, paths):
                return DiskInterruption(OSError(fault.error, os.strerror(fault.error)), fault.after_bytes)
        return None


def _reason(stop: DiskInterruption) -> tuple[str, ...]:
    code = getattr(stop.exception, "errno", None)
    return (errno.errorcode.get(code, str(code)),) if code else ()


_UNLIMITED_BYTES = 2**40  # what a disk without a capacity says it has


class SimulatedKernel:
    """The kernel's state of one process on the simulated disk; it ends with the process."""

    def __init__(self, capacity_bytes: int | None) -> None:
        self.capacity_bytes = capacity_bytes
        self.tree = Tree()
        self.script = FaultPlan()
        self.held: dict[FileContent, str] = {}
        self.used_bytes = 0
        self.ended = False
        self.mutex = RLock()

    @contextmanager
    def translated(self, path: str) -> Iterator[None]:
        with self.mutex:
            try:
                yield
            except OSError as error:
                raise_translated(error, path)

    @contextmanager
    def alive(self, path: str) -> Iterator[None]:
        with self.mutex:
            if self.ended:
                raise Crashed(f"the process that used {path} has ended")
            try:
                yield
            except OSError as error:
                raise_translated(error, path)
            except Crashed:
                self.ended = True
                raise

    @contextmanager
    def change(self, operation: str, *paths: str, detail: tuple[object, ...] = ()) -> Iterator[None]:
        """An operation that changes the disk, whole or not at all."""
        with self.alive(paths[0]):
            if stop := self.script.change(operation, *paths, detail=detail):
                raise stop.exception
            yield

    @contextmanager
    def look(self, operation: str, path: str) -> Iterator[None]:
        with self.alive(path):
            if stop := self.script.look(operation, path):
                raise stop.exception
            yield

    def room_bytes(self) -> int:
        capacity = _UNLIMITED_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return max(0, capacity - self.used_bytes)

    def resize(self, content: FileContent, size: int) -> None:
        if size < 0:
            raise oserror(errno.EINVAL)
        growth = size - len(content.cache)
        if growth > self.room_bytes():
            raise oserror(errno.ENOSPC)
        self.used_bytes += growth
        content.resize(size)

    def write(self, content: FileContent, position: int, data: bytes) -> int:
        """Write what fits, and return how much that was."""
        if position < 0:
            raise oserror(errno.EINVAL)
        size = len(content.cache)
        fitting = data[: max(0, size + self.room_bytes() - position)]
        content.write(position, fitting)
        self.used_bytes += len(content.cache) - size
        return len(fitting)

    def lose_name(self, content: FileContent) -> None:
        content.names -= 1
        self.give_back(content)

    def give_back(self, content: FileContent) -> None:
        """Free the space of a file that nothing leads to."""
        if not content.names and not content.handles:
            self.used_bytes -= len(content.cache)

    def files(self) -> dict[str, FileContent]:
        with self.mutex:
            return {path: node for path, node in self.tree.walk() if isinstance(node, FileContent)}


class FaultyFile:
    """An open file of a faulty disk; like a descriptor it closes itself when its last user lets go."""

    def __init__(self, kernel: SimulatedKernel, path: str, content: FileContent, *, writable: bool) -> None:
        self._kernel = kernel
        self._path = path
        self._content = content
        self._writable = writable
        self._open = True
        content.handles += 1

    def read(self, position: int, into: memoryview) -> int:
        with self._kernel.look("read", self._path):
            self._check()
            if position < 0:
                raise oserror(errno.EINVAL)
            return self._content.read(position, into)

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        with self._kernel.alive(self._path):
            stop = self._kernel.script.change("write", self._path, detail=("at", position, len(data), "bytes"))
            self._check(writing=True)
            written = self._kernel.write(self._content, position, data[: stop.after_bytes] if stop else data)
            if stop:
                raise stop.exception
            if written < len(data):
                raise oserror(errno.ENOSPC)

    def truncate(self, size: int) -> None:
        with self._kernel.change("truncate", self._path, detail=("to", size)):
            self._check(writing=True)
            self._kernel.resize(self._content, size)

    def sync(self) -> None:
        with self._kernel.alive(self._path):
            stop = self._kernel.script.change("sync", self._path)
            self._check()
            if stop is None:
                self._content.sync()
                if not self._content.names:
                    raise file_removed(self._path)
                return
            if isinstance(stop.exception, OSError):
                self._content.fail_sync()
            raise stop.exception

    def size(self) -> int:
        with self._kernel.look("size", self._path):
            self._check()
            return len(self._content.cache)

    def drop_cache(self) -> None:
        with self._kernel.look("drop_cache", self._path):
            self._check()
            self._content.drop_cache()

    def close(self) -> None:
        with self._kernel.mutex:
            if self._open:
                self._open = False
                self._content.handles -= 1
                self._kernel.give_back(self._content)

    def _check(self, *, writing: bool = False) -> None:
        if not self._open or (writing and not self._writable):
            raise oserror(errno.EBADF)

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FaultyFile {self._path} {'open' if self._open else 'closed'}>"


class FaultyLock:
    def __init__(self, kernel: SimulatedKernel, content: FileContent) -> None:
        self._kernel = kernel
        self._content: FileContent | None = content

    def is_in_place(self) -> bool:
        with self._kernel.mutex:
            return self._content is not None and bool(self._content.names)

    def release(self) -> None:
        with self._kernel.mutex:
            if self._content is not None:
                del self._kernel.held[self._content]
                self._content = None
