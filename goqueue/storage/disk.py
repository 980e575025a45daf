"""The one module that calls the operating system about files.

Storage is written against two small ports, `Disk` and `File`. `SystemDisk` is the machine's
own; `goqueue.testing.disk.FaultyDisk` is its twin that tears, loses and refuses on demand. Both
pass the same tests.

What must stay true: every `OSError` becomes one of our errors here, with the path in it; a
write that returns has handed all of its bytes to the kernel; only `sync` (and for names
`sync_directory`) promises that they survive a power loss.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, NoReturn, Protocol

from goqueue.errors import (
    AccessDenied,
    DataDirectoryInUse,
    DiskFailed,
    DiskFull,
    FilesExhausted,
    GoQueueError,
    PathInvalid,
)
from goqueue.limits import WRITE_BUFFERS_MAX

Buffer = bytes | bytearray | memoryview
Mode = Literal["read", "write", "create"]
"""`write` wants the file to exist, `create` wants it not to."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name in a directory."""

    name: str
    kind: Literal["file", "directory", "other"]
    size: int


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The space of a file system, as `df` shows it."""

    total_bytes: int
    used_bytes: int
    free_bytes: int
    """What is available to a process without privileges. Less than total minus used where blocks are reserved."""


class File(Protocol):
    """An open file without a cursor: each call names its position."""

    def read(self, position: int, into: memoryview) -> int:
        """Fill `into` and return how many bytes it got: fewer only at the end of the file."""
        ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers in order. When it raises, any part may have been written."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return once the content is on the device. A failure is final: it must not be tried again.

        Raises PathInvalid for a file without any name: nothing leads to its content once it is closed.
        """
        ...

    def size(self) -> int: ...

    def drop_cache(self) -> None:
        """Drop clean pages from memory, so that the next read tells what the device really holds."""
        ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...

    def is_in_place(self) -> bool:
        """Return whether its file still has its path: another process may have removed the directory."""
        ...


