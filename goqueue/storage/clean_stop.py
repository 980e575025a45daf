"""The marker that a clean stop leaves: how each log ended, so that the next start reads nothing."""

from dataclasses import dataclass, field

from goqueue.storage.disk import Disk, read_all
from goqueue.storage.note import decode_note
from goqueue.storage.recovery import CleanState


@dataclass(frozen=True, slots=True)
class CleanStop:
    """The last stop, as far as it was clean."""

    time_ns: int = 0
    """When it was; 0: not known."""
    logs: dict[str, CleanState] = field(default_factory=dict)


def read_clean_stop(disk: Disk, path: str) -> CleanStop:
    """How a clean stop left the logs; nothing where there is no marker that can be read: then every log is surveyed."""
    note = decode_note(read_all(disk, f"{path}/clean")) if disk.kind(f"{path}/clean") == "file" else None
    if note is None:
        return CleanStop()
    logs = {name: CleanState(*state) for name, state in note.get("logs", {}).items()}
    return CleanStop(note.get("stopped_ns", 0), logs)
