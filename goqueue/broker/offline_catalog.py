"""The catalog of a data directory that no broker is using: recorded log ends, and topics whose records are lost.

A lost topic is recorded again from its directories, with default settings. Its creation time is taken from the
groups that read it, so that their cursors match it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from goqueue.broker.core.catalog import Catalog, TopicCreated, decode_catalog_record, encode_catalog_record
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.groups.records import CursorOpened, CursorSnapshot, decode_group_record
from goqueue.broker.internal_topics import CATALOG, GROUPS
from goqueue.errors import GoQueueError
from goqueue.storage import frame, scan
from goqueue.storage.disk import Disk, remove_files
from goqueue.storage.layout import find_logs
from goqueue.storage.recovery import find_segments, recover
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment
from goqueue.storage.segment_copies import lost_segments, update_copies
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class LostTopic:
    name: str
    partitions: int
    created_ns: int


def read_noted_ends(disk: Disk, root: str) -> dict[str, int]:
    """Return the recorded ends, by the names of the logs below `root`."""
    topics = _read_catalog(disk, root).topics.values()
    return {f"{topic.name}/{log}": end for topic in topics for log, end in topic.ends.items()}


def find_lost_topics(disk: Disk, root: str) -> list[LostTopic]:
    """Return the topics below `root`, the directory of all logs, that have no record."""
    logs = find_logs(disk, root)
    if not any(is_internal(log) for log in logs):
        return []  # no broker has been here
    catalog = _read_catalog(disk, root)
    numbers: dict[str, set[int]] = defaultdict(set)
    for log in logs:
        topic, _, number = log.partition("/")
        if number.isdecimal() and not is_internal(topic):
            numbers[topic].add(int(number))
    lost = sorted(numbers.keys() - catalog.topics.keys() - catalog.deleted)
    created = _creation_times(disk, root, logs) if lost else {}
    return [LostTopic(name, max(numbers[name]) + 1, created.get(name, 0)) for name in lost]


def record_topics(disk: Disk, root: str, topics: list[LostTopic]) -> None:
    directory = f"{root}/{CATALOG}/0"
    disk.make_directory(directory)
    found = recover(disk, directory)
    segment = found.segments[-1]
    records = [TopicCreated(one.name, one.partitions, TopicSettings(), one.created_ns) for one in topics]
    frames = scan.check_batch(bytearray(b"".join(map(encode_catalog_record, records))))
    scan.stamp(frames, found.next_offset, max(found.last_time, 1))
    remove_files(disk, *segment.companions)  # caches must not describe a shorter segment
    file = disk.open(segment.path, "write")
    file.write(segment.size, [frames.buffer.data])
    file.sync()
    disk.sync_directory(directory)
    segment.size += len(frames.buffer)
    update_copies(disk, found.segments)


def _creation_times(disk: Disk, root: str, logs: list[str]) -> dict[str, int]:
    """Return the latest creation time of each topic that a group has read."""
    created: dict[str, int] = {}
    for log in logs:
        if log.startswith(f"{GROUPS}/"):
            for record in _records(disk, f"{root}/{log}", decode_group_record):
                if isinstance(record, CursorOpened | CursorSnapshot):
                    created[record.topic] = max(record.topic_ns, created.get(record.topic, 0))
    return created


def _read_catalog(disk: Disk, root: str) -> Catalog:
    catalog = Catalog()
    for record in _records(disk, f"{root}/{CATALOG}/0", decode_catalog_record):
        catalog.apply(record)
    return catalog


def _records(disk: Disk, directory: str, decode: Callable[[frame.StoredMessage], Record]) -> Iterator[Record]:
    """Read the records of an internal log, from its copy where the log is damaged."""
    entries = disk.entries(directory) if disk.kind(directory) == "directory" else []
    segments = find_segments(directory, entries)
    for segment in sorted([*segments, *lost_segments(directory, entries)], key=lambda one: one.base_offset):
        with suppress(GoQueueError):  # fsck reports a file that cannot be opened separately
            for piece in _sound_frames(disk, segment):
                for position in piece.record_positions():
                    yield decode(frame.decode(piece.buffer.data, position))


def _sound_frames(disk: Disk, segment: Segment) -> Iterator[Frames]:
    paths = [path for path in (segment.path, segment.copy_path) if disk.kind(path) == "file"]
    log = disk.open(paths[0], "read")
    for piece in scan_segment(log, ScanRange(0, segment.size, segment.base_offset)):
        if not isinstance(piece, Damage):
            yield piece
        elif len(paths) > 1:
            stretch = ScanRange(piece.position, piece.end, piece.first_offset, piece.next_offset)
            yield from (
                one for one in scan_segment(disk.open(paths[1], "read"), stretch) if not isinstance(one, Damage)
            )
