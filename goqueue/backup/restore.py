"""Restoring a backup into an empty data directory: the same bytes at the same offsets.

Nothing else is written: indexes and the like are caches, which the first start makes anew. The directory becomes one of
a broker in the last step. Until then its `FORMAT` says that it is being restored, so no broker opens it; when a restore
is repeated, it continues with what is there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from goqueue.backup.manifest import LogEntry, Manifest, Piece, SegmentEntry
from goqueue.backup.piece_reader import Progress, load_piece, load_pieces
from goqueue.backup.pieces import piece_of
from goqueue.backup.restore_point import PointInTime
from goqueue.backup.target import BackupTarget
from goqueue.backup.target_storage import Content
from goqueue.errors import BackupDamaged, DataDirectoryInUse, RestoreImpossible
from goqueue.quantities import format_size
from goqueue.storage.disk import Disk, file_size, read_all, remove_files, replace_file
from goqueue.storage.layout import FORMAT_VERSION, RESTORING, check_name

RESTORING_DIRECTORY = "restoring"
"""Where a broker writes the logs of a topic that it restores, in its data directory."""


class WriteLog(Protocol):
    """Writes the files of a log, whole or up to its end in a restore."""

    def __call__(
        self, disk: Disk, target: BackupTarget, directory: str, log: LogEntry, progress: Progress, /
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The steps of a restore, before anything is changed."""

    manifest: Manifest
    path: str
    is_continued: bool
    """Whether a restore of the same backup was interrupted there."""
    bytes: int
    segments: int
    point: PointInTime | None = None
    """Where logs end that do not end where the backup does."""


def plan_restore(disk: Disk, manifest: Manifest, path: str, point: PointInTime | None = None) -> RestorePlan:
    """Raise RestoreImpossible unless a backup can be restored to a path. Changes nothing."""
    for log in manifest.logs:
        check_name(log.name)
    continued = _refuse_used(disk, _marker(manifest, point), path)
    segments = sum(len(log.segments) for log in manifest.logs)
    plan = RestorePlan(manifest, path, continued, manifest.size, segments, point)
    place = path
    while disk.kind(place) == "absent":
        place = place.rstrip("/").rpartition("/")[0] or ("/" if place.startswith("/") else ".")
    free = disk.space(place).free_bytes
    if not continued and free < plan.bytes:
        raise RestoreImpossible(
            f"{path} has {format_size(free)} of free space, and the backup needs {format_size(plan.bytes)}",
            hint="free some space, or name a directory on another device",
        )
    return plan


def _refuse_used(disk: Disk, expected: bytes, path: str) -> bool:
    """Return whether the same restore was interrupted there; refuse any other content."""
    kind, hint = disk.kind(path), "name a directory that does not exist or is empty"
    if kind == "absent":
        return False
    if kind != "directory":
        raise RestoreImpossible(f"{path} is not a directory", hint=hint)
    names = {entry.name for entry in disk.entries(path)} - {"lost+found"}
    if not names or names == {"FORMAT.tmp"}:
        return False
    marker = read_all(disk, f"{path}/FORMAT") if "FORMAT" in names else b""
    if marker == expected:
        return True
    if marker.startswith(RESTORING):
        other = marker.removeprefix(RESTORING).decode("ascii", "replace").strip()
        raise RestoreImpossible(
            f"another restore was interrupted in {path}: of backup {other}",
            hint=f"repeat that one with the same options, remove {path}, or {hint}",
        )
    raise RestoreImpossible(f"{path} is not empty: it holds {', '.join(sorted(names)[:3])}", hint=hint)


def _marker(manifest: Manifest, point: PointInTime | None) -> bytes:
    name = manifest.id if point is None else f"{manifest.id} cut {point.name}"
    return RESTORING + name.encode() + b"\n"


def restore_backup(
    disk: Disk,
    target: BackupTarget,
    plan: RestorePlan,
    owner: str,
    progress: Progress = lambda _: None,
    write_log: WriteLog | None = None,
) -> None:
    """Carry out a plan. `owner` names this process to others that want the directory.

    `write_log` is that of a plan with a point in time.
    """
    write_log = write_log or restore_log
    path, manifest, marker = plan.path, plan.manifest, _marker(plan.manifest, plan.point)
    disk.make_directory(path)
    if _refuse_used(disk, marker, path) is False:
        replace_file(disk, f"{path}/FORMAT", marker)
    lock = disk.lock(f"{path}/lock", owner)
    try:
        if read_all(disk, f"{path}/FORMAT") != marker:
            raise DataDirectoryInUse(f"{path} was restored by another process meanwhile")
        disk.make_directory(f"{path}/logs")
        for log in manifest.logs:
            try:
                write_log(disk, target, f"{path}/logs/{log.name}", log, progress)
            except BackupDamaged as error:
                raise _unusable(error, target, log, path) from None
        replace_file(disk, f"{path}/FORMAT", f"goqueue {FORMAT_VERSION}\n".encode())
    finally:
        lock.release()


def _unusable(error: BackupDamaged, target: BackupTarget, log: LogEntry, path: str) -> BackupDamaged:
    """Return an error that also says which log it is about, and how to go on."""
    hint = (
        f"another backup may be sound: `goqueue backup list --from {target}` shows all, `goqueue backup verify ID "
        f"--from {target}` reads one; remove {path} before you restore another"
    )
    return BackupDamaged(f"log {log.name} cannot be restored: {error.sentence}", hint=hint, **error.details)


def restore_log(
    disk: Disk, target: BackupTarget, directory: str, log: LogEntry, progress: Progress = lambda _: None
) -> None:
    """Write the files of a log that are not there yet."""
    disk.make_directory(directory)
    for segment in log.segments:
        path = f"{directory}/{segment.base_offset:020d}.log"
        if not _is_restored(disk, path, segment):
            write_file(disk, path, load_pieces(target, segment.pieces, progress))
        else:
            progress(segment.size)
    for note, piece in log.notes.items():
        write_note(disk, target, f"{directory}/{note}", piece)
    disk.sync_directory(directory)


def _is_restored(disk: Disk, path: str, segment: SegmentEntry) -> bool:
    """Return whether an interrupted restore has left the whole segment."""
    if disk.kind(path) != "file" or file_size(disk, path) != segment.size:
        return False
    file, position = disk.open(path, "read"), 0
    try:
        for piece in segment.pieces:
            content = bytearray(piece.size)
            file.read(position, memoryview(content))
            if piece_of(content).sha256 != piece.sha256:
                return False
            position += piece.size
    finally:
        file.close()
    return True


def write_file(disk: Disk, path: str, contents: Iterable[Content]) -> None:
    """Write a file in one step; its name is synced with the directory."""
    temporary = f"{path}.tmp"
    remove_files(disk, temporary)
    file, position = disk.open(temporary, "create"), 0
    try:
        for content in contents:
            file.write(position, [content])
            position += len(content)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)


def write_note(disk: Disk, target: BackupTarget, path: str, piece: Piece) -> None:
    write_file(disk, path, (load_piece(target, piece),))


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a directory with everything in it, if it is there."""
    if disk.kind(path) == "directory":
        for entry in disk.entries(path):
            if entry.kind == "directory":
                remove_tree(disk, f"{path}/{entry.name}")
            else:
                disk.remove(f"{path}/{entry.name}")
        disk.remove_directory(path)
