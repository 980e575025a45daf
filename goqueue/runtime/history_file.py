"""The file of the history: rows at fixed positions, never synced.

It is a convenience and no obstacle: a file that is damaged, foreign or refused by the disk costs only the history. A
row that was torn fails its checksum and is a gap.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from goqueue.broker.core.work import Work
from goqueue.errors import GoQueueError, PathInvalid
from goqueue.observe.history_rings import FILE_BYTES, HistoryRings, RowChange, file_header, is_ours
from goqueue.quantities import format_count
from goqueue.storage.disk import Disk, remove_files

_log = logging.getLogger("goqueue.history")


class HistoryFile:
    def __init__(self, disk: Disk, directory: str, is_in_place: Callable[[], bool] = lambda: True) -> None:
        """`is_in_place` tells whether the directory is still that of this broker."""
        self._disk = disk
        self._is_in_place = is_in_place
        self._path = f"{directory}/history"
        self._is_ours = False
        """Whether the file is there, with rows as they are written now."""
        self._trouble = ""

    def load(self, rings: HistoryRings, now_ns: int) -> None:
        """Restore the rows of the file."""
        try:
            kind = self._disk.kind(self._path)
            if kind == "absent":
                return
            content = self._read() if kind == "file" else memoryview(b"")
        except GoQueueError as error:
            _log.warning("the history cannot be read and starts anew: %s", error)
            return
        self._is_ours = is_ours(content)
        if not self._is_ours:
            _log.warning("%s is not a history that this version writes: it starts anew", self._path)
            return
        damaged = rings.restore(content, now_ns)
        if damaged:
            _log.warning("left out of %s because of damage: %s", self._path, format_count(damaged, "row"))

    def _read(self) -> memoryview:
        file = self._disk.open(self._path, "read")
        try:
            content = memoryview(bytearray(min(file.size(), FILE_BYTES)))
            return content[: file.read(0, content)]
        finally:
            file.close()

    def save(self, rings: HistoryRings) -> Work[None]:
        """Write what has changed. What the disk refuses is written later."""
        changes = rings.take_changes()
        try:
            yield partial(self._write, changes)
        except GoQueueError as error:
            rings.not_written(changes)
            if error.sentence != self._trouble:
                _log.warning("the history cannot be written and is kept in memory: %s", error)
            self._trouble = error.sentence
        else:
            self._trouble = ""

    def _write(self, changes: Sequence[RowChange]) -> None:
        if not self._is_in_place():
            raise PathInvalid(f"{self._path} is not in its place: the data directory was removed, moved or replaced")
        if not self._is_ours or self._disk.kind(self._path) == "absent":
            self._create()
        file = self._disk.open(self._path, "write")
        try:
            for change in changes:
                file.write(change.position, [change.content])
        finally:
            file.close()

    def _create(self) -> None:
        """Create a file of the final size, without content but its header."""
        self._is_ours = False
        remove_files(self._disk, self._path)
        file = self._disk.open(self._path, "create")
        try:
            file.write(0, [file_header()])
            file.truncate(FILE_BYTES)
        finally:
            file.close()
        self._is_ours = True
