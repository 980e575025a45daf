"""The engine of `goqueue fsck`: checks that the files on disk are as they should be.

Reads every frame of every segment, and changes nothing unless `repair_log` is called. Nothing may have
the data directory open meanwhile: the caller holds its lock.

Three kinds of findings. Damage means that messages are lost, unreadable or wrongly taken for aborted. A cache
that is missing or wrong costs time and nothing else: a loss of power may leave any bytes in it, and it follows
from the log. The rest is what any crash may leave behind, and the next start would put right by itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from goqueue.errors import GoQueueError
from goqueue.limits import LOST_LOG_OFFSETS_SKIPPED, OFFSET_MAX
from goqueue.storage.compaction_progress import load_progress
from goqueue.storage.disk import DirectoryEntry, Disk, File, read_all, remove_files
from goqueue.storage.epoch_check import EpochFault, SegmentEpochCheck, find_epoch_faults
from goqueue.storage.index import MARK_BYTES, PAIR_BYTES, Index, read_mark
from goqueue.storage.layout import LOG_CHECKPOINTS
from goqueue.storage.leader_epochs import NOTE, EpochNote
from goqueue.storage.recovery import end_of_lost_segments, find_segments, recover
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment, SegmentReader, base_offset_of, load_index, write_index
from goqueue.storage.segment_copies import find_restorable, has_copies, is_equal, lost_segments
from goqueue.storage.segment_scan import Damage, ScanRange, is_torn, scan_segment
from goqueue.storage.swap import is_temporary_file
from goqueue.storage.transaction_check import SegmentTransactionCheck, TransactionFault, find_transaction_faults

_CACHES = ("index", "timeindex", "lanes", "aborted")
_COMPANIONS = (*_CACHES, "copy")
GAPS_MAX = 100  # named one by one in a segment; a report of all gaps of a ruined log is of no use

DamageCode = Literal[
    "range_damaged",
    "messages_missing",
    "log_missing",
    "file_unusable",
    "order_broken",
    "aborted_wrong",
    "marker_wrong",
    "epoch_wrong",
    "topic_unrecorded",
]
DAMAGE = frozenset[str](get_args(DamageCode))
"""What the disk or a person did; everything else may be left by a crash."""
CacheCode = Literal["index_wrong", "index_missing"]
"""What can be made again from the log and changes no answer."""
FsckCode = Literal[DamageCode, CacheCode, "tail_torn", "left_over", "file_foreign", "range_healable", "copy_differs"]


@dataclass(frozen=True, slots=True)
class FsckFinding:
    """One deviation from what should be on disk."""

    code: FsckCode
    path: str
    sentence: str
    position: int | None = None
    end: int | None = None
    first_offset: int | None = None
    next_offset: int | None = None
    repair: str | None = None
    """What `repair_log` would do about it, if it can do anything."""

    @property
    def is_damage(self) -> bool:
        return self.code in DAMAGE

    @property
    def is_cache(self) -> bool:
        return self.code in get_args(CacheCode)


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """The known end of a log: exact from a clean stop, older from the catalog."""

    next_offset: int
    is_exact: bool

    @property
    def next_unused_offset(self) -> int:
        """No offset from here on was ever given out."""
        return self.next_offset if self.is_exact else self.next_offset + LOST_LOG_OFFSETS_SKIPPED


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """One segment to check, with what the names of its neighbours say about it."""

    log: str
    segment: Segment
    ceiling: int | None
    """The base offset of the next segment; None for the active one."""
    gaps_below: int
    """Offsets may be missing below this one: compaction removed them."""
    has_copy: bool = False


@dataclass(slots=True)
class SegmentReport:
    """The content and the findings of one segment."""

    task: SegmentTask
    messages: int = 0
    next_offset: int = 0
    first_time: int | None = None
    last_time: int | None = None
    findings: list[FsckFinding] = field(default_factory=list)
    account: SegmentTransactionCheck = field(init=False)
    """Of its transactions."""
    epochs: SegmentEpochCheck = field(init=False)

    def __post_init__(self) -> None:
        self.account = SegmentTransactionCheck(self.task.segment)
        self.epochs = SegmentEpochCheck(self.task.segment)


@dataclass(slots=True)
class LogReport:
    """The content and the findings of one log."""

    name: str
    segments: int
    messages: int
    size: int
    first_offset: int
    next_offset: int
    first_time: int | None
    last_time: int | None
    findings: list[FsckFinding]


def plan_check(disk: Disk, name: str, directory: str) -> tuple[list[SegmentTask], list[FsckFinding]]:
    """The segments of a log, to be checked in any order; and what its directory should not hold."""
    entries = disk.entries(directory) if disk.kind(directory) == "directory" else []
    segments = find_segments(directory, entries)
    gaps_below = load_progress(disk, directory).gaps
    restorable = lost_segments(directory, entries)
    bases = sorted(segment.base_offset for segment in (*segments, *restorable))
    ceilings = dict[int, int | None](pairwise(bases)) | dict.fromkeys(bases[-1:])
    has_copy = has_copies(entries)
    tasks = [SegmentTask(name, one, ceilings[one.base_offset], gaps_below, has_copy) for one in segments]
    findings = [_stranger(directory, entry) for entry in entries if not _belongs(entry, [*segments, *restorable])]
    findings += [_healable(one.path, "missing; its copy is there") for one in restorable]
    lost = end_of_lost_segments(disk, segments, entries)
    if lost and not restorable:
        sentence = f"a segment behind offset {segments[-1].base_offset} is gone; it went up to offset {lost - 1}"
        findings.append(FsckFinding("messages_missing", directory, sentence, next_offset=lost))
    return tasks, findings


def _belongs(entry: DirectoryEntry, segments: list[Segment]) -> bool:
    name = entry.name
    if entry.kind == "directory":  # of another log, below this one
        return base_offset_of(name, "log") is None
    stem, _, kind = name.partition(".")
    is_ours = any(base_offset_of(f"{stem}.log", "log") == segment.base_offset for segment in segments)
    is_cut = kind.endswith(".cut") and kind.removesuffix(".cut").isdecimal()
    return name in LOG_CHECKPOINTS or (is_ours and (kind in ("log", *_COMPANIONS) or is_cut))


def _healable(path: str, sentence: str, damage: Damage | None = None) -> FsckFinding:
    repair = "write it back from the copy"
    if damage is None:
        return FsckFinding("range_healable", path, sentence, repair=repair)
    place = damage.position, damage.end, damage.first_offset, damage.next_offset
    return FsckFinding("range_healable", path, sentence, *place, repair)


def _stranger(directory: str, entry: DirectoryEntry) -> FsckFinding:
    path = f"{directory}/{entry.name}"
    if entry.kind != "file" and base_offset_of(entry.name, "log") is not None:
        return FsckFinding("file_unusable", path, "not a file, and stands where a segment should")
    if is_temporary_file(entry.name):
        return FsckFinding("left_over", path, "left by an interrupted change", repair="finish or undo that change")
    if any(base_offset_of(entry.name, kind) is not None for kind in _COMPANIONS):
        return FsckFinding("left_over", path, "stands without its log", repair="remove it")
    return FsckFinding("file_foreign", path, "not a file of GoQueue; it is left alone")


def check_segment(disk: Disk, task: SegmentTask, progress: Callable[[int], None] = lambda _: None) -> SegmentReport:
    """Verify every frame, their order, and that the index is what the log makes of it."""
    report = SegmentReport(task, next_offset=task.segment.base_offset)
    try:
        _check(disk, report, progress)
    except GoQueueError as error:
        path = error.details.get("path", task.segment.path)
        report.findings.append(FsckFinding("file_unusable", path, error.sentence))
        report.next_offset = max(report.next_offset, task.ceiling or 0)
    return report


def _check(disk: Disk, report: SegmentReport, progress: Callable[[int], None]) -> None:
    task, segment = report.task, report.task.segment
    stored = load_index(disk, segment)
    if stored is None and disk.kind(segment.index_path) == "file":
        stored = Index()
    rebuilt = Index()
    ceiling, position = _ceiling(task, stored), 0
    restorable = find_restorable(disk, segment, task.ceiling) if task.has_copy else []
    file = disk.open(segment.path, "read")
    for piece in scan_segment(file, ScanRange(0, segment.size, segment.base_offset, ceiling), stored):
        end = piece.end if isinstance(piece, Damage) else piece.origin + piece.end
        progress(end - position)
        position = end
        if not isinstance(piece, Damage):
            rebuilt.note_frames(piece)
            _count(report, piece)
            report.account.note(piece)
            report.epochs.note(piece)
        elif _can_restore(restorable, piece):
            report.next_offset = max(report.next_offset, piece.next_offset)
        elif _is_cut_by_a_start(file, task, piece, stored):
            report.findings.append(_torn(segment, piece))
            break
        else:
            report.findings.append(_damaged(segment, piece))
            report.next_offset = max(report.next_offset, piece.next_offset)
    if task.has_copy:
        _check_copy(disk, report, restorable)
    _check_end(report, stored)
    if not restorable and not any(finding.code == "range_damaged" for finding in report.findings):
        _check_index(disk, report, rebuilt)
        report.epochs.compare(disk, report.next_offset)
        if task.ceiling is not None:
            report.account.compare(disk, task.ceiling)


def _can_restore(restorable: list[Damage], piece: Damage) -> bool:
    """Return whether a copy has everything that is damaged here."""
    within = [one for one in restorable if piece.position <= one.position and one.end <= piece.end]
    return sum(one.size for one in within) == piece.size


def _check_copy(disk: Disk, report: SegmentReport, restorable: list[Damage]) -> None:
    """Check that the copy can restore the log's damage, or equals the log."""
    segment = report.task.segment
    for one in restorable:
        place = f"bytes {one.position} to {one.end}, {format_offsets(one.first_offset, one.next_offset)}"
        report.findings.append(_healable(segment.path, f"{place}: {one.reason}; the copy is sound", one))
        report.next_offset = max(report.next_offset, one.next_offset)
    is_there = disk.kind(segment.copy_path) == "file"
    if not restorable and not (is_there and is_equal(disk, segment)):
        sentence = "not the same as its log, as after a crash" if is_there else "missing"
        report.findings.append(
            FsckFinding("copy_differs", segment.copy_path, sentence, repair="make it anew from the log")
        )