class Disk(Protocol):
    def open(self, path: str, mode: Mode) -> File: ...

    def entries(self, path: str) -> list[DirectoryEntry]:
        """List a directory in the order of names."""
        ...

    def kind(self, path: str) -> Literal["file", "directory", "other", "absent"]: ...

    def make_directory(self, path: str) -> None:
        """Make the directory and its parents, each name durable; an existing one is fine, and made durable too."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old` in one step."""
        ...

    def link(self, path: str, new: str) -> None:
        """Give a file a second name on the same file system; it lives as long as one of them."""
        ...

    def remove(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Return once the names in this directory are on the device."""
        ...

    def space(self, path: str) -> DiskSpace:
        """Return the space of the file system that holds this path."""
        ...

    def lock(self, path: str, owner: str) -> Lock:
        """Take an exclusive lock that ends with this process, or raise an error that names its holder."""
        ...


def read_all(disk: Disk, path: str) -> bytes:
    """The whole content of a small file."""
    file = disk.open(path, "read")
    try:
        content = bytearray(file.size())
        view = memoryview(content)
        return bytes(view[: file.read(0, view)])
    finally:
        file.close()


def remove_files(disk: Disk, *paths: str) -> None:
    """Remove those of these files that exist."""
    for path in paths:
        if disk.kind(path) != "absent":
            disk.remove(path)


def file_size(disk: Disk, path: str) -> int:
    file = disk.open(path, "read")
    try:
        return file.size()
    finally:
        file.close()


def replace_file(disk: Disk, path: str, content: Buffer, *, durable: bool = True) -> None:
    """Give a file new content in one step: after a crash it is the old or the new, never a mixture.

    Not `durable` is for caches: a loss of power may leave nothing of either.
    """
    temporary = f"{path}.tmp"
    remove_files(disk, temporary)
    file = disk.open(temporary, "create")
    try:
        file.write(0, [content])
        if durable:
            file.sync()
    except GoQueueError:
        with suppress(GoQueueError):
            disk.remove(temporary)
        raise
    finally:
        file.close()
    disk.rename(temporary, path)
    if durable:
        disk.sync_directory(os.path.dirname(path))


def raise_translated(error: OSError, path: str) -> NoReturn:
    """Translate the operating system's error into ours."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    translated: GoQueueError
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            translated = DiskFull(
                f"no space left on the device that holds {path}",
                hint="free some space: writing resumes by itself",
                path=path,
            )
        case errno.EROFS:
            translated = AccessDenied(
                f"not allowed to use {path}: {reason}", hint="mount the file system for writing", path=path
            )
        case errno.EACCES | errno.EPERM:
            translated = AccessDenied(f"not allowed to use {path}: {reason}", hint="check owner and mode", path=path)
        case errno.ENOENT:
            translated = PathInvalid(f"{path} does not exist", path=path)
        case errno.ENOTDIR | errno.EISDIR | errno.EEXIST | errno.ELOOP | errno.ENAMETOOLONG | errno.ENOTEMPTY:
            translated = PathInvalid(f"{path} cannot be used: {reason}", path=path)
        case errno.EMFILE | errno.ENFILE:
            translated = FilesExhausted(
                f"cannot open {path}: {reason}", hint="raise the limit of open files (ulimit -n)", path=path
            )
        case _:
            translated = DiskFailed(f"the device failed at {path}: {reason}", path=path)
    raise translated from error


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise_translated(error, path)


def file_removed(path: str) -> PathInvalid:
    hint = "stop the broker, put the files back or restore a backup, and start it again"
    return PathInvalid(f"{path} was removed while it was written", hint=hint, path=path)


def oserror(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _check(position: int) -> None:
    """To the kernel, -1 would mean the descriptor's cursor."""
    if position < 0:
        raise oserror(errno.EINVAL)


class SystemFile:
    """A file descriptor that closes itself when its last user lets go."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def read(self, position: int, into: memoryview) -> int:
        done = 0
        with _translated(self._path):
            _check(position)
            while done < len(into):
                count = os.preadv(self._descriptor, [into[done:]], position + done)
                if count == 0:
                    break
                done += count
        return done

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        with _translated(self._path):
            _check(position)
            for start in range(0, len(buffers), WRITE_BUFFERS_MAX):
                position += self._write_group(position, buffers[start : start + WRITE_BUFFERS_MAX])

    def _write_group(self, position: int, buffers: Sequence[Buffer]) -> int:
        """The kernel may write less than asked for (at 2 GiB, or when space ends): go on with the rest."""
        total = sum(map(len, buffers))
        done = os.pwritev(self._descriptor, buffers, position)
        if done < total:
            rest = memoryview(b"".join(buffers))
            while done < total:
                done += os.pwrite(self._descriptor, rest[done:], position + done)
        return total

    def truncate(self, size: int) -> None:
        with _translated(self._path):
            os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        with _translated(self._path):
            if self._descriptor < 0:  # for which Python has an error of its own
                raise oserror(errno.EBADF)
            os.fdatasync(self._descriptor)
            if not os.fstat(self._descriptor).st_nlink:
                raise file_removed(self._path)

    def size(self) -> int:
        with _translated(self._path):
            return os.fstat(self._descriptor).st_size

    def drop_cache(self) -> None:
        with _translated(self._path):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1  # the kernel lets go of it even when closing fails
        if descriptor >= 0:
            with _translated(self._path):
                os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SystemFile {self._path} {'closed' if self._descriptor < 0 else 'open'}>"


class SystemLock:
    """An advisory lock: the kernel releases it when the process ends, however it ends."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def take(self, owner: str) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 500, 0).decode("utf-8", "replace").strip() or "another process"
            raise directory_in_use(self._path, holder) from None
        os.pwrite(self._descriptor, owner.encode(), 0)  # before the old name is cut off: the disk may be full
        os.ftruncate(self._descriptor, len(owner.encode()))

    def is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise_translated(error, self._path)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700
"""Messages are for the user of the broker alone."""

_FLAGS: dict[Mode, int] = {
    "read": os.O_RDONLY,
    "write": os.O_RDWR,
    "create": os.O_RDWR | os.O_CREAT | os.O_EXCL,
}


class SystemDisk:
    """The machine's file systems."""

    def open(self, path: str, mode: Mode) -> SystemFile:
        with _translated(path):
            descriptor = os.open(path, _FLAGS[mode] | os.O_CLOEXEC, _FILE_MODE)
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):  # which the kernel opens for reading
                os.close(descriptor)
                raise oserror(errno.EISDIR)
            return SystemFile(path, descriptor)

    def entries(self, path: str) -> list[DirectoryEntry]:
        with _translated(path), os.scandir(path) as found:
            return sorted(filter(None, map(_entry, found)), key=lambda entry: entry.name)

    def kind(self, path: str) -> Literal["file", "directory", "other", "absent"]:
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            return "absent"
        except OSError as error:
            raise_translated(error, path)
        return "file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else "other"

    def make_directory(self, path: str) -> None:
        path = path.rstrip("/") or path
        parent = os.path.dirname(path)
        if self.kind(path) == "directory":
            # Its maker may have died before it synced the name. A directory that we may not read is not ours.
            with suppress(AccessDenied):
                self.sync_directory(parent)
            return
        if parent:
            self.make_directory(parent)
        with _translated(path):
            os.mkdir(path, _DIRECTORY_MODE)
        self.sync_directory(parent)

    def remove_directory(self, path: str) -> None:
        with _translated(path):
            os.rmdir(path)

    def rename(self, old: str, new: str) -> None:
        with _translated(old):
            os.replace(old, new)

    def link(self, path: str, new: str) -> None:
        with _translated(path):
            os.link(path, new, follow_symlinks=False)

    def remove(self, path: str) -> None:
        with _translated(path):
            os.unlink(path)

    def sync_directory(self, path: str) -> None:
        with _translated(path):
            descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def space(self, path: str) -> DiskSpace:
        with _translated(path):
            found = os.statvfs(path)
            used = found.f_blocks - found.f_bfree
            return DiskSpace(*(blocks * found.f_frsize for blocks in (found.f_blocks, used, found.f_bavail)))

    def lock(self, path: str, owner: str) -> SystemLock:
        with _translated(path):
            lock = SystemLock(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE))
            try:
                lock.take(owner)
            except BaseException:
                lock.release()
                raise
        return lock

    def is_locked(self, path: str) -> bool:
        """Return whether a process holds this lock, without taking it and without the right to write."""
        if self.kind(path) != "file":
            return False
        with _translated(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(descriptor)
        return False


def _entry(item: "os.DirEntry[str]") -> DirectoryEntry | None:
    """A name and what it stands for, unless it went away since it was listed."""
    if item.is_file():
        try:
            return DirectoryEntry(item.name, "file", item.stat().st_size)
        except FileNotFoundError:
            return None
    return DirectoryEntry(item.name, "directory" if item.is_dir(follow_symlinks=False) else "other", 0)


def directory_in_use(path: str, holder: str) -> DataDirectoryInUse:
    return DataDirectoryInUse(
        f"{os.path.dirname(path)} is in use by {holder}",
        hint="stop that process, or choose another data directory",
        holder=holder,
    )
