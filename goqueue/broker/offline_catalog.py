"""The catalog of a data directory that no broker uses: how far logs went, and topics whose records are lost.

A topic is recorded again from its directories. What its record said of settings is gone. When it was created is still
told by the groups that read it: with that they find their places again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from goqueue.broker.broker import CATALOG, GROUPS
from goqueue.broker.catalog import Catalog, TopicCreated, decode_record, encode_record
from goqueue.broker.delivery.changes import Opened, Stands
from goqueue.broker.groups.state import decode_record as decode_group_record
from goqueue.broker.name import is_internal
from goqueue.broker.topic import TopicSettings
from goqueue.errors import GoQueueError
from goqueue.storage import frame, scan
from goqueue.storage.copies import lost_segments, renew
from goqueue.storage.disk import Disk, discard
from goqueue.storage.layout import find_logs
from goqueue.storage.recovery import find_segments, recover
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment
from goqueue.storage.survey import Damage, Stretch, survey

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class LostTopic:
    """One that has logs and no record."""

    name: str
    partitions: int
    created_ns: int


def read_noted_ends(disk: Disk, root: str) -> dict[str, int]:
    """The ends that the catalog noted, by the names of the logs below `root`."""
    topics = _read_catalog(disk, root).topics.values()
    return {f"{topic.name}/{log}": end for topic in topics for log, end in topic.ends.items()}


def find_lost_topics(disk: Disk, root: str) -> list[LostTopic]:
    """The topics below `root`, the directory of all logs, that no record speaks of."""
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
    """Append a record for each of them, with the settings of a new topic."""
    directory = f"{root}/{CATALOG}/0"
    disk.make_directory(directory)
    found = recover(disk, directory)
    segment = found.segments[-1]
    records = [TopicCreated(one.name, one.partitions, TopicSettings(), one.created_ns) for one in topics]
    frames = scan.batch(bytearray(b"".join(map(encode_record, records))))
    scan.stamp(frames, found.next_offset, max(found.last_time, 1))
    discard(disk, *segment.companions)  # nothing may vouch for less than what is there now
    file = disk.open(segment.path, "write")
    file.write(segment.size, [frames.buffer.data])
    file.sync()
    disk.sync_directory(directory)
    segment.size += len(frames.buffer)
    renew(disk, found.segments)


def _creation_times(disk: Disk, root: str, logs: list[str]) -> dict[str, int]:
    """When each topic was created, as far as groups have read it; the latest of a name."""
    created: dict[str, int] = {}
    for log in logs:
        if log.startswith(f"{GROUPS}/"):
            for record in _records(disk, f"{root}/{log}", decode_group_record):
                if isinstance(record, Opened | Stands):
                    created[record.topic] = max(record.topic_ns, created.get(record.topic, 0))
    return created


def _read_catalog(disk: Disk, root: str) -> Catalog:
    catalog = Catalog()
    for record in _records(disk, f"{root}/{CATALOG}/0", decode_record):
        catalog.apply(record)
    return catalog


def _records(disk: Disk, directory: str, decode: Callable[[frame.Message], Record]) -> Iterator[Record]:
    """What can be read of an internal log, or of its copy where the log is damaged."""
    entries = disk.entries(directory) if disk.kind(directory) == "directory" else []
    segments = find_segments(directory, entries)
    for segment in sorted([*segments, *lost_segments(directory, entries)], key=lambda one: one.base_offset):
        with suppress(GoQueueError):  # a file that cannot be opened is a finding of its own
            for piece in _sound_frames(disk, segment):
                for position in piece.positions.tolist():
                    yield decode(frame.decode(piece.buffer.data, position))


def _sound_frames(disk: Disk, segment: Segment) -> Iterator[Frames]:
    paths = [path for path in (segment.path, segment.copy_path) if disk.kind(path) == "file"]
    log = disk.open(paths[0], "read")
    for piece in survey(log, Stretch(0, segment.size, segment.base_offset)):
        if not isinstance(piece, Damage):
            yield piece
        elif len(paths) > 1:
            stretch = Stretch(piece.position, piece.end, piece.first_offset, piece.next_offset)
            yield from (one for one in survey(disk.open(paths[1], "read"), stretch) if not isinstance(one, Damage))
