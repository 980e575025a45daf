"""A disk in memory that tears, loses and refuses on demand: the twin of `goqueue.storage.disk.SystemDisk`.

The fault model.

**Two views.** Every file has what the *device* holds and what the *cache* shows, and between them
the writes and size changes that are not synced yet. Every directory has, in the same way, the names
on the device and the names in the cache. Processes see the cache.

**Sync.** A file's `sync` brings its content and its size to the device, and not its name. A name
that is created, renamed or removed reaches the device with `sync_directory`. `make_directory`
syncs what it makes, as the real one does. When the name of a directory is lost, so is everything in
it, however well that was synced.

**Handles** keep a file alive after it was removed or replaced, and its space in use.

**Death.** `crash` ends the process and returns the disk as the next one finds it:

- `"everything"`: the process was killed, the kernel lives. Nothing is lost, but what was not synced
  is still not synced, and a later loss of power takes it.
- `"synced"`: the power went, and everything that was not synced is gone, names and bytes.
- `"some"`: the power went while the kernel was writing. Of the unsynced blocks (512 bytes unless
  told otherwise) any subset is on the device, each as it was after one of its writes; with `torn`,
  the write after that may be there in part, up to any byte. Size changes arrive in their order and stop
  anywhere, whatever the blocks do: so a file may have grown on the device without its data, and
  reads zeros there. Names arrive in any order, but each name keeps the order of its own changes,
  and a rename is one change of both its names. A rename between directories, and the move or
  removal of a directory, arrives only after all that came before: journalling file systems never
  lose a file by moving it.

The old handles and locks are dead then: whatever is asked of them raises `Crashed`. Closing and
releasing them is allowed and does nothing. One moment can be crashed many times: each call returns
another disk, and leaves those before it alone. `after_crash` does the same to a process that lives on.

**A failed sync** behaves as on Linux. It raises once, and the pages count as clean from then on:
the cache goes on showing the new bytes, the device does not have them, and the next sync succeeds
without writing them. Only the size is remembered, so that this sync may leave zeros where data
should be. `drop_cache` drops the clean pages and shows what is really there. A failed
`sync_directory` leaves the names unsynced, and the next one brings them to the device.

**Faults.** Every operation that changes the disk is counted and has a name: `create`, `write`,
`truncate`, `sync`, `rename`, `link`, `remove`, `make_directory`, `remove_directory`, `sync_directory`,
`lock`. With `crash_at` the process dies at one of them, which is not carried out, or of a write
only so many bytes. With `fail` the matching ones raise; it also reaches those that change nothing
and are not counted: `open`, `read`, `size`, `drop_cache`, `entries`, `kind`, `free_bytes`. Faults
end with the process.

**Space.** A file takes up its size, holes included. A write beyond the capacity writes what fits
and raises `DiskFull`. Removing and truncating give space back, and the capacity may be changed.

**Damage.** `flip` and `overwrite` change bytes on the device and in the cache alike. `write_file`
puts a file there as an operator would, name and content synced at once.

Equal seeds and equal calls give equal outcomes.
"""

import errno
from collections import Counter
from posixpath import dirname
from random import Random
from typing import Literal

from goqueue.storage.disk import DirectoryEntry, DiskSpace, Mode, directory_in_use, oserror
from goqueue.testing.filesystem import Directory, FileContent
from goqueue.testing.kernel import Crashed, DiskFault, FaultyFile, FaultyLock, Operations, SimulatedKernel

__all__ = ["Crashed", "FaultyDisk", "FaultyFile", "FaultyLock", "Keep"]

Keep = Literal["everything", "synced", "some"]

BLOCK_BYTES = 512


