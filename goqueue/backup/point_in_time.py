"""A whole backup up to a point in time, or up to an offset of a partition: where each log ends, decided beforehand.

All logs are cut at the same time, as a crash at that moment would have left them: a record about a message has a later
time than the message. A partition goes on where the backup ends, so no offset is given out twice, and no position of a
group lies beyond its log, also where clocks were set back.

Internal logs are compacted and rewritten. What they held at a time is known only if nothing of that was removed later:
otherwise a restore is refused. Keys, rules, the audit trail and the usage of tenants are not cut: a key that was
revoked stays revoked.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np

from goqueue.backup.manifest import LogEntry, Manifest
from goqueue.backup.piece_reader import load_piece, read_messages, sound_frames
from goqueue.backup.restore_point import LogEnd, PointInTime
from goqueue.backup.target import BackupTarget
from goqueue.backup.verify import readable_manifests
from goqueue.broker.core.catalog import Catalog, decode_catalog_record
from goqueue.broker.groups.records import CursorOpened, CursorSnapshot, decode_group_record
from goqueue.errors import BackupKeyMismatch, BackupNotFound, OffsetOutOfRange, RestoreImpossible
from goqueue.limits import OFFSET_MAX
from goqueue.quantities import format_time, quoted
from goqueue.storage.layout import decode_checkpoint

_CATALOG, _GROUPS = "__metadata/0", "__consumer_offsets/"
_WHOLE = ("__security/", "__audit/", "__usage/")
_TOLERATED = ("__operations/",)
"""An older state of it may lack what could be undone, and nothing else."""


def choose_backups(target: BackupTarget, time_ns: int) -> tuple[Manifest, Manifest | None]:
    """Return the earliest backup that has everything up to a time, and the one before it. What was deleted or compacted
    later is not missing there yet.
    """
    earlier: Manifest | None = None
    for manifest in readable_manifests(target, target.ids()):
        if manifest.cut_ns >= time_ns:
            return manifest, earlier
        earlier = manifest
    newest = "there is no backup" if earlier is None else f"the newest backup is of {format_time(earlier.cut_ns)}"
    raise BackupNotFound(
        f"no backup has what was there at {format_time(time_ns)}: {newest}",
        hint="without --to the newest backup is restored as it is",
    )


def backup_before(target: BackupTarget, manifest: Manifest, time_ns: int) -> Manifest | None:
    """Return the newest backup from before a time, and before another backup."""
    with suppress(BackupKeyMismatch):
        for found in readable_manifests(target, reversed([name for name in target.ids() if name < manifest.id])):
            if found.cut_ns <= time_ns:
                return found
    return None


class PointPlanner:
    """Finds out where the logs of a backup end at a time. Changes nothing."""

    def __init__(self, target: BackupTarget, manifest: Manifest, earlier: Manifest | None, time_ns: int | None) -> None:
        self._target = target
        self._manifest = manifest
        self._logs = {log.name: log for log in manifest.logs}
        self._earlier = {} if earlier is None else {log.name: log for log in earlier.logs}
        self._time_ns = time_ns
        self._notes: list[str] = []

    def plan(self, offsets: Mapping[str, int]) -> PointInTime:
        """Raise RestoreImpossible if the backup does not tell what was there; OffsetOutOfRange for an offset."""
        for name, offset in offsets.items():
            self._refuse_offset(name, offset)
        ends = {} if self._time_ns is None else dict(self._ends_by_time())
        left_out = () if self._time_ns is None else tuple(self._left_out(ends[_CATALOG].offset))
        for name, offset in offsets.items():
            ends |= self._ends_by_offset(name, offset)
        dropped = {name: one for name, one in ends.items() if one.dropped and name not in left_out}
        return PointInTime(self._time_ns, dropped, left_out, tuple(self._notes))

    # --- offsets ---

    def _refuse_offset(self, name: str, offset: int) -> None:
        log = self._logs.get(name)
        if log is None or name.startswith("__") or not name.rpartition("/")[2].isdecimal():
            raise OffsetOutOfRange(
                f"backup {self._manifest.id} has no partition {quoted(name)}",
                hint="write TOPIC/PARTITION=OFFSET; `goqueue backup describe` lists the logs",
            )
        if not log.first_offset <= offset <= log.next_offset:
            raise OffsetOutOfRange(
                f"{name} cannot end at offset {offset}: it has {log.first_offset} up to {log.next_offset} there"
            )

    def _ends_by_offset(self, name: str, offset: int) -> Iterator[tuple[str, LogEnd]]:
        log = self._logs[name]
        found = self._find_end(log, offset, self._time_ns)
        yield name, LogEnd(found.offset, found.dropped, found.dropped_ns, log.next_offset, aborts=True)
        delayed = self._logs.get(f"{name}/delayed")
        if delayed is not None and found.dropped_ns is not None:  # it may not speak of what the partition lacks
            yield delayed.name, self._find_end(delayed, OFFSET_MAX, found.dropped_ns)

    # --- times ---

    def _ends_by_time(self) -> Iterator[tuple[str, LogEnd]]:
        for name, log in self._logs.items():
            if name.startswith(_WHOLE):
                continue
            found = self._find_end(log, OFFSET_MAX, self._time_ns)
            self._check_complete(log, found)
            is_partition = not name.startswith("__") and name.rpartition("/")[2].isdecimal()
            next_offset = log.next_offset if is_partition and found.dropped else 0
            yield name, LogEnd(found.offset, found.dropped, found.dropped_ns, next_offset)

    def _find_end(self, log: LogEntry, offset: int, time_ns: int | None) -> LogEnd:
        """Read a log backward up to the first message that stays."""
        end, dropped, dropped_ns = log.next_offset, 0, None
        for segment in reversed(log.segments):
            for piece in reversed(segment.pieces):
                content = load_piece(self._target, piece)
                kept = False
                behind: list[tuple[int, int]] = []
                for frames in sound_frames(content, segment.base_offset):
                    count = int(np.searchsorted(frames.offsets, offset))
                    if time_ns is not None:
                        count = min(count, int(np.searchsorted(frames.timestamps, time_ns)))
                    kept = kept or count > 0
                    if count < len(frames):
                        behind.append((int(frames.offsets[count]), int(frames.timestamps[count])))
                        dropped += len(frames) - count
                if behind:
                    end, dropped_ns = behind[0]
                if kept or not behind:
                    return LogEnd(end, dropped, dropped_ns)
        return LogEnd(end, dropped, dropped_ns)

    def _check_complete(self, log: LogEntry, found: LogEnd) -> None:
        """Refuse, or note, what was removed between that time and the backup."""
        before = self._earlier.get(log.name)
        first, gaps = (0, 0) if before is None else (before.first_offset, self._gaps(before))
        is_cut = log.first_offset > first and log.next_offset > log.first_offset
        is_compacted = self._gaps(log) > max(gaps, found.offset)
        if not log.name.startswith("__"):
            if is_cut:
                self._notes.append(f"{log.name}: retention has removed the messages before {log.first_offset} since")
            if is_compacted:
                self._notes.append(f"{log.name}: compaction has removed messages of that time since")
        elif is_compacted or (is_cut and not self._is_rewritten_before(log, found.offset)):
            if log.name.startswith(_TOLERATED):
                return
            raise RestoreImpossible(
                f"backup {self._manifest.id} does not tell what {log.name} held at {format_time(self._time_ns or 0)}: "
                "it was compacted between that time and the backup",
                hint="choose a later time, or restore the backup before or behind it as it is: `goqueue backup list` "
                "shows their times; more frequent backups leave less of this",
            )

    def _is_rewritten_before(self, log: LogEntry, offset: int) -> bool:
        """Return whether a group log was complete at an offset after its older segments were removed."""
        if not log.name.startswith(_GROUPS):
            return False
        complete: set[object] = set()
        for message in read_messages(self._target, log):
            record = decode_group_record(message)
            if isinstance(record, CursorOpened | CursorSnapshot):
                key = record.group, record.ref
                if message.offset >= offset and key not in complete and isinstance(record, CursorSnapshot):
                    return False
                complete.add(key)
        return True

    def _gaps(self, log: LogEntry) -> int:
        note = log.notes.get("compacted")
        if note is None:
            return 0
        content = load_piece(self._target, note)
        found = (decode_checkpoint(content) or {}).get("gaps", 0)
        return found if isinstance(found, int) else 0

    # --- topics ---

    def _left_out(self, offset: int) -> Iterator[str]:
        """Yield the logs of topics and partitions that were made later; refuse where one was deleted later."""
        then, now = self._catalog(offset), self._catalog(OFFSET_MAX)
        for name, topic in then.topics.items():
            later = now.topics.get(name)
            if later is None or later.created_ns != topic.created_ns:
                raise RestoreImpossible(
                    f"topic {quoted(name)} was deleted between {format_time(self._time_ns or 0)} and backup "
                    f"{self._manifest.id}: no backup has it as it was then",
                    hint="choose a time after that, or restore the backup before it as it is",
                )
        for log in self._logs:
            topic_name, _, rest = log.partition("/")
            number = rest.partition("/")[0]
            if not log.startswith("__") and number.isdecimal():
                known = then.topics.get(topic_name)
                if known is None or int(number) >= known.partitions:
                    yield log

    def _catalog(self, below: int) -> Catalog:
        catalog = Catalog()
        for message in read_messages(self._target, self._logs[_CATALOG], below):
            catalog.apply(decode_catalog_record(message))
        return catalog
