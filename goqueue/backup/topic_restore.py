"""Restoring one topic: the files of its logs, whole or up to a time or an offset.

A cut is made behind a frame. What was open in a transaction there is aborted by a marker behind it, because no
coordinator will ever end it. Files are written aside; the broker gives them their place in one step.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from goqueue.backup.cut_writer import CutLogWriter, CutPoint
from goqueue.backup.manifest import LogEntry, Manifest
from goqueue.backup.piece_reader import Progress
from goqueue.backup.target import BackupTarget
from goqueue.errors import BackupNotFound, OffsetOutOfRange
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.storage.disk import Disk

_DELAYED = "delayed"


@dataclass(frozen=True, slots=True)
class TopicRestorePlan:
    """The logs of a topic in a backup, by their names below it: `0`, `0/delayed`."""

    topic: str
    logs: Mapping[str, LogEntry]
    cuts: Mapping[int, CutPoint]

    @property
    def partitions(self) -> int:
        return 1 + max(int(name.partition("/")[0]) for name in self.logs)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.logs.values())


def plan_topic_restore(
    manifest: Manifest, topic: str, time_ns: int | None = None, offsets: Mapping[int, int] | None = None
) -> TopicRestorePlan:
    """Raise BackupNotFound or OffsetOutOfRange if a backup does not have that. Changes nothing."""
    logs = {log.name.removeprefix(f"{topic}/"): log for log in manifest.logs if log.name.startswith(f"{topic}/")}
    numbers = {name for name in logs if name.isdecimal()}
    missing = [name for name in manifest.unavailable if name.startswith(f"{topic}/")]
    if not numbers or missing or topic.startswith("__"):
        near = nearest(topic, {log.name.partition("/")[0] for log in manifest.logs if not log.name.startswith("__")})
        raise BackupNotFound(
            f"backup {manifest.id} lacks {', '.join(missing)}"
            if missing
            else f"backup {manifest.id} has no topic {quoted(topic)}",
            hint=f"did you mean {near}?" if near and not missing else "`goqueue backup describe` lists what it has",
        )
    cuts = {int(name): CutPoint(time_ns=time_ns) for name in numbers}
    for number, offset in (offsets or {}).items():
        log = logs.get(str(number))
        if log is None or not log.first_offset <= offset <= log.next_offset:
            held = "does not exist there" if log is None else f"has {log.first_offset} up to {log.next_offset} there"
            raise OffsetOutOfRange(f"partition {number} cannot end at offset {offset}: it {held}")
        cuts[number] = CutPoint(offset, time_ns)
    return TopicRestorePlan(topic, logs, cuts)


def write_topic(disk: Disk, target: BackupTarget, plan: TopicRestorePlan, directory: str, progress: Progress) -> None:
    """Write the logs of a topic below a directory, with their indexes."""
    for number in range(plan.partitions):
        writer = CutLogWriter(disk, target, f"{directory}/{number}", plan.cuts[number], progress)
        writer.write(plan.logs[str(number)])
        delayed = plan.logs.get(f"{number}/{_DELAYED}")
        if delayed is not None:  # its records may not speak of what the partition does not have
            cut = CutPoint(time_ns=writer.dropped_ns)
            CutLogWriter(disk, target, f"{directory}/{number}/{_DELAYED}", cut, progress).write(delayed)
