"""The note in a log's directory of what compaction has removed, here or at the leader that this replica follows.

The file `compacted` has `clean`, below which every key has been compared with all others, and `gaps`, below which
missing offsets are no loss. Compaction, repairs and the flusher each change it on a thread of their own.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import Any

from goqueue.errors import GoQueueError
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.layout import decode_checkpoint, write_checkpoint
from goqueue.storage.segment import Segment

_changing = Lock()


@dataclass(frozen=True, slots=True)
class CompactionProgress:
    """The progress of a log's compaction, as offsets, and the time of the oldest tombstone that it left."""

    clean: int = 0
    gaps: int = 0
    tombstone: int = 0


def load_progress(disk: Disk, directory: str) -> CompactionProgress:
    """Read the `compacted` file; without it nothing has been compacted."""
    try:
        content = read_all(disk, _progress_path(directory))
    except GoQueueError:
        content = b""
    return decode_progress(content)


def decode_progress(content: bytes) -> CompactionProgress:
    note = decode_checkpoint(content) or {}
    facts: list[Any] = [note.get(name) for name in ("clean", "gaps", "tombstone")]
    return CompactionProgress(*facts) if all(type(fact) is int for fact in facts) else CompactionProgress()


def change_progress(disk: Disk, directory: str, change: Callable[[CompactionProgress], CompactionProgress]) -> None:
    """Note what `change` makes of the progress as it is now."""
    with _changing:
        progress = load_progress(disk, directory)
        if (changed := change(progress)) != progress:
            write_checkpoint(disk, _progress_path(directory), **asdict(changed))


def lower_progress(disk: Disk, directory: str, offset: int) -> None:
    """Messages from this offset on will be others: none of them has been compared yet."""
    change_progress(disk, directory, lambda now: replace(now, clean=min(now.clean, offset), gaps=min(now.gaps, offset)))


def raise_gaps(disk: Disk, directory: str, offset: int) -> None:
    """Offsets below this one may be missing: compaction removes them, or has at the replica whose frames these are."""
    change_progress(disk, directory, lambda now: replace(now, gaps=max(now.gaps, offset)))


def skip_to(disk: Disk, directory: str, offset: int) -> None:
    """Begin a segment at an offset behind the log. The offsets in between are as those that compaction has removed."""
    change_progress(disk, directory, lambda now: replace(now, gaps=offset))
    segment = Segment(directory, offset)
    if disk.kind(segment.path) == "absent":
        disk.open(segment.path, "create").close()
    disk.sync_directory(directory)


def _progress_path(directory: str) -> str:
    return f"{directory}/compacted"
