"""Files and names of the faulty disk: what the device holds, what the cache shows, and the changes between.

`goqueue.testing.disk` tells the whole fault model.
"""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from goqueue.storage.disk import oserror

_Unsynced = tuple[int, bytes | None]
"""Bytes written at a position, or without bytes a size that the file was given."""


class FileContent:
    """The bytes of one file, which live as long as a name or a handle leads to them."""

    __slots__ = ("_device", "_stale", "_unsynced", "cache", "handles", "names")

    def __init__(self, content: bytes = b"") -> None:
        self.cache = bytearray(content)
        self.handles = 0
        self.names = 1
        self._device = bytearray(content)
        self._unsynced: list[_Unsynced] = []
        self._stale = False  # a failed sync left clean pages that differ from the device

    def read(self, position: int, into: memoryview) -> int:
        count = max(0, min(len(into), len(self.cache) - position))
        into[:count] = memoryview(self.cache)[position : position + count]
        return count

    def write(self, position: int, data: bytes) -> None:
        if not data:
            return
        end = position + len(data)
        self.resize(max(end, len(self.cache)))
        self.cache[position:end] = data
        self._unsynced.append((position, data))

    def resize(self, size: int) -> None:
        if size != len(self.cache):
            _resize(self.cache, size)
            self._unsynced.append((size, None))

    def sync(self) -> None:
        for position, data in self._unsynced:
            if data is None:
                _resize(self._device, position)
            else:
                self._device[position : position + len(data)] = data
        self._unsynced.clear()

    def fail_sync(self) -> None:
        """The pages are clean now although they were not written; the size is still to be synced."""
        sizes = [entry for entry in self._unsynced if entry[1] is None]
        self._stale = self._stale or len(sizes) < len(self._unsynced)
        self._unsynced = sizes

    def drop_cache(self) -> None:
        if self._stale:
            self.cache = bytearray(self._device)
            for position, data in self._unsynced:
                if data is None:
                    _resize(self.cache, position)
                else:
                    self.cache[position : position + len(data)] = data
            self._stale = False

    def damage(self, position: int, content: bytes) -> None:
        """Change bytes where they are: on the device, in the cache, and in what is still to be synced."""
        end = position + len(content)
        if position < 0 or end > len(self.cache):
            raise ValueError(f"bytes {position} to {end} are not within the file's {len(self.cache)}")
        self.cache[position:end] = content
        held = content[: max(0, len(self._device) - position)]
        self._device[position : position + len(held)] = held
        if self._unsynced:
            self._unsynced.append((position, content))

    def lose_unsynced(self) -> None:
        """The power goes and takes the cache with it."""
        self.cache = bytearray(self._device)
        self._unsynced.clear()
        self._stale = False

    def lose_some(self, random: Random, block_bytes: int, *, torn: bool) -> None:
        """The power goes after some of the unsynced blocks and sizes reached the device."""
        sizes = random.choice((0, 1, random.random())) * sum(data is None for _, data in self._unsynced)
        writes = _reached(self._unsynced, random, block_bytes)
        size = len(self._device)
        for position, data in self._unsynced:
            if data is None:
                if sizes >= 1:
                    sizes -= 1
                    size = position
                    del self._device[size:]
                continue
            for start, piece in _pieces(position, data, block_bytes):
                block = start // block_bytes
                if writes[block] > 0:
                    _put(self._device, start, piece)
                elif writes[block] == 0 and torn:
                    _put(self._device, start, piece[: random.randrange(len(piece))])
                writes[block] -= 1
        _resize(self._device, size)
        self.lose_unsynced()

    def copy(self) -> "FileContent":
        twin = FileContent()
        twin.cache = bytearray(self.cache)
        twin.names = self.names
        twin._device = bytearray(self._device)
        twin._unsynced = self._unsynced.copy()
        twin._stale = self._stale
        return twin


def _resize(buffer: bytearray, size: int) -> None:
    if size < len(buffer):
        del buffer[size:]
    elif size > len(buffer):
        buffer.extend(bytes(size - len(buffer)))


def _put(buffer: bytearray, position: int, piece: bytes) -> None:
    if position > len(buffer):
        _resize(buffer, position)
    buffer[position : position + len(piece)] = piece


