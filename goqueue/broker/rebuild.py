"""Recording topics again whose records are lost, from their directories; while no broker runs.

What a record said of settings is gone. When a topic was created is still told by the groups that read it: with that
they find their places again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from goqueue.broker.catalog import Catalog, TopicCreated, decode_record, encode_record
from goqueue.broker.delivery.changes import Opened, Stands
from goqueue.broker.groups.state import decode_record as decode_group_record
from goqueue.broker.name import is_internal
from goqueue.broker.topic import TopicSettings
from goqueue.storage import frame, scan
from goqueue.storage.copies import renew
from goqueue.storage.disk import Disk, discard
from goqueue.storage.recovery import find_segments, recover
from goqueue.storage.store import find_logs
from goqueue.storage.survey import Damage, Stretch, survey

CATALOG = "__metadata"
GROUPS = "__consumer_offsets"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class LostTopic:
    """One that has logs and no record."""

    name: str
    partitions: int
    created_ns: int


def find_lost_topics(disk: Disk, root: str) -> list[LostTopic]:
    """The topics below `root`, the directory of all logs, that no record speaks of."""
    logs = find_logs(disk, root)
    if not any(is_internal(log) for log in logs):
        return []  # no broker has been here
    catalog = Catalog()
    for record in _records(disk, f"{root}/{CATALOG}/0", decode_record):
        catalog.apply(record)
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


def _records(disk: Disk, directory: str, decode: Callable[[frame.Message], Record]) -> Iterator[Record]:
    """What can be read of an internal log."""
    entries = disk.entries(directory) if disk.kind(directory) == "directory" else []
    for segment in find_segments(directory, entries):
        stretch = Stretch(0, segment.size, segment.base_offset)
        for piece in survey(disk.open(segment.path, "read"), stretch):
            if not isinstance(piece, Damage):
                for position in piece.positions.tolist():
                    yield decode(frame.decode(piece.buffer.data, position))
