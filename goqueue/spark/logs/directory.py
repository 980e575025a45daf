"""Logs of a data directory, or of a copy of one. Nothing is written, and a broker may be at work in it."""

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from goqueue.broker.transactions.records import (
    OPEN,
    EnlistedLog,
    TransactionMetadata,
    TransactionRecord,
    decode_transaction_record,
)
from goqueue.clock import NANOSECONDS
from goqueue.delay import LOG_NAME
from goqueue.errors import DataDirectoryForeign, PathInvalid, SegmentNotFound
from goqueue.spark.logs.port import READ_COMMITTED, Isolation, OpenSegment, TransactionDecisions
from goqueue.spark.logs.splits import FrameRun, Split, read_split
from goqueue.storage import frame
from goqueue.storage.compaction_progress import CompactionProgress, load_progress
from goqueue.storage.disk import SystemDisk
from goqueue.storage.index import Index
from goqueue.storage.layout import check_directory, find_logs
from goqueue.storage.log_view import LogView, SegmentView, view_log
from goqueue.storage.segment import Segment, load_index
from goqueue.storage.swap import content_path
from goqueue.storage.transaction_index import load_aborted

if TYPE_CHECKING:
    from goqueue.spark.logs.port import LogSource

_DISK = SystemDisk()
_HINT = "name a directory that a broker has used, or a copy of one"


_LOG = "__transactions"
_ENDED_NS = 10 * NANOSECONDS  # markers are synced within a second, unless the setting is longer
_ATTEMPTS, _MOMENT_SECONDS = 20, 0.005


class TransactionLogReader:
    """The open transactions in one log. Each call continues where the previous one ended in the log."""

    def __init__(self, logs: "LogSource", number: int) -> None:
        self._logs = logs
        self._number = number
        self._read_to = 0
        self._open: dict[str, TransactionMetadata] = {}
        self._ended: list[tuple[int, TransactionMetadata]] = []
        """When they did, and what they had touched."""

    def touched(self) -> list[EnlistedLog]:
        """Return the partitions in which transactions are open, or were a moment ago."""
        self._read_on()
        since_ns = time.time_ns() - _ENDED_NS
        self._ended = [(ended_ns, record) for ended_ns, record in self._ended if ended_ns > since_ns]
        records = [*self._open.values(), *(record for _, record in self._ended)]
        return [touched for record in records for touched in record.partitions]

    def _read_on(self) -> None:
        view = self._view()
        first = max(self._read_to, view.earliest)
        if first >= view.end:
            return
        for piece in read_split(self._logs, Split(_LOG, self._number, first, view.end, view.size, view.segments)):
            if isinstance(piece, FrameRun):
                for position in piece.frames.record_positions():
                    self._apply(decode_transaction_record(frame.decode(piece.frames.buffer.data, position)))
        self._read_to = view.end

    def _view(self) -> LogView:
        """View the log; a mark that cannot be read for a moment hides what was there before."""
        for _ in range(_ATTEMPTS):
            view = self._logs.view(_LOG, self._number)
            if view.end >= self._read_to:
                break
            threading.Event().wait(_MOMENT_SECONDS)
        return view

    def _apply(self, record: TransactionRecord) -> None:
        before = self._open.pop(record.id, None)
        if isinstance(record, TransactionMetadata) and record.state in OPEN:
            self._open[record.id] = record
        elif before is not None:
            self._ended.append((record.changed_ns if isinstance(record, TransactionMetadata) else 0, before))


@dataclass(frozen=True)
class DirectoryLogs:
    """Executors find it under the same path."""

    name: str
    is_delayed: bool = field(default=False, kw_only=True)
    """Whether they are the delayed logs of the partitions, and not those of the topics themselves."""
    isolation: Isolation = field(default=READ_COMMITTED, kw_only=True)

    @classmethod
    def at(cls, path: str, *, is_delayed: bool = False, isolation: Isolation = READ_COMMITTED) -> "DirectoryLogs":
        """Open the logs at a path, after checking that it is a data directory."""
        directory = path.rstrip("/") or "/"
        try:
            check_directory(_DISK, directory)
        except (DataDirectoryForeign, PathInvalid) as error:
            error.hint = _HINT
            raise
        if _DISK.kind(f"{directory}/logs") != "directory":
            raise DataDirectoryForeign(f"{directory} is not a GoQueue data directory: it holds no logs", hint=_HINT)
        return cls(directory, is_delayed=is_delayed, isolation=isolation)

    @cached_property
    def _transactions(self) -> list[TransactionLogReader]:
        path = f"{self.name}/logs/{_LOG}"
        names = [one.name for one in _DISK.entries(path)] if _DISK.kind(path) == "directory" else []
        return [TransactionLogReader(DirectoryLogs(self.name), int(name)) for name in names if name.isdecimal()]

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_transactions"}

    def close(self) -> None:
        """Do nothing: each read closes its own files."""

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
        return view_log(_DISK, directory, is_live=self._is_live())

    def _is_live(self) -> bool:
        return _DISK.is_locked(f"{self.name}/lock")

    def waits(self) -> bool:
        """Test if a broker uses the directory: at rest, an open transaction will never be committed.

        A delayed log is not held back by open transactions.
        """
        return not self.is_delayed and self._is_live()

    def touched(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        if self.isolation == READ_COMMITTED and self.waits():
            for log_ref, _, since in chain.from_iterable(one.touched() for one in self._transactions):
                if not log_ref.is_delayed:
                    ref = (log_ref.topic, log_ref.partition)
                    found[ref] = min(since, found.get(ref, since))
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
    ) -> TransactionDecisions | None:
        """Return the aborted ranges that the broker stored beside its sealed segments, if it has them for all."""
        ranges: list[tuple[int, int]] = []
        for one in segments:
            segment = Segment(self._directory(topic, partition), one.base_offset)
            found = load_aborted(_DISK, segment.aborted_path, one.base_offset, one.next_offset, one.size)
            if found is None:
                return None
            ranges += found.aborted.within(first, end)
        return TransactionDecisions(ranges, end)

    def compaction(self, topic: str, partition: int) -> CompactionProgress:
        return load_progress(_DISK, f"{self.name}/logs/{topic}/{partition}")

    def path(self, topic: str, partition: int, segment: SegmentView) -> str:
        return Segment(self._directory(topic, partition), segment.base_offset).path

    def _directory(self, topic: str, partition: int) -> str:
        log = f"{self.name}/logs/{topic}/{partition}"
        return f"{log}/{LOG_NAME}" if self.is_delayed else log