def _pieces(position: int, data: bytes, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Cut a write where the device's blocks begin."""
    start, end = position, position + len(data)
    while start < end:
        stop = min(end, start - start % block_bytes + block_bytes)
        yield start, data[start - position : stop - position]
        start = stop


def _reached(unsynced: list[_Unsynced], random: Random, block_bytes: int) -> dict[int, int]:
    """For every block: how many of its writes reached the device, the oldest first."""
    counts: dict[int, int] = {}
    for position, data in unsynced:
        for start, _ in _pieces(position, data or b"", block_bytes):
            counts[start // block_bytes] = counts.get(start // block_bytes, 0) + 1
    chance = random.random()
    return {block: count if random.random() < chance else random.randrange(count) for block, count in counts.items()}


_NAME_BYTES_MAX = 255  # as on every file system that we know


class Directory:
    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = FileContent | Directory


@dataclass(frozen=True, slots=True)
class _Change:
    """Names that change together: a creation or a removal is one, a rename is two."""

    edits: tuple[tuple[Directory, str, Node | None], ...]
    barrier: bool

    def places(self) -> set[tuple[Directory, str]]:
        return {(directory, name) for directory, name, _ in self.edits}


class Tree:
    """All names, and the changes to them that are not yet on the device."""

    def __init__(self) -> None:
        self.root = Directory()
        self._changes: list[_Change] = []

    def find(self, path: str) -> Node:
        node: Node = self.root
        for name in _names(path):
            if isinstance(node, FileContent):
                raise oserror(errno.ENOTDIR)
            found = node.names.get(name)
            if found is None:
                raise oserror(errno.ENOENT)
            node = found
        return node

    def file(self, path: str) -> FileContent:
        node = self.find(path)
        if isinstance(node, Directory):
            raise oserror(errno.EISDIR)
        return node

    def directory(self, path: str) -> Directory:
        node = self.find(path)
        if isinstance(node, FileContent):
            raise oserror(errno.ENOTDIR)
        return node

    def place(self, path: str) -> tuple[Directory, str]:
        """The directory and the name that a path means, whether or not something is there."""
        names = _names(path)
        if not names:
            raise oserror(errno.EBUSY)
        return self.directory("/" + "/".join(names[:-1])), names[-1]

    def add(self, path: str, node: Node) -> None:
        directory, name = self.place(path)
        if name in directory.names:
            raise oserror(errno.EEXIST)
        self._change((directory, name, node))

    def remove(self, path: str) -> FileContent:
        directory, name = self.place(path)
        removed = self.file(path)
        self._change((directory, name, None))
        return removed

    def remove_directory(self, path: str) -> None:
        directory, name = self.place(path)
        if self.directory(path).names:
            raise oserror(errno.ENOTEMPTY)
        self._change((directory, name, None), barrier=True)

    def rename(self, old: str, new: str) -> Node | None:
        """Move a name and return what it replaced."""
        source, old_name = self.place(old)
        node = self.find(old)
        target, new_name = self.place(new)
        replaced = target.names.get(new_name)
        if replaced is node:
            return None
        if isinstance(node, Directory):
            _check_move(_names(old), _names(new), replaced)
        elif isinstance(replaced, Directory):
            raise oserror(errno.EISDIR)
        barrier = isinstance(node, Directory) or source is not target
        self._change((source, old_name, None), (target, new_name, node), barrier=barrier)
        return replaced

    def _change(self, *edits: tuple[Directory, str, Node | None], barrier: bool = False) -> None:
        for directory, name, node in edits:
            _edit(directory.names, name, node)
        self._changes.append(_Change(edits, barrier))

    def sync(self, directory: Directory) -> None:
        if self._changes:
            self._commit(lambda change: any(edited is directory for edited, _, _ in change.edits))

    def sync_name(self, path: str) -> None:
        place = self.place(path)
        self._commit(lambda change: place in change.places())

    def _commit(self, chosen: Callable[[_Change], bool]) -> None:
        """Let the chosen changes reach the device, and those that must be there before them."""
        reached: list[_Change] = []
        waiting: list[_Change] = []
        needed: set[tuple[Directory, str]] = set()
        everything = False
        for change in reversed(self._changes):
            if everything or not needed.isdisjoint(change.places()) or chosen(change):
                reached.append(change)
                needed |= change.places()
                everything = everything or change.barrier
            else:
                waiting.append(change)
        for change in reversed(reached):
            for directory, name, node in change.edits:
                _edit(directory.durable, name, node)
        self._changes = waiting[::-1]

    def lose_unsynced(self) -> None:
        """The power goes: names are again what the device holds."""
        self._changes.clear()
        for _, directory in self.walk(durable=True):
            if isinstance(directory, Directory):
                directory.names = directory.durable.copy()

    def lose_some(self, random: Random) -> None:
        chance = random.random()
        self._commit(lambda _: random.random() < chance)
        self.lose_unsynced()

    def walk(self, *, durable: bool = False) -> Iterator[tuple[str, Node]]:
        """Every node with its path, the root first."""
        waiting: list[tuple[str, Node]] = [("/", self.root)]
        while waiting:
            path, node = waiting.pop()
            yield path, node
            if isinstance(node, Directory):
                names = node.durable if durable else node.names
                waiting.extend((f"{path.rstrip('/')}/{name}", names[name]) for name in sorted(names, reverse=True))

    def copy(self) -> "Tree":
        """A second tree of second files, equal in everything and sharing nothing."""
        twins: dict[Node, Node] = {}

        def twin(node: Node) -> Node:
            if node not in twins:
                if isinstance(node, FileContent):
                    twins[node] = node.copy()
                else:
                    twins[node] = made = Directory()
                    made.names = {name: twin(each) for name, each in node.names.items()}
                    made.durable = {name: twin(each) for name, each in node.durable.items()}
            return twins[node]

        def directory(node: Directory) -> Directory:
            found = twin(node)
            assert isinstance(found, Directory)
            return found

        made = Tree()
        made.root = directory(self.root)
        for change in self._changes:
            edits = tuple((directory(place), name, twin(node) if node else None) for place, name, node in change.edits)
            made._changes.append(_Change(edits, change.barrier))
        return made


def _edit(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _check_move(old: list[str], new: list[str], replaced: Node | None) -> None:
    """Return whether a directory may go there."""
    if new[: len(old)] == old:
        raise oserror(errno.EINVAL)
    if isinstance(replaced, FileContent):
        raise oserror(errno.ENOTDIR)
    if replaced is not None and replaced.names:
        raise oserror(errno.ENOTEMPTY)


def _names(path: str) -> list[str]:
    if not path:
        raise oserror(errno.ENOENT)
    names = [name for name in path.split("/") if name not in ("", ".")]
    if any(len(name) > _NAME_BYTES_MAX and len(os.fsencode(name)) > _NAME_BYTES_MAX for name in names):
        raise oserror(errno.ENAMETOOLONG)
    return names