def _ceiling(task: SegmentTask, stored: Index | None) -> int:
    """The first offset that it cannot hold: the base of the next, or what the mark says that vouches for all of it."""
    if task.ceiling is not None:
        return task.ceiling
    marked = stored.marked if stored is not None else None
    return marked[0] if marked is not None and marked[1] >= task.segment.size else OFFSET_MAX


def _is_cut_by_a_start(file: File, task: SegmentTask, damage: Damage, stored: Index | None) -> bool:
    """Return whether this is a torn write at the end of the active segment, beyond the synced mark."""
    if task.ceiling is not None:
        return False
    size, vouched_end = task.segment.size, stored.marked[1] if stored is not None and stored.marked else 0
    may_be_cut = stored is not None or damage.end == size
    return may_be_cut and damage.position >= vouched_end and is_torn(file, [damage], size)


def _count(report: SegmentReport, frames: Frames) -> None:
    offsets = frames.offsets
    report.messages += len(frames.record_positions())
    if report.first_time is None:
        report.first_time = int(frames.timestamps[0])
    report.last_time = frames.last_timestamp
    steps = np.diff(offsets, prepend=report.next_offset - 1)
    for number in np.flatnonzero(steps > 1).tolist()[:GAPS_MAX]:
        first, after = int(offsets[number] - steps[number]) + 1, int(offsets[number])
        if after > report.task.gaps_below:
            report.findings.append(_missing(report.task.segment.path, first, after))
    report.next_offset = int(offsets[-1]) + 1


