"""The layout of a data directory: its format, the names in it, where its logs are, and its checkpoint files.

A checkpoint is one line of JSON with its checksum on the next. It decides what is read, removed or given out again, so
a changed bit must not pass for a fact: one that is not whole counts as none.
"""

import json
from collections.abc import Iterator
from typing import Any

from crc32c import crc32c

from goqueue.errors import DataDirectoryForeign, FormatUnsupported, LogNameInvalid, PathInvalid
from goqueue.limits import LOG_DEPTH_MAX, LOG_NAME_BYTES_MAX
from goqueue.storage.disk import DirectoryEntry, Disk, read_all, replace_file
from goqueue.storage.segment import base_offset_of

FORMAT_VERSION = 1
RESTORING = b"goqueue-restoring "
"""Begins the content of FORMAT while a backup is being restored; its id follows."""
_VERSION_DIGITS_MAX = 9
_OURS = frozenset(
    {
        "FORMAT", "FORMAT.tmp", "alerts", "alerts.tmp", "backup-target", "backup-target.tmp", "clean", "clean.tmp",
        "clock", "clock.tmp", "cut", "history", "lock", "logs", "reserve", "reserve.tmp", "traces", "trash",
    }
)  # fmt: skip
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def check_directory(disk: Disk, path: str) -> None:
    """Make sure that a path is a data directory that this version understands, or an empty directory."""
    kind = disk.kind(path)
    if kind == "absent":
        raise PathInvalid(f"{path} does not exist", hint="name the broker's data directory", path=path)
    if kind != "directory":
        raise PathInvalid(f"{path} is not a directory", hint="name a directory", path=path)
    names = {entry.name for entry in disk.entries(path)} - {"lost+found"}
    if "FORMAT" in names:
        if disk.kind(f"{path}/FORMAT") != "file":
            raise FormatUnsupported(f"{path}/FORMAT is not a file", hint="restore it; this version writes 'goqueue 1'")
        _check_format(path, read_all(disk, f"{path}/FORMAT"))
    elif strangers := sorted(names - _OURS):
        raise DataDirectoryForeign(
            f"{path} is not a GoQueue data directory: it holds {', '.join(map(ascii, strangers[:3]))}",
            hint="name an empty directory, or one that a broker has used",
            path=path,
        )


def _check_format(path: str, content: bytes) -> None:
    word, _, version = content.decode("ascii", "replace").strip().partition(" ")
    if content.startswith(RESTORING):
        raise FormatUnsupported(
            f"{path} is not complete: the restore of backup {version[:40]!a} was interrupted",
            hint="run `goqueue restore` again with the same options, and it continues; to restore another backup, "
            "remove the directory first",
        )
    if content.startswith(b"goqueue-backups "):
        raise DataDirectoryForeign(
            f"{path} holds backups: it is no data directory",
            hint="`goqueue restore` makes a data directory of a backup",
            path=path,
        )
    if word != "goqueue" or not version.isdecimal() or len(version) > _VERSION_DIGITS_MAX:
        raise FormatUnsupported(
            f"{path}/FORMAT says {content[:40]!r}, which no version of GoQueue writes",
            hint="restore the file; this version writes 'goqueue 1'",
        )
    if int(version) > FORMAT_VERSION:
        raise FormatUnsupported(
            f"{path} has format {version}, this version of GoQueue knows up to {FORMAT_VERSION}",
            hint="install a newer version of GoQueue",
        )


def check_name(name: str) -> None:
    """Refuse a name that could leave the directory or would not fit a file system."""
    parts = name.split("/")
    for part in parts:
        if not part or part in (".", "..") or len(part) > LOG_NAME_BYTES_MAX or not _NAME_CHARACTERS.issuperset(part):
            raise LogNameInvalid(
                f"{name[:300]!r} is not a log name: {part[:300]!r} cannot be a part of one",
                hint=f"1 to {LOG_NAME_BYTES_MAX} of A-Z a-z 0-9 . _ - between slashes, not . or ..",
            )
    if len(parts) > LOG_DEPTH_MAX:
        raise LogNameInvalid(f"{name[:300]!r} has {len(parts)} parts, {LOG_DEPTH_MAX} is the most")


def find_logs(disk: Disk, root: str, *, depth: int = LOG_DEPTH_MAX) -> list[str]:
    """The names of all logs below a directory."""
    tops = [entry for entry in disk.entries(root) if is_log_directory(entry)]
    return [name for top in tops for name in _logs_at(disk, root, top.name, depth)]


def is_log_directory(entry: DirectoryEntry) -> bool:
    """Return whether a directory name can be part of a log's name."""
    return entry.kind == "directory" and _NAME_CHARACTERS.issuperset(entry.name)


def _logs_at(disk: Disk, root: str, name: str, depth: int) -> Iterator[str]:
    """This directory if it is a log, and the logs below it."""
    entries = disk.entries(f"{root}/{name}")
    if any(entry.kind == "file" and _is_of_segment(entry.name) for entry in entries):
        yield name
    for entry in entries if depth > 1 else ():
        if is_log_directory(entry):
            yield from _logs_at(disk, root, f"{name}/{entry.name}", depth - 1)


def _is_of_segment(name: str) -> bool:
    return any(base_offset_of(name, kind) is not None for kind in ("log", "copy"))


LOG_CHECKPOINTS = frozenset({"compacted", "epochs", "producers", "schedule", "snapshot"})
"""Checkpoints in a log's directory, beside its segments."""


def write_checkpoint(disk: Disk, path: str, **facts: Any) -> None:
    """Write a checkpoint file in one step."""
    replace_file(disk, path, encode_checkpoint(facts))


def encode_checkpoint(facts: dict[str, Any]) -> bytes:
    line = json.dumps({"format": 1, **facts}).encode() + b"\n"
    return line + b"%08x\n" % crc32c(line)


def decode_checkpoint(content: bytes | bytearray) -> dict[str, Any] | None:
    """Return the facts, or None unless this is an unchanged checkpoint of this format."""
    line, newline, checksum = content.partition(b"\n")
    line += newline
    if checksum != b"%08x\n" % crc32c(line):
        return None
    try:
        facts = json.loads(line)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) and facts.get("format") == 1 else None
