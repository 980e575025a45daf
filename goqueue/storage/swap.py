"""Replacing neighbouring segments by one, so that a crash leaves the old or the new, never a mixture.

    1. the new content is written to `{base}.cleaned` and synced, with its name;
    2. `{base}.swap` names the segments that it replaces; writing that file is the decision;
    3. their indexes go, `.cleaned` takes the name of the first, the other logs go;
    4. `{base}.swap` goes.

Recovery repeats from step 3 where a `.swap` stands, and removes a `.cleaned` without a
decision. Each step may be repeated.
"""

from goqueue.errors import PathInvalid
from goqueue.storage.disk import DirectoryEntry, Disk, read_all, remove_files
from goqueue.storage.layout import LOG_CHECKPOINTS, decode_checkpoint, write_checkpoint
from goqueue.storage.segment import Segment, base_offset_of


def commit_swap(disk: Disk, directory: str, base_offset: int, replaced: list[int]) -> None:
    """Step 2, for a `.cleaned` whose content is on the device.

    A decision for a file whose name is lost would take the messages with it, so that name comes first.
    """
    disk.sync_directory(directory)
    write_checkpoint(disk, _path(directory, base_offset, "swap"), replaces=replaced)


def is_swap_committed(disk: Disk, directory: str, base_offset: int) -> bool:
    return disk.kind(_path(directory, base_offset, "swap")) != "absent"


def cleaned_path(directory: str, base_offset: int) -> str:
    return _path(directory, base_offset, "cleaned")


def finish_swap(disk: Disk, directory: str, entries: list[DirectoryEntry]) -> bool:
    """Finish or undo what a crash interrupted; True if there was anything."""
    changed = False
    for entry in entries:
        base = base_offset_of(entry.name, "swap")
        replaced = _replaced(disk, f"{directory}/{entry.name}", base) if base is not None else None
        if base is not None and replaced is not None:
            apply_swap(disk, directory, base, replaced)
            changed = True
    for entry in disk.entries(directory) if changed else entries:
        base = base_offset_of(entry.name, "cleaned")
        if base is not None or _is_temporary(entry.name):
            disk.remove(f"{directory}/{entry.name}")
            changed = True
    return changed


def committed_swaps(disk: Disk, directory: str, entries: list[DirectoryEntry]) -> dict[int, list[int]]:
    """Return the swaps that are decided but perhaps not done: by base offset, the segments that are replaced."""
    bases = [base for entry in entries if (base := base_offset_of(entry.name, "swap")) is not None]
    found = {base: _replaced(disk, _path(directory, base, "swap"), base) for base in bases}
    return {base: replaced for base, replaced in found.items() if replaced is not None}


def content_path(disk: Disk, directory: str, base_offset: int) -> str:
    """The file that holds a segment: once a replacement is decided, and until it has the name, that is `.cleaned`."""
    cleaned, swap = cleaned_path(directory, base_offset), _path(directory, base_offset, "swap")
    if disk.kind(swap) == disk.kind(cleaned) == "file" and _replaced(disk, swap, base_offset) is not None:
        return cleaned
    return Segment(directory, base_offset).path


def _replaced(disk: Disk, path: str, base: int) -> list[int] | None:
    """Return what a swap file decides, or None where it makes no sense: then nothing is removed."""
    try:
        note = decode_checkpoint(read_all(disk, path)) or {}
    except PathInvalid:  # it was carried out since it was listed, by a broker at work
        return None
    replaced = note.get("replaces")
    if isinstance(replaced, list) and all(type(one) is int for one in replaced) and replaced[:1] == [base]:
        return replaced
    return None


def apply_swap(disk: Disk, directory: str, base_offset: int, replaced: list[int]) -> None:
    """Steps 3 and 4."""
    segments = [Segment(directory, base) for base in replaced]
    for segment in segments:
        remove_files(disk, *segment.companions)
    disk.sync_directory(directory)
    cleaned = cleaned_path(directory, base_offset)
    if disk.kind(cleaned) == "file":
        disk.rename(cleaned, segments[0].path)
    for segment in segments[1:]:
        remove_files(disk, segment.path)
    disk.sync_directory(directory)
    remove_files(disk, _path(directory, base_offset, "swap"))
    disk.sync_directory(directory)


def _path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{Segment(directory, base_offset).stem}.{suffix}"


def is_temporary_file(name: str) -> bool:
    """Return whether a file of this name exists only during a change, or after an interrupted one."""
    return _is_temporary(name) or any(base_offset_of(name, kind) is not None for kind in ("swap", "cleaned"))


def _is_temporary(name: str) -> bool:
    """Return whether this is a file that an interrupted `replace_file` leaves behind."""
    stem = name.removesuffix(".tmp")
    kinds = ("index", "timeindex", "lanes", "aborted", "swap", "copy", "log")
    return stem != name and (stem in LOG_CHECKPOINTS or any(base_offset_of(stem, kind) is not None for kind in kinds))
