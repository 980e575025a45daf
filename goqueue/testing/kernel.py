"""The kernel below one process on the faulty disk: its operations, the space, open files and locks.

`goqueue.testing.disk` tells the whole fault model.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock

from goqueue.storage.disk import Buffer, oserror, refuse
from goqueue.testing.faults import Crashed, Script
from goqueue.testing.inode import Content
from goqueue.testing.tree import Tree

_UNLIMITED_BYTES = 2**40  # what a disk without a capacity says it has


class Kernel:
    """What all handles of one process share. It ends with the process."""

    def __init__(self, capacity_bytes: int | None) -> None:
        self.capacity_bytes = capacity_bytes
        self.tree = Tree()
        self.script = Script()
        self.held: dict[Content, str] = {}
        self.used_bytes = 0
        self.ended = False
        self.mutex = RLock()

    @contextmanager
    def translated(self, path: str) -> Iterator[None]:
        with self.mutex:
            try:
                yield
            except OSError as error:
                refuse(error, path)

    @contextmanager
    def alive(self, path: str) -> Iterator[None]:
        with self.mutex:
            if self.ended:
                raise Crashed(f"the process that used {path} has ended")
            try:
                yield
            except OSError as error:
                refuse(error, path)
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

    def resize(self, content: Content, size: int) -> None:
        if size < 0:
            raise oserror(errno.EINVAL)
        growth = size - len(content.cache)
        if growth > self.room_bytes():
            raise oserror(errno.ENOSPC)
        self.used_bytes += growth
        content.resize(size)

    def write(self, content: Content, position: int, data: bytes) -> int:
        """Write what fits, and return how much that was."""
        if position < 0:
            raise oserror(errno.EINVAL)
        size = len(content.cache)
        fitting = data[: max(0, size + self.room_bytes() - position)]
        content.write(position, fitting)
        self.used_bytes += len(content.cache) - size
        return len(fitting)

    def lose_name(self, content: Content) -> None:
        content.named = False
        self.give_back(content)

    def give_back(self, content: Content) -> None:
        """Free the space of a file that nothing leads to."""
        if not content.named and not content.handles:
            self.used_bytes -= len(content.cache)

    def files(self) -> dict[str, Content]:
        with self.mutex:
            return {path: node for path, node in self.tree.walk() if isinstance(node, Content)}


class FaultyFile:
    """An open file of a faulty disk; like a descriptor it closes itself when its last user lets go."""

    def __init__(self, kernel: Kernel, path: str, content: Content, *, writable: bool) -> None:
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
                return
            if isinstance(stop.exception, OSError):
                self._content.fail_sync()
            raise stop.exception

    def size(self) -> int:
        with self._kernel.look("size", self._path):
            self._check()
            return len(self._content.cache)

    def forget_cache(self) -> None:
        with self._kernel.look("forget_cache", self._path):
            self._check()
            self._content.forget_cache()

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
    def __init__(self, kernel: Kernel, content: Content) -> None:
        self._kernel = kernel
        self._content: Content | None = content

    def release(self) -> None:
        with self._kernel.mutex:
            if self._content is not None:
                del self._kernel.held[self._content]
                self._content = None
