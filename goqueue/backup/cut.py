"""The cut: where each log ends in a backup, decided for all logs in one turn of their owner.

What is acknowledged was stored before, and a record about a message is appended after the message was stored. So the
stored parts of all logs at one moment are a state that a crash at that moment could have left: positions of groups
never point beyond their messages, open transactions are open, and a start knows what to do.

Bytes below the cut must stay until they are copied, whatever retention, compaction and deletions do meanwhile. So each
segment gets a second name in `{data}/cut`, which takes neither time nor space; the caller makes sure that nothing
removes or replaces segments until that is done.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

from goqueue.storage.disk import Disk, remove_files
from goqueue.storage.log import Log
from goqueue.storage.raw_reads import visible_segments
from goqueue.storage.store import Store

KEPT_NOTES = ("compacted", "epochs", "producers")
"""The notes beside a log that do not follow from it: compaction and retention remove what they were made of."""


@dataclass(frozen=True, slots=True)
class SegmentCut:
    """The part of a segment that belongs to a backup."""

    base_offset: int
    next_offset: int
    size: int
    is_sealed: bool


@dataclass(frozen=True, slots=True)
class LogCut:
    name: str
    segments: tuple[SegmentCut, ...]
    """The oldest first; there is always one, and it may be empty."""

    @property
    def next_offset(self) -> int:
        return self.segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(one.size for one in self.segments)


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The end of every log at one moment."""

    time_ns: int
    logs: tuple[LogCut, ...]
    unavailable: dict[str, str]
    """Logs that the broker could not open, and why."""

    @property
    def size(self) -> int:
        return sum(one.size for one in self.logs)


def take_cut(store: Store, disk: Disk, directory: str, now_ns: int) -> Generator[Callable[[], Any], Any, Cut]:
    """Decide the cut and link its files into a directory: a rule that yields the job of linking.

    Nothing may run on any log meanwhile. Deletions wait for the end.
    """
    logs = [store.logs[name] for name in sorted(store.logs)]
    unavailable = {name: error.sentence for name, error in store.unopened.items()}
    cut = Cut(now_ns, tuple(map(_cut_log, logs)), unavailable)
    for log in logs:
        log.begin_job(cut)
    try:
        yield partial(_link_files, disk, f"{store.path}/logs", directory, cut)
    finally:
        for log in logs:
            log.job = None
    return cut


def _cut_log(log: Log) -> LogCut:
    segments = visible_segments(log)
    bounds = [log.bounds(number) for number in range(len(segments))]
    last = len(segments) - 1
    return LogCut(
        log.name,
        tuple(
            SegmentCut(segment.base_offset, next_offset, size, number < last)
            for number, (segment, (size, next_offset)) in enumerate(zip(segments, bounds, strict=True))
        ),
    )


def _link_files(disk: Disk, root: str, directory: str, cut: Cut) -> None:
    remove_cut(disk, directory)
    disk.make_directory(directory)
    for number, log in enumerate(cut.logs):
        names = {entry.name for entry in disk.entries(f"{root}/{log.name}")}
        for segment in log.segments:
            if segment.size:
                disk.link(
                    f"{root}/{log.name}/{segment.base_offset:020d}.log", linked_segment(directory, number, segment)
                )
        for note in KEPT_NOTES:
            if note in names:
                disk.link(f"{root}/{log.name}/{note}", linked_note(directory, number, note))


def linked_segment(directory: str, number: int, segment: SegmentCut) -> str:
    """The second name of a segment of the log with this number in the cut."""
    return f"{directory}/{number}-{segment.base_offset:020d}.log"


def linked_note(directory: str, number: int, note: str) -> str:
    return f"{directory}/{number}-{note}"


def remove_cut(disk: Disk, directory: str) -> None:
    """Remove the second names of files, and their directory."""
    if disk.kind(directory) == "directory":
        remove_files(disk, *(f"{directory}/{entry.name}" for entry in disk.entries(directory)))
        disk.remove_directory(directory)
