"""Trace records on disk: JSON lines in files of a bounded total size.

    {data}/traces/00000000000000000001.jsonl

They are never synced: a loss of power may take the last ones, and a line that is torn is skipped. What the disk refuses
is counted and forgotten; tracing is no obstacle for messages.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from threading import Lock

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.tracing.records import TraceRecord, decode_line, encode_lines
from goqueue.broker.tracing.selection import TraceSelection
from goqueue.errors import GoQueueError
from goqueue.limits import TRACE_READ_BYTES
from goqueue.storage.disk import Disk, File

_log = logging.getLogger("goqueue.tracing")

_DIGITS = 20
_SUFFIX = ".jsonl"


class TraceFile:
    """One file, and what is known of its records. Without the index, it was written before the broker started."""

    def __init__(self, number: int, size: int, *, is_indexed: bool) -> None:
        self.number = number
        self.size = size
        self.oldest_ns: int | None = None
        self.newest_ns: int | None = None
        self.ranges: dict[LogRef, tuple[int, int]] | None = {} if is_indexed else None
        """The smallest first offset and the largest end, by log."""

    def note(self, record: TraceRecord) -> None:
        assert self.ranges is not None, "the file is being indexed"
        ref = record.ref
        first, end = self.ranges.get(ref, (record.first, record.end))
        self.ranges[ref] = min(first, record.first), max(end, record.end)
        time_ns = record.time_ns
        self.oldest_ns = time_ns if self.oldest_ns is None else min(self.oldest_ns, time_ns)
        self.newest_ns = time_ns if self.newest_ns is None else max(self.newest_ns, time_ns)

    def may_have(self, wanted: TraceSelection) -> bool:
        """Return whether there may be records like these."""
        ranges = self.ranges
        if ranges is None or self.oldest_ns is None or self.newest_ns is None:
            return ranges is None
        if wanted.start_ns is not None and self.newest_ns < wanted.start_ns:
            return False
        if wanted.end_ns is not None and self.oldest_ns >= wanted.end_ns:
            return False
        return any(
            (wanted.topic is None or ref.topic == wanted.topic)
            and (wanted.partition is None or ref.partition == wanted.partition)
            and (wanted.offset is None or first <= wanted.offset < end)
            for ref, (first, end) in list(ranges.items())
        )


class TraceFiles:
    """The trace files of a data directory. `write` runs on one thread at a time, `read` on any."""

    def __init__(self, disk: Disk, directory: str, file_bytes: int, files_bytes: int) -> None:
        self._disk = disk
        self._directory = f"{directory}/traces"
        self._file_bytes = min(file_bytes, max(1, files_bytes // 2))
        self._files_bytes = files_bytes
        self._files: list[TraceFile] = []
        self._lock = Lock()
        """Held while files are added and removed."""
        self._active: File | None = None
        self._trouble = ""
        self.dropped = 0
        """Records that the disk has refused."""

    @property
    def size(self) -> int:
        return sum(one.size for one in self._files)

    @property
    def oldest_ns(self) -> int | None:
        """The time of the oldest record; None if it is not known."""
        first = next(iter(self._files), None)
        return None if first is None else first.oldest_ns

    def open(self) -> None:
        """Find the files of earlier runs."""
        try:
            self._disk.make_directory(self._directory)
            numbers = sorted(filter(None, (_number_in(one.name) for one in self._disk.entries(self._directory))))
            self._files = [TraceFile(one, self._size_of(one), is_indexed=False) for one in numbers]
        except GoQueueError as error:
            _log.warning("earlier traces cannot be read: %s", error)

    def _size_of(self, number: int) -> int:
        file = self._disk.open(self._path(number), "read")
        try:
            return file.size()
        finally:
            file.close()

    def _path(self, number: int) -> str:
        return f"{self._directory}/{number:0{_DIGITS}d}{_SUFFIX}"

    # --- write ---

    def write(self, records: Sequence[TraceRecord]) -> None:
        """Append records. What is refused is counted, and logged once."""
        try:
            self._write(records)
        except GoQueueError as error:
            self.dropped += len(records)
            if error.sentence != self._trouble:
                _log.warning("traces cannot be written: %s", error)
            self._trouble = error.sentence
        else:
            self._trouble = ""

    def _write(self, records: Sequence[TraceRecord]) -> None:
        if self._active is not None and self._files[-1].size >= self._file_bytes:
            self._close_active()
        if self._active is None:
            self._begin_file()
        assert self._active is not None, "a file has just begun"
        content, file = encode_lines(records), self._files[-1]
        # A part of a refused write is overwritten by the next one.
        self._active.write(file.size, [content])
        for record in records:
            file.note(record)
        file.size += len(content)
        self._remove_oldest()

    def _begin_file(self) -> None:
        number = self._files[-1].number + 1 if self._files else 1
        self._active = self._disk.open(self._path(number), "create")
        with self._lock:
            self._files.append(TraceFile(number, 0, is_indexed=True))

    def _remove_oldest(self) -> None:
        while len(self._files) > 1 and self.size > self._files_bytes:
            with self._lock:
                oldest = self._files.pop(0)
            self._disk.remove(self._path(oldest.number))

    def _close_active(self) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.close()

    def close(self) -> None:
        self._close_active()

    # --- read ---

    def read(self, selection: TraceSelection, most: int) -> list[TraceRecord]:
        """Return matching records, the newest file first."""
        found: list[TraceRecord] = []
        with self._lock:
            files = list(self._files)
        for file in reversed(files):
            if len(found) >= most:
                break
            if file.may_have(selection):
                try:
                    found += reversed(self._matching(file, selection))
                except GoQueueError as error:  # it was removed meanwhile, or cannot be read
                    _log.debug("trace file %s cannot be read: %s", self._path(file.number), error)
        return found[:most]

    def _matching(self, file: TraceFile, selection: TraceSelection) -> list[TraceRecord]:
        index = TraceFile(file.number, file.size, is_indexed=True) if file.ranges is None else None
        found: list[TraceRecord] = []
        for line in self._lines(file, None if index is not None else selection):
            record = decode_line(line)
            if record is None:
                continue
            if index is not None:
                index.note(record)
            if selection.includes(record):
                found.append(record)
        if index is not None:
            file.oldest_ns, file.newest_ns, file.ranges = index.oldest_ns, index.newest_ns, index.ranges
        return found

    def _lines(self, file: TraceFile, selection: TraceSelection | None) -> Iterator[bytes]:
        """Yield whole lines; with a selection, those that may match."""
        opened = self._disk.open(self._path(file.number), "read")
        try:
            position, rest, size = 0, b"", file.size
            while position < size:
                buffer = bytearray(min(TRACE_READ_BYTES, size - position))
                count = opened.read(position, memoryview(buffer))
                if not count:
                    return
                position += count
                content = rest + bytes(buffer[:count])
                whole, _, rest = content.rpartition(b"\n")
                yield from whole.split(b"\n") if selection is None else _likely_lines(whole, selection)
        finally:
            opened.close()


def _likely_lines(content: bytes, selection: TraceSelection) -> Iterator[bytes]:
    """Yield the lines of a topic, partition and offset. Decoding all others would take several times longer."""
    if selection.topic is None:
        yield from content.split(b"\n")
        return
    partition = r"\d+" if selection.partition is None else selection.partition
    fields = rf'"topic":"{re.escape(selection.topic)}","partition":{partition},"first":(\d+),"end":(\d+)'
    offset = selection.offset
    for found in re.finditer(fields.encode(), content):
        if offset is None or int(found[1]) <= offset < int(found[2]):
            end = content.find(b"\n", found.end())
            yield content[content.rfind(b"\n", 0, found.start()) + 1 : end if end >= 0 else len(content)]


def _number_in(name: str) -> int | None:
    """Return the number in the name of a trace file."""
    digits = name.removesuffix(_SUFFIX)
    is_ours = name.endswith(_SUFFIX) and len(digits) == _DIGITS and digits.isascii() and digits.isdecimal()
    return int(digits) if is_ours else None
