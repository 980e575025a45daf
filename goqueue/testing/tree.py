"""The names of the faulty disk: those on the device, those in the cache, and the changes between.

`goqueue.testing.disk` tells the whole fault model. What cannot be done raises `OSError`, as a
kernel would return it.
"""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from goqueue.storage.disk import oserror
from goqueue.testing.inode import Content

_NAME_BYTES_MAX = 255  # as on every file system that we know


class Directory:
    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = Content | Directory


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
            if isinstance(node, Content):
                raise oserror(errno.ENOTDIR)
            found = node.names.get(name)
            if found is None:
                raise oserror(errno.ENOENT)
            node = found
        return node

    def file(self, path: str) -> Content:
        node = self.find(path)
        if isinstance(node, Directory):
            raise oserror(errno.EISDIR)
        return node

    def directory(self, path: str) -> Directory:
        node = self.find(path)
        if isinstance(node, Content):
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

    def remove(self, path: str) -> Content:
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
                if isinstance(node, Content):
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
    """Whether a directory may go there."""
    if new[: len(old)] == old:
        raise oserror(errno.EINVAL)
    if isinstance(replaced, Content):
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
