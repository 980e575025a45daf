"""Verifying a backup: every hash, every frame, and the order of offsets are read again."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from goqueue.backup.manifest import LogEntry, Manifest, SegmentEntry, decode_manifest
from goqueue.backup.piece_reader import load_piece, read_ahead
from goqueue.backup.pieces import MemoryFile
from goqueue.backup.target import BackupTarget
from goqueue.backup.target_storage import Content
from goqueue.errors import BackupDamaged, BackupKeyMismatch, BackupNotFound, GoQueueError
from goqueue.storage.layout import check_name, decode_checkpoint, encode_checkpoint
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment

PROBLEMS_MAX = 100
"""Problems that are told one by one."""
SENTENCES_KEPT = 20
"""Of these, how many are kept beside the backups."""
OBJECTS_KEPT = 10_000
"""Names of damaged objects that are kept beside the backups."""


class VerificationProblem(msgspec.Struct, frozen=True):
    """One problem, and what it belongs to; the log is empty where it is the backup as a whole."""

    log: str
    base_offset: int | None
    sentence: str

    def __str__(self) -> str:
        place = self.log if self.base_offset is None else f"{self.log}, segment {self.base_offset}"
        return f"{place}: {self.sentence}" if place else self.sentence


@dataclass(slots=True)
class Verification:
    """The progress of a verification, and its findings."""

    backup: str
    bytes_total: int = 0
    bytes_done: int = 0
    frames: int = 0
    problem_count: int = 0
    problems: list[VerificationProblem] = field(default_factory=list)
    objects: set[str] = field(default_factory=set)
    """The objects that are damaged or missing."""

    def note_piece(self, log: str, base_offset: int | None, error: BackupDamaged, what: str = "") -> None:
        """Note a piece that could not be read."""
        self.note(VerificationProblem(log, base_offset, what + error.sentence))
        if "object" in error.details and len(self.objects) < OBJECTS_KEPT:
            self.objects.add(str(error.details["object"]))

    def note(self, problem: VerificationProblem) -> None:
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    @property
    def is_sound(self) -> bool:
        return not self.problem_count


def load_manifest(target: BackupTarget, name: str) -> Manifest:
    """Raises BackupNotFound, BackupDamaged, BackupKeyMismatch."""
    return decode_manifest(target.get_manifest(name), name)


def readable_manifests(target: BackupTarget, names: Iterable[str]) -> Iterator[Manifest]:
    """Yield the manifests that can be read, without those that are deleted meanwhile.

    Raises BackupKeyMismatch if none can, for want of a key.
    """
    mismatch: BackupKeyMismatch | None = None
    found = False
    for name in names:
        try:
            manifest = load_manifest(target, name)
        except (BackupDamaged, BackupNotFound):
            continue
        except BackupKeyMismatch as error:
            mismatch = mismatch or error
            continue
        found = True
        yield manifest
    if mismatch is not None and not found:
        raise mismatch


def verify_backup(
    target: BackupTarget,
    name: str,
    report: Verification | None = None,
    pace: Callable[[int], None] = lambda _: None,
) -> Verification:
    """Read everything of a backup again, in order. `pace` is called with the bytes that were read.

    Raises BackupNotFound, BackupKeyMismatch.
    """
    report = report or Verification(name)
    try:
        target.check_whole()
        manifest = load_manifest(target, name)
    except BackupDamaged as error:
        report.note(VerificationProblem("", None, error.sentence))
        return report
    report.bytes_total = manifest.size
    for log in manifest.logs:
        _check_log(target, log, report, pace)
    return report


def _check_log(target: BackupTarget, log: LogEntry, report: Verification, pace: Callable[[int], None]) -> None:
    try:
        check_name(log.name)
    except GoQueueError as error:
        report.note(VerificationProblem(log.name, None, error.sentence))
    damaged = {one.base_offset for one in log.damages}
    for segment in log.segments:
        offset = segment.base_offset
        for piece, coming in zip(segment.pieces, read_ahead(target, segment.pieces), strict=True):
            try:
                content = coming.result()
            except BackupDamaged as error:
                report.note_piece(log.name, segment.base_offset, error)
            else:
                if segment.base_offset not in damaged:
                    frames, offset, problem = _check_frames(segment, content, offset)
                    report.frames += frames
                    if problem:
                        report.note(VerificationProblem(log.name, segment.base_offset, problem))
            pace(piece.size)
            report.bytes_done += piece.size
    for note, piece in log.notes.items():
        try:
            load_piece(target, piece)
        except BackupDamaged as error:
            report.note_piece(log.name, None, error, f"note {note}: ")


def _check_frames(segment: SegmentEntry, content: Content, offset: int) -> tuple[int, int, str]:
    """Return how many frames there are, the offset behind the last one, and what is wrong with them."""
    count = 0
    for found in scan_segment(MemoryFile(content), ScanRange(0, len(content), offset, segment.next_offset)):
        if isinstance(found, Damage):
            return count, offset, f"the frame at offset {found.first_offset} is damaged: {found.reason}"
        count += len(found)
        offset = found.last_offset + 1
    return count, offset, ""


class VerificationNote(msgspec.Struct, frozen=True):
    """The result of a verification, kept beside the backups."""

    verified_ns: int
    problems: int
    sentences: tuple[str, ...] = ()
    """Some of the problems."""
    objects: tuple[str, ...] = ()
    """The objects that are damaged or missing."""


def store_verification(target: BackupTarget, report: Verification, now_ns: int) -> VerificationNote:
    sentences = tuple(map(str, report.problems[:SENTENCES_KEPT]))
    note = VerificationNote(now_ns, report.problem_count, sentences, tuple(sorted(report.objects)))
    target.put_verification(report.backup, encode_checkpoint(msgspec.to_builtins(note)))
    return note


def load_verification(target: BackupTarget, name: str) -> VerificationNote | None:
    """Return the result of the last verification; None without one that can be read."""
    content = target.get_verification(name)
    facts = None if content is None else decode_checkpoint(content)
    try:
        return None if facts is None else msgspec.convert(facts, VerificationNote)
    except msgspec.ValidationError:
        return None


def damaged_objects(target: BackupTarget, since_ns: int) -> frozenset[str]:
    """Return the objects that verifications have found damaged since a time."""
    notes = [load_verification(target, name) for name in target.verified_ids()]
    recent = [note for note in notes if note is not None and note.verified_ns >= since_ns]
    return frozenset(name for note in recent for name in note.objects)
