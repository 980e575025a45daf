"""Logs of a data directory, or of a copy of one. Nothing is written, and a broker may be at work in it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from goqueue.delay import LOG_NAME
from goqueue.errors import DataDirectoryForeign, PathInvalid, SegmentNotFound
from goqueue.spark.logs.port import READ_COMMITTED, Decided, Isolation, OpenSegment
from goqueue.spark.logs.transactions import Transactions
from goqueue.storage.aborted import load_aborted
from goqueue.storage.disk import SystemDisk
from goqueue.storage.index import Index
from goqueue.storage.layout import check_directory, find_logs
from goqueue.storage.segment import Segment, load_index
from goqueue.storage.swap import content_path
from goqueue.storage.visit import LogView, SegmentView, visit

_DISK = SystemDisk()
_HINT = "name a directory that a broker has used, or a copy of one"


@dataclass(frozen=True)
class DirectoryLogs:
    """Executors find it under the same path."""

    name: str
    is_delayed: bool = field(default=False, kw_only=True)
    """Whether they are the delayed logs of the partitions, and not those of the topics themselves."""
    isolation: Isolation = field(default=READ_COMMITTED, kw_only=True)

    @classmethod
    def at(cls, path: str, *, is_delayed: bool = False, isolation: Isolation = READ_COMMITTED) -> "DirectoryLogs":
        """The logs there, once it is known to be a data directory."""
        place = path.rstrip("/") or "/"
        try:
            check_directory(_DISK, place)
        except (DataDirectoryForeign, PathInvalid) as error:
            error.hint = _HINT
            raise
        if _DISK.kind(f"{place}/logs") != "directory":
            raise DataDirectoryForeign(f"{place} is not a GoQueue data directory: it holds no logs", hint=_HINT)
        return cls(place, is_delayed=is_delayed, isolation=isolation)

    @cached_property
    def _transactions(self) -> Transactions:
        return Transactions(DirectoryLogs(self.name))

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_transactions"}

    def topics(self) -> dict[str, tuple[int, ...]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for log in find_logs(_DISK, f"{self.name}/logs"):
            topic, _, number = log.rpartition("/")
            if topic and number.isascii() and number.isdecimal():
                found[topic].append(int(number))
        return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(found.items())}

    def view(self, topic: str, partition: int) -> LogView:
        directory = self._directory(topic, partition)
        if _DISK.kind(directory) != "directory":
            return LogView()
        return visit(_DISK, directory, is_live=self._is_live())

    def _is_live(self) -> bool:
        return _DISK.is_locked(f"{self.name}/lock")

    def waits(self) -> bool:
        """Where a broker is at work: in a directory at rest, what is open will never be committed.

        In a delayed log nobody waits for what is open.
        """
        return not self.is_delayed and self._is_live()

    def touched(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        if self.isolation == READ_COMMITTED and self.waits():
            for spot, _, since in self._transactions.touched():
                if not spot.is_delayed:
                    place = (spot.topic, spot.partition)
                    found[place] = min(since, found.get(place, since))
        return found

    def open(self, topic: str, partition: int, segment: SegmentView) -> OpenSegment:
        found = Segment(self._directory(topic, partition), segment.base_offset, segment.size)
        path = content_path(_DISK, found.directory, found.base_offset)
        try:
            file = _DISK.open(path, "read")
        except PathInvalid:
            file = None
        if file is None or file.size() < segment.size:
            raise SegmentNotFound(f"{path} was removed or replaced while it was read", hint="read again")
        index = load_index(_DISK, found) if path == found.path else None  # one without entries can have a mark
        return OpenSegment(file, Index() if index is None else index)

    def decided(
        self, topic: str, partition: int, first: int, end: int, segments: Sequence[SegmentView]
    ) -> Decided | None:
        """What the broker has found out of its sealed segments, where it has kept that for all of these."""
        ranges: list[tuple[int, int]] = []
        for one in segments:
            segment = Segment(self._directory(topic, partition), one.base_offset)
            found = load_aborted(_DISK, segment.aborted_path, one.base_offset, one.next_offset, one.size)
            if found is None:
                return None
            ranges += found.aborted.within(first, end)
        return Decided(ranges, end)

    def path(self, topic: str, partition: int, segment: SegmentView) -> str:
        return Segment(self._directory(topic, partition), segment.base_offset).path

    def _directory(self, topic: str, partition: int) -> str:
        log = f"{self.name}/logs/{topic}/{partition}"
        return f"{log}/{LOG_NAME}" if self.is_delayed else log