class FaultyDisk:
    """A disk in memory that fails as it is told; the module says how."""

    def __init__(self, seed: int = 0, *, block_bytes: int = BLOCK_BYTES, capacity_bytes: int | None = None) -> None:
        self.seed = seed
        self.block_bytes = block_bytes
        self._random = Random(seed)
        self._kernel = SimulatedKernel(capacity_bytes)

    # --- what every disk does ---

    def open(self, path: str, mode: Mode) -> FaultyFile:
        if mode == "create":
            with self._kernel.change("create", path):
                content = FileContent()
                self._kernel.tree.add(path, content)
                return FaultyFile(self._kernel, path, content, writable=True)
        with self._kernel.look("open", path):
            return FaultyFile(self._kernel, path, self._kernel.tree.file(path), writable=mode == "write")

    def entries(self, path: str) -> list[DirectoryEntry]:
        with self._kernel.look("entries", path):
            names = self._kernel.tree.directory(path).names
            return [
                DirectoryEntry(name, "file", len(node.cache))
                if isinstance(node, FileContent)
                else DirectoryEntry(name, "directory", 0)
                for name, node in sorted(names.items())
            ]

    def kind(self, path: str) -> Literal["file", "directory", "other", "absent"]:
        with self._kernel.look("kind", path):
            return self._kind(path)

    def _kind(self, path: str) -> Literal["file", "directory", "absent"]:
        try:
            return "file" if isinstance(self._kernel.tree.find(path), FileContent) else "directory"
        except FileNotFoundError:
            return "absent"

    def make_directory(self, path: str) -> None:
        path = path.rstrip("/") or path
        if self.kind(path) != "directory":
            if parent := dirname(path):
                self.make_directory(parent)
            with self._kernel.change("make_directory", path):
                self._kernel.tree.add(path, Directory())
        self.sync_directory(dirname(path))

    def remove_directory(self, path: str) -> None:
        with self._kernel.change("remove_directory", path):
            self._kernel.tree.remove_directory(path)

    def rename(self, old: str, new: str) -> None:
        with self._kernel.change("rename", old, new):
            replaced = self._kernel.tree.rename(old, new)
            if isinstance(replaced, FileContent):
                self._kernel.lose_name(replaced)

    def link(self, path: str, new: str) -> None:
        with self._kernel.change("link", path, new):
            content = self._kernel.tree.file(path)
            self._kernel.tree.add(new, content)
            content.names += 1

    def remove(self, path: str) -> None:
        with self._kernel.change("remove", path):
            self._kernel.lose_name(self._kernel.tree.remove(path))

    def sync_directory(self, path: str) -> None:
        path = path or "."
        with self._kernel.change("sync_directory", path):
            self._kernel.tree.sync(self._kernel.tree.directory(path))

    def lock(self, path: str, owner: str) -> FaultyLock:
        with self._kernel.change("lock", path):
            if self._kind(path) == "absent":
                self._kernel.tree.add(path, FileContent())
            content = self._kernel.tree.file(path)
            if content in self._kernel.held:
                raise directory_in_use(path, self._kernel.held[content] or "another process")
            self._kernel.resize(content, 0)
            if self._kernel.write(content, 0, owner.encode()) < len(owner.encode()):
                raise oserror(errno.ENOSPC)
            self._kernel.held[content] = owner
            return FaultyLock(self._kernel, content)

    def space(self, path: str) -> DiskSpace:
        with self._kernel.look("free_bytes", path):
            self._kernel.tree.find(path)
            free = self._kernel.room_bytes()
            return DiskSpace(self._kernel.used_bytes + free, self._kernel.used_bytes, free)

    # --- what goes wrong ---

    @property
    def capacity_bytes(self) -> int | None:
        """Return how much fits, for all files together; may be changed at any time."""
        return self._kernel.capacity_bytes

    @capacity_bytes.setter
    def capacity_bytes(self, capacity_bytes: int | None) -> None:
        self._kernel.capacity_bytes = capacity_bytes

    @property
    def operations(self) -> int:
        """Return how many operations have changed this disk, or tried to, since the process began."""
        return self._kernel.script.operations

    @property
    def journal(self) -> list[str]:
        """The last operations, those before a crash included, to read after a failure."""
        return self._kernel.script.journal()

    def fail(
        self,
        operation: Operations,
        error: int = errno.EIO,
        *,
        path: str = "*",
        times: int | Literal["forever"] = 1,
        skip: int = 0,
        after_bytes: int = 0,
    ) -> None:
        """Let matching operations raise, after letting `skip` of them pass; a write after so many of its bytes.

        `operation` and `path` are patterns such as `"sync*"` and `"*.index"`; a function of an operation and its
        path decides alone. A rename has two paths, and either may match.
        """
        self._kernel.script.faults.append(DiskFault(operation, path, error, times, skip, after_bytes))

    def end_faults(self) -> None:
        """Forget all faults and the planned crash; the capacity stays."""
        self._kernel.script.end_faults()

    def crash_at(self, operation: int, *, after_bytes: int = 0) -> None:
        """Die when the count of operations gets there; if that is a write, after so many of its bytes."""
        self._kernel.script.crash_at(operation, after_bytes)

    def crash(self, keep: Keep = "synced", *, torn: bool = False) -> "FaultyDisk":
        """End the process, and return the disk as the next one finds it."""
        with self._kernel.mutex:
            self._kernel.ended = True
            return self.after_crash(keep, torn=torn)

    def after_crash(self, keep: Keep = "synced", *, torn: bool = False) -> "FaultyDisk":
        """Return what `crash` would return, while this process lives on: to look at what would be left."""
        with self._kernel.mutex:
            after = FaultyDisk(
                self._random.getrandbits(64), block_bytes=self.block_bytes, capacity_bytes=self.capacity_bytes
            )
            after._kernel.script = self._kernel.script.successor(keep)
            after._kernel.tree = self._kernel.tree.copy()
        after._settle(keep, torn=torn)
        return after

    def _settle(self, keep: Keep, *, torn: bool) -> None:
        if keep == "synced":
            self._kernel.tree.lose_unsynced()
        elif keep == "some":
            self._kernel.tree.lose_some(self._random)
        for content, names in Counter(self._kernel.files().values()).items():
            if keep == "synced":
                content.lose_unsynced()
            elif keep == "some":
                content.lose_some(self._random, self.block_bytes, torn=torn)
            content.names = names
            self._kernel.used_bytes += len(content.cache)

    # --- what a test does behind the process's back ---

    def paths(self) -> list[str]:
        """All files, as the process sees them."""
        return sorted(self._kernel.files())

    def read_file(self, path: str) -> bytes:
        """A file's content, as the process sees it."""
        with self._kernel.translated(path):
            return bytes(self._kernel.tree.file(path).cache)

    def write_file(self, path: str, content: bytes) -> None:
        """Put a file there, with its directories, everything synced."""
        with self._kernel.translated(path):
            self._kernel.script.note("-- write_file", path, len(content), "bytes --")
            parts = path.strip("/").split("/")
            for depth in range(1, len(parts)):
                self._place("/".join(parts[:depth]), Directory())
            self._place(path, FileContent())
            file = self._kernel.tree.file(path)
            self._kernel.resize(file, 0)
            self._kernel.used_bytes += len(content)
            file.write(0, content)
            file.sync()

    def _place(self, path: str, node: FileContent | Directory) -> None:
        if self._kind(path) == "absent":
            self._kernel.tree.add(path, node)
        self._kernel.tree.sync_name(path)

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        """Turn over one bit."""
        with self._kernel.translated(path):
            byte = self._kernel.tree.file(path).cache[position]
            self.overwrite(path, position, bytes([byte ^ 1 << bit]))

    def overwrite(self, path: str, position: int, content: bytes) -> None:
        """Damage bytes that are there; a file never grows by it."""
        with self._kernel.translated(path):
            self._kernel.script.note("-- overwrite", path, "at", position, len(content), "bytes --")
            self._kernel.tree.file(path).damage(position, content)

    def __repr__(self) -> str:
        state = "ended" if self._kernel.ended else "alive"
        capacity = "" if self.capacity_bytes is None else f"/{self.capacity_bytes}"
        return (
            f"<FaultyDisk {state} seed={self.seed} files={len(self._kernel.files())} "
            f"bytes={self._kernel.used_bytes}{capacity} operations={self.operations}>"
        )