def _check_end(report: SegmentReport, stored: Index | None) -> None:
    """A segment ends where the next begins, and not before what had been synced."""
    task = report.task
    synced = stored.marked[0] if stored is not None and stored.marked else 0
    end = task.ceiling if task.ceiling is not None else synced
    if report.next_offset < end and end > task.gaps_below:
        report.findings.append(_missing(task.segment.path, report.next_offset, end))
        report.next_offset = end


def _check_index(disk: Disk, report: SegmentReport, rebuilt: Index) -> None:
    segment = report.task.segment
    if not segment.size:
        return
    missing = [path for path in segment.index_paths if disk.kind(path) == "absent"]
    if missing:
        report.findings.append(
            _broken_index("index_missing", missing[0], "missing; readers have to survey the segment")
        )
        return
    content, times = (read_all(disk, path) for path in segment.index_paths)
    entries, is_marked = (content[:-MARK_BYTES], True) if read_mark(content) else (content, False)
    if report.task.ceiling is not None and not is_marked:
        report.findings.append(_broken_index("index_wrong", segment.index_path, "does not end with a mark"))
        return
    for path, found, wanted in (
        (segment.index_path, entries, rebuilt.dump()),
        (segment.timeindex_path, times, rebuilt.dump_times()),
    ):
        if found == wanted:
            continue
        # A crash before the sync, or after it, leaves the index of the active segment behind.
        if report.task.ceiling is None and wanted.startswith(found[: len(found) // PAIR_BYTES * PAIR_BYTES]):
            sentence = f"ends {len(wanted) - len(found)} bytes early, as after a crash"
            report.findings.append(_broken_index("index_missing", path, sentence))
        else:
            report.findings.append(_broken_index("index_wrong", path, "does not say what the log says"))


def _broken_index(code: CacheCode, path: str, sentence: str) -> FsckFinding:
    return FsckFinding(code, path, sentence, repair="rebuild it from the log")


def _damaged(segment: Segment, damage: Damage) -> FsckFinding:
    position, end, first, after = damage.position, damage.end, damage.first_offset, damage.next_offset
    sentence = f"bytes {position} to {end}, {format_offsets(first, after)}: {damage.reason}"
    return FsckFinding("range_damaged", segment.path, sentence, position, end, first, after)


def format_offsets(first: int, after: int) -> str:
    if after <= first:
        return "no offset"
    return f"offset {first}" if after == first + 1 else f"offsets {first} to {after - 1}"


def _torn(segment: Segment, damage: Damage) -> FsckFinding:
    sentence = f"the last {segment.size - damage.position} bytes are a write that was never answered: {damage.reason}"
    repair = f"cut the file at byte {damage.position}"
    return FsckFinding("tail_torn", segment.path, sentence, damage.position, segment.size, repair=repair)


def _missing(path: str, first: int, after: int) -> FsckFinding:
    sentence = f"{format_offsets(first, after)} missing behind this"
    return FsckFinding("messages_missing", path, sentence, first_offset=first, next_offset=after)


def summarize_log(
    name: str, directory: str, reports: list[SegmentReport], findings: list[FsckFinding], known: KnownEnd | None
) -> LogReport:
    """Put the reports of a log's segments together, in their order, and compare with the end that is known of it."""
    found = list(findings)
    end = reports[-1].next_offset if reports else 0
    is_healable = any(finding.code == "range_healable" for finding in findings)
    if known is not None and not reports and not is_healable:
        found += _log_missing(directory, known)
    elif known is not None and end < known.next_offset and not is_healable:
        found.append(_missing(directory, end, known.next_offset))
    last_time = 0
    for report in reports:
        if report.first_time is not None and report.last_time is not None:
            if report.first_time < last_time:
                sentence = "begins with an earlier time than the segment before ends with"
                found.append(FsckFinding("order_broken", report.task.segment.path, sentence))
            last_time = report.last_time
        found += report.findings
    is_whole = not any(finding.is_damage for finding in found)
    faults = find_transaction_faults([report.account for report in reports], is_whole=is_whole)
    found += [_disagreement(fault) for fault in faults]
    found += [_wrong_epoch(fault) for fault in find_epoch_faults([report.epochs for report in reports])]
    first_times = [report.first_time for report in reports if report.first_time is not None]
    return LogReport(
        name=name,
        segments=len(reports),
        messages=sum(report.messages for report in reports),
        size=sum(report.task.segment.size for report in reports),
        first_offset=reports[0].task.segment.base_offset if reports else 0,
        next_offset=reports[-1].next_offset if reports else 0,
        first_time=first_times[0] if first_times else None,
        last_time=last_time or None,
        findings=found,
    )


def _log_missing(directory: str, known: KnownEnd) -> Iterator[FsckFinding]:
    """One that a clean stop left empty is made anew by the next start."""
    if known.is_exact and not known.next_offset:
        return
    further = "" if known.is_exact else ", or further"
    sentence = f"the log is gone; it went up to offset {known.next_offset}{further}"
    repair = f"make an empty log that goes on at offset {known.next_unused_offset}"
    yield FsckFinding(
        "log_missing", directory, sentence, first_offset=0, next_offset=known.next_unused_offset, repair=repair
    )


def _disagreement(fault: TransactionFault) -> FsckFinding:
    if not fault.is_cache:
        return FsckFinding("marker_wrong", fault.path, fault.sentence)
    code: FsckCode = "aborted_wrong" if fault.is_wrong else "index_missing"
    return FsckFinding(code, fault.path, fault.sentence, repair="remove it")


def _wrong_epoch(fault: EpochFault) -> FsckFinding:
    return FsckFinding("epoch_wrong", fault.path, fault.sentence, repair="empty it" if fault.is_note else None)


def repair_log(disk: Disk, directory: str, report: LogReport) -> None:
    """Rebuild caches, cut a torn tail, finish or undo an interrupted change. Damage stays as it is.

    In the place of a log that is gone, make an empty one behind the offsets that were given out.
    """
    for finding in report.findings:
        if finding.code == "log_missing" and finding.next_offset is not None:
            disk.make_directory(directory)
            disk.open(Segment(directory, finding.next_offset).path, "create").close()
    broken = {finding.path for finding in report.findings if finding.is_cache or finding.code == "aborted_wrong"}
    tasks, _ = plan_check(disk, report.name, directory)
    for task in tasks:
        remove_files(disk, *broken & {task.segment.aborted_path})
        if broken.isdisjoint(task.segment.paths):
            continue
        remove_files(disk, *task.segment.caches)
        if task.ceiling is not None:
            index = SegmentReader(disk, task.segment).examine(task.segment.size, task.ceiling)
            index.marked = (task.ceiling, task.segment.size)
            write_index(disk, task.segment, index)
    recover(disk, directory)
    if f"{directory}/{NOTE}" in {finding.path for finding in report.findings if finding.code == "epoch_wrong"}:
        EpochNote(directory).store(disk)  # not removed: retention looks for epochs where there is a note
    for finding in report.findings:
        if finding.code == "left_over" and disk.kind(finding.path) == "file":
            disk.remove(finding.path)
    disk.sync_directory(directory)
